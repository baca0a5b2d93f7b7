#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

typedef struct listing {
    const char *name;
    json_t *(*collect)(void);         /* an array of objects */
    void (*print)(const json_t *row); /* one line of it */
} listing;

static const char *text(const json_t *row, const char *key) {
    return json_string_value(json_object_get(row, key));
}

static long long number(const json_t *row, const char *key) {
    return json_integer_value(json_object_get(row, key));
}

/* Adds where a part that is not built in came from. */
static void append_part(json_t *rows, json_t *row, const void *part) {
    const sf_plugin_file *file = sf_plugin_file_of(part);
    if (file != NULL) json_object_set_new(row, "plugin", json_text(file->path));
    json_array_append_new(rows, row);
}

static json_t *collect_tasks(void) {
    json_t *rows = json_array();
    const sf_task *task;
    for (size_t i = 0; (task = sf_task_at(i)) != NULL; i++) {
        const sf_task_info info = sf_task_describe(task);
        json_t *recipe = json_object();
        sf_config config;
        sf_config_init(&config);
        (void)sf_config_apply_recipe(&config, info.recipe); /* a recipe of ours is valid */
        for (const char *const *entry = info.recipe; entry != NULL && entry[0] != NULL; entry += 2)
            json_object_set_new(recipe, entry[0], json_string(entry[1]));
        append_part(rows,
                    json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:o, s:f}", "name", info.name, "summary",
                              info.summary, "tokens", info.tokens, "pad", (int)info.pad, "classes", (int)info.classes,
                              "shortest", (json_int_t)info.shortest, "longest", (json_int_t)info.longest, "recipe",
                              recipe, "chance", sf_task_chance(task, (size_t)config.length)),
                    task);
    }
    return rows;
}

/* As options, so that a part of it can be copied and changed. */
static void print_recipe(json_t *recipe) {
    printf("   ");
    for (void *at = json_object_iter(recipe); at != NULL; at = json_object_iter_next(recipe, at))
        printf(" --%s %s", json_object_iter_key(at), json_string_value(json_object_iter_value(at)));
    putchar('\n');
}

static void print_task(const json_t *row) {
    printf("%-28s %3lld classes  chance %4.3g %%  %s\n", text(row, "name"), number(row, "classes"),
           json_real_value(json_object_get(row, "chance")), text(row, "summary"));
    print_recipe(json_object_get(row, "recipe"));
}

static void append_mechanism_part(json_t *rows, const char *kind, const char *before, const sf_part_info *info) {
    char spelling[SF_SPELLING_SIZE];
    snprintf(spelling, sizeof spelling, "%s%s%s", before, info->name, info->spelling);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "kind", kind, "name", info->name, "spelling", spelling, "summary",
                            info->summary);
    if (info->formula != NULL) json_object_set_new(row, "formula", json_string(info->formula));
    if (info->cost != NULL) json_object_set_new(row, "cost", json_string(info->cost));
    if (info->source != NULL) json_object_set_new(row, "source", json_string(info->source));
    append_part(rows, row, info->part);
}

static json_t *collect_attention(void) {
    static const struct {
        const char *kind, *before;
        int (*describe)(sf_part_info *out, size_t i);
    } kinds[] = {{"selector", "", sf_selector_describe},
                 {"extra", "...+", sf_extra_describe},
                 {"weighting", ".../", sf_weighting_describe},
                 {"scores", "...@", sf_score_transform_describe}};
    json_t *rows = json_array();
    sf_part_info info;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (size_t i = 0; kinds[kind].describe(&info, i); i++)
            append_mechanism_part(rows, kinds[kind].kind, kinds[kind].before, &info);
    return rows;
}

static void print_attention(const json_t *row) {
    printf("%-9s  %-22s %s\n", text(row, "kind"), text(row, "spelling"), text(row, "summary"));
    static const char *const more[] = {"formula", "cost", "source"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (text(row, more[i]) != NULL) printf("%33s %s: %s\n", "", more[i], text(row, more[i]));
}

static json_t *collect_settings(void) {
    static const char *const kinds[] = {"integer", "real", "choice", "text", "flag"};
    json_t *rows = json_array();
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "name", setting->name, "type", kinds[setting->kind], "default",
                                setting->initial, "help", setting->help);
        if (setting->kind == SF_INTEGER || setting->kind == SF_REAL) {
            json_object_set_new(row, "low", json_real(setting->low));
            json_object_set_new(row, "high", json_real(setting->high));
        }
        if (setting->choices != NULL) json_object_set_new(row, "choices", json_string(setting->choices));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void print_setting(const json_t *row) {
    printf("%-20s %-10s %s", text(row, "name"), text(row, "default"), text(row, "help"));
    if (text(row, "choices") != NULL) printf(" (%s)", text(row, "choices"));
    putchar('\n');
}

static json_t *collect_backends(void) {
    json_t *rows = json_array();
    sf_backend_info info;
    for (size_t i = 0; sf_backend_describe(&info, i); i++)
        json_array_append_new(rows, json_pack("{s:s, s:s}", "name", info.name, "summary", info.summary));
    return rows;
}

static void print_summary(const json_t *row) {
    printf("%-18s %s\n", text(row, "name"), text(row, "summary"));
}

static json_t *collect_figures(void) {
    json_t *rows = json_array();
    sf_figure_info info;
    for (size_t i = 0; sf_figure_describe(&info, i); i++)
        json_array_append_new(rows, json_pack("{s:s, s:s}", "name", info.name, "summary", info.title));
    return rows;
}

static const listing listings[] = {
    {"tasks", collect_tasks, print_task},          {"attention", collect_attention, print_attention},
    {"settings", collect_settings, print_setting}, {"backends", collect_backends, print_summary},
    {"figures", collect_figures, print_summary},
};
enum { LISTINGS = sizeof listings / sizeof *listings };

static void print_listing(const listing *shown) {
    json_t *rows = shown->collect();
    for (size_t i = 0; i < json_array_size(rows); i++) shown->print(json_array_get(rows, i));
    json_decref(rows);
}

static int print_one(const listing *shown, bool json) {
    if (json) return print_json(shown->collect());
    print_listing(shown);
    return finish_output();
}

/* Mechanisms that the user names, in words. */
static int say_mechanisms(const cli_request *request) {
    json_t *rows = json_array();
    for (size_t i = 1; i < request->word_count; i++) {
        sf_attention attention;
        char spelling[SF_SPELLING_SIZE], words[SF_WORDS_SIZE];
        const sf_status status = sf_attention_parse(&attention, request->words[i]);
        if (status != SF_OK) {
            json_decref(rows);
            return fail(status);
        }
        sf_attention_spell(spelling, &attention);
        sf_attention_say(words, &attention);
        json_array_append_new(rows, json_pack("{s:s, s:o}", "spelling", spelling, "words", json_text(words)));
    }
    if (request->options.json) return print_json(rows);
    for (size_t i = 0; i < json_array_size(rows); i++)
        printf("%s: %s\n", text(json_array_get(rows, i), "spelling"), text(json_array_get(rows, i), "words"));
    json_decref(rows);
    return finish_output();
}

static int run(const cli_request *request) {
    if (request->word_count > 1) {
        if (strcmp(request->words[0], "attention") == 0) return say_mechanisms(request);
        return fail_usage("'semfocus list %.40s' takes no further words but got '%.40s'", request->words[0],
                          request->words[1]);
    }
    if (request->word_count == 1) {
        for (size_t i = 0; i < LISTINGS; i++)
            if (strcmp(listings[i].name, request->words[0]) == 0)
                return print_one(&listings[i], request->options.json != 0);
        return fail_usage("there is no list '%.40s'; use tasks, attention, settings, backends or figures",
                          request->words[0]);
    }
    if (request->options.json) {
        json_t *all = json_object();
        for (size_t i = 0; i < LISTINGS; i++) json_object_set_new(all, listings[i].name, listings[i].collect());
        return print_json(all);
    }
    for (size_t i = 0; i < LISTINGS; i++) {
        printf("%s%s\n", i > 0 ? "\n" : "", listings[i].name);
        print_listing(&listings[i]);
    }
    return finish_output();
}

#define LIST_NAMES "tasks|attention|settings|backends|figures"

const cli_verb verb_list = {
    .name = "list",
    .usage = "[" LIST_NAMES "]   |   attention MECHANISM...",
    .summary = "list tasks with their recipes, attention mechanisms, settings, backends, figures",
    .details =
        "The options below a task are its recipe: they replace the defaults when that task is trained. Options on the\n"
        "command line replace both. With mechanisms, list attention says in words what each of them does.\n"
        "example: semfocus list attention topk:5+sink:1/entmax15@rope\n",
    .groups = COMMON_GROUPS,
    .most_words = (size_t)-1,
    .first_word = LIST_NAMES,
    .next_words = "MECHANISM",
    .run = run,
};
