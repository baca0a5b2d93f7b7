#include "store/run_plugins.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/hash.h"
#include "base/text.h"
#include "train/data.h"

enum { SELECTOR, WEIGHTING, TASK, KINDS };
static const char *const kinds[KINDS] = {[SELECTOR] = "selector", [WEIGHTING] = "weighting", [TASK] = "task"};

typedef struct part {
    const char *name;
    const sf_plugin_file *file; /* NULL: built in, or none */
} part;

static const sf_plugin_file *file_of_task(const char *name) {
    const sf_task *task;
    if (sf_run_data_is_own(name) || sf_task_find(&task, name) != SF_OK) return NULL;
    return sf_plugin_file_of(task);
}

static void find_parts(part parts[KINDS], const sf_attention *attention, const char *task) {
    parts[SELECTOR] = (part){attention->selector->name, sf_plugin_file_of(attention->selector)};
    parts[WEIGHTING] = (part){attention->weighting->name, sf_plugin_file_of(attention->weighting)};
    parts[TASK] = (part){task, file_of_task(task)};
}

uint64_t sf_run_plugins_hash(uint64_t hash, const sf_attention *attention, const char *task) {
    part parts[KINDS];
    find_parts(parts, attention, task);
    for (size_t i = 0; i < KINDS; i++) {
        if (parts[i].file == NULL) continue;
        hash = sf_hash(hash, kinds[i], strlen(kinds[i]) + 1);
        hash = sf_hash(hash, &parts[i].file->hash, sizeof parts[i].file->hash);
    }
    return hash;
}

void sf_run_plugins_write(FILE *out, const char *attention, const char *task) {
    sf_attention parsed;
    part parts[KINDS];
    size_t written = 0;
    if (sf_attention_parse(&parsed, attention) != SF_OK) return;
    find_parts(parts, &parsed, task);
    for (size_t i = 0; i < KINDS; i++) {
        if (parts[i].file == NULL) continue;
        fprintf(out, "%s{\"part\":\"%s\",\"name\":\"%s\",\"file\":", written++ == 0 ? ",\"plugins\":[" : ",", kinds[i],
                parts[i].name);
        sf_text_json(out, parts[i].file->name);
        fprintf(out, ",\"hash\":\"%016" PRIx64 "\"}", parts[i].file->hash);
    }
    if (written > 0) fputc(']', out);
}

static const void *find_part(const char *kind, const char *name) {
    const sf_task *task;
    if (strcmp(kind, kinds[SELECTOR]) == 0) return sf_selector_named(name);
    if (strcmp(kind, kinds[WEIGHTING]) == 0) return sf_weighting_named(name);
    return sf_task_find(&task, name) == SF_OK ? task : NULL;
}

typedef struct part_row { /* as it was written */
    const char *kind, *name, *file, *hash;
} part_row;

static sf_status read_row(part_row *out, const json_t *json, const char *run) {
    *out = (part_row){.kind = json_string_value(json_object_get(json, "part")),
                      .name = json_string_value(json_object_get(json, "name")),
                      .file = json_string_value(json_object_get(json, "file")),
                      .hash = json_string_value(json_object_get(json, "hash"))};
    if (out->kind != NULL && out->name != NULL && out->file != NULL && out->hash != NULL) return SF_OK;
    return sf_fail(SF_IO_ERROR, "the plug-ins of run %s cannot be read", run);
}

/* The selector near of the plug-in near.so; a part written in another language has no file, and is named instead of it.
 */
static void describe_part(char out[SF_RUN_PART_SIZE], const part_row *row) {
    char file[SF_QUOTE_SIZE], name[SF_QUOTE_SIZE];
    sf_text_quote(file, row->file);
    sf_text_quote(name, row->name);
    if (strcmp(row->file, row->name) == 0)
        snprintf(out, SF_RUN_PART_SIZE, "the %s %s written in Python (hash %s)", row->kind, name, row->hash);
    else
        snprintf(out, SF_RUN_PART_SIZE, "the %s %s of the plug-in %s (hash %s)", row->kind, name, file, row->hash);
}

typedef enum presence { LOADED, NOT_LOADED, BUILT_IN, OTHER_FILE } presence;

static presence look_for(char now[17], const part_row *row) {
    const void *found = find_part(row->kind, row->name);
    *now = '\0';
    if (found == NULL) return NOT_LOADED;
    const sf_plugin_file *loaded = sf_plugin_file_of(found);
    if (loaded == NULL) return BUILT_IN;
    snprintf(now, 17, "%016" PRIx64, loaded->hash);
    return strcmp(now, row->hash) == 0 ? LOADED : OTHER_FILE;
}

static sf_status check_one(const json_t *json, const char *run) {
    part_row row;
    char now[17], text[SF_RUN_PART_SIZE];
    SF_TRY(read_row(&row, json, run));
    const bool is_file = strcmp(row.file, row.name) != 0;
    describe_part(text, &row);
    switch (look_for(now, &row)) {
    case LOADED:
        return SF_OK;
    case NOT_LOADED:
        return sf_fail(SF_BAD_INPUT, "run %s uses %s, %s", run, text,
                       is_file ? "which is not loaded; add --plugin FILE"
                               : "which is not registered here; use the run from the Python program that registers it");
    case BUILT_IN:
        return sf_fail(SF_BAD_INPUT, "run %s uses %s, but here it is built in; delete the run and train it again", run,
                       text);
    case OTHER_FILE:
        break;
    }
    return sf_fail(SF_BAD_INPUT,
                   "run %s uses %s, but the %s that is loaded has hash %s; load the %s that the run was trained with, "
                   "or delete the run and train it again",
                   run, text, is_file ? "file" : "one", now, is_file ? "file" : "one");
}

sf_status sf_run_plugins_check(const json_t *plugins, const char *run) {
    for (size_t i = 0; i < json_array_size(plugins); i++) SF_TRY(check_one(json_array_get(plugins, i), run));
    return SF_OK;
}

sf_status sf_run_plugins_look(sf_run_code *out, const json_t *plugins, const char *run) {
    const size_t count = json_array_size(plugins);
    *out = (sf_run_code){0};
    for (size_t i = 0; i < count; i++) {
        part_row row;
        char now[17];
        SF_TRY(read_row(&row, json_array_get(plugins, i), run));
        const uint64_t hash = strtoull(row.hash, NULL, 16);
        out->hash = count == 1 ? hash : sf_hash(out->hash, &hash, sizeof hash);
        if (look_for(now, &row) == LOADED) continue;
        if (strcmp(row.kind, kinds[TASK]) == 0)
            out->lacks_task = true;
        else
            out->lacks_attention = true;
        if (*out->missing == '\0') describe_part(out->missing, &row);
    }
    return SF_OK;
}
