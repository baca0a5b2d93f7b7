/* What train, compare and study share: from options to a study, and from a study to finished runs. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cli/progress.h"

static atomic_int stop_requested;

static void request_stop(int signal) {
    (void)signal;
    atomic_store(&stop_requested, 1);
}

/* The first signal asks for a checkpoint, a second one kills as usual. A signal that was ignored stays so: jobs in the
 * background of a script, and nohup. A closed pipe shows as a failed write instead. */
static void watch_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = request_stop, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction before;
        sigaction(signals[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

const atomic_int *watch_for_stop(void) {
    watch_signals();
    return &stop_requested;
}

sf_status apply_options(sf_study *study, const cli_request *request) {
    sf_status status = SF_OK;
    for (size_t i = 0; i < request->option_count && status == SF_OK; i++)
        status = sf_study_set(study, request->options[i].name, request->options[i].value);
    return status;
}

static bool is_nothing_there(const char *folder) {
    char database[SF_PATH_SIZE + 16];
    struct stat about;
    snprintf(database, sizeof database, "%s/runs.db", folder);
    return *folder != '\0' && (stat(database, &about) == 0 || errno == ENOENT); /* there: made, but nothing in it */
}

sf_status open_to_read(sf_store **store, const char *folder, sf_store_access access) {
    const sf_status status = sf_store_open(store, folder, access);
    if (status == SF_OK && !sf_store_is_sealed(*store))
        fprintf(
            stderr,
            "semfocus: note: the store '%s' was made by an earlier version, whose rows have no seals: damage may go "
            "unnoticed\n",
            folder);
    return status;
}

sf_status open_if_there(sf_store **store, const char *folder) {
    const sf_status status = open_to_read(store, folder, SF_STORE_READ);
    return status == SF_BAD_INPUT && is_nothing_there(folder) ? SF_OK : status;
}

int run_study(const sf_study *study, sf_store *store, const sf_config *config, cli_detail detail, bool *done) {
    progress shown;
    *done = false;
    const sf_session session = {.runs = sf_study_runs(study, &shown.count),
                                .count = shown.count,
                                .stop = &stop_requested,
                                .on_event = progress_event,
                                .context = &shown};
    if (!progress_open(&shown, study, store, &stop_requested, config, detail)) return EXIT_FAILED;
    watch_signals();
    const sf_status status = sf_session_run(store, &session);
    progress_close(&shown);
    if (shown.output_failed) return finish_output();
    if (status == SF_INTERRUPTED && shown.failed == 0) {
        fprintf(stderr, "semfocus: stopped; what was done is kept in '%s' and the same command goes on\n",
                config->store);
        return EXIT_FAILED;
    }
    *done = status == SF_OK || (session.count > 1 && (detail == EVERY_EPOCH || shown.finished > 0));
    if (*done) tell_unmeasured(study, store);
    if (status == SF_OK) return EXIT_DONE;
    if (session.count > 1 || shown.failed == 0) fail(status); /* a single run's sentence was printed when it failed */
    return EXIT_FAILED;
}
