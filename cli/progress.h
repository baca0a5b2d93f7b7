/* What a user sees of a session: plain lines of what is done, and on a terminal a line below them that moves. */
#ifndef SF_CLI_PROGRESS_H
#define SF_CLI_PROGRESS_H

#include "cli/cli.h"

/* The line that moves (cli/moving_line.c): in place on a terminal, now and then a plain line elsewhere. */
typedef struct moving_line {
    bool silent, terminal;
    double began, drawn; /* seconds */
} moving_line;

void moving_line_open(moving_line *line, bool silent);
void moving_line_restart(moving_line *line); /* its clock */
double now_seconds(void);                    /* of a clock that never goes back */
double moving_line_seconds(const moving_line *line);
void moving_line_draw(moving_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same behind a bar that is filled to this share, 0 to 1; plain lines have no bar. */
void moving_line_bar(moving_line *line, double share, const char *format, ...) __attribute__((format(printf, 3, 4)));
void moving_line_clear(const moving_line *line); /* for other output; the next drawing brings it back */
void moving_line_close(moving_line *line);

/* Event files for TensorBoard while a session trains (cli/board.c). */
typedef struct board {
    const char *folder; /* "": none */
    sf_store *store;
    double *due; /* [count]: when a run's file is brought up to date again, in seconds */
    bool failed; /* which was said */
} board;
bool board_open(board *out, sf_store *store, const char *folder, size_t runs);
void board_event(board *out, const sf_event *event);
void board_close(board *out);
/* Median and quartiles of a judged study; returns the exit code. */
int board_groups(const sf_study *study, const sf_options *options);

typedef struct progress {
    const sf_planned_run *runs; /* [count] */
    size_t count;
    const cli_share *share;
    size_t ours; /* runs of the share */
    const sf_study *study;
    struct shown_run {
        size_t group, epochs_left; /* at most */
        bool started;              /* in this session */
    } * each;                      /* [count] */
    bool several_tasks;
    board board;
    sf_store *store;
    cli_detail detail;
    moving_line line;
    bool silent, quiet, headed, started, fail_fast, output_failed;
    atomic_int *stop;                     /* set if output cannot be written */
    size_t finished, failed, epochs_done; /* runs; epochs of this session */
    size_t kept;                          /* runs that were done before */
    size_t epochs_left, epochs_planned;   /* over all runs */
    int left_width;                       /* of the table's first column */
    bool without_losses, names_apart;     /* of a table on a narrow terminal */
    sf_epoch last;
    size_t last_run;
} progress;

/* False, with a sentence, where there is no memory left. */
bool progress_open(progress *shown, const sf_study *study, sf_store *store, atomic_int *stop, const sf_options *options,
                   const cli_share *share, cli_detail detail);
void progress_event(void *shown, const sf_event *event);
void progress_close(progress *shown);

/* Whether runs must be told apart by their tasks. */
bool has_several_tasks(const sf_study *study);

/* A sentence on standard error if --every asks for measures of epochs that were trained without it. */
void tell_unmeasured(const sf_study *study, sf_store *store, const cli_share *share, size_t every);

/* One sentence on how a run ended, or where it stands. */
void print_ending(const sf_stored_run *run, bool with_task);

#endif
