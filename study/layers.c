#include "study/layers.h"

#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "base/memory.h"
#include "base/text.h"
#include "semfocus/shard.h"
#include "semfocus/study.h"
#include "semfocus/task.h"
#include "train/data.h"
#include "train/numerics.h"

static sf_status copy_text(char **out, const char *text) {
    SF_TRY(SF_NEW(out, strlen(text) + 1));
    strcpy(*out, text);
    return SF_OK;
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t", text[length - 1]) != NULL) text[--length] = '\0';
    return text;
}

static void release_axis(sf_axis *axis) {
    sf_release(axis->text);
    sf_release(axis->values);
    *axis = (sf_axis){0};
}

void sf_layer_clear(sf_layer *layer) {
    for (size_t i = 0; i < layer->task_count; i++) sf_release(layer->tasks[i]);
    for (size_t i = 0; i < layer->axis_count; i++) release_axis(&layer->axes[i]);
    sf_release(layer->tasks);
    sf_release(layer->axes);
    *layer = (sf_layer){0};
}

const sf_axis *sf_layer_find(const sf_layer *layer, const char *name) {
    for (size_t i = 0; i < layer->axis_count; i++)
        if (strcmp(layer->axes[i].setting->name, name) == 0) return &layer->axes[i];
    return NULL;
}

/* What makes no difference to a run cannot tell runs apart. */
static bool may_be_list(const sf_setting *setting) {
    return (setting->group & SF_RUN_GROUPS) != 0 && strcmp(setting->name, "stop-at") != 0;
}

static sf_status read_value(sf_value *out, const sf_setting *setting, const char *text) {
    SF_TRY(sf_setting_read(out, setting, text));
    sf_attention parsed;
    sf_shard shard;
    if (strcmp(setting->name, "shard") == 0) return sf_shard_parse(&shard, text);
    if (strcmp(setting->name, "attention") != 0) return SF_OK;
    return sf_fail_about(sf_attention_parse(&parsed, text), setting->name);
}

static sf_status fill_axis(sf_axis *out, const sf_setting *setting, const char *values, bool is_list, size_t line) {
    *out = (sf_axis){.setting = setting, .count = 1, .line = line};
    for (const char *at = values; *at != '\0' && is_list; at++) out->count += *at == ',';
    SF_TRY(copy_text(&out->text, values));
    SF_TRY(SF_NEW(&out->values, out->count));
    char *rest = out->text;
    for (size_t i = 0; i < out->count; i++) {
        const char *value = out->count > 1 ? trim(strsep(&rest, ",")) : rest; /* blanks may follow a comma */
        if (out->count > 1 && *value == '\0')
            return sf_fail_on(SF_BAD_INPUT, setting->name,
                              "value %zu in the list of %s is empty; give one or remove its comma", i + 1,
                              setting->name);
        SF_TRY(read_value(&out->values[i], setting, value));
    }
    return SF_OK;
}

static size_t next_room(size_t room) {
    return room > 0 ? 2 * room : 8;
}

static sf_status set_axis(sf_layer *layer, const sf_setting *setting, const char *values, bool is_list, size_t line) {
    size_t place = 0;
    while (place < layer->axis_count && layer->axes[place].setting != setting) place++;
    if (place == layer->axis_room) {
        SF_TRY(SF_GROW(&layer->axes, layer->axis_count, next_room(layer->axis_room)));
        layer->axis_room = next_room(layer->axis_room);
    }
    sf_axis fresh;
    const sf_status status = fill_axis(&fresh, setting, values, is_list, line);
    if (status != SF_OK) {
        release_axis(&fresh);
        return status;
    }
    if (place == layer->axis_count)
        layer->axis_count++;
    else
        release_axis(&layer->axes[place]);
    layer->axes[place] = fresh;
    return SF_OK;
}

sf_status sf_layer_set(sf_layer *layer, const char *name, const char *values, size_t line) {
    const sf_setting *setting;
    SF_TRY(sf_setting_find(&setting, name, ~0U));
    return set_axis(layer, setting, values, may_be_list(setting), line);
}

sf_status sf_layer_set_one(sf_layer *layer, const char *name, const char *value) {
    const sf_setting *setting;
    SF_TRY(sf_setting_find(&setting, name, ~0U));
    return set_axis(layer, setting, value, false, 0);
}

static sf_status add_task(sf_layer *layer, const char *task) {
    if (*task == '\0')
        return sf_fail(SF_BAD_INPUT, "the list of tasks has an empty name; 'semfocus list tasks' lists them");
    if (!sf_run_data_is_own(task)) {
        const sf_task *known;
        SF_TRY(sf_task_find(&known, task));
    }
    for (size_t i = 0; i < layer->task_count; i++)
        if (strcmp(layer->tasks[i], task) == 0)
            return sf_fail(SF_BAD_INPUT, "task '%s' is named twice; leave one out", task);
    if (layer->task_count == layer->task_room) {
        SF_TRY(SF_GROW(&layer->tasks, layer->task_count, next_room(layer->task_room)));
        layer->task_room = next_room(layer->task_room);
    }
    SF_TRY(copy_text(&layer->tasks[layer->task_count], task));
    layer->task_count++;
    return SF_OK;
}

/* A user's files come with a comma of their own: csv:TRAIN,HELDOUT is one task. */
sf_status sf_layer_add_tasks(sf_layer *layer, const char *tasks) {
    char *text;
    SF_TRY(copy_text(&text, tasks));
    const bool is_list = !sf_run_data_is_own(trim(text));
    sf_status status = SF_OK;
    for (char *rest = text; rest != NULL && status == SF_OK;) {
        char *task = trim(is_list ? strsep(&rest, ",") : rest);
        if (!is_list) rest = NULL;
        status = add_task(layer, task);
    }
    sf_release(text);
    return status;
}

/* The values of a setting in the highest layer that has it; *layer says which (0 the lowest). */
static const sf_axis *find_highest(const sf_layer *const *layers, size_t count, const char *name, size_t *layer) {
    const sf_axis *found = NULL;
    for (size_t i = 0; i < count; i++) {
        const sf_axis *axis = sf_layer_find(layers[i], name);
        if (axis == NULL) continue;
        found = axis;
        *layer = i;
    }
    return found;
}

static bool is_named(const sf_axis *axis, const char *name) {
    return strcmp(axis->setting->name, name) == 0;
}

static sf_status number_seeds(sf_axis *out, size_t count, size_t line) {
    *out = (sf_axis){.count = count, .line = line};
    SF_TRY(sf_setting_find(&out->setting, "seed", ~0U));
    SF_TRY(SF_NEW(&out->values, count));
    for (size_t i = 0; i < count; i++) out->values[i].integer = sf_study_seed(i);
    return SF_OK;
}

/* `seed` lists the seeds, `seeds` gives their number; the one in the higher layer counts. */
static sf_status choose_seeds(const sf_axis **out, sf_grid *grid, const sf_layer *const *layers, size_t count) {
    size_t seed_layer = 0, seeds_layer = 0;
    *out = &grid->seeds;
    const sf_axis *seed = find_highest(layers, count, "seed", &seed_layer);
    const sf_axis *seeds = find_highest(layers, count, "seeds", &seeds_layer);
    if (seed != NULL && seeds != NULL && seed_layer == seeds_layer) {
        grid->line = seeds->line > seed->line ? seeds->line : seed->line;
        return sf_fail_on(SF_BAD_INPUT, "seeds", "both seed and seeds were given; name the seeds or their number");
    }
    if (seed != NULL && (seeds == NULL || seed_layer > seeds_layer)) {
        *out = seed;
        return SF_OK;
    }
    if (seeds != NULL) return number_seeds(&grid->seeds, (size_t)seeds->values[0].integer, seeds->line);
    sf_options usual;
    sf_options_init(&usual);
    return number_seeds(&grid->seeds, (size_t)usual.seeds, 0);
}

static sf_status add_axis(sf_grid *grid, const sf_axis *axis, size_t *run_count) {
    grid->axes[grid->axis_count++] = axis;
    grid->runs *= axis->count; /* at most SF_MOST_RUNS times the length of a list */
    if (*run_count + grid->runs <= SF_MOST_RUNS) return SF_OK;
    if (axis->line > 0) grid->line = axis->line;
    return sf_fail_on(
        SF_BAD_INPUT, axis->setting->name,
        "with %zu values of %s this study has more than %d runs; shorten its lists or divide it into several studies",
        axis->count, axis->setting->name, (int)SF_MOST_RUNS);
}

static sf_status choose_tasks(sf_grid *grid, const sf_layer *const *layers, size_t count, size_t run_count) {
    for (size_t i = 0; i < count; i++) {
        if (*layers[i]->name != '\0') grid->name = layers[i]->name;
        if (layers[i]->line > 0) grid->line = layers[i]->line;
        if (layers[i]->task_count == 0) continue;
        grid->tasks = layers[i]->tasks;
        grid->task_count = layers[i]->task_count;
        grid->task_line = layers[i]->task_line;
    }
    if (grid->task_count == 0) return sf_fail(SF_BAD_INPUT, "a study needs a task; 'semfocus list tasks' lists them");
    grid->runs = grid->task_count;
    if (run_count + grid->runs <= SF_MOST_RUNS) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "with %zu tasks this study has more than %d runs; divide it into several studies",
                   grid->task_count, (int)SF_MOST_RUNS);
}

/* A setting of runs has its place where it is set first, and the values of the highest layer that has it. Settings of
 * the command are left out. */
static sf_status choose_axes(sf_grid *grid, const sf_layer *const *layers, size_t count, size_t *run_count) {
    size_t most = 1; /* the seed */
    for (size_t i = 0; i < count; i++) most += layers[i]->axis_count;
    SF_TRY(SF_NEW(&grid->axes, most));
    for (size_t i = 0; i < count; i++) {
        for (size_t a = 0; a < layers[i]->axis_count; a++) {
            const sf_axis *axis = &layers[i]->axes[a];
            size_t before;
            if (axis->setting->home != SF_IN_CONFIG || is_named(axis, "seed")) continue;
            if (find_highest(layers, i, axis->setting->name, &before) != NULL) continue; /* has its place already */
            SF_TRY(add_axis(grid, find_highest(layers, count, axis->setting->name, &before), run_count));
        }
    }
    return SF_OK;
}

sf_status sf_grid_open(sf_grid *out, const sf_layer *const *layers, size_t count, size_t *run_count) {
    *out = (sf_grid){.name = ""};
    SF_TRY(choose_tasks(out, layers, count, *run_count));
    SF_TRY(choose_axes(out, layers, count, run_count));
    const sf_axis *seed;
    SF_TRY(choose_seeds(&seed, out, layers, count));
    SF_TRY(add_axis(out, seed, run_count));
    *run_count += out->runs;
    return SF_OK;
}

void sf_grid_close(sf_grid *grid) {
    release_axis(&grid->seeds);
    sf_release(grid->axes);
    *grid = (sf_grid){0};
}

size_t sf_grid_line(const sf_grid *grid, const char *setting) {
    for (size_t a = 0; a < grid->axis_count; a++)
        if (is_named(grid->axes[a], setting)) return grid->axes[a]->line;
    const bool left_alone = *setting != '\0' && *grid->name != '\0'; /* by this variant */
    return left_alone ? grid->line : grid->task_line;                /* else it is about the data */
}

static sf_status check_epochs(const sf_grid *grid, const sf_config *config) {
    for (size_t a = 0; a < grid->axis_count; a++)
        if (is_named(grid->axes[a], "epochs") && grid->axes[a]->count > 1 && config->schedule != SF_COSINE)
            return sf_fail_on(SF_BAD_INPUT, "epochs",
                              "epochs is a list but without schedule cosine a run with fewer epochs is the beginning "
                              "of a longer one; give only the largest");
    return SF_OK;
}

sf_status sf_grid_run(sf_planned_run *out, const sf_grid *grid, size_t index, sf_device device) {
    sf_config_init(&out->config);
    for (size_t a = grid->axis_count; a-- > 0; index /= grid->axes[a]->count) {
        const sf_axis *axis = grid->axes[a];
        sf_config_put(&out->config, axis->setting, axis->values[index % axis->count]);
    }
    out->task = grid->tasks[index];
    SF_TRY(sf_numerics_settle(&out->config, device));
    SF_TRY(sf_run_identify(out->id, out->attention, &out->config, out->task));
    return check_epochs(grid, &out->config);
}
