#include "store/described_runs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

#include "semfocus/settings.h"

static const char *text;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static bool is_column_of_runs(const char *name) {
    return strcmp(name, "attention") == 0 || strcmp(name, "seed") == 0 || strcmp(name, "epochs") == 0;
}

static void add_setting(sqlite3_str *sql, const sf_setting *setting) {
    const char *kind = setting->kind == SF_INTEGER ? "INTEGER" : setting->kind == SF_REAL ? "REAL" : "TEXT";
    sqlite3_str_appendf(sql, ", CAST(COALESCE(json_extract(r.settings, '$.\"%s\"'), %Q) AS %s) AS \"", setting->name,
                        setting->initial, kind);
    for (const char *at = setting->name; *at != '\0'; at++) sqlite3_str_appendf(sql, "%c", *at == '-' ? '_' : *at);
    sqlite3_str_appendchar(sql, 1, '"');
}

static void make(void) {
    sqlite3_str *sql = sqlite3_str_new(NULL);
    const sf_setting *setting;
    sqlite3_str_appendall(sql, "(SELECT r.*, r.best_accuracy AS best_heldout_accuracy"); /* as the JSON names it */
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++)
        if (setting->home == SF_IN_CONFIG && strcmp(setting->name, "stop-at") != 0 && !is_column_of_runs(setting->name))
            add_setting(sql, setting);
    sqlite3_str_appendall(
        sql, ", COALESCE((SELECT value FROM labels WHERE run = r.number AND kind = 'name'), '') AS name"
             ", COALESCE((SELECT group_concat(value, ', ') FROM (SELECT value FROM labels WHERE run = r.number"
             " AND kind = 'tag' ORDER BY value)), '') AS tags"
             ", COALESCE((SELECT value FROM labels WHERE run = r.number AND kind = 'note'), '') AS note"
             ", EXISTS (SELECT 1 FROM labels WHERE run = r.number AND kind = 'archived') AS archived"
             " FROM runs AS r) AS runs");
    text = sqlite3_str_finish(sql);
}

const char *sf_described_runs(void) {
    pthread_once(&made, make);
    return text;
}
