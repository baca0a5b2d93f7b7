/* The table of runs: one row per run, read and verified, changed and sealed anew. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "store/claim.h"
#include "store/identity.h"
#include "store/run_plugins.h"
#include "store/store_inside.h"
#include "train/data.h"

void sf_column_text(char *out, size_t size, sqlite3_stmt *row, int column) {
    const unsigned char *text = sqlite3_column_text(row, column);
    snprintf(out, size, "%s", text != NULL ? (const char *)text : "");
}

size_t sf_column_count(sqlite3_stmt *row, int column) {
    const sqlite3_int64 value = sqlite3_column_int64(row, column);
    return value > 0 ? (size_t)value : 0;
}

uint64_t sf_column_hash(sqlite3_stmt *row, int column) {
    const unsigned char *text = sqlite3_column_text(row, column);
    return text != NULL ? strtoull((const char *)text, NULL, 16) : 0;
}

static uint64_t read_seal(sqlite3_stmt *row, int column) {
    return (uint64_t)sqlite3_column_int64(row, column);
}

static bool is_percentage(double value) {
    return value >= 0 && value <= 100;
}

/* A store with seals does not need this check; for one without seals it is the only one. */
static sf_status check_ranges(const sf_store *store, const sf_stored_run *run) {
    static const char *const statuses[] = {"pending", "running", "done", "diverged", "failed"};
    bool known = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) known |= strcmp(run->status, statuses[i]) == 0;
    if (!known) return sf_run_damaged(store, run->id, "its status is '%.15s'", run->status);
    if (!is_percentage(run->train_accuracy) || !is_percentage(run->heldout_accuracy) ||
        !is_percentage(run->best_accuracy))
        return sf_run_damaged(store, run->id, "it has accuracies of %.6g, %.6g and %.6g %%, which must be 0 to 100",
                              run->train_accuracy, run->heldout_accuracy, run->best_accuracy);
    if (run->converged_epoch > run->epochs || run->best_epoch > run->epochs)
        return sf_run_damaged(store, run->id, "it has %zu epochs but refers to epochs %zu and %zu", run->epochs,
                              run->converged_epoch, run->best_epoch);
    return SF_OK;
}

enum { ID = 1, EARLIER_ID = 29, SEAL = 30 }; /* places among SF_RUN_COLUMNS */

static bool is_as_sealed(const sf_store *store, sqlite3_stmt *row) {
    if (!store->stands_in) return sf_seal_columns(SF_SEAL_RUN, row, SF_RUN_SEALED_COLUMNS) == read_seal(row, SEAL);
    uint64_t seal = sf_seal_start(SF_SEAL_RUN);
    for (int i = 0; i < SF_RUN_SEALED_COLUMNS_5; i++) seal = sf_seal_column(seal, row, i == ID ? EARLIER_ID : i);
    return sf_seal_end(seal) == read_seal(row, SEAL);
}

const char *sf_run_listed_id(const sf_store *store, const sf_stored_run *run) {
    return store->stands_in ? run->earlier_id : run->id;
}

sf_status sf_run_read(sf_stored_run *out, const sf_store *store, sqlite3_stmt *row) {
    *out = (sf_stored_run){.number = sqlite3_column_int64(row, 0),
                           .seed = sqlite3_column_int64(row, 4),
                           .epochs = sf_column_count(row, 7),
                           .converged_epoch = sf_column_count(row, 8),
                           .train_accuracy = sqlite3_column_double(row, 9),
                           .heldout_accuracy = sqlite3_column_double(row, 10),
                           .best_epoch = sf_column_count(row, 11),
                           .best_accuracy = sqlite3_column_double(row, 12),
                           .diverged_epoch = sf_column_count(row, 13),
                           .diverged_step = sf_column_count(row, 14),
                           .checkpoint_epoch = sf_column_count(row, 15),
                           .checkpoint_hash = sf_column_hash(row, 16),
                           .best_saved_epoch = sf_column_count(row, 17),
                           .best_hash = sf_column_hash(row, 18),
                           .weights_hash = sf_column_hash(row, 19),
                           .asked_epochs = sf_column_count(row, 23),
                           .asked_stop_at = sqlite3_column_double(row, 24),
                           .curve_seal = read_seal(row, 25),
                           .measures_seal = read_seal(row, 26),
                           .findings_seal = read_seal(row, 27),
                           .surfaces_seal = read_seal(row, 28)};
    sf_column_text(out->id, sizeof out->id, row, ID);
    sf_column_text(out->earlier_id, sizeof out->earlier_id, row, EARLIER_ID);
    sf_column_text(out->task, sizeof out->task, row, 2);
    sf_column_text(out->attention, sizeof out->attention, row, 3);
    sf_column_text(out->status, sizeof out->status, row, 5);
    sf_column_text(out->message, sizeof out->message, row, 6);
    sf_column_text(out->isa, sizeof out->isa, row, 20);
    if (store->sealed && !is_as_sealed(store, row))
        return sf_run_damaged(store, out->id, "its entry in the table of runs is not what was written");
    SF_TRY(check_ranges(store, out));
    /* a run whose process died is no longer running */
    if (strcmp(out->status, "running") == 0 && !sf_claim_is_held(store->folder, out->number))
        strcpy(out->status, "pending");
    return SF_OK;
}

sf_status sf_run_read_number(sf_stored_run *out, bool *found, const sf_store *store, int64_t number) {
    sqlite3_stmt *statement;
    SF_TRY(sf_database_prepare(&statement, &store->db, "SELECT " SF_RUN_COLUMNS " FROM runs WHERE number = ?", "i",
                               number));
    sf_status status = sf_database_step(&store->db, statement, found);
    if (*found) status = sf_run_read(out, store, statement);
    sf_database_release(&store->db, statement);
    return status;
}

static sf_status must_read(sf_stored_run *out, const sf_store *store, int64_t number) {
    bool found = false;
    *out = (sf_stored_run){0};
    SF_TRY(sf_run_read_number(out, &found, store, number));
    if (found) return SF_OK;
    return sf_fail(SF_IO_ERROR, "run number %lld is no longer in the store '%s'", (long long)number, store->folder);
}

sf_status sf_run_now(sf_stored_run *now, bool *frozen, sf_store *store, const sf_stored_run *run) {
    *frozen = !store->frozen;
    if (!*frozen) {
        *now = *run;
        return SF_OK;
    }
    SF_TRY(sf_store_freeze(store));
    const sf_status status = must_read(now, store, run->number);
    if (status != SF_OK) sf_store_unfreeze(store);
    return status;
}

sf_status sf_row_seal(const sf_store *store, sf_seal_kind kind, int columns, const char *select, const char *update,
                      int64_t number) {
    sqlite3_stmt *statement;
    bool found = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, select, "i", number));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    const uint64_t seal = found ? sf_seal_columns(kind, statement, columns) : 0;
    sf_database_release(&store->db, statement);
    SF_TRY(status);
    return sf_database_run(&store->db, update, "ii", (int64_t)seal, number);
}

sf_status sf_run_seal(const sf_store *store, int64_t number) {
    return sf_row_seal(store, SF_SEAL_RUN, SF_RUN_SEALED_COLUMNS,
                       "SELECT " SF_RUN_COLUMNS " FROM runs WHERE number = ?",
                       "UPDATE runs SET seal = ? WHERE number = ?", number);
}

sf_status sf_run_change(sf_stored_run *now, sf_store *store, int64_t number) {
    SF_TRY(sf_database_begin(&store->db));
    const sf_status status = must_read(now, store, number);
    if (status != SF_OK) (void)sf_database_end(&store->db, status);
    return status;
}

/* Writes the run's summary of its rows to the table of runs. */
static sf_status write_summary(const sf_store *store, const sf_stored_run *now) {
    const bool has_rows = now->epochs > 0;
    return sf_database_run(&store->db,
                           "UPDATE runs SET epochs = ?, converged_epoch = ?, train_accuracy = ?, heldout_accuracy = ?,"
                           " best_epoch = ?, best_accuracy = ?, curve_seal = ?, measures_seal = ?, findings_seal = ?,"
                           " surfaces_seal = ? WHERE number = ?",
                           "izrrzriiiii", (int64_t)now->epochs, now->converged_epoch,
                           has_rows ? now->train_accuracy : NAN, has_rows ? now->heldout_accuracy : NAN,
                           now->best_epoch, has_rows ? now->best_accuracy : NAN, (int64_t)now->curve_seal,
                           (int64_t)now->measures_seal, (int64_t)now->findings_seal, (int64_t)now->surfaces_seal,
                           now->number);
}

sf_status sf_run_changed(sf_store *store, const sf_stored_run *now, sf_status status) {
    if (status == SF_OK) status = write_summary(store, now);
    if (status == SF_OK) status = sf_run_seal(store, now->number);
    return sf_database_end(&store->db, status);
}

/* Every setting that defines the run, as the user would write it, and the plug-ins it uses; NULL without memory, never
 * incomplete. */
static char *settings_text(const sf_config *config, const char *task) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    const char *separator = "{";
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if (!sf_setting_changes_numbers(setting, config)) continue;
        char value[SF_TEXT_SIZE];
        sf_config_text(value, config, setting);
        fputs(separator, out);
        sf_text_json(out, setting->name);
        fputc(':', out);
        sf_text_json(out, value);
        separator = ",";
    }
    sf_run_plugins_write(out, config->attention, task);
    fputc('}', out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) return text;
    free(text);
    return NULL;
}

bool sf_run_is_merged(int64_t number) {
    return number >> SF_NUMBER_SHIFT > 0;
}

int64_t sf_run_rank(int64_t number) {
    if (sf_run_is_merged(number)) return number >> SF_NUMBER_SHIFT;
    return number > 0 && number <= INT32_MAX ? number : INT32_MAX;
}

sf_status sf_run_is_number_taken(bool *out, const sf_store *store, int64_t number) {
    sqlite3_stmt *row;
    *out = false;
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT 1 FROM runs WHERE number = ?", "i", number));
    const sf_status status = sf_database_step(&store->db, row, out);
    sf_database_release(&store->db, row);
    return status;
}

/* The asked one if it is free, else the next after all others. */
static sf_status choose_number(int64_t *out, const sf_store *store, size_t asked) {
    sqlite3_stmt *row;
    bool taken = true;
    *out = (int64_t)asked;
    if (asked > 0) SF_TRY(sf_run_is_number_taken(&taken, store, *out));
    if (!taken) return SF_OK;
    SF_TRY(sf_database_prepare(&row, &store->db, "SELECT MAX(number) FROM runs", ""));
    const sf_status status = sf_database_step(&store->db, row, &taken);
    const int64_t last = taken ? sqlite3_column_int64(row, 0) : 0;
    sf_database_release(&store->db, row);
    *out = sf_run_is_merged(last) ? (sf_run_rank(last) + 1) << SF_NUMBER_SHIFT : last + 1;
    return status;
}

/* Within a transaction: another process may have entered it since it was looked for. */
static sf_status insert_run(sf_store *store, const char *id, const char *task, const char *attention, int64_t seed,
                            const char *settings, size_t asked_number) {
    int64_t number;
    SF_TRY(choose_number(&number, store, asked_number));
    SF_TRY(sf_database_run(&store->db,
                           "INSERT OR IGNORE INTO runs (number, id, task, attention, seed, status, settings)"
                           " VALUES (?, ?, ?, ?, ?, 'pending', ?)",
                           "itttit", number, id, task, attention, seed, settings));
    if (sqlite3_changes(store->db.handle) == 0) return SF_OK;
    uint64_t listed;
    SF_TRY(sf_run_seal(store, number));
    SF_TRY(sf_list_read(&listed, store));
    return sf_list_write(store, listed + sf_listed_seal(number, id, strlen(id)));
}

static sf_status move_data(sf_store *store, const sf_stored_run *run, const char *task) {
    sf_stored_run now;
    SF_TRY(sf_run_change(&now, store, run->number));
    return sf_run_changed(
        store, &now, sf_database_run(&store->db, "UPDATE runs SET task = ? WHERE number = ?", "ti", task, now.number));
}

sf_status sf_run_rename(const sf_store *store, int64_t number, const char *from, const char *id) {
    uint64_t listed;
    SF_TRY(sf_database_run(&store->db, "UPDATE runs SET id = ?, earlier_id = ? WHERE number = ?", "tti", id, from,
                           number));
    SF_TRY(sf_list_read(&listed, store));
    listed += sf_listed_seal(number, id, strlen(id)) - sf_listed_seal(number, from, strlen(from));
    return sf_list_write(store, listed);
}

/* A run that an earlier version entered and that could not get its new id when the store was converted. */
static sf_status look_up_earlier(sf_stored_run *out, bool *found, sf_store *store, const char *task,
                                 const sf_config *config) {
    sf_run_ids ids;
    sf_stored_run now;
    if (!store->has_earlier_ids) return SF_OK;
    SF_TRY(sf_run_identify_both(&ids, config, task));
    SF_TRY(sf_store_look_up(out, found, store, ids.earlier));
    if (!*found) return SF_OK;
    SF_TRY(sf_run_change(&now, store, out->number));
    SF_TRY(sf_run_changed(store, &now, sf_run_rename(store, now.number, ids.earlier, ids.id)));
    return sf_store_look_up(out, found, store, ids.id);
}

sf_status sf_store_enter_at(sf_stored_run *out, sf_store *store, const char *id, const char *task,
                            const char *attention, const sf_config *config, size_t number) {
    bool found = false;
    char place[SF_PATH_SIZE];
    task = sf_run_data_place(place, task);
    SF_TRY(sf_store_look_up(out, &found, store, id));
    if (!found) SF_TRY(look_up_earlier(out, &found, store, task, config));
    if (found && strcmp(out->task, task) == 0) return SF_OK;
    if (found) { /* the same data from another place */
        SF_TRY(move_data(store, out, task));
        return sf_store_look_up(out, &found, store, id);
    }
    char *settings = settings_text(config, task);
    if (settings == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to enter run %s", id);
    sf_status status = sf_database_begin(&store->db);
    if (status == SF_OK)
        status = sf_database_end(&store->db,
                                 insert_run(store, id, task, attention, (int64_t)config->seed, settings, number));
    free(settings);
    SF_TRY(status);
    SF_TRY(sf_store_look_up(out, &found, store, id));
    return found ? SF_OK : sf_fail(SF_IO_ERROR, "run %s is missing from the store '%s'", id, store->folder);
}

sf_status sf_store_enter(sf_stored_run *out, sf_store *store, const char *id, const char *task, const char *attention,
                         const sf_config *config) {
    return sf_store_enter_at(out, store, id, task, attention, config, 0);
}

/* Records what was asked for; `check` compares the run with it. */
static sf_status write_asked(const sf_store *store, int64_t number, const sf_config *config) {
    return sf_database_run(&store->db, "UPDATE runs SET asked_epochs = ?, asked_stop_at = ? WHERE number = ?", "iri",
                           config->epochs, config->stop_at > 0 ? config->stop_at : NAN, number);
}

sf_status sf_store_begin(sf_store *store, const sf_stored_run *run, const sf_config *config, const char *isa,
                         const char *environment) {
    sf_stored_run now;
    SF_TRY(sf_run_change(&now, store, run->number));
    sf_status status = sf_database_run(&store->db,
                                       "UPDATE runs SET status = 'running', message = NULL, diverged_epoch = NULL,"
                                       " diverged_step = NULL, isa = ?, environment = ? WHERE number = ?",
                                       "tti", isa, environment, now.number);
    if (status == SF_OK) status = write_asked(store, now.number, config);
    return sf_run_changed(store, &now, status);
}

static sf_status write_saved(const sf_store *store, int64_t number, const sf_saved *saved) {
    return sf_database_run(
        &store->db,
        "UPDATE runs SET checkpoint_epoch = ?, checkpoint_hash = ?, best_saved_epoch = ?, best_hash = ?,"
        " weights = ? WHERE number = ?",
        "zhzhhi", saved->epoch, saved->hash, saved->best_epoch, saved->best_hash, saved->weights_hash, number);
}

sf_status sf_store_saved(sf_store *store, const sf_stored_run *run, const sf_saved *saved) {
    sf_stored_run now;
    SF_TRY(sf_store_execute(store, "PRAGMA synchronous = FULL"));
    sf_status status = sf_run_change(&now, store, run->number);
    if (status == SF_OK) status = sf_run_changed(store, &now, write_saved(store, now.number, saved));
    SF_TRY(sf_fail_in(status, "run %s", run->id));
    return sf_store_execute(store, "PRAGMA synchronous = NORMAL");
}

static sf_status write_ending(const sf_store *store, int64_t number, const sf_ending *ending) {
    return sf_database_run(
        &store->db, "UPDATE runs SET status = ?, message = ?, diverged_epoch = ?, diverged_step = ? WHERE number = ?",
        "ttzzi", ending->status, ending->message, ending->diverged_epoch, ending->diverged_step, number);
}

sf_status sf_store_finish(sf_store *store, const sf_stored_run *run, const sf_ending *ending) {
    sf_stored_run now;
    SF_TRY(sf_run_change(&now, store, run->number));
    return sf_run_changed(store, &now, write_ending(store, now.number, ending));
}

sf_status sf_store_complete(sf_store *store, const sf_stored_run *run, const sf_config *config,
                            const sf_ending *ending) {
    sf_stored_run now;
    SF_TRY(sf_run_change(&now, store, run->number));
    sf_status status = sf_run_drop_unbacked(store, &now);
    if (status == SF_OK) status = write_asked(store, now.number, config);
    if (status == SF_OK) status = write_ending(store, now.number, ending);
    return sf_run_changed(store, &now, status);
}

static sf_status read_text(char **out, sf_store *store, const char *id, const char *sql) {
    sqlite3_stmt *statement;
    bool found = false;
    *out = NULL;
    SF_TRY(sf_database_prepare(&statement, &store->db, sql, "t", id));
    const sf_status status = sf_database_step(&store->db, statement, &found);
    const char *text = found ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (status == SF_OK) *out = strdup(text != NULL ? text : "{}");
    sf_database_release(&store->db, statement);
    if (status != SF_OK) return status;
    return *out != NULL ? SF_OK : sf_fail(SF_NO_MEMORY, "no memory left to read run %s", id);
}

sf_status sf_store_environment(char **out, sf_store *store, const char *id) {
    return read_text(out, store, id, "SELECT environment FROM runs WHERE id = ?");
}

static sf_status load_settings(json_t **out, const char *id, const char *text) {
    json_error_t error;
    *out = json_loads(text, 0, &error);
    if (*out == NULL && *error.text == '\0') /* jansson gives no message when out of memory */
        return sf_fail(SF_NO_MEMORY, "no memory left to read the settings of run %s", id);
    return json_is_object(*out) ? SF_OK : sf_fail(SF_IO_ERROR, "the settings of run %s cannot be read", id);
}

/* `listed`: for a listing, which also shows runs of plug-ins that are not loaded. */
static sf_status read_settings(sf_config *out, const char *id, const char *task, const char *text, bool listed) {
    json_t *settings;
    sf_config_init(out);
    sf_status status = load_settings(&settings, id, text);
    if (status == SF_OK && !listed) status = sf_run_plugins_check(json_object_get(settings, "plugins"), id);
    const char *readout =
        json_string_value(json_object_get(settings, "readout")); /* the recipe of text depends on it */
    if (status == SF_OK && readout != NULL) status = sf_config_set(out, "readout", readout);
    const sf_status recipe = status == SF_OK ? sf_run_data_recipe(out, task) : status;
    if (!listed) status = recipe;
    const sf_setting *setting;
    for (size_t i = 0; status == SF_OK && (setting = sf_setting_at(i)) != NULL; i++) {
        if (setting->home != SF_IN_CONFIG) continue;
        const char *value = json_string_value(json_object_get(settings, setting->name));
        char now[SF_TEXT_SIZE];
        sf_config_text(now, out, setting);
        if (value != NULL && strcmp(value, now) != 0) status = sf_config_set(out, setting->name, value);
    }
    json_decref(settings);
    return status;
}

sf_status sf_run_settings_read(sf_config *out, const char *id, const char *task, const char *text) {
    return read_settings(out, id, task, text, false);
}

static sf_status read_config(sf_config *out, sf_store *store, const sf_stored_run *run, bool listed) {
    char *text;
    const sf_status read = read_text(&text, store, run->id, "SELECT settings FROM runs WHERE id = ?");
    if (read != SF_OK) {
        free(text);
        return read;
    }
    const sf_status status = read_settings(out, run->id, run->task, text, listed);
    free(text);
    return status;
}

sf_status sf_store_code(sf_run_code *out, sf_store *store, const sf_stored_run *run) {
    char *text;
    *out = (sf_run_code){0};
    sf_status status = read_text(&text, store, run->id, "SELECT settings FROM runs WHERE id = ?");
    json_t *settings = NULL;
    if (status == SF_OK) status = load_settings(&settings, run->id, text);
    if (status == SF_OK) status = sf_run_plugins_look(out, json_object_get(settings, "plugins"), run->id);
    json_decref(settings);
    free(text);
    return status;
}

sf_status sf_store_config(sf_config *out, sf_store *store, const sf_stored_run *run) {
    return read_config(out, store, run, false);
}

sf_status sf_store_list_config(sf_config *out, sf_store *store, const sf_stored_run *run) {
    return read_config(out, store, run, true);
}
