/* What the verbs share: the table of verbs, reading of options, help, and output. Public headers only. */
#ifndef SF_CLI_CLI_H
#define SF_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "semfocus/semfocus.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_SIGNAL = 128 /* and the number of the signal */ };

typedef struct cli_assignment { /* --setting value, as written */
    const sf_setting *setting;
    const char *value;
} cli_assignment;

typedef struct cli_request { /* a command line, read and checked */
    sf_study *study;         /* of a verb that takes lists: it has the settings; NULL: they are below */
    sf_config config;
    sf_options options;
    char **words; /* what is not an option */
    size_t word_count;
    cli_assignment *assignments; /* [assignment_count], in order */
    size_t assignment_count;
    const char *command; /* the whole line, quoted for a shell */
} cli_request;

/* What every verb that works takes. */
enum { COMMON_GROUPS = SF_GROUP_PLUGIN | SF_GROUP_MACHINE | SF_GROUP_STORE | SF_GROUP_OUTPUT };

typedef enum cli_lists { NO_LISTS, SEED_AND_ATTENTION_LISTS, ALL_LISTS } cli_lists;

typedef struct cli_verb {
    const char *name;
    const char *usage;   /* what follows the name on the command line */
    const char *summary; /* one line */
    const char *details; /* further lines of --help, or NULL */
    unsigned groups;     /* of settings it takes */
    cli_lists lists;     /* which settings may be comma-separated */
    size_t fewest_words, most_words;
    const char *first_word, *next_words; /* what they may be, for completion (cli/complete.c); NULL: nothing to offer */
    bool takes_any_word;                 /* words that look like options are words like any other */
    int (*run)(const cli_request *request);
} cli_verb;

extern const cli_verb verb_train, verb_compare, verb_study, verb_report, verb_analyze, verb_landscape, verb_evaluate,
    verb_generate, verb_distance, verb_bench, verb_runs, verb_export, verb_check, verb_delete, verb_merge, verb_data,
    verb_solve, verb_parity, verb_list, verb_man, verb_completion, verb_complete, verb_paper, verb_doctor, verb_serve;

const cli_verb *verb_at(size_t i);           /* NULL past the end */
const cli_verb *find_verb(const char *name); /* NULL: there is none */

/* Says what failed on standard error and gives the exit code that belongs to it. */
int fail(sf_status status);
int fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The setting that names an arithmetic for new runs, precision or architecture, if it was given; NULL: neither was. */
const char *given_arithmetic(const cli_request *request);

/* From now on, anything printed on standard output and error is safe to show on a terminal; false: no memory. */
bool open_output(void);
/* For output that is not text. */
void print_bytes_from_now_on(void);
/* A sequence of control characters of our own, to the terminal on standard error. */
void print_control(const char *sequence);
/* Columns of the terminal behind a file descriptor; 80 where there is none. */
size_t terminal_width(int file);
/* Columns of the terminal on standard output; no limit where there is none, or it knows no width, as behind mpirun. */
size_t output_width(void);
/* A paragraph and a newline on standard output: on a terminal broken between words at its width. */
void print_paragraph(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; lines after the first are indented, unless the terminal is too narrow for that. */
void print_indented(size_t indent, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A name on one line: newlines and tabs are spelled out. The text is valid until the eighth call after it. */
const char *on_one_line(const char *text);
/* A field of a CSV, in quotes where it needs them, and never taken for a formula by a spreadsheet. */
void print_csv_text(const char *text);
/* One line on standard error. */
void print_sentence(const char *text);

/* A JSON string of any bytes: what is not UTF-8 loses its non-ASCII characters. */
json_t *json_text(const char *text);
/* Prints one JSON document and a newline; releases it. */
int print_json(json_t *document);
/* Every byte reached standard output, or a sentence and EXIT_FAILED; no message if the reader closed the pipe. */
int finish_output(void);

/* The plural ending of a noun after this count. */
const char *plural(size_t count);
/* A duration as people write it. */
void say_time(char out[32], double seconds);

/* From now on, Ctrl-C and other signals that ask a process to end make it exit with code 128 + signal. */
void watch_signals(void);
/* The same, but the first such signal only sets this flag: work is kept, then the process ends. */
atomic_int *watch_for_stop(void);
/* The exit code of the signal that arrived, or EXIT_DONE. From now on, a signal ends the process at once again. */
int ended_by_signal(void);
/* For work that is kept as it goes, so that a signal may end it at once: the sentence printed then. NULL: none. */
void say_when_stopped(const char *store);
/* Prints that work was stopped and what becomes of it; returns the exit code. */
int tell_stopped(const char *store);

/* For reading; says on standard error if the store has no seals. */
sf_status open_to_read(sf_store **store, const char *folder, sf_store_access access);
/* The same for commands that go through runs: with archived ones, if --archived asks for them. */
sf_status open_for_query(sf_store **store, const sf_options *options);
/* The same. A store that is not there yet is an empty one: NULL. One that cannot be read is a failure. */
sf_status open_if_there(sf_store **store, const char *folder);

typedef struct cli_share { /* which of the planned runs a command trains (cli/share.c) */
    sf_shard shard;        /* count 0: all of them */
    sf_share counts;
    const size_t *places; /* of the runs of a study, as a session takes them; NULL: all */
    size_t *all_places;   /* the block that they are part of */
} cli_share;
/* As --shard asks for; prints why not and gives the exit code. */
int open_share(cli_share *out, const sf_planned_run *runs /* [count] */, size_t count, const sf_options *options);
void close_share(cli_share *share);
bool is_ours(const cli_share *share, size_t run);
size_t count_ours(const cli_share *share, size_t count);
/* "shard 2 of 3: 8 of 24 runs", without a newline; false: there are no shards, and nothing is printed. */
bool print_share(const cli_share *share);
/* The same at the end of a command, and what to do with its store. */
void tell_how_to_join(const cli_share *share, const sf_options *options);

typedef enum cli_detail { EVERY_EPOCH, EVERY_RUN } cli_detail; /* what is printed of work under way */
/* Runs what is missing of our share of a planned study, showing progress. *done: whether there are results to show,
 * even where some runs failed; returns the exit code. */
int run_study(const sf_study *study, sf_store *store, const sf_options *options, const cli_share *share,
              cli_detail detail, bool *done);

/* The whole of compare, for a request whose study has its tasks: plan, run, table, verdicts, report. */
int conduct_study(const cli_request *request);
/* null where it is not finite. */
json_t *number_or_null(double value);
json_t *loss_speedup_as_json(const sf_loss_speedup *loss);
/* Table and verdicts, or JSON. */
int print_results(const sf_study *study, bool json);
/* Page, figures and plot of a judged study, as the settings ask for them. */
int write_report(const sf_study *study, sf_store *store, const cli_request *request, const sf_options *options);
/* Whether figures can be written where the settings say: asked before hours of work. Prints why not and gives the exit
 * code. */
int check_figures(const sf_options *options);
/* Where the page goes. */
const char *report_path(const sf_options *options);
/* A shard has a page only if it is asked for: it is not the page of the study, and other shards may write beside it. */
bool wants_page(const sf_options *options);

/* A stored run as 'runs --json' shows it. */
json_t *run_as_json(const sf_stored_run *run);
/* Adds perplexity and bits per byte, for a run of text. */
sf_status add_text_result(json_t *row, sf_store *store, const sf_stored_run *run);
/* The same as a sentence, if it is one. */
sf_status print_text_result(sf_store *store, const sf_stored_run *run);
/* 'data FILE --describe'. */
bool is_own_data(const char *name); /* text:FILE, csv:FILE and so on */
int describe_data(const cli_request *request);
/* Warnings about data of the user's that a study uses, on standard error. Data that cannot be read is not warned of. */
void warn_of_data(const sf_study *study);
/* From now on, a line of the terminal shows how far tokenizing is. */
void watch_tokenizing(void);
/* 'runs tag' and the like (cli/labels.c). */
int label_runs(const cli_request *request);
/* 'runs --against' (cli/against.c). */
int compare_stores(const cli_request *request);

#endif
