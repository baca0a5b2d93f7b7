/* The page of what a store holds, without training anything. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static int show(sf_study *study, sf_store *store, const cli_request *request) {
    const sf_options *options = &request->options;
    size_t count;
    sf_status status = sf_report_check(report_path(options));
    if (status == SF_OK) status = sf_study_converge_at(study, options->converged_at);
    if (status == SF_OK) status = sf_study_plan_stored(study, store, options->where);
    if (status == SF_OK) status = sf_study_judge(study, store);
    if (status != SF_OK) return fail(status);
    sf_study_runs(study, &count);
    if (count == 0)
        return fail_usage("the store '%s' has no such runs; train some, or leave out --where", options->store);
    if (strcmp(report_path(options), "-") != 0) {
        const int code = print_results(study, options->json != 0);
        if (code != EXIT_DONE) return code;
    }
    return write_report(study, store, request, options);
}

static int run(const cli_request *request) {
    if (request->options.json && strcmp(report_path(&request->options), "-") == 0)
        return fail_usage("out is '-' but the JSON goes to standard output; name a file, or leave out --json");
    const int writable = check_figures(&request->options);
    if (writable != EXIT_DONE) return writable;
    sf_store *store = NULL;
    sf_study *study = NULL;
    sf_status status = open_for_query(&store, &request->options);
    if (status == SF_OK) status = sf_study_create(&study);
    const int code = status == SF_OK ? show(study, store, request) : fail(status);
    sf_study_destroy(study);
    sf_store_close(store);
    return code;
}

const cli_verb verb_report = {
    .name = "report",
    .usage = "[--where SQL] [--converged-at PERCENT|loss:X] [--out report.html] [--figures DIR] [--plot]",
    .summary = "show the table, verdicts, page and figures of the runs in a store",
    .details = "Runs that differ only in the seed form a group. --out - writes only the page, to standard output.\n"
               "example: semfocus report --where \"task = 'even-pairs'\" --figures figures\n",
    .groups = SF_GROUP_QUERY | SF_GROUP_REPORT | SF_GROUP_GOAL | SF_GROUP_OUT | COMMON_GROUPS,
    .run = run,
};
