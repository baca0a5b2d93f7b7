/* Looking at a stored run without training: is it whole, and what are its weights? */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "store/labels.h"
#include "store/model_facts.h"
#include "store/run_state.h"
#include "store/store_inside.h"
#include "train/checkpoint.h"
#include "train/numerics.h"

sf_status sf_store_satisfies(bool *out, sf_store *store, const sf_stored_run *run, const sf_config *config) {
    bool gone;
    *out = false;
    if (sf_store_look_for_files(&gone, store, run) == SF_OK && gone) return SF_OK;
    *out = strcmp(run->status, "diverged") == 0 || run->checkpoint_epoch >= (size_t)config->epochs;
    if (*out || config->stop_at <= 0 || run->checkpoint_epoch == 0) return SF_OK;
    size_t epoch;
    SF_TRY(sf_store_first_epoch_at(&epoch, store, run, config->stop_at, run->checkpoint_epoch));
    *out = epoch > 0;
    return SF_OK;
}

static bool same_row(const sf_epoch *a, const sf_epoch *b) {
    return a->train_loss == b->train_loss && a->train_accuracy == b->train_accuracy &&
           a->heldout_loss == b->heldout_loss && a->heldout_accuracy == b->heldout_accuracy;
}

/* The run in a fleet of one, over the data it was trained on; SF_UNSUPPORTED if this machine lacks its arithmetic. */
static sf_status open_state(sf_run_state *state, sf_fleet **fleet, sf_store *store, const sf_stored_run *run) {
    sf_config config;
    SF_TRY(sf_run_trained_config(&config, store, run));
    const sf_execution where = {.device = sf_numerics_device(&config, SF_CPU)};
    SF_TRY(sf_backend_check_run(sf_backend_for((sf_device)where.device), &config));
    SF_TRY(sf_fleet_create(fleet, run->task, &config, 1, &where));
    return sf_run_state_open(state, *fleet, 0, run);
}

static bool is_as_long_as_asked(const sf_stored_run *run, const sf_epoch *rows) {
    if (run->epochs >= run->asked_epochs) return true;
    for (size_t i = 0; i < run->epochs && run->asked_stop_at > 0; i++)
        if (rows[i].train_accuracy >= run->asked_stop_at) return true;
    return false;
}

/* How many epochs the run should have, according to its own row. */
static sf_status check_length(const sf_store *store, const sf_stored_run *run, const sf_epoch *rows) {
    const bool done = strcmp(run->status, "done") == 0, diverged = strcmp(run->status, "diverged") == 0;
    if (run->epochs < run->checkpoint_epoch)
        return sf_run_damaged(store, run->id, "it has a checkpoint of epoch %zu but only %zu rows",
                              run->checkpoint_epoch, run->epochs);
    if (done && !is_as_long_as_asked(run, rows))
        return sf_run_damaged(store, run->id, "it is marked as done with %zu epochs, but %zu were asked for",
                              run->epochs, run->asked_epochs);
    if (diverged && run->epochs + 1 != run->diverged_epoch)
        return sf_run_damaged(store, run->id, "it diverged in epoch %zu but has %zu rows", run->diverged_epoch,
                              run->epochs);
    if ((done || diverged) && run->epochs > run->checkpoint_epoch)
        return sf_fail(
            SF_IO_ERROR,
            "run %s has %zu rows but a checkpoint of epoch %zu; repeat the command that trained it to repair this",
            run->id, run->epochs, run->checkpoint_epoch);
    return SF_OK;
}

/* Checks the run's summary of its curve against the curve. */
static sf_status check_summary(const sf_store *store, const sf_stored_run *run, const sf_epoch *rows) {
    size_t converged = 0, best = 0;
    for (size_t i = 0; i < run->epochs; i++) {
        if (converged == 0 && rows[i].train_accuracy >= SF_CONVERGED_AT) converged = i + 1;
        if (best == 0 || rows[i].heldout_accuracy > rows[best - 1].heldout_accuracy) best = i + 1;
    }
    const bool agrees = run->epochs == 0 || (converged == run->converged_epoch && best == run->best_epoch &&
                                             rows[best - 1].heldout_accuracy == run->best_accuracy &&
                                             rows[run->epochs - 1].train_accuracy == run->train_accuracy &&
                                             rows[run->epochs - 1].heldout_accuracy == run->heldout_accuracy);
    if (agrees) return SF_OK;
    return sf_run_damaged(store, run->id, "the table of runs and its curve disagree");
}

static sf_status check_rows(sf_store *store, const sf_stored_run *run) {
    sf_stored_run now;
    bool frozen;
    sf_epoch *rows = NULL;
    SF_TRY(sf_run_now(&now, &frozen, store, run));
    sf_status status = sf_run_verify_rows(store, &now);
    if (status == SF_OK) status = sf_curve_read(&rows, store, &now);
    if (frozen) sf_store_unfreeze(store);
    if (status == SF_OK) status = check_length(store, &now, rows);
    if (status == SF_OK) status = check_summary(store, &now, rows);
    sf_release(rows);
    return status;
}

/* The saved weights of `epoch`, evaluated anew, must give the row of that epoch. */
static sf_status check_weights(sf_run_state *state, sf_store *store, bool best, size_t epoch, uint64_t hash) {
    const sf_member *member = sf_run_state_member(state);
    char path[SF_CHECKPOINT_PATH_SIZE];
    sf_store_checkpoint_path(path, store, &state->run, best, epoch);
    SF_TRY(sf_checkpoint_read(state->blocks, best ? 1 : state->block_count, path, hash, &member->model));
    sf_epoch expected, got;
    SF_TRY(sf_store_row(&expected, store, &state->run, epoch));
    SF_TRY(sf_fleet_resume(state->fleet, state->s, &expected, 0, state->blocks));
    SF_TRY(sf_fail_in(sf_fleet_evaluate(&got, state->fleet, state->s), "run %s", state->run.id));
    if (same_row(&expected, &got)) return SF_OK;
    return sf_fail(
        SF_IO_ERROR,
        "run %s: the weights of epoch %zu give training loss %.17g and held-out loss %.17g, but its row says %.17g "
        "and %.17g",
        state->run.id, epoch, got.train_loss, got.heldout_loss, expected.train_loss, expected.heldout_loss);
}

/* Whether the run was trained further since it was read; it is then read again. */
static bool moved_on(sf_stored_run *run, sf_store *store) {
    const size_t epochs = run->epochs, checkpoint = run->checkpoint_epoch;
    char id[SF_RUN_ID_SIZE];
    strcpy(id, run->id);
    return sf_store_find(run, store, id) == SF_OK && (run->epochs != epochs || run->checkpoint_epoch != checkpoint);
}

enum { TRIES = 20 }; /* for a run that another process is training */

/* A checkpoint is opened right after the run was read: a process that trains it soon replaces the file. */
static sf_status check_checkpoint(sf_run_state *state, sf_store *store, bool best) {
    char message[SF_RUN_MESSAGE_SIZE];
    sf_stored_run *run = &state->run;
    for (int i = 0;; i++) {
        const size_t epoch = best ? run->best_saved_epoch : run->checkpoint_epoch;
        if (epoch == 0) return SF_OK;
        const sf_status status = check_weights(state, store, best, epoch, best ? run->best_hash : run->checkpoint_hash);
        if (status == SF_OK) return status;
        snprintf(message, sizeof message, "%s", sf_message());
        if (i == TRIES || !moved_on(run, store)) return sf_fail(status, "%s", message);
    }
}

/* That the files are what was written. */
static sf_status check_files(sf_store *store, const sf_stored_run *run) {
    for (int best = 0; best < 2; best++) {
        const size_t epoch = best != 0 ? run->best_saved_epoch : run->checkpoint_epoch;
        char path[SF_CHECKPOINT_PATH_SIZE];
        sf_safetensors *file;
        if (epoch == 0) continue;
        sf_store_checkpoint_path(path, store, run, best != 0, epoch);
        SF_TRY(sf_checkpoint_open(&file, path, best != 0 ? run->best_hash : run->checkpoint_hash));
        sf_safetensors_close(file);
    }
    return SF_OK;
}

/* Without the arithmetic or the code of the run, its weights cannot be evaluated. */
static sf_status check_files_alone(sf_store *store, const sf_stored_run *run) {
    char reason[SF_RUN_MESSAGE_SIZE];
    snprintf(reason, sizeof reason, "%s", sf_message());
    SF_TRY(check_files(store, run));
    return sf_fail(SF_UNSUPPORTED, "run %s: its rows and files are as they were written, but were not evaluated: %s",
                   run->id, reason);
}

static sf_status check_code(sf_store *store, const sf_stored_run *run) {
    sf_run_code code;
    sf_config config;
    char reason[SF_RUN_MESSAGE_SIZE], beginning[SF_RUN_ID_SIZE + 8];
    SF_TRY(sf_store_code(&code, store, run));
    if (!code.lacks_attention && !code.lacks_task) return SF_OK;
    if (sf_store_config(&config, store, run) == SF_OK) return SF_OK;
    snprintf(reason, sizeof reason, "%s", sf_message());
    const size_t length = (size_t)snprintf(beginning, sizeof beginning, "run %s ", run->id);
    const bool begins = strncmp(reason, beginning, length) == 0;
    return sf_fail(SF_UNSUPPORTED, "%s%s", begins ? "it " : "", begins ? reason + length : reason);
}

static sf_status check_checkpoints(sf_store *store, const sf_stored_run *run) {
    sf_run_state state = {0};
    sf_fleet *fleet = NULL;
    sf_status status = check_code(store, run);
    if (status == SF_OK) status = open_state(&state, &fleet, store, run);
    if (status == SF_OK) status = check_checkpoint(&state, store, false);
    if (status == SF_OK) status = check_checkpoint(&state, store, true);
    sf_run_state_close(&state);
    sf_fleet_destroy(fleet);
    return status == SF_UNSUPPORTED ? check_files_alone(store, run) : status;
}

sf_status sf_store_check(sf_store *store, const sf_stored_run *run) {
    SF_TRY(sf_store_check_numerics(store));
    sf_stored_run now = *run;
    char message[SF_RUN_MESSAGE_SIZE];
    sf_status status;
    for (int i = 0; (status = check_rows(store, &now)) != SF_OK; i++) {
        snprintf(message, sizeof message, "%s", sf_message());
        if (i == TRIES || !moved_on(&now, store)) return sf_fail(status, "%s", message);
    }
    return now.checkpoint_epoch > 0 ? check_checkpoints(store, &now) : SF_OK;
}

/* SQLite's own check of pages, trees and indexes; reports the first problem. */
static sf_status check_file(const sf_store *store) {
    sqlite3_stmt *statement;
    bool row = false;
    SF_TRY(sf_database_prepare(&statement, &store->db, "PRAGMA integrity_check(1)", ""));
    sf_status status = sf_database_step(&store->db, statement, &row);
    const char *text = row ? (const char *)sqlite3_column_text(statement, 0) : "nothing";
    if (status == SF_OK && (text == NULL || strcmp(text, "ok") != 0))
        status = sf_fail(SF_IO_ERROR, "the store '%s' is damaged (%.200s); restore a copy of runs.db", store->folder,
                         text != NULL ? text : "nothing");
    sf_database_release(&store->db, statement);
    return status;
}

sf_status sf_store_check_list(sf_store *store) {
    SF_TRY(sf_store_freeze(store));
    sf_status status = check_file(store);
    if (status == SF_OK && store->sealed) status = sf_list_verify(store);
    if (status == SF_OK) status = sf_labels_verify(store);
    sf_store_unfreeze(store);
    return status;
}

static void print_csv_row(void *stream, const sf_epoch *row) {
    fprintf(stream, "%zu,%.9g,%.9g,%.9g,%.9g\n", row->epoch, row->train_loss, row->train_accuracy, row->heldout_loss,
            row->heldout_accuracy);
}

sf_status sf_store_export_curve(sf_store *store, const sf_stored_run *run, const char *path) {
    const bool to_stdout = strcmp(path, "-") == 0;
    sf_atomic_file file = {.stream = stdout};
    if (!to_stdout) SF_TRY(sf_atomic_open(&file, path));
    fputs("epoch,tr-ce,tr-ac,va-ce,va-ac\n", file.stream);
    const sf_status status = sf_store_each_epoch(store, run, print_csv_row, file.stream);
    if (!to_stdout && status == SF_OK) return sf_atomic_commit(&file);
    if (!to_stdout) sf_atomic_abandon(&file);
    if (to_stdout && status == SF_OK && (fflush(stdout) != 0 || ferror(stdout) != 0))
        return sf_fail(SF_IO_ERROR, "cannot write standard output: %s", strerror(errno));
    return status;
}

/* The weights of a checkpoint file, without the optimizer's state. */
static sf_status copy_weights(const char *from, uint64_t hash, sf_store *store, const sf_stored_run *run, size_t epoch,
                              const char *to) {
    sf_safetensors *file;
    sf_tensor *weights = NULL;
    size_t count = 0, all = 0;
    SF_TRY(sf_checkpoint_open(&file, from, hash));
    while (sf_safetensors_at(file, all) != NULL) all++;
    sf_status status = SF_NEW(&weights, all);
    for (size_t i = 0; i < all && status == SF_OK; i++) {
        const sf_tensor *tensor = sf_safetensors_at(file, i);
        if (strncmp(tensor->name, "optimizer.", strlen("optimizer.")) != 0) weights[count++] = *tensor;
    }
    sf_model_facts facts = {0};
    sf_model_facts_add(&facts, "run", "%s", run->id);
    sf_model_facts_add(&facts, "epoch", "%zu", epoch);
    const sf_tensor *embedding = sf_safetensors_find(file, "embedding.weight");
    const sf_tensor *bias = sf_safetensors_find(file, "linear.bias");
    if (status == SF_OK && embedding != NULL && bias != NULL)
        status = sf_model_facts_of_run(&facts, store, run, embedding->shape[0], bias->shape[0]);
    if (status == SF_OK) status = sf_safetensors_write(to, weights, count, facts.pairs, NULL);
    sf_release(weights);
    sf_safetensors_close(file);
    return status;
}

sf_status sf_store_export_weights(sf_store *store, const sf_stored_run *run, bool best, const char *path) {
    sf_stored_run now = *run;
    char message[SF_RUN_MESSAGE_SIZE];
    for (int i = 0;; i++) {
        const size_t epoch = best ? now.best_saved_epoch : now.checkpoint_epoch;
        if (epoch == 0)
            return sf_fail(SF_BAD_INPUT, "run %s has no checkpoint yet; train it for an epoch or more", now.id);
        char from[SF_CHECKPOINT_PATH_SIZE];
        sf_store_checkpoint_path(from, store, &now, best, epoch);
        const sf_status status =
            copy_weights(from, best ? now.best_hash : now.checkpoint_hash, store, &now, epoch, path);
        if (status == SF_OK) return status;
        snprintf(message, sizeof message, "%s", sf_message());
        if (i == TRIES || !moved_on(&now, store)) return sf_fail(status, "%s", message);
    }
}
