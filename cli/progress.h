/* What a user sees of a session: the curve line by line, and on a terminal a line below it that moves. */
#ifndef SF_CLI_PROGRESS_H
#define SF_CLI_PROGRESS_H

#include "cli/cli.h"

typedef struct run_name {
    char id[SF_RUN_ID_SIZE], attention[SF_SPELLING_SIZE];
} run_name;

typedef struct run_plan {
    const char *task;
    size_t count;
    sf_config *configs; /* [count] */
    run_name *names;    /* [count] */
} run_plan;

typedef struct progress {
    const run_plan *runs;
    sf_store *store;
    bool silent, terminal, headed, started, output_failed;
    atomic_int *stop;                     /* set where output cannot be written: nobody listens */
    double began, drawn;                  /* seconds */
    size_t finished, failed, epochs_done; /* runs; epochs of this session */
    size_t epochs_left;                   /* at most, over all runs */
    int left_width;                       /* of the table's first column */
    sf_epoch last;
    size_t last_run;
} progress;

void progress_open(progress *shown, const run_plan *runs, sf_store *store, atomic_int *stop, bool silent);
void progress_event(void *shown, const sf_event *event);
void progress_close(progress *shown);

/* One sentence on how a run ended. */
void print_ending(const sf_stored_run *run);

#endif
