/* What a page says besides results: the settings of the runs, and where they were computed. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "report/svg.h"
#include "store/environment.h"
#include "study/study.h"
#include "train/data.h"

static const sf_planned_run *first_run(const sf_study *study, size_t group) {
    size_t count;
    return &sf_study_runs(study, &count)[sf_study_member(study, group, 0)];
}

static bool differs(const sf_study *study, size_t from, size_t to, const sf_setting *setting) {
    char first[SF_TEXT_SIZE], other[SF_TEXT_SIZE];
    sf_config_text(first, &first_run(study, from)->config, setting);
    for (size_t g = from + 1; g < to; g++) {
        sf_config_text(other, &first_run(study, g)->config, setting);
        if (strcmp(first, other) != 0) return true;
    }
    return false;
}

/* The settings all runs of a task share, and which of them are not the task's own recipe. */
sf_status sf_page_settings(FILE *out, const sf_study *study, size_t from, size_t to) {
    const sf_planned_run *run = first_run(study, from);
    const sf_run_code *missing = sf_study_missing_code(study, sf_study_member(study, from, 0));
    const bool knows_recipe = missing == NULL || !missing->lacks_task;
    sf_config recipe;
    sf_config_init(&recipe);
    if (knows_recipe) SF_TRY(sf_run_data_recipe(&recipe, run->task));
    char *shared = NULL, *changed = NULL;
    size_t shared_size, changed_size;
    FILE *table = open_memstream(&shared, &shared_size), *changes = open_memstream(&changed, &changed_size);
    if (table == NULL || changes == NULL) {
        if (table != NULL) fclose(table);
        if (changes != NULL) fclose(changes);
        free(shared);
        free(changed);
        return sf_fail(SF_NO_MEMORY, "no memory left to write the report");
    }
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if ((setting->group & SF_RUN_GROUPS) == 0 || strcmp(setting->name, "seed") == 0) continue;
        if (study->stored && !sf_setting_changes_numbers(setting, &run->config)) continue; /* the store does not know */
        const bool varies = differs(study, from, to, setting);
        char value[SF_TEXT_SIZE], usual[SF_TEXT_SIZE];
        sf_config_text(value, &run->config, setting);
        sf_config_text(usual, &recipe, setting);
        fprintf(table, "<div><dt>%s</dt><dd>", setting->name);
        sf_markup_text(table, varies ? "varies" : value);
        fputs("</dd></div>\n", table);
        const bool is_model = strcmp(setting->name, "attention") != 0 && strcmp(setting->name, "stop-at") != 0;
        if (varies || strcmp(value, usual) == 0 || !is_model || !knows_recipe)
            continue; /* what is studied, and when to stop looking */
        fprintf(changes, "%s%s ", ftell(changes) > 0 ? ", " : "", setting->name);
        sf_markup_text(changes, value);
        fputs(" instead of ", changes);
        sf_markup_text(changes, usual);
    }
    const bool failed = ferror(table) != 0 || ferror(changes) != 0;
    if (fclose(table) != 0 || fclose(changes) != 0 || failed) {
        free(shared);
        free(changed);
        return sf_fail(SF_NO_MEMORY, "no memory left to write the report");
    }
    if (*changed != '\0') fprintf(out, "<p class=\"note\"><b>Not the paper’s recipe:</b> %s.</p>\n", changed);
    fprintf(out, "<details><summary>Settings</summary><dl>\n%s</dl></details>\n", shared);
    free(shared);
    free(changed);
    return SF_OK;
}

enum { MOST_ENVIRONMENTS = 8 };

typedef struct environments { /* distinct ones, with how many runs had each */
    struct {
        char *text;
        size_t runs;
    } each[MOST_ENVIRONMENTS];
    size_t count, others;
} environments;

/* How many runs trained at a time depends on which were left: it concerns the table's seconds, not the page. */
static char *without_company(const char *text) {
    json_t *facts = json_loads(text, 0, NULL);
    json_object_del(facts, SF_RUNS_AT_A_TIME);
    char *rest = facts != NULL ? json_dumps(facts, JSON_COMPACT) : NULL;
    json_decref(facts);
    return rest;
}

static void note_environment(environments *found, const char *text) {
    size_t i = 0;
    while (i < found->count && strcmp(found->each[i].text, text) != 0) i++;
    if (i == found->count) {
        char *copy = found->count < MOST_ENVIRONMENTS ? strdup(text) : NULL;
        if (copy == NULL) {
            found->others++;
            return;
        }
        found->each[found->count++].text = copy;
    }
    found->each[i].runs++;
}

static void print_environment(FILE *out, const char *text, size_t runs) {
    json_t *facts = json_loads(text, 0, NULL);
    fputs("<dl>\n<div><dt>runs</dt><dd>", out);
    fprintf(out, "%zu</dd></div>\n", runs);
    const char *key;
    json_t *value;
    json_object_foreach(facts, key, value) {
        fputs("<div><dt>", out);
        sf_markup_text(out, key);
        fputs("</dt><dd>", out);
        if (json_is_string(value))
            sf_markup_text(out, json_string_value(value));
        else
            fprintf(out, "%lld", (long long)json_integer_value(value));
        fputs("</dd></div>\n", out);
    }
    fputs("</dl>\n", out);
    json_decref(facts);
}

static sf_status collect_environments(environments *found, const sf_study *study, sf_store *store) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    char *last = NULL, *facts = NULL; /* most runs have the one of the run before */
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        size_t rows;
        bool finished;
        char *text = NULL;
        sf_study_curve(study, i, &rows, &finished);
        if (!finished) continue;
        status = sf_store_environment(&text, store, runs[i].id);
        if (status != SF_OK || text == NULL) continue;
        if (last == NULL || strcmp(last, text) != 0) {
            free(last);
            free(facts);
            last = text;
            facts = without_company(text);
        } else {
            free(text);
        }
        if (facts != NULL) note_environment(found, facts);
    }
    free(last);
    free(facts);
    return status;
}

sf_status sf_page_environments(FILE *out, const sf_study *study, sf_store *store) {
    environments found = {0};
    const sf_status status = collect_environments(&found, study, store);
    fputs("<section id=\"machines\">\n<h2>Where the runs were computed</h2>\n", out);
    for (size_t i = 0; i < found.count; i++) {
        print_environment(out, found.each[i].text, found.each[i].runs);
        free(found.each[i].text);
    }
    if (found.others > 0)
        fprintf(out, "<p class=\"note\">Another %zu runs were computed elsewhere.</p>\n", found.others);
    fputs("</section>\n", out);
    return status;
}
