#include "serve/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "semfocus/labels.h"
#include "store/store.h"

typedef struct reading {
    sf_snapshot *snapshot;
    sf_store *store;
    double now;
    sf_live_row *rows; /* the new ones */
    size_t count, room;
    size_t before; /* the next of the old ones */
    size_t ended;
    bool changed, removed;
    sf_status status;
} reading;

static const char *status_word(const sf_stored_run *run) {
    if (strcmp(run->status, "pending") != 0) return run->status;
    return run->epochs > 0 ? "unfinished" : "waiting";
}

/* Seconds that the run still takes, at the pace that was seen, or else at that of its last epochs; below 0: unknown. */
static double time_left(const sf_live_row *row, const sf_stored_run *run, sf_store *store, double now) {
    enum { LAST = 10 };
    if (row->first_seen == 0 || run->asked_epochs <= run->epochs) return -1;
    const double left = (double)(run->asked_epochs - run->epochs);
    const size_t seen = run->epochs - row->first_epochs;
    if (run->epochs > row->first_epochs && now > row->first_seen) return left * (now - row->first_seen) / (double)seen;
    sf_epoch *curve;
    size_t count;
    if (sf_store_curve(&curve, &count, store, run) != SF_OK) return -1;
    double seconds = 0;
    const size_t from = count > LAST ? count - LAST : 0;
    for (size_t i = from; i < count; i++) seconds += curve[i].seconds;
    sf_release(curve);
    return count > from ? left * seconds / (double)(count - from) : -1;
}

static void write_text(FILE *out, const char *name, const char *text) {
    fprintf(out, ",\"%s\":", name);
    sf_text_json(out, text);
}

static sf_status write_row(FILE *out, const sf_live_row *row, const sf_stored_run *run, reading *r) {
    sf_run_labels labels;
    SF_TRY(sf_store_labels(&labels, r->store, run));
    fprintf(out, "{\"id\":\"%s\",\"seed\":%" PRId64 ",\"epochs\":%zu,\"asked\":%zu,\"converged\":%zu", run->id,
            run->seed, run->epochs, run->asked_epochs, run->converged_epoch);
    write_text(out, "status", status_word(run));
    write_text(out, "task", run->task);
    write_text(out, "attention", run->attention);
    write_text(out, "message", run->message);
    write_text(out, "name", labels.name);
    write_text(out, "tags", labels.tags);
    if (run->epochs > 0) fprintf(out, ",\"train\":%.2f,\"heldout\":%.2f", run->train_accuracy, run->heldout_accuracy);
    const double left = time_left(row, run, r->store, r->now);
    if (left >= 0) fprintf(out, ",\"left\":%.0f", left);
    fputc('}', out);
    return SF_OK;
}

static sf_status describe(sf_live_row *row, const sf_stored_run *run, reading *r) {
    size_t size;
    FILE *out = open_memstream(&row->text, &size);
    if (out == NULL) return sf_fail(SF_NO_MEMORY, "no memory left for the live page");
    const sf_status status = write_row(out, row, run, r);
    const bool whole = ferror(out) == 0;
    if (fclose(out) == 0 && whole && status == SF_OK) return SF_OK;
    free(row->text);
    row->text = NULL;
    return status != SF_OK ? status : sf_fail(SF_NO_MEMORY, "no memory left for the live page");
}

/* The same run as it was seen last; NULL: it is new. Both lists are in the order of their numbers. */
static sf_live_row *find_before(reading *r, int64_t number, const char *id) {
    sf_snapshot *snapshot = r->snapshot;
    for (; r->before < snapshot->count && snapshot->rows[r->before].number < number; r->before++) r->removed = true;
    if (r->before == snapshot->count || snapshot->rows[r->before].number != number) return NULL;
    sf_live_row *known = &snapshot->rows[r->before++];
    if (strcmp(known->id, id) == 0) return known;
    r->removed = true;
    return NULL;
}

static bool is_over(const sf_stored_run *run) {
    return strcmp(run->status, "done") == 0 || strcmp(run->status, "diverged") == 0 ||
           strcmp(run->status, "failed") == 0;
}

static sf_status add_run(reading *r, const sf_stored_run *run) {
    if (r->count == r->room) {
        const size_t room = 2 * r->room + 256;
        SF_TRY(SF_GROW(&r->rows, r->count, room));
        r->room = room;
    }
    sf_live_row *row = &r->rows[r->count];
    const sf_live_row *before = find_before(r, run->number, run->id);
    *row = (sf_live_row){.number = run->number};
    memcpy(row->id, run->id, sizeof row->id);
    if (strcmp(run->status, "running") == 0) {
        const bool goes_on = before != NULL && before->first_seen > 0;
        row->first_seen = goes_on ? before->first_seen : r->now;
        row->first_epochs = goes_on ? before->first_epochs : run->epochs;
    }
    SF_TRY(describe(row, run, r));
    r->count++;
    r->ended += is_over(run);
    const bool same =
        before != NULL && before->text != NULL && row->text != NULL && strcmp(before->text, row->text) == 0;
    row->version = same ? before->version : r->snapshot->version + 1;
    r->changed = r->changed || !same;
    return SF_OK;
}

static void take_run(void *context, const sf_stored_run *run) {
    reading *r = context;
    if (r->status == SF_OK) r->status = add_run(r, run);
}

static void release_rows(sf_live_row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) free(rows[i].text);
    sf_release(rows);
}

sf_status sf_snapshot_update(sf_snapshot *snapshot, sf_store *store, double now, bool *changed) {
    reading r = {.snapshot = snapshot, .store = store, .now = now};
    sf_status status = store != NULL ? sf_store_each_run(store, NULL, take_run, &r) : SF_OK;
    if (status == SF_OK) status = r.status;
    if (status != SF_OK) {
        release_rows(r.rows, r.count);
        return status;
    }
    r.removed = r.removed || r.before < snapshot->count;
    *changed = r.changed || r.removed || *snapshot->problem != '\0' || snapshot->version == 0;
    release_rows(snapshot->rows, snapshot->count);
    snapshot->rows = r.rows;
    snapshot->count = r.count;
    snapshot->room = r.room;
    *snapshot->problem = '\0';
    if (!*changed) return SF_OK;
    snapshot->version++;
    if (r.removed) snapshot->reset = snapshot->version;
    if (r.ended != snapshot->ended || r.removed) snapshot->finished = snapshot->version;
    snapshot->ended = r.ended;
    return SF_OK;
}

void sf_snapshot_fail(sf_snapshot *snapshot, const char *problem, bool *changed) {
    *changed = strncmp(snapshot->problem, problem, sizeof snapshot->problem - 1) != 0;
    snprintf(snapshot->problem, sizeof snapshot->problem, "%s", problem);
    snapshot->version += *changed;
}

void sf_snapshot_write(FILE *out, const sf_snapshot *snapshot, uint64_t since) {
    const bool all = since < snapshot->reset || since == 0 || since > snapshot->version;
    const char *separator = "";
    fprintf(out, "{\"version\":%" PRIu64 ",\"finished\":%" PRIu64 ",\"all\":%s,\"problem\":", snapshot->version,
            snapshot->finished, all ? "true" : "false");
    sf_text_json(out, snapshot->problem);
    fputs(",\"runs\":[", out);
    for (size_t i = 0; i < snapshot->count; i++) {
        if (!all && snapshot->rows[i].version <= since) continue;
        fprintf(out, "%s%s", separator, snapshot->rows[i].text);
        separator = ",\n";
    }
    fputs("]}", out);
}

void sf_snapshot_close(sf_snapshot *snapshot) {
    release_rows(snapshot->rows, snapshot->count);
    *snapshot = (sf_snapshot){0};
}

static void write_settings(FILE *out, const sf_config *config) {
    const sf_setting *setting;
    const char *separator = "";
    fputs(",\"settings\":{", out);
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        char text[SF_TEXT_SIZE];
        if (!sf_setting_changes_numbers(setting, config)) continue;
        sf_config_text(text, config, setting);
        fprintf(out, "%s\"%s\":", separator, setting->name);
        sf_text_json(out, text);
        separator = ",";
    }
    fputc('}', out);
}

static void write_curve(FILE *out, const char *name, const sf_epoch *rows, size_t count, size_t column) {
    fprintf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%.6g", i > 0 ? "," : "",
                column == 0   ? rows[i].train_loss
                : column == 1 ? rows[i].train_accuracy
                : column == 2 ? rows[i].heldout_loss
                              : rows[i].heldout_accuracy);
    fputc(']', out);
}

sf_status sf_live_run_write(FILE *out, sf_store *store, const char *id) {
    static const char *const curves[] = {"train_loss", "train_accuracy", "heldout_loss", "heldout_accuracy"};
    sf_stored_run run;
    sf_config config;
    sf_run_labels labels;
    sf_epoch *rows;
    size_t count;
    SF_TRY(sf_store_find(&run, store, id));
    SF_TRY(sf_store_list_config(&config, store, &run));
    SF_TRY(sf_store_labels(&labels, store, &run));
    SF_TRY(sf_store_curve(&rows, &count, store, &run));
    fprintf(out, "{\"id\":\"%s\",\"asked\":%zu", run.id, run.asked_epochs);
    write_text(out, "note", labels.note);
    write_text(out, "message", run.message);
    write_settings(out, &config);
    for (size_t i = 0; i < 4; i++) write_curve(out, curves[i], rows, count, i);
    fputc('}', out);
    sf_release(rows);
    return SF_OK;
}
