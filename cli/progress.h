/* What a user sees of a session: the curve line by line, and on a terminal a line below it that moves. */
#ifndef SF_CLI_PROGRESS_H
#define SF_CLI_PROGRESS_H

#include "cli/cli.h"

typedef struct run_plan {
    const sf_planned_run *runs; /* [count] */
    size_t count;
} run_plan;

typedef struct progress {
    const run_plan *runs;
    sf_store *store;
    bool silent, terminal, headed, started, fail_fast, output_failed;
    atomic_int *stop;                     /* set where output cannot be written: nobody listens */
    double began, drawn;                  /* seconds */
    size_t finished, failed, epochs_done; /* runs; epochs of this session */
    size_t epochs_left;                   /* at most, over all runs */
    int left_width;                       /* of the table's first column */
    sf_epoch last;
    size_t last_run;
} progress;

void progress_open(progress *shown, const run_plan *runs, sf_store *store, atomic_int *stop, bool silent,
                   bool fail_fast);
void progress_event(void *shown, const sf_event *event);
void progress_close(progress *shown);

/* One sentence on how a run ended. */
void print_ending(const sf_stored_run *run);

#endif
