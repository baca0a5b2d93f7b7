/* What the verbs share: the table of verbs, reading of options, help, and output. Public headers only. */
#ifndef SF_CLI_CLI_H
#define SF_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "semfocus/semfocus.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct cli_request { /* a command line, read and checked */
    sf_config config;
    char **words; /* what is not an option */
    size_t word_count;
    struct {
        const char *name, *value;
    } options[64]; /* as written, in order; lists are here alone, single values also in the config */
    size_t option_count;
} cli_request;

/* What every verb that works takes. */
enum { COMMON_GROUPS = SF_GROUP_MACHINE | SF_GROUP_STORE | SF_GROUP_OUTPUT };

typedef enum cli_lists { NO_LISTS, SEED_AND_ATTENTION_LISTS, ALL_LISTS } cli_lists;

typedef struct cli_verb {
    const char *name;
    const char *usage;   /* what follows the name on the command line */
    const char *summary; /* one line */
    const char *details; /* further lines of --help, or NULL */
    unsigned groups;     /* of settings it takes */
    cli_lists lists;     /* which settings may be comma-separated */
    size_t fewest_words, most_words;
    int (*run)(const cli_request *request);
} cli_verb;

extern const cli_verb verb_train, verb_compare, verb_runs, verb_export, verb_check, verb_data, verb_solve, verb_parity,
    verb_list, verb_man, verb_completion;

const cli_verb *verb_at(size_t i); /* NULL past the end */

/* Says what failed on standard error and gives the exit code that belongs to it. */
int fail(sf_status status);
int fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A JSON string of any bytes: what is not UTF-8 loses its non-ASCII characters. */
json_t *json_text(const char *text);
/* Prints one JSON document and a newline; releases it. */
int print_json(json_t *document);
/* Every byte reached standard output, or a sentence and EXIT_FAILED. */
int finish_output(void);

/* The study that the words (tasks) and options of a request span. */
sf_status study_of(sf_study **out, const cli_request *request, bool several_tasks);
/* Runs what is missing of a planned study, showing progress. *done: whether results may be shown; returns the exit
 * code. */
int run_study(const sf_study *study, sf_store *store, const sf_config *config, bool *done);

/* A stored run as 'runs --json' shows it. */
json_t *run_as_json(const sf_stored_run *run);

#endif
