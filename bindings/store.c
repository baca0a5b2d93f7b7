/* Runs, curves, measures and weights of a store. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "bindings/bindings.h"
#include "semfocus/labels.h"
#include "semfocus/measure.h"

typedef struct listing {
    sf_store *store;
    FILE *out;
    size_t count;
    sf_status status; /* the first failure */
} listing;

static void put_settings(FILE *out, const sf_config *config) {
    const sf_setting *setting;
    char value[SF_TEXT_SIZE];
    size_t count = 0;
    fputs(",\"settings\":{", out);
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if (setting->home != SF_IN_CONFIG) continue;
        sf_config_text(value, config, setting);
        fputs(count++ == 0 ? "\"" : ",\"", out);
        fprintf(out, "%s\":", setting->name);
        if (setting->kind == SF_CHOICE || setting->kind == SF_TEXT)
            fprintf(out, "\"%s\"", value);
        else
            fputs(setting->kind != SF_FLAG                          ? value
                  : *value == '1' || *value == 't' || *value == 'y' ? "true"
                                                                    : "false",
                  out);
    }
    fputs("}", out);
}

static void put_run(FILE *out, const sf_stored_run *run) {
    const double lacking = run->epochs > 0 ? 0 : NAN; /* without rows there are no results */
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, run->weights_hash);
    sf_json_text(out, "{id", run->id);
    sf_json_text(out, "task", run->task);
    sf_json_text(out, "attention", run->attention);
    fprintf(out, ",\"seed\":%" PRId64, run->seed);
    sf_json_text(out, "status", run->status);
    sf_json_text(out, "message", *run->message != '\0' ? run->message : NULL);
    sf_json_count(out, "epochs", run->epochs);
    sf_json_number(out, "converged_epoch", run->converged_epoch > 0 ? (double)run->converged_epoch : NAN);
    sf_json_number(out, "train_accuracy", run->train_accuracy + lacking);
    sf_json_number(out, "heldout_accuracy", run->heldout_accuracy + lacking);
    sf_json_number(out, "best_epoch", run->best_epoch > 0 ? (double)run->best_epoch : NAN);
    sf_json_number(out, "best_heldout_accuracy", run->best_accuracy + lacking);
    sf_json_number(out, "diverged_epoch", run->diverged_epoch > 0 ? (double)run->diverged_epoch : NAN);
    sf_json_text(out, "weights", run->checkpoint_epoch > 0 ? hash : NULL);
}

static const char *or_null(const char *text) {
    return *text != '\0' ? text : NULL;
}

static sf_status put_labels(FILE *out, sf_store *store, const sf_stored_run *run) {
    sf_run_labels labels;
    SF_TRY(sf_store_labels(&labels, store, run));
    sf_json_text(out, "name", or_null(labels.name));
    sf_json_text(out, "tags", or_null(labels.tags));
    sf_json_text(out, "note", or_null(labels.note));
    sf_json_flag(out, "archived", labels.archived);
    return SF_OK;
}

static void list_run(void *context, const sf_stored_run *run) {
    listing *list = context;
    sf_config config;
    if (list->status != SF_OK) return;
    fputs(list->count++ == 0 ? "{" : ",{", list->out);
    put_run(list->out, run);
    list->status = put_labels(list->out, list->store, run);
    if (list->status == SF_OK) list->status = sf_store_list_config(&config, list->store, run);
    if (list->status == SF_OK) put_settings(list->out, &config);
    fputc('}', list->out);
}

sf_status sf_store_runs_json(char **out, sf_store *store, const char *where) {
    sf_collected collected;
    SF_TRY(sf_collect(&collected));
    listing list = {.store = store, .out = collected.stream};
    fputc('[', list.out);
    sf_status status = sf_store_each_run(store, where, list_run, &list);
    if (status == SF_OK) status = list.status;
    fputc(']', list.out);
    return sf_collected_end(out, &collected, status);
}

typedef struct curve {
    FILE *out;
    size_t rows;
} curve;

static void add_row(void *context, const sf_epoch *row) {
    curve *to = context;
    const double columns[SF_CURVE_COLUMNS] = {(double)row->epoch, row->train_loss,       row->train_accuracy,
                                              row->heldout_loss,  row->heldout_accuracy, row->seconds};
    to->rows += fwrite(columns, sizeof columns, 1, to->out);
}

sf_status sf_store_curve_numbers(double **out, size_t *rows, sf_store *store, const char *id) {
    sf_collected collected;
    sf_stored_run run;
    char *bytes;
    *out = NULL;
    *rows = 0;
    SF_TRY(sf_store_find(&run, store, id));
    SF_TRY(sf_collect(&collected));
    curve to = {.out = collected.stream};
    const sf_status status = sf_store_each_epoch(store, &run, add_row, &to);
    SF_TRY(sf_collected_end(&bytes, &collected, status));
    *out = (double *)(void *)bytes; /* from malloc: aligned */
    *rows = to.rows;
    return SF_OK;
}

static void list_measure(void *context, const sf_curve_point *point) {
    listing *list = context;
    char name[16];
    fputs(list->count++ == 0 ? "{" : ",{", list->out);
    sf_json_count(list->out, "{epoch", point->epoch);
    fprintf(list->out, ",\"block\":%" PRId64, point->block);
    sf_json_text(list->out, "measure", point->measure);
    for (size_t q = 0; q < SF_QUANTILES; q++) {
        snprintf(name, sizeof name, "q%g", sf_quantile_percents[q]);
        sf_json_number(list->out, name, point->at[q]);
    }
    fputc('}', list->out);
}

sf_status sf_store_measures_json(char **out, sf_store *store, const char *id) {
    sf_collected collected;
    sf_stored_run run;
    *out = NULL;
    SF_TRY(sf_store_find(&run, store, id));
    SF_TRY(sf_collect(&collected));
    listing list = {.out = collected.stream};
    fputc('[', list.out);
    const sf_status status = sf_store_each_measure(store, &run, list_measure, &list);
    fputc(']', list.out);
    return sf_collected_end(out, &collected, status);
}

sf_status sf_store_write_weights(sf_store *store, const char *id, bool best, const char *path) {
    sf_stored_run run;
    SF_TRY(sf_store_find(&run, store, id));
    return sf_store_export_weights(store, &run, best, path);
}
