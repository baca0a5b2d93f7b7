/* Settings in layers: the defaults of a study, its variants, and what was set last and beats both. A setting may have a
 * list of values; a variant spans the grid of all lists it sees. */
#ifndef SF_STUDY_LAYERS_H
#define SF_STUDY_LAYERS_H

#include "semfocus/session.h"

enum { SF_LAYER_NAME_SIZE = 48, SF_MOST_LAYERS = 66, SF_MOST_TASKS = 64, SF_MOST_RUNS = 10000 };

typedef struct sf_axis { /* a setting with its values */
    const sf_setting *setting;
    char *text;    /* the list, cut into values */
    char **values; /* [count] */
    size_t count;
    size_t line; /* of the study file; 0: from elsewhere */
} sf_axis;

typedef struct sf_layer {
    char name[SF_LAYER_NAME_SIZE];
    size_t line;
    char *tasks[SF_MOST_TASKS];
    size_t task_count, task_line;
    sf_axis axes[64]; /* in the order they were set */
    size_t axis_count;
} sf_layer;

/* One value or a comma-separated list, each checked; replaces what the layer had. */
sf_status sf_layer_set(sf_layer *layer, const char *name, const char *values, size_t line);
/* A task, or a comma-separated list of built-in ones. */
sf_status sf_layer_add_tasks(sf_layer *layer, const char *tasks);
const sf_axis *sf_layer_find(const sf_layer *layer, const char *name);
void sf_layer_clear(sf_layer *layer);

typedef struct sf_grid { /* a variant as the layers above and below it leave it; borrows from them */
    const char *name;    /* "": the study has no variants */
    char *const *tasks;
    size_t task_count;
    sf_axis axes[64]; /* outermost first, the seed last */
    size_t axis_count;
    sf_axis seeds; /* its own list, where the number of seeds was given */
    size_t runs;   /* it spans */
    size_t line;   /* of the study file, that a failure to open is about; 0: of none */
    size_t task_line;
} sf_grid;

/* The line of the study file that a failure of sf_grid_run() is about, from its sentence: it begins with the setting.
 */
size_t sf_grid_line_of(const sf_grid *grid, const char *sentence);

/* Layers from the lowest to the highest. *run_count grows by the runs of this grid and may not pass SF_MOST_RUNS. */
sf_status sf_grid_open(sf_grid *out, const sf_layer *const *layers, size_t count, size_t *run_count);
void sf_grid_close(sf_grid *grid);
/* Tasks outermost; run `index` of grid->runs. */
sf_status sf_grid_run(sf_planned_run *out, const sf_grid *grid, size_t index);

#endif
