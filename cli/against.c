/* 'runs --against': two stores run by run. A run has the same bits wherever it is trained, so differences matter. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct comparison {
    json_t *rows; /* NULL: a table */
    size_t counts[SF_AGREEMENTS];
    bool quiet, headed;
} comparison;

static json_t *epochs_or_null(const sf_stored_run *run) {
    return run != NULL ? json_integer((json_int_t)run->epochs) : json_null();
}

static json_t *pair_as_json(const sf_run_pair *pair) {
    const sf_stored_run *run = pair->here != NULL ? pair->here : pair->there;
    const bool differs = pair->agreement == SF_RUNS_DIFFER;
    return json_pack("{s:s, s:o, s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:o}", "id", run->id, "task", json_text(run->task),
                     "attention", json_text(run->attention), "seed", (json_int_t)run->seed, "agreement",
                     sf_agreement_word(pair->agreement), "epochs_here", epochs_or_null(pair->here), "epochs_there",
                     epochs_or_null(pair->there), "differs_at", differs ? json_text(pair->where) : json_null(), "here",
                     differs ? json_text(pair->values[0]) : json_null(), "there",
                     differs ? json_text(pair->values[1]) : json_null());
}

static void print_epochs(const sf_stored_run *run) {
    if (run != NULL)
        printf(" %12zu", run->epochs);
    else
        printf(" %12s", "-");
}

static void print_pair(comparison *shown, const sf_run_pair *pair) {
    const sf_stored_run *run = pair->here != NULL ? pair->here : pair->there;
    if (!shown->headed)
        printf("%-16s  %-28s %-18s %10s %12s %12s  %s\n", "id", "task", "attention", "seed", "epochs here", "there",
               "agreement");
    shown->headed = true;
    printf("%-16s  %-28s %-18s %10lld", run->id, on_one_line(run->task), on_one_line(run->attention),
           (long long)run->seed);
    print_epochs(pair->here);
    print_epochs(pair->there);
    printf("  %s", sf_agreement_word(pair->agreement));
    if (pair->agreement == SF_RUNS_DIFFER)
        printf(" at %s: %s here, %s there", pair->where, pair->values[0], pair->values[1]);
    putchar('\n');
}

static void take_pair(void *context, const sf_run_pair *pair) {
    comparison *shown = context;
    shown->counts[pair->agreement]++;
    if (shown->rows != NULL)
        json_array_append_new(shown->rows, pair_as_json(pair));
    else if (!shown->quiet)
        print_pair(shown, pair);
}

static int show(sf_store *here, sf_store *there, const sf_options *options) {
    comparison shown = {.rows = options->json ? json_array() : NULL, .quiet = options->quiet != 0};
    const sf_status status = sf_store_compare(here, there, take_pair, &shown);
    if (status != SF_OK) {
        json_decref(shown.rows);
        return fail(status);
    }
    int code;
    if (shown.rows != NULL) {
        code = print_json(shown.rows);
    } else {
        for (int i = 0; i < SF_AGREEMENTS; i++)
            printf("%s%zu %s", i > 0 ? ", " : "", shown.counts[i], sf_agreement_word((sf_agreement)i));
        putchar('\n');
        code = finish_output();
    }
    return code == EXIT_DONE && shown.counts[SF_RUNS_DIFFER] > 0 ? EXIT_FAILED : code;
}

int compare_stores(const cli_request *request) {
    const sf_options *options = &request->options;
    sf_store *here = NULL, *there = NULL;
    if (*options->where != '\0') return fail_usage("--against compares whole stores; leave out --where");
    sf_status status = open_to_read(&here, options->store, SF_STORE_READ);
    if (status == SF_OK) status = open_to_read(&there, options->against, SF_STORE_READ);
    const int code = status == SF_OK ? show(here, there, options) : fail(status);
    sf_store_close(there);
    sf_store_close(here);
    return code;
}
