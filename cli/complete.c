/* What a shell may complete a command line with, from the tables of verbs, settings, tasks, mechanisms and catalogue
 * entries, and the runs of the store. The scripts in cli/completion ask for it with every press of Tab:
 *
 *   semfocus complete compare --attention full,to       the words so far, the last one unfinished or empty
 *   full,topk:<TAB>the K largest scores
 *
 * One candidate per line, a tab before its description. The lines ":files" and ":folders" ask the shell to complete
 * names of files or folders: what follows the last comma, colon or equals sign of the word. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct completion {
    const char *word; /* the unfinished one: kept, then start */
    size_t kept;      /* characters of it that stay as they are: "full," */
    const char *start;
    const char *store;
} completion;

/* Descriptions are one line each, even if a name contains newlines. */
static void offer(const completion *asked, const char *candidate, const char *ending, const char *description) {
    if (strncmp(candidate, asked->start, strlen(asked->start)) != 0) return;
    printf("%.*s%s%s", (int)asked->kept, asked->word, candidate, ending);
    if (description != NULL) printf("\t%s", on_one_line(description));
    putchar('\n');
}

/* From now on, everything up to the last of these characters is kept. */
static void keep_through(completion *asked, const char *separators) {
    for (const char *at = asked->start; *at != '\0'; at++)
        if (strchr(separators, *at) != NULL) asked->kept = (size_t)(at + 1 - asked->word);
    asked->start = asked->word + asked->kept;
}

static void offer_tasks(const completion *asked) {
    const sf_task *task;
    for (size_t i = 0; (task = sf_task_at(i)) != NULL; i++) {
        const sf_task_info info = sf_task_describe(task);
        offer(asked, info.name, "", info.summary);
    }
}

static const char *const own_data[][2] = {
    {"text:", "a text of your own: text:TRAIN or text:TRAIN,HELDOUT"},
    {"csv:", "a table of your own: csv:TRAIN.csv or csv:TRAIN.csv,HELDOUT.csv"},
    {"tsv:", "sequences of your own: tsv:TRAIN.tsv or tsv:TRAIN.tsv,HELDOUT.tsv"},
    {"jsonl:", "one JSON object per line: jsonl:TRAIN.jsonl or jsonl:TRAIN.jsonl,HELDOUT.jsonl"},
};
enum { OWN_KINDS = sizeof own_data / sizeof *own_data };

static void offer_task_list(const completion *asked) {
    completion last = *asked;
    keep_through(&last, ",");
    if (!is_own_data(asked->word)) offer_tasks(&last);
}

static void offer_own_data(const completion *asked) {
    if (is_own_data(asked->word)) {
        puts(":files");
        return;
    }
    for (size_t i = 0; i < OWN_KINDS; i++) offer(asked, own_data[i][0], "", own_data[i][1]);
}

/* Parts of one kind; a number must follow where the spelling does not leave it out. */
static void offer_parts(const completion *asked, int (*describe)(sf_part_info *out, size_t i)) {
    sf_part_info info;
    for (size_t i = 0; describe(&info, i); i++) offer(asked, info.name, *info.spelling == ':' ? ":" : "", info.summary);
}

/* SELECTOR[:n][+EXTRA[:n]]...[/WEIGHTING][@SCORES]..., after a comma another one: offers the part that is being
 * written. */
static void offer_mechanisms(const completion *asked) {
    completion part = *asked;
    keep_through(&part, ",");
    const char *mechanism = part.start;
    keep_through(&part, "+/@");
    if (part.start == mechanism)
        offer_parts(&part, sf_selector_describe);
    else if (part.start[-1] == '/')
        offer_parts(&part, sf_weighting_describe);
    else if (part.start[-1] == '@')
        offer_parts(&part, sf_score_transform_describe);
    else
        offer_parts(&part, sf_extra_describe);
}

static void offer_shapes(const completion *asked) {
    const char *shape;
    for (size_t i = 0; (shape = sf_benchmark_shape(i)) != NULL; i++) offer(asked, shape, "", NULL);
}

static void offer_catalogue(const completion *asked) {
    for (size_t i = 0; i < sf_paper_count(); i++) {
        const sf_paper_info info = sf_paper_describe(i, SF_LAPTOP);
        offer(asked, info.id, "", info.title);
    }
}

static void offer_run(void *context, const sf_stored_run *run) {
    char description[SF_PATH_SIZE + 2 * SF_SPELLING_SIZE];
    snprintf(description, sizeof description, "%s %s, seed %lld, %s", run->task, run->attention, (long long)run->seed,
             run->status);
    offer(context, run->id, "", description);
}

static void offer_run_id(void *context, const char *id) {
    offer(context, id, "", NULL);
}

/* A store that cannot be read offers nothing, a damaged one only its ids: the command itself will say why. */
static void offer_runs(const completion *asked) {
    char where[64];
    sf_store *store = NULL;
    completion each = *asked;
    const size_t length = strlen(asked->start);
    if (length >= SF_RUN_ID_SIZE || strspn(asked->start, "0123456789abcdef") != length) return;
    snprintf(where, sizeof where, "id LIKE '%s%%'", asked->start);
    sf_status status = sf_store_open(&store, asked->store, SF_STORE_READ);
    if (status == SF_OK) status = sf_store_each_run(store, where, offer_run, &each);
    sf_store_close(store);
    if (status == SF_OK || sf_store_open(&store, asked->store, SF_STORE_INSPECT) != SF_OK) return;
    (void)sf_store_each_id(store, where, offer_run_id, &each);
    sf_store_close(store);
}

static void offer_files(const completion *asked) {
    (void)asked;
    puts(":files");
}

static void offer_folders(const completion *asked) {
    (void)asked;
    puts(":folders");
}

/* Choices are words between bars; those in capitals stand for what they name. */
static void offer_choices(const completion *asked, const char *choices) {
    static const struct {
        const char *name;
        void (*offer)(const completion *asked);
    } kinds[] = {
        {"TASK", offer_tasks},   {"TASKS", offer_task_list}, {"TSV", offer_own_data},
        {"RUN", offer_runs},     {"ID", offer_catalogue},    {"MECHANISM", offer_mechanisms},
        {"SHAPE", offer_shapes}, {"FILE", offer_files},      {"FOLDER", offer_folders},
    };
    while (choices != NULL && *choices != '\0') {
        char choice[SF_TEXT_SIZE];
        const size_t length = strcspn(choices, "|");
        snprintf(choice, sizeof choice, "%.*s", (int)length, choices);
        size_t k = 0;
        while (k < sizeof kinds / sizeof *kinds && strcmp(kinds[k].name, choice) != 0) k++;
        if (k < sizeof kinds / sizeof *kinds)
            kinds[k].offer(asked);
        else
            offer(asked, choice, "", NULL);
        choices += length + (choices[length] == '|');
    }
}

static void offer_verbs(const completion *asked) {
    const cli_verb *verb;
    for (size_t i = 0; (verb = verb_at(i)) != NULL; i++) offer(asked, verb->name, "", verb->summary);
}

static void offer_options(const completion *asked, const cli_verb *verb) {
    const sf_setting *setting;
    char option[SF_TEXT_SIZE];
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if ((setting->group & verb->groups) == 0) continue;
        snprintf(option, sizeof option, "--%s", setting->name);
        offer(asked, option, "", setting->help);
    }
    offer(asked, "--help", "", "show the options of this command");
}

static void offer_values(const completion *asked, const sf_setting *setting) {
    completion list = *asked;
    keep_through(&list, ",");
    if (setting->kind == SF_CHOICE)
        offer_choices(&list, setting->choices);
    else if (setting->kind == SF_FLAG)
        offer_choices(asked, "yes|no");
    else if (strcmp(setting->name, "attention") == 0)
        offer_mechanisms(asked);
    else if (setting->value != NULL && strcmp(setting->value, "DIR") == 0)
        puts(":folders");
    else if (setting->value != NULL && strncmp(setting->value, "FILE", 4) == 0)
        puts(":files");
}

/* The setting that a word "--name" or "--name=..." of a verb is about; NULL: it is no option of the verb. */
static const sf_setting *setting_of(const char *word, const cli_verb *verb) {
    const sf_setting *setting;
    if (strncmp(word, "--", 2) != 0) return NULL;
    const size_t length = strcspn(word + 2, "=");
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++)
        if ((setting->group & verb->groups) != 0 && strlen(setting->name) == length &&
            strncmp(setting->name, word + 2, length) == 0)
            return setting;
    return NULL;
}

/* Words behind the verb: finished ones say which store, which plug-ins and how many plain words there are, the last is
 * completed. */
static void complete_words(completion *asked, const cli_verb *verb, char **words, size_t count) {
    size_t plain = 0;
    const sf_setting *open = NULL; /* an option whose value comes next */
    for (size_t i = 0; i + 1 < count; i++) {
        const char *value = NULL;
        const sf_setting *setting = open != NULL ? open : setting_of(words[i], verb);
        if (open != NULL)
            value = words[i];
        else if (setting != NULL && strchr(words[i], '=') != NULL)
            value = strchr(words[i], '=') + 1;
        else if (setting == NULL && words[i][0] != '-')
            plain++;
        open = setting != NULL && value == NULL && setting->kind != SF_FLAG ? setting : NULL;
        if (setting != NULL && value != NULL && strcmp(setting->name, "store") == 0) asked->store = value;
        if (setting != NULL && value != NULL && setting->group == SF_GROUP_PLUGIN)
            (void)sf_plugin_load_all(value, ','); /* what is no plug-in has nothing to complete with */
    }
    const sf_setting *setting = open != NULL ? open : setting_of(asked->word, verb);
    if (open != NULL || (setting != NULL && strchr(asked->word, '=') != NULL)) {
        if (open == NULL) asked->kept = (size_t)(strchr(asked->word, '=') + 1 - asked->word);
        asked->start = asked->word + asked->kept;
        offer_values(asked, setting);
    } else if (*asked->word == '-') {
        offer_options(asked, verb);
    } else if (plain < verb->most_words) {
        offer_choices(asked, plain == 0 ? verb->first_word : verb->next_words);
    }
}

static int run(const cli_request *request) {
    sf_options defaults;
    sf_options_init(&defaults);
    const char *everywhere = getenv("SEMFOCUS_PLUGINS");
    if (everywhere != NULL) (void)sf_plugin_load_all(everywhere, ':');
    const size_t count = request->word_count;
    completion asked = {.word = count > 0 ? request->words[count - 1] : "", .store = defaults.store};
    asked.start = asked.word;
    const cli_verb *verb = count > 1 ? find_verb(request->words[0]) : NULL;
    if (verb != NULL) {
        complete_words(&asked, verb, request->words + 1, count - 1);
    } else if (count <= 1) {
        offer_verbs(&asked);
        offer(&asked, "--help", "", "what semfocus does, and its verbs");
        offer(&asked, "--version", "", "the version");
    } else if (count == 2 && strcmp(request->words[0], "help") == 0) {
        offer_verbs(&asked);
    }
    return finish_output();
}

const cli_verb verb_complete = {
    .name = "complete",
    .usage = "WORD...",
    .summary = "print the completions of the last word of a command line; for shells",
    .groups = 0,
    .most_words = (size_t)-1,
    .takes_any_word = true,
    .run = run,
};
