/* The curves of many runs as one table in long form: a line per run and epoch, which begins with the run's settings. */
#include "semfocus/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/atomic_file.h"
#include "semfocus/labels.h"
#include "store/store_inside.h"

typedef struct exporting {
    sf_store *store;
    FILE *out;
    bool json;
    sf_status status;
} exporting;

/* The columns of a line, between the run and its rows: what the run was made with. */
static bool is_column(const sf_setting *setting) {
    return setting->home == SF_IN_CONFIG && strcmp(setting->name, "epochs") != 0 &&
           strcmp(setting->name, "stop-at") != 0;
}

static void write_header(FILE *out) {
    const sf_setting *setting;
    fputs("run,name,tags,note,task", out);
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++)
        if (is_column(setting)) fprintf(out, ",%s", setting->name);
    fputs(",status,epoch,tr-ce,tr-ac,va-ce,va-ac,seconds\n", out);
}

/* In quotes where it needs them, and never taken for a formula by a spreadsheet. */
static void write_csv_text(FILE *out, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-+@=";
    if ((*text == '\0' || strchr("=+-@", *text) == NULL) && strspn(text, plain) == strlen(text)) {
        fputs(text, out);
        return;
    }
    fputs(strchr("=+-@\t\r", *text) != NULL ? "\"'" : "\"", out);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_field(const exporting *e, FILE *out, const char *name, const char *text, bool is_number) {
    if (e->json) {
        fputc(',', out);
        sf_text_json(out, name);
        fputc(':', out);
    } else {
        fputc(',', out);
    }
    if (is_number)
        fputs(text, out);
    else if (e->json)
        sf_text_json(out, text);
    else
        write_csv_text(out, text);
}

/* What all lines of a run begin with. */
static sf_status write_beginning(const exporting *e, FILE *out, const sf_stored_run *run) {
    sf_config config;
    sf_run_labels labels;
    const sf_setting *setting;
    SF_TRY(sf_store_list_config(&config, e->store, run));
    SF_TRY(sf_store_labels(&labels, e->store, run));
    fprintf(out, e->json ? "{\"run\":\"%s\"" : "%s", run->id);
    write_field(e, out, "name", labels.name, false);
    write_field(e, out, "tags", labels.tags, false);
    write_field(e, out, "note", labels.note, false);
    write_field(e, out, "task", run->task, false);
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        char text[SF_TEXT_SIZE];
        if (!is_column(setting)) continue;
        sf_config_text(text, &config, setting);
        const bool is_attention = strcmp(setting->name, "attention") == 0;
        write_field(e, out, setting->name, is_attention ? run->attention : text,
                    setting->kind == SF_INTEGER || setting->kind == SF_REAL);
    }
    write_field(e, out, "status", run->status, false);
    return SF_OK;
}

static sf_status write_curve(const exporting *e, const sf_stored_run *run, const char *beginning) {
    static const char csv[] = "%s,%zu,%.9g,%.9g,%.9g,%.9g,%.6g\n",
                      json[] = "%s,\"epoch\":%zu,\"tr-ce\":%.9g,\"tr-ac\":%.9g,\"va-ce\":%.9g,\"va-ac\":%.9g,"
                               "\"seconds\":%.6g}\n";
    sf_epoch *rows;
    size_t count;
    SF_TRY(sf_store_curve(&rows, &count, e->store, run));
    for (size_t i = 0; i < count; i++)
        fprintf(e->out, e->json ? json : csv, beginning, rows[i].epoch, rows[i].train_loss, rows[i].train_accuracy,
                rows[i].heldout_loss, rows[i].heldout_accuracy, rows[i].seconds);
    sf_release(rows);
    if (ferror(e->out) != 0) return sf_fail(SF_IO_ERROR, "cannot write the curves: %s", strerror(errno));
    return SF_OK;
}

static sf_status write_run(const exporting *e, const sf_stored_run *run) {
    char *beginning = NULL;
    size_t size;
    FILE *out = open_memstream(&beginning, &size);
    if (out == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to export run %s", run->id);
    sf_status status = write_beginning(e, out, run);
    const bool whole = ferror(out) == 0;
    if ((fclose(out) != 0 || !whole) && status == SF_OK)
        status = sf_fail(SF_NO_MEMORY, "no memory left to export run %s", run->id);
    if (status == SF_OK) status = write_curve(e, run, beginning);
    free(beginning);
    return status;
}

static void take_run(void *context, const sf_stored_run *run) {
    exporting *e = context;
    if (e->status == SF_OK && run->epochs > 0) e->status = write_run(e, run);
}

sf_status sf_store_export_curves(sf_store *store, const char *where, sf_export_format format, const char *path) {
    enum { ROOM = 1 << 16 }; /* of a file that may be gigabytes */
    const bool to_stdout = strcmp(path, "-") == 0;
    sf_atomic_file file = {.stream = stdout};
    if (!to_stdout) SF_TRY(sf_atomic_open(&file, path));
    if (!to_stdout) setvbuf(file.stream, NULL, _IOFBF, ROOM);
    exporting e = {.store = store, .out = file.stream, .json = format == SF_JSONL};
    if (!e.json) write_header(e.out);
    sf_status status = sf_store_each_run(store, where, take_run, &e);
    if (status == SF_OK) status = e.status;
    if (!to_stdout && status == SF_OK) return sf_atomic_commit(&file);
    if (!to_stdout) sf_atomic_abandon(&file);
    if (to_stdout && status == SF_OK && (fflush(stdout) != 0 || ferror(stdout) != 0))
        return sf_fail(SF_IO_ERROR, "cannot write standard output: %s", strerror(errno));
    return status;
}
