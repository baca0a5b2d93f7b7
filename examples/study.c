/* Compares two mechanisms over six seeds, shows the progress, and prints the verdict.
 *
 *   cc study.c $(pkg-config --cflags --libs semfocus) -o study
 *   ./study my-runs
 *
 * The runs are kept in the folder: a second call trains nothing and prints the same verdict. Ctrl-C stops between two
 * steps, keeps what is done, and the next call continues. The code is C and C++ alike. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <semfocus/semfocus.h>

static sf_stop_flag stop;

static void ask_to_stop(int received) {
    (void)received;
    stop = 1;
}

static void tell(void *context, const sf_event *event) {
    size_t *trained = (size_t *)context;
    if (event->kind == SF_EVENT_EPOCH) (*trained)++;
    if (event->kind == SF_EVENT_FINISHED) printf("run %zu (%s) is finished\n", event->run, event->id);
    if (event->kind == SF_EVENT_FAILED) printf("run %zu failed: %s\n", event->run, event->message);
}

static sf_status plan(sf_study *study) {
    static const char *const settings[][2] = {
        {"attention", "full,topk:3"}, {"seeds", "6"},           {"length", "8"}, {"blocks", "1"},
        {"train-count", "1000"},      {"heldout-count", "200"}, {"batch", "5"},  {"epochs", "6"}};
    sf_status status = sf_study_add_tasks(study, "even-pairs");
    for (size_t i = 0; status == SF_OK && i < sizeof settings / sizeof *settings; i++)
        status = sf_study_set(study, settings[i][0], settings[i][1]);
    return status == SF_OK ? sf_study_plan(study) : status;
}

static sf_status run_and_judge(sf_study *study, sf_store *store) {
    size_t trained = 0;
    sf_session session;
    memset(&session, 0, sizeof session);
    session.runs = sf_study_runs(study, &session.count);
    session.stop = &stop;
    session.on_event = tell;
    session.context = &trained;
    sf_status status = sf_session_run(store, &session);
    printf("%zu epochs were trained\n", trained);
    if (status == SF_OK) status = sf_study_judge(study, store);
    for (size_t i = 0; status == SF_OK && i < sf_study_group_count(study); i++) {
        const sf_group *group = sf_study_group(study, i);
        printf("%s: %zu of %zu runs converged. %s\n", group->name, group->converged, group->runs, group->sentence);
    }
    return status;
}

int main(int count, char **words) {
    sf_study *study = NULL;
    sf_store *store = NULL;
    signal(SIGINT, ask_to_stop);
    sf_status status = sf_study_create(&study);
    if (status == SF_OK) status = plan(study);
    if (status == SF_OK) status = sf_store_open(&store, count > 1 ? words[1] : "my-runs", SF_STORE_WRITE);
    if (status == SF_OK) status = run_and_judge(study, store);
    if (status != SF_OK) fprintf(stderr, "%s\n", sf_message());
    sf_store_close(store);
    sf_study_destroy(study);
    return status == SF_OK ? 0 : status == SF_BAD_INPUT ? 2 : 1;
}
