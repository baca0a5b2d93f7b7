#include "semfocus/tensorboard.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "io/atomic_file.h"
#include "io/tensorboard.h"
#include "report/board_places.h"
#include "semfocus/measure.h"
#include "store/store.h"
#include "study/statistics.h"
#include "study/study.h"
#include "train/optimizer.h"

enum { CURVES = 4, MOST_HPARAMS = 128 };
static const char *const curve_tags[CURVES] = {"loss/train", "accuracy/train", "loss/heldout", "accuracy/heldout"};

static double value_of(const sf_epoch *row, size_t curve) {
    return curve == 0   ? row->train_loss
           : curve == 1 ? row->train_accuracy
           : curve == 2 ? row->heldout_loss
                        : row->heldout_accuracy;
}

/* The measures of one run in memory, by epoch. */
typedef struct measures {
    sf_curve_point *points;
    size_t count, room, next; /* next: of the epoch that comes next */
    sf_status status;
} measures;

static void add_point(void *context, const sf_curve_point *point) {
    measures *m = context;
    if (m->status == SF_OK && m->count == m->room) {
        const size_t room = m->room > 0 ? 2 * m->room : 256;
        m->status = SF_GROW(&m->points, m->count, room);
        if (m->status == SF_OK) m->room = room;
    }
    if (m->status == SF_OK) m->points[m->count++] = *point;
}

/* The scalars of one epoch. Tags are kept until the event is written. */
typedef struct step {
    sf_scalar *scalars;
    char (*tags)[48];
    size_t count, room;
    sf_status status;
} step;

static void add_scalar(step *s, double value, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add_scalar(step *s, double value, const char *format, ...) {
    if (s->status == SF_OK && s->count == s->room) {
        const size_t room = s->room > 0 ? 2 * s->room : 64;
        s->status = SF_GROW(&s->tags, s->count, room);
        if (s->status == SF_OK) s->status = SF_GROW(&s->scalars, s->count, room);
        if (s->status == SF_OK) s->room = room;
    }
    if (s->status != SF_OK || !isfinite(value)) return; /* a measure that is not defined here */
    va_list values;
    va_start(values, format);
    vsnprintf(s->tags[s->count], sizeof *s->tags, format, values);
    va_end(values);
    s->scalars[s->count++].value = value;
}

enum { LOW = 4, MEDIAN = 5, HIGH = 6 }; /* of sf_quantile_percents */

static void add_measure(step *s, const sf_curve_point *point) {
    if (point->block >= 0) {
        add_scalar(s, point->at[MEDIAN], "measure/%s/block-%lld", point->measure, (long long)point->block);
        return;
    }
    add_scalar(s, point->at[LOW], "measure/%s/quartile-25", point->measure);
    add_scalar(s, point->at[MEDIAN], "measure/%s/median", point->measure);
    add_scalar(s, point->at[HIGH], "measure/%s/quartile-75", point->measure);
}

typedef struct run_log { /* of one run, being written */
    sf_event_log log;
    sf_config config;
    measures measured;
    step step;
    double time;
} run_log;

static void write_step(run_log *w, size_t epoch, bool wanted) {
    measures *m = &w->measured;
    for (; m->next < m->count && m->points[m->next].epoch <= epoch; m->next++)
        if (m->points[m->next].epoch == epoch && wanted) add_measure(&w->step, &m->points[m->next]);
    for (size_t i = 0; i < w->step.count; i++) w->step.scalars[i].tag = w->step.tags[i];
    if (wanted && w->step.count > 0 && w->step.status == SF_OK)
        sf_event_scalars(&w->log, w->time, (int64_t)epoch, w->step.scalars, w->step.count);
    w->step.count = 0;
}

static void write_epoch(run_log *w, const sf_epoch *row, bool wanted) {
    const sf_config *config = &w->config;
    const size_t steps = (size_t)((config->train_count + config->batch - 1) / config->batch);
    w->time += row->seconds;
    for (size_t i = 0; i < CURVES && wanted; i++) add_scalar(&w->step, value_of(row, i), "%s", curve_tags[i]);
    if (wanted) add_scalar(&w->step, sf_learning_rate(config, row->epoch, 0, steps), "learning_rate");
    write_step(w, row->epoch, wanted);
}

/* Every setting but the seed, as HParams shows them. */
static void write_start(run_log *w, const sf_stored_run *run, const char *group) {
    static char texts[MOST_HPARAMS][SF_TEXT_SIZE]; /* calls on a store do not overlap */
    sf_hparam hparams[MOST_HPARAMS];
    size_t count = 0;
    hparams[count++] = (sf_hparam){.name = "task", .text = run->task};
    hparams[count++] = (sf_hparam){.name = "attention", .text = run->attention};
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL && count < MOST_HPARAMS; i++) {
        if (!sf_setting_changes_numbers(setting, &w->config) || strcmp(setting->name, "seed") == 0 ||
            strcmp(setting->name, "attention") == 0)
            continue;
        char *text = texts[count];
        sf_config_text(text, &w->config, setting);
        const bool is_number = setting->kind == SF_INTEGER || setting->kind == SF_REAL;
        hparams[count++] = (sf_hparam){setting->name, text, is_number ? strtod(text, NULL) : 0, is_number};
    }
    sf_event_session_start(&w->log, 0, group, hparams, count);
}

static bool is_over(const sf_stored_run *run) {
    return strcmp(run->status, "done") == 0 || strcmp(run->status, "diverged") == 0 ||
           strcmp(run->status, "failed") == 0;
}

/* What the file lacks. */
static sf_status collect(run_log *w, sf_store *store, const sf_stored_run *run, const char *group,
                         const sf_event_file *file) {
    sf_epoch *rows;
    size_t count;
    SF_TRY(sf_store_each_measure(store, run, add_point, &w->measured));
    SF_TRY(w->measured.status);
    SF_TRY(sf_store_curve(&rows, &count, store, run));
    if (file->size == 0) sf_event_version(&w->log, 0);
    if (!file->has_start) write_start(w, run, group);
    const size_t start = w->log.count;
    write_step(w, 0, file->last_step < 0);
    for (size_t i = 0; i < count; i++) write_epoch(w, &rows[i], (int64_t)rows[i].epoch > file->last_step);
    sf_release(rows);
    if (is_over(run) && (w->log.count > start || !file->has_end))
        sf_event_session_end(&w->log, w->time,
                             strcmp(run->status, "done") == 0 ? SF_SESSION_SUCCESS : SF_SESSION_FAILURE);
    SF_TRY(w->step.status);
    return w->log.status;
}

sf_status sf_tensorboard_write_run(sf_store *store, const sf_stored_run *run, const char *folder) {
    char path[SF_BOARD_PATH_SIZE], name[SF_BOARD_NAME_SIZE], leaf[64], group[SF_PATH_SIZE + SF_BOARD_NAME_SIZE];
    run_log w = {0};
    sf_event_file file;
    SF_TRY(sf_store_list_config(&w.config, store, run));
    sf_board_name(name, run->task, run->attention, &w.config);
    snprintf(leaf, sizeof leaf, "seed-%lld-%s", (long long)run->seed, run->id);
    snprintf(group, sizeof group, "%s %s", run->task, name);
    SF_TRY(sf_board_place(path, folder, run->task, name, leaf));
    SF_TRY(sf_event_file_open(&file, path));
    sf_status status = collect(&w, store, run, group, &file);
    if (status == SF_OK) status = sf_event_file_append(&file, &w.log, path);
    sf_event_file_close(&file);
    sf_event_log_close(&w.log);
    sf_release(w.measured.points);
    sf_release(w.step.scalars);
    sf_release(w.step.tags);
    return status;
}

typedef struct curve_view { /* a finished run of a group */
    const sf_epoch *rows;
    size_t count;
} curve_view;

static size_t look_at_curves(curve_view *out, size_t *longest, const sf_study *study, size_t group) {
    size_t used = 0;
    *longest = 0;
    for (size_t m = 0; m < sf_study_group(study, group)->runs; m++) {
        bool finished;
        curve_view view;
        view.rows = sf_study_curve(study, sf_study_member(study, group, m), &view.count, &finished);
        if (!finished || view.count == 0) continue;
        if (view.count > *longest) *longest = view.count;
        out[used++] = view;
    }
    return used;
}

enum { SUMMARIES = 3 };
static const char *const summaries[SUMMARIES] = {"quartile-25", "median", "quartile-75"};

/* A run that ended earlier keeps its last value, as in the report. */
static void summarize(sf_event_log logs[SUMMARIES], const curve_view *curves, size_t count, size_t epoch,
                      double *values /* [count] */) {
    sf_scalar scalars[SUMMARIES][CURVES];
    for (size_t c = 0; c < CURVES; c++) {
        for (size_t i = 0; i < count; i++) {
            const size_t last = curves[i].count - 1;
            values[i] = value_of(&curves[i].rows[epoch < last ? epoch : last], c);
        }
        for (size_t s = 0; s < SUMMARIES; s++) scalars[s][c].tag = curve_tags[c];
        sf_quartiles(values, count, &scalars[0][c].value, &scalars[1][c].value, &scalars[2][c].value);
    }
    for (size_t s = 0; s < SUMMARIES; s++)
        sf_event_scalars(&logs[s], (double)epoch, (int64_t)epoch + 1, scalars[s], CURVES);
}

static sf_status write_group(const sf_study *study, size_t group, const char *folder, curve_view *curves,
                             double *values) {
    size_t longest, runs;
    sf_event_log logs[SUMMARIES] = {{0}};
    char path[SF_BOARD_PATH_SIZE], name[SF_BOARD_NAME_SIZE];
    const size_t count = look_at_curves(curves, &longest, study, group);
    if (count == 0) return SF_OK;
    const size_t member = sf_study_member(study, group, 0);
    const sf_planned_run *run = &sf_study_runs(study, &runs)[member];
    char code[SF_CODE_SUFFIX_SIZE];
    sf_board_name(name, run->task, run->attention, &run->config);
    sf_study_code_suffix(code, study, member);
    const size_t used = strlen(name);
    snprintf(name + used, sizeof name - used, "%s", code);
    for (size_t s = 0; s < SUMMARIES; s++) sf_event_version(&logs[s], 0);
    for (size_t e = 0; e < longest; e++) summarize(logs, curves, count, e, values);
    sf_status status = SF_OK;
    for (size_t s = 0; s < SUMMARIES; s++) {
        if (status == SF_OK) status = logs[s].status;
        if (status == SF_OK) status = sf_board_place(path, folder, run->task, name, summaries[s]);
        if (status == SF_OK) status = sf_atomic_write(path, logs[s].bytes, logs[s].count);
        sf_event_log_close(&logs[s]);
    }
    return status;
}

sf_status sf_tensorboard_write_groups(const sf_study *study, const char *folder) {
    curve_view *curves = NULL;
    double *values = NULL;
    size_t most = 0;
    for (size_t g = 0; g < sf_study_group_count(study); g++)
        if (sf_study_group(study, g)->runs > most) most = sf_study_group(study, g)->runs;
    sf_status status = SF_NEW(&curves, most);
    if (status == SF_OK) status = SF_NEW(&values, most);
    for (size_t g = 0; g < sf_study_group_count(study) && status == SF_OK; g++)
        status = write_group(study, g, folder, curves, values);
    sf_release(curves);
    sf_release(values);
    return status;
}
