#include "store/run_plugins.h"

#include <inttypes.h>
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

static sf_status check_one(const json_t *row, const char *run) {
    const char *kind = json_string_value(json_object_get(row, "part"));
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *file = json_string_value(json_object_get(row, "file"));
    const char *hash = json_string_value(json_object_get(row, "hash"));
    if (kind == NULL || name == NULL || file == NULL || hash == NULL)
        return sf_fail(SF_IO_ERROR, "the plug-ins of run %s cannot be read", run);
    char file_text[SF_QUOTE_SIZE], name_text[SF_QUOTE_SIZE], now[17];
    sf_text_quote(file_text, file);
    sf_text_quote(name_text, name);
    const void *found = find_part(kind, name);
    if (found == NULL)
        return sf_fail(SF_BAD_INPUT,
                       "run %s uses the %s %s of the plug-in %s (hash %s), which is not loaded; add --plugin FILE", run,
                       kind, name_text, file_text, hash);
    const sf_plugin_file *loaded = sf_plugin_file_of(found);
    snprintf(now, sizeof now, "%016" PRIx64, loaded != NULL ? loaded->hash : 0);
    if (loaded != NULL && strcmp(now, hash) == 0) return SF_OK;
    if (loaded == NULL)
        return sf_fail(SF_BAD_INPUT,
                       "run %s uses the %s %s of the plug-in %s (hash %s), but here it is built in; delete the run and "
                       "train it again",
                       run, kind, name_text, file_text, hash);
    return sf_fail(
        SF_BAD_INPUT,
        "run %s uses the %s %s of the plug-in %s (hash %s), but the file that is loaded has hash %s; load the "
        "file that the run was trained with, or delete the run and train it again",
        run, kind, name_text, file_text, hash, now);
}

sf_status sf_run_plugins_check(const json_t *plugins, const char *run) {
    for (size_t i = 0; i < json_array_size(plugins); i++) SF_TRY(check_one(json_array_get(plugins, i), run));
    return SF_OK;
}
