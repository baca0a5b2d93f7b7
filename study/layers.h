/* Settings in layers: the defaults of a study, its variants, and what was set last, which overrides both. A setting may
 * have a list of values; a variant spans the grid of all lists it sees. */
#ifndef SF_STUDY_LAYERS_H
#define SF_STUDY_LAYERS_H

#include "base/settings.h"
#include "semfocus/session.h"

enum { SF_LAYER_NAME_SIZE = 48, SF_MOST_RUNS = 10000 };

typedef struct sf_axis { /* a setting with its values */
    const sf_setting *setting;
    char *text;       /* the list as it was written, cut into values; NULL: they were not written */
    sf_value *values; /* [count], read and checked; texts point into `text` */
    size_t count;
    size_t line; /* of the study file; 0: from elsewhere */
} sf_axis;

typedef struct sf_layer {
    char name[SF_LAYER_NAME_SIZE];
    size_t line;
    char **tasks; /* [task_count] */
    size_t task_count, task_room, task_line;
    sf_axis *axes; /* [axis_count], in the order they were set */
    size_t axis_count, axis_room;
} sf_layer;

/* One value or a comma-separated list, each checked; replaces what the layer had. */
sf_status sf_layer_set(sf_layer *layer, const char *name, const char *values, size_t line);
/* One value, even if it contains commas. */
sf_status sf_layer_set_one(sf_layer *layer, const char *name, const char *value);
/* A task, or a comma-separated list of built-in ones. */
sf_status sf_layer_add_tasks(sf_layer *layer, const char *tasks);
const sf_axis *sf_layer_find(const sf_layer *layer, const char *name);
void sf_layer_clear(sf_layer *layer);

typedef struct sf_grid { /* a variant as the layers above and below it leave it; borrows from them */
    const char *name;    /* "": the study has no variants */
    char *const *tasks;
    size_t task_count;
    const sf_axis **axes; /* [axis_count]: settings of runs, outermost first, the seed last */
    size_t axis_count;
    sf_axis seeds; /* its own list, where the number of seeds was given */
    size_t runs;   /* it spans */
    size_t line;   /* of the study file, that a failure to open is about; 0: of none */
    size_t task_line;
} sf_grid;

/* The line of the study file that a failure of sf_grid_run() is about, from the setting it names: sf_message_setting().
 */
size_t sf_grid_line(const sf_grid *grid, const char *setting);

/* Layers from the lowest to the highest. *run_count grows by the runs of this grid and may not pass SF_MOST_RUNS.
 * `out` must stay where it is; it is to be closed even where this fails. */
sf_status sf_grid_open(sf_grid *out, const sf_layer *const *layers, size_t count, size_t *run_count);
void sf_grid_close(sf_grid *grid);
/* Tasks outermost; run `index` of grid->runs, planned for this device. */
sf_status sf_grid_run(sf_planned_run *out, const sf_grid *grid, size_t index, sf_device device);

#endif
