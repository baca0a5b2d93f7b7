/* What train and compare share: from a command line to a study, and from a study to finished runs. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

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

/* A user's files come with a comma of their own: tsv:TRAIN,HELDOUT is one task. */
static sf_status add_tasks(sf_study *study, const char *word, bool several) {
    if (!several || strncmp(word, "tsv:", 4) == 0) return sf_study_add_task(study, word);
    for (;;) {
        char task[SF_TEXT_SIZE];
        const size_t width = strcspn(word, ",");
        snprintf(task, sizeof task, "%.*s", (int)(width < sizeof task ? width : sizeof task - 1), word);
        const sf_status status = sf_study_add_task(study, task);
        if (status != SF_OK || word[width] == '\0') return status;
        word += width + 1;
    }
}

sf_status study_of(sf_study **out, const cli_request *request, bool several_tasks) {
    sf_status status = sf_study_create(out);
    if (status == SF_OK) status = add_tasks(*out, request->words[0], several_tasks);
    for (size_t i = 0; i < request->option_count && status == SF_OK; i++)
        status = sf_study_set(*out, request->options[i].name, request->options[i].value);
    return status;
}

int run_study(const sf_study *study, sf_store *store, const sf_config *config, bool *done) {
    run_plan plan;
    plan.runs = sf_study_runs(study, &plan.count);
    progress shown;
    progress_open(&shown, &plan, store, &stop_requested, config->quiet != 0 || config->json != 0,
                  config->fail_fast != 0);
    watch_signals();
    const sf_session session = {
        .runs = plan.runs, .count = plan.count, .stop = &stop_requested, .on_event = progress_event, .context = &shown};
    const sf_status status = sf_session_run(store, &session);
    progress_close(&shown);
    *done = false;
    if (shown.output_failed) return finish_output();
    if (status == SF_INTERRUPTED && shown.failed == 0) {
        fprintf(stderr, "semfocus: stopped; what was done is kept in '%s' and the same command goes on\n",
                config->store);
        return EXIT_FAILED;
    }
    *done = status == SF_OK || plan.count > 1;
    if (status == SF_OK) return EXIT_DONE;
    if (plan.count > 1 || shown.failed == 0) fail(status); /* a single run's sentence was printed when it failed */
    return EXIT_FAILED;
}
