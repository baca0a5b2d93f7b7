/* What train, compare and study share: stores, and from a study to finished runs. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/progress.h"

static bool is_nothing_there(const char *folder) {
    char database[SF_PATH_SIZE + 16];
    struct stat about;
    snprintf(database, sizeof database, "%s/runs.db", folder);
    return *folder != '\0' && (stat(database, &about) == 0 || errno == ENOENT); /* there: made, but nothing in it */
}

sf_status open_to_read(sf_store **store, const char *folder, sf_store_access access) {
    const sf_status status = sf_store_open(store, folder, access);
    if (status == SF_OK && !sf_store_is_sealed(*store))
        fprintf(stderr,
                "semfocus: note: the store '%s' was written by an earlier version and has no seals (checksums): damage "
                "may go "
                "unnoticed\n",
                folder);
    return status;
}

sf_status open_for_query(sf_store **store, const sf_options *options) {
    const sf_status status = open_to_read(store, options->store, SF_STORE_READ);
    if (status == SF_OK && options->archived) sf_store_show_archived(*store);
    return status;
}

sf_status open_if_there(sf_store **store, const char *folder) {
    const sf_status status = open_to_read(store, folder, SF_STORE_READ);
    return status == SF_BAD_INPUT && is_nothing_there(folder) ? SF_OK : status;
}

int run_study(const sf_study *study, sf_store *store, const sf_options *options, const cli_share *share,
              cli_detail detail, bool *done) {
    progress state;
    *done = false;
    if (!options->quiet && !options->json) warn_of_data(study);
    atomic_int *stop = watch_for_stop();
    const sf_session session = {.runs = sf_study_runs(study, &state.count),
                                .count = state.count,
                                .places = share->places,
                                .name = options->name,
                                .execution = &options->execution,
                                .stop = stop,
                                .on_event = progress_event,
                                .context = &state};
    if (!progress_open(&state, study, store, stop, options, share, detail)) return EXIT_FAILED;
    const bool several = state.ours > 1;
    const sf_status status = sf_session_run(store, &session);
    progress_close(&state);
    const int signalled = ended_by_signal();
    if (state.output_failed) return finish_output();
    if (signalled != EXIT_DONE || (status == SF_INTERRUPTED && state.failed == 0)) return tell_stopped(options->store);
    if (status == SF_UNSUPPORTED) return fail(status); /* refused as a whole */
    *done = status == SF_OK || (several && ((detail == EVERY_EPOCH && state.failed > 0) || state.finished > 0));
    if (*done) tell_unmeasured(study, store, share, (size_t)options->execution.measure_every);
    if (status == SF_OK) return state.board.failed ? EXIT_FAILED : EXIT_DONE;
    if (several || state.failed == 0) fail(status); /* a single run's sentence was printed when it failed */
    return EXIT_FAILED;
}
