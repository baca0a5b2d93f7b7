/* --tensorboard: the event files of the runs of a session, while it trains them. A file that cannot be written is said
 * once and does not stop the training: the store has everything, and 'semfocus export' writes it later. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/progress.h"

/* Between two updates of a file, which reads the whole curve: seldom enough not to slow down long runs. */
static const double shortest_pause = 1, pause_per_second = 50;

bool board_open(board *out, sf_store *store, const char *folder, size_t runs) {
    *out = (board){.folder = folder, .store = store};
    if (*folder == '\0') return true;
    out->due = calloc(runs > 0 ? runs : 1, sizeof *out->due);
    if (out->due == NULL) fail_usage("no memory left to write event files of %zu runs", runs);
    return out->due != NULL;
}

void board_close(board *out) {
    free(out->due);
    out->due = NULL;
}

static sf_status update(const board *out, const char *id) {
    sf_stored_run run;
    const sf_status status = sf_store_find(&run, out->store, id);
    if (status != SF_OK || run.epochs == 0) return status;
    return sf_tensorboard_write_run(out->store, &run, out->folder);
}

void board_event(board *out, const sf_event *event) {
    const bool ends =
        event->kind == SF_EVENT_FINISHED || event->kind == SF_EVENT_STOPPED || event->kind == SF_EVENT_FAILED;
    if (out->due == NULL || out->failed || !(ends || event->kind == SF_EVENT_EPOCH)) return;
    const double began = now_seconds();
    if (!ends && began < out->due[event->run]) return;
    out->failed = update(out, event->id) != SF_OK;
    if (out->failed) fprintf(stderr, "semfocus: no event files from now on: %s\n", on_one_line(sf_message()));
    const double now = now_seconds(), pause = pause_per_second * (now - began);
    out->due[event->run] = now + (pause > shortest_pause ? pause : shortest_pause);
}

int board_groups(const sf_study *study, const sf_options *options) {
    if (*options->tensorboard == '\0') return EXIT_DONE;
    const sf_status status = sf_tensorboard_write_groups(study, options->tensorboard);
    return status == SF_OK ? EXIT_DONE : fail(status);
}
