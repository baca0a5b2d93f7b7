/* How stored models do on sequences of other lengths than they were trained on. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 65536, MOST_LENGTHS = sizeof((sf_options *)0)->lengths / 2 };

typedef struct row {
    sf_stored_run run;
    sf_length_result result;
} row;

typedef struct table {
    row *rows;
    size_t count;
} table;

static bool read_lengths(size_t lengths[MOST_LENGTHS], size_t *count, const char *text) {
    for (*count = 0;; text++) {
        char *end;
        errno = 0;
        const unsigned long value = strtoul(text, &end, 10);
        if (!isdigit((unsigned char)*text) || errno != 0 || value < 1 || value > LONGEST) return false;
        lengths[(*count)++] = value;
        text = end;
        if (*text == '\0') return true;
        if (*text != ',') return false;
    }
}

static sf_status evaluate_run(table *t, sf_store *store, const char *id, const sf_options *options,
                              const size_t *lengths /* [count] */, size_t count) {
    sf_stored_run run;
    sf_status status = sf_store_find(&run, store, id);
    for (size_t i = 0; i < (count > 0 ? count : 1) && status == SF_OK; i++) {
        row *next = &t->rows[t->count];
        *next = (row){.run = run};
        const sf_length_request request = {.at = (sf_weights_at)options->at,
                                           .length = count > 0 ? lengths[i] : 0,
                                           .count = sf_options_given(options, "count") ? (size_t)options->count : 0,
                                           .execution = options->execution};
        status = sf_length_generalization(&next->result, store, &run, &request);
        if (status == SF_OK) t->count++;
    }
    return status;
}

static json_t *finite_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static int print_as_json(const table *t, const char *at) {
    json_t *rows = json_array();
    for (size_t i = 0; i < t->count; i++) {
        const row *r = &t->rows[i];
        json_array_append_new(
            rows, json_pack("{s:s, s:o, s:s, s:I, s:s, s:I, s:I, s:I, s:o, s:o}", "id", r->run.id, "task",
                            json_text(r->run.task), "attention", r->run.attention, "seed", (json_int_t)r->run.seed,
                            "at", at, "trained_length", (json_int_t)r->result.trained_length, "length",
                            (json_int_t)r->result.length, "count", (json_int_t)r->result.count, "loss",
                            finite_or_null(r->result.loss), "accuracy", finite_or_null(r->result.accuracy)));
    }
    return print_json(rows);
}

static int print_as_text(const table *t) {
    printf("%-16s  %-28s %-18s %10s %8s %7s %9s %12s %9s\n", "id", "task", "attention", "seed", "trained", "length",
           "sequences", "loss", "accuracy");
    for (size_t i = 0; i < t->count; i++) {
        const row *r = &t->rows[i];
        printf("%-16s  %-28s %-18s %10lld %8zu %7zu %9zu %12.6g %8.2f%%\n", r->run.id, on_one_line(r->run.task),
               on_one_line(r->run.attention), (long long)r->run.seed, r->result.trained_length, r->result.length,
               r->result.count, r->result.loss, r->result.accuracy);
    }
    return finish_output();
}

static int evaluate_all(sf_store *store, const cli_request *request, const size_t *lengths /* [count] */,
                        size_t count) {
    static const char *const moments[] = {[SF_AT_LAST] = "last", [SF_AT_BEST] = "best", [SF_AT_INIT] = "init"};
    const sf_options *options = &request->options;
    table t = {.rows = calloc(request->word_count * (count > 0 ? count : 1), sizeof *t.rows)};
    if (t.rows == NULL) {
        fail_usage("no memory left for %zu runs", request->word_count);
        return EXIT_FAILED;
    }
    sf_status status = SF_OK;
    for (size_t i = 0; i < request->word_count && status == SF_OK; i++)
        status = evaluate_run(&t, store, request->words[i], options, lengths, count);
    const int code = status != SF_OK ? fail(status)
                     : options->json ? print_as_json(&t, moments[options->at])
                                     : print_as_text(&t);
    free(t.rows);
    return code;
}

static int run(const cli_request *request) {
    size_t lengths[MOST_LENGTHS], count = 0;
    if (sf_options_given(&request->options, "lengths") && !read_lengths(lengths, &count, request->options.lengths))
        return fail_usage("lengths is '%.60s' but must be whole numbers from 1 to %d with commas between them, "
                          "e.g. 41,60,100",
                          request->options.lengths, LONGEST);
    const char *arithmetic = given_arithmetic(request);
    if (arithmetic != NULL)
        return fail_usage("--%s has no effect on evaluate, which computes as the run was trained; leave it out",
                          arithmetic);
    sf_store *store;
    const sf_status status = open_to_read(&store, request->options.store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    const int code = evaluate_all(store, request, lengths, count);
    sf_store_close(store);
    return code;
}

const cli_verb verb_evaluate = {
    .name = "evaluate",
    .usage = "RUN... [--lengths N,...] [--count N] [--at last|best|init]",
    .summary = "evaluate runs on held-out sequences of other lengths",
    .details =
        "RUN is an id from 'semfocus runs' or an unambiguous beginning of one. The sequences are the held-out ones\n"
        "that a run of that length would have under the same data seed. The model keeps its weights, its k and its\n"
        "global tokens; positions, padding and kept keys are those of the new length, where a k that covers it is "
        "full\n"
        "attention. At a run's own length and held-out count the result is its held-out loss, bit by bit on the same\n"
        "instruction set. A run on data of your own can be evaluated only at its own length.\n"
        "example: semfocus evaluate 3f2a 91bc --lengths 40,60,100,200\n",
    .groups = SF_GROUP_LENGTHS | SF_GROUP_FILE | SF_GROUP_WEIGHTS | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "RUN",
    .next_words = "RUN",
    .run = run,
};
