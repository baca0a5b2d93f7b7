#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const cli_verb *const verbs[] = {
    &verb_train,      &verb_compare,  &verb_study,    &verb_report, &verb_analyze, &verb_landscape, &verb_paper,
    &verb_evaluate,   &verb_generate, &verb_distance, &verb_runs,   &verb_export,  &verb_check,     &verb_delete,
    &verb_merge,      &verb_data,     &verb_solve,    &verb_parity, &verb_bench,   &verb_list,      &verb_man,
    &verb_completion, &verb_complete, &verb_doctor,   &verb_serve};
enum { VERBS = sizeof verbs / sizeof *verbs };

const cli_verb *verb_at(size_t i) {
    return i < VERBS ? verbs[i] : NULL;
}

int fail(sf_status status) {
    print_sentence(sf_message());
    return status == SF_BAD_INPUT || status == SF_UNSUPPORTED ? EXIT_USAGE : EXIT_FAILED;
}

int fail_usage(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_sentence(text);
    return EXIT_USAGE;
}

const char *given_arithmetic(const cli_request *request) {
    static const char *const names[] = {"precision", "architecture"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sf_config_given(&request->config, names[i])) return names[i];
    return NULL;
}

static void print_overview(FILE *stream) {
    fputs("semfocus: does this attention mechanism learn faster and generalize better, and why?\n"
          "\n"
          "usage: semfocus COMMAND [ARGUMENTS] [--option value ...]\n"
          "\n",
          stream);
    for (size_t i = 0; i < VERBS; i++) fprintf(stream, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\n"
          "'semfocus COMMAND --help' shows a command's options; 'semfocus --version' prints the version.\n"
          "Try: semfocus compare even-pairs --attention full,topk:5 --seeds 6 --stop-at 95 --length 20 --blocks 2\n",
          stream);
}

static bool is_list_setting(const cli_verb *verb, const sf_setting *setting) {
    if (verb->lists == ALL_LISTS) return (setting->group & SF_RUN_GROUPS) != 0 && strcmp(setting->name, "stop-at") != 0;
    return verb->lists == SEED_AND_ATTENTION_LISTS &&
           (strcmp(setting->name, "seed") == 0 || strcmp(setting->name, "attention") == 0);
}

/* One line per setting, e.g. "--lr X    learning rate (0..10000, default 0.1)". */
static void print_setting(const sf_setting *setting, bool is_list) {
    char left[64];
    snprintf(left, sizeof left, "--%s %s%s", setting->name,
             setting->kind == SF_CHOICE ? setting->choices
             : setting->value != NULL   ? setting->value
                                        : "",
             is_list ? "[,...]" : "");
    enum { COLUMN = 35 };
    char values[128] = "";
    if (setting->kind == SF_INTEGER || setting->kind == SF_REAL)
        snprintf(values, sizeof values, " (%.10g..%.10g, default %s)", setting->low, setting->high, setting->initial);
    else if (setting->kind != SF_FLAG && *setting->initial != '\0')
        snprintf(values, sizeof values, " (default %s)", setting->initial);
    print_indented(COLUMN, "  %-32s %s%s", left, setting->help, values);
}

/* Whether a line goes on with the sentences of the line before it. */
static bool continues(const char *line, size_t before) {
    enum { SHORTEST = 64 }; /* shorter lines end where they are meant to */
    return before >= SHORTEST && strchr(" \n", *line) == NULL && strncmp(line, "example", 7) != 0;
}

/* A text of several lines, whose sentences are broken anew for a terminal of known width. */
static void print_text(const char *text) {
    if (output_width() == SIZE_MAX) {
        fputs(text, stdout);
        return;
    }
    char lines[2048];
    for (size_t used = 0; *text != '\0'; used = 0) {
        size_t length;
        do {
            length = strcspn(text, "\n");
            used +=
                (size_t)snprintf(lines + used, sizeof lines - used, "%s%.*s", used > 0 ? " " : "", (int)length, text);
            text += length + (text[length] == '\n');
        } while (continues(text, length) && used + 128 < sizeof lines);
        print_indented(strspn(lines, " "), "%s", lines);
    }
}

static int print_verb_help(const cli_verb *verb) {
    static const struct {
        unsigned groups;
        const char *title;
    } sections[] = {
        {SF_GROUP_PAPER, "paper"},
        {SF_GROUP_STUDY | SF_GROUP_GOAL, "comparison"},
        {SF_GROUP_QUERY | SF_GROUP_COMPARE, "runs"},
        {SF_GROUP_BENCH, "fleet"},
        {SF_GROUP_ANALYSIS | SF_GROUP_SURFACE | SF_GROUP_SAMPLES | SF_GROUP_LENGTHS | SF_GROUP_WEIGHTS, "measurement"},
        {SF_GROUP_GENERATE, "text"},
        {SF_GROUP_SAMPLE | SF_GROUP_DATA | SF_GROUP_TASK | SF_GROUP_FILE | SF_GROUP_MODEL, "task and model"},
        {SF_GROUP_DESCRIBE, "your own data"},
        {SF_GROUP_TRAINING, "training"},
        {SF_GROUP_PLUGIN, "plug-ins"},
        {SF_GROUP_MERGE, "store"},
        {SF_GROUP_SERVE, "page"},
        {SF_GROUP_MACHINE | SF_GROUP_SAVING | SF_GROUP_STORE | SF_GROUP_SHARD, "machine and store"},
        {SF_GROUP_REPORT | SF_GROUP_EXPORT | SF_GROUP_OUT | SF_GROUP_OUTPUT, "output"}};
    print_indented(7, "usage: semfocus %s %s", verb->name, verb->usage);
    putchar('\n');
    print_paragraph("%s", verb->summary);
    if (verb->details != NULL) {
        putchar('\n');
        print_text(verb->details);
    }
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const unsigned shown = verb->groups & sections[i].groups;
        if (shown == 0) continue;
        printf("\n%s\n", sections[i].title);
        const sf_setting *setting;
        for (size_t j = 0; (setting = sf_setting_at(j)) != NULL; j++)
            if ((setting->group & shown) != 0) print_setting(setting, is_list_setting(verb, setting));
    }
    return finish_output();
}

static sf_status set_value(cli_request *request, const sf_setting *setting, const char *value, bool is_list) {
    if (setting->group == SF_GROUP_PLUGIN) return sf_options_set(&request->options, setting->name, value);
    if (request->study != NULL && is_list) return sf_study_override(request->study, setting->name, value);
    if (request->study != NULL) return sf_study_override_one(request->study, setting->name, value);
    return setting->home == SF_IN_CONFIG ? sf_config_set(&request->config, setting->name, value)
                                         : sf_options_set(&request->options, setting->name, value);
}

static int take_option(cli_request *request, const cli_verb *verb, const sf_setting *setting, const char *value) {
    for (size_t i = 0; i < request->assignment_count; i++)
        if (request->assignments[i].setting == setting)
            return fail_usage("--%s is given twice, as '%.100s' and as '%.100s'; give it once (%s)", setting->name,
                              request->assignments[i].value, value,
                              is_list_setting(verb, setting) || setting->group == SF_GROUP_PLUGIN
                                  ? "a list is written with commas: A,B"
                                  : "it takes one value");
    if (*value == '\0' && (strcmp(setting->name, "out") == 0 || strcmp(setting->name, "figures") == 0 ||
                           strcmp(setting->name, "plugin") == 0 || strcmp(setting->name, "into") == 0 ||
                           strcmp(setting->name, "tensorboard") == 0 || strcmp(setting->name, "against") == 0))
        return fail_usage("%s is '' but must be a name; give one, or omit the option", setting->name);
    request->assignments[request->assignment_count++] = (cli_assignment){setting, value};
    return EXIT_DONE;
}

static sf_status load_plugins(const cli_request *request) {
    const char *everywhere = getenv("SEMFOCUS_PLUGINS");
    const sf_status status = everywhere != NULL ? sf_plugin_load_all(everywhere, ':') : SF_OK;
    return status == SF_OK ? sf_plugin_load_all(request->options.plugin, ',') : status;
}

static sf_status set_values(cli_request *request, const cli_verb *verb, bool of_plugins) {
    sf_status status = SF_OK;
    for (size_t i = 0; i < request->assignment_count && status == SF_OK; i++) {
        const sf_setting *setting = request->assignments[i].setting;
        if ((setting->group == SF_GROUP_PLUGIN) == of_plugins)
            status = set_value(request, setting, request->assignments[i].value, is_list_setting(verb, setting));
    }
    return status;
}

/* Plug-ins first: other values may name their parts. */
static int take_values(cli_request *request, const cli_verb *verb) {
    sf_status status = set_values(request, verb, true);
    if (status == SF_OK) status = load_plugins(request);
    if (status == SF_OK) status = set_values(request, verb, false);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

/* Sentences come from work on several runs: those that were printed are not repeated. */
static void print_note(void *context, const char *sentence) {
    static char printed[16][160];
    static size_t count;
    (void)context;
    for (size_t i = 0; i < count; i++)
        if (strncmp(printed[i], sentence, sizeof printed[i] - 1) == 0) return;
    if (count < sizeof printed / sizeof *printed) snprintf(printed[count++], sizeof *printed, "%s", sentence);
    fprintf(stderr, "semfocus: note: %s\n", sentence);
}

/* A device that was asked for must be there. A study asks for its own. */
static int find_device(cli_request *request) {
    sf_execution *execution = &request->options.execution;
    sf_options options = request->options;
    if (request->study != NULL) sf_study_options(&options, request->study);
    if (!options.quiet) watch_tokenizing();
    if (request->study != NULL) return EXIT_DONE;
    if (!request->options.quiet) execution->on_note = print_note;
    if (execution->device != SF_CUDA) return EXIT_DONE;
    const sf_status status = sf_device_check(SF_CUDA);
    return status == SF_OK ? EXIT_DONE : fail(status);
}

/* Splits the words behind the verb into options and the rest. */
static int read_words(cli_request *request, const cli_verb *verb, int count, char **words) {
    sf_config_init(&request->config);
    sf_options_init(&request->options);
    request->words = words;
    for (int i = 0; i < count; i++) {
        if (strncmp(words[i], "--", 2) != 0 || words[i][2] == '\0') {
            if (words[i][0] == '-' && words[i][1] != '\0')
                return fail_usage("'%s' is not an option; options begin with two dashes, see 'semfocus %s --help'",
                                  words[i], verb->name);
            request->words[request->word_count++] = words[i];
            continue;
        }
        char name[64];
        const char *equals = strchr(words[i], '=');
        const size_t length = equals != NULL ? (size_t)(equals - words[i]) - 2 : strlen(words[i]) - 2;
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), words[i] + 2);
        const sf_setting *setting;
        const sf_status status = sf_setting_find(&setting, name, verb->groups);
        if (status != SF_OK) return fail(status);
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (value == NULL && setting->kind == SF_FLAG) value = "yes";
        if (value == NULL && i + 1 >= count)
            return fail_usage("--%s needs a value; see 'semfocus %s --help'", name, verb->name);
        if (value == NULL) value = words[++i];
        const int taken = take_option(request, verb, setting, value);
        if (taken != EXIT_DONE) return taken;
    }
    return EXIT_DONE;
}

static int read_request(cli_request *request, const cli_verb *verb, int count, char **words) {
    int code = read_words(request, verb, count, words);
    if (code == EXIT_DONE) code = take_values(request, verb);
    if (code == EXIT_DONE) code = find_device(request);
    if (code != EXIT_DONE) return code;
    if (request->word_count < verb->fewest_words || request->word_count > verb->most_words)
        return fail_usage("usage: semfocus %s %s ('semfocus %s --help' shows more)", verb->name, verb->usage,
                          verb->name);
    return EXIT_DONE;
}

/* The command line as a shell would take it again; NULL without memory. */
static char *quote_command(int count, char **words) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    fputs("semfocus", out);
    for (int i = 1; i < count; i++) {
        const size_t plain =
            strspn(words[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+=@%");
        const bool quoted = words[i][plain] != '\0' || *words[i] == '\0';
        fputs(quoted ? " '" : " ", out);
        for (const char *at = words[i]; *at != '\0'; at++) fputs(*at == '\'' ? "'\\''" : (char[]){*at, '\0'}, out);
        if (quoted) fputc('\'', out);
    }
    return fclose(out) == 0 ? text : NULL;
}

const cli_verb *find_verb(const char *name) {
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(verbs[i]->name, name) == 0) return verbs[i];
    return NULL;
}

static const char *verb_name(const void *unused, size_t i) {
    (void)unused;
    return i < VERBS ? verbs[i]->name : i == VERBS ? "--version" : NULL;
}

static int unknown_verb(const char *word) {
    const char *near = sf_suggest(SF_NAMES_COMMANDS, word, verb_name, NULL);
    if (near == NULL) return fail_usage("unknown command '%.40s'; 'semfocus --help' lists all commands", word);
    return fail_usage("unknown command '%.40s'; did you mean '%s'? 'semfocus --help' lists all commands", word, near);
}

static bool is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* A closed standard stream must not become the number of a file we open: what is printed would land in it. */
static void fill_closed_streams(void) {
    for (int file = 0; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0)
            (void)!open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* it fails as before */
}

static int run_verb(const cli_verb *verb, int count, char **words) {
    char *command = quote_command(count, words);
    cli_request request = {.command = command != NULL ? command : "semfocus",
                           .assignments = calloc((size_t)count, sizeof *request.assignments)};
    int code = EXIT_FAILED;
    if (request.assignments == NULL)
        print_sentence("no memory left to start");
    else if (verb->lists != NO_LISTS && sf_study_create(&request.study) != SF_OK)
        code = fail(SF_NO_MEMORY);
    else
        code = read_request(&request, verb, count - 2, words + 2);
    if (code == EXIT_DONE) code = verb->run(&request);
    sf_study_destroy(request.study);
    free(request.assignments);
    free(command);
    return code;
}

static int run_command(int count, char **words) {
    if (count < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    const bool asks_help = is_help(words[1]) || strcmp(words[1], "help") == 0;
    if (asks_help && count > 2 && *words[2] != '-' && find_verb(words[2]) == NULL) return unknown_verb(words[2]);
    if (asks_help && count > 2 && find_verb(words[2]) != NULL) return print_verb_help(find_verb(words[2]));
    if (asks_help) {
        print_overview(stdout);
        return finish_output();
    }
    if (strcmp(words[1], "--version") == 0) {
        puts("semfocus " SF_VERSION);
        return finish_output();
    }
    const cli_verb *verb = find_verb(words[1]);
    if (verb == NULL) return unknown_verb(words[1]);
    if (verb->takes_any_word) return verb->run(&(cli_request){.words = words + 2, .word_count = (size_t)count - 2});
    for (int i = 2; i < count; i++)
        if (is_help(words[i])) return print_verb_help(verb);
    const int code = run_verb(verb, count, words);
    const int ended = ended_by_signal();
    return ended != EXIT_DONE ? ended : code;
}

/* Loads the plug-ins of the command, then trains for rank 0. What is wrong with the command itself, rank 0 says. */
static int work_for_rank_0(int count, char **words) {
    const cli_verb *verb = count > 1 ? find_verb(words[1]) : NULL;
    cli_request request = {.assignments = calloc((size_t)count, sizeof *request.assignments)};
    const char *unable = request.assignments == NULL ? "there is no memory left" : NULL;
    if (unable == NULL && verb != NULL && !verb->takes_any_word &&
        read_words(&request, verb, count - 2, words + 2) == EXIT_DONE &&
        (set_values(&request, verb, true) != SF_OK || load_plugins(&request) != SF_OK))
        unable = sf_message();
    const sf_status status = sf_ranks_work(unable);
    free(request.assignments);
    sf_ranks_end(true, EXIT_DONE);
    return status == SF_OK ? EXIT_DONE : EXIT_FAILED;
}

int main(int count, char **words) {
    fill_closed_streams();
    watch_signals();
    if (!open_output()) {
        fputs("semfocus: no memory left to start\n", stderr);
        return EXIT_FAILED;
    }
    const sf_status started = sf_ranks_start();
    if (started != SF_OK) return fail(started);
    if (sf_ranks_rank() > 0) return work_for_rank_0(count, words);
    const int code = run_command(count, words);
    sf_ranks_end(sf_ranks_dismiss(), code);
    return code;
}
