#include "report/own_data_part.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sorted.h"
#include "report/svg.h"
#include "semfocus/text.h"

enum { MOST_NAMES = 20 }; /* of labels on the page */

typedef struct results { /* of the runs of a group that have any */
    double *perplexity, *bits;
    size_t count;
} results;

static sf_status collect(results *r, const sf_study *study, sf_store *store, size_t group) {
    size_t planned;
    const sf_planned_run *runs = sf_study_runs(study, &planned);
    r->count = 0;
    for (size_t m = 0; m < sf_study_group(study, group)->runs; m++) {
        sf_stored_run run;
        sf_text_result result;
        if (sf_store_find(&run, store, runs[sf_study_member(study, group, m)].id) != SF_OK) continue; /* not trained */
        SF_TRY(sf_text_result_of(&result, store, &run));
        if (isnan(result.perplexity)) continue;
        r->perplexity[r->count] = result.perplexity;
        r->bits[r->count++] = result.bits_per_byte;
    }
    return SF_OK;
}

static double median(double *values, size_t count) {
    sf_sort(values, count);
    return sf_sorted_quantile(values, count, 0.5);
}

static void print_row(FILE *out, const sf_group *group, results *r) {
    fputs("<tr><td>", out);
    sf_markup_text(out, group->task);
    fputs("</td><td>", out);
    sf_markup_text(out, group->name);
    const double perplexity = median(r->perplexity, r->count);
    fprintf(out, "</td><td>%zu</td><td>%.3f</td><td>", r->count, perplexity);
    if (isnan(r->bits[0]))
        fputs("-", out);
    else
        fprintf(out, "%.4f", median(r->bits, r->count));
    fputs("</td></tr>\n", out);
}

static sf_status print_texts(FILE *out, const sf_study *study, sf_store *store, results *r) {
    bool begun = false;
    for (size_t g = 0; g < sf_study_group_count(study); g++) {
        SF_TRY(collect(r, study, store, g));
        if (r->count == 0) continue;
        if (!begun)
            fputs("<section id=\"text\">\n<h2>How well is the held-out text predicted?</h2>\n<table>\n<tr><th>text</th>"
                  "<th>mechanism</th><th>runs</th><th>perplexity per token</th><th>bits per byte</th></tr>\n",
                  out);
        begun = true;
        print_row(out, sf_study_group(study, g), r);
    }
    if (begun) fputs("</table>\n<p class=\"note\">Medians of the runs after their last epoch.</p>\n</section>\n", out);
    return SF_OK;
}

static void print_names(FILE *out, const json_t *names) {
    fputs("<p>Labels: ", out);
    for (size_t i = 0; i < json_array_size(names) && i < MOST_NAMES; i++) {
        fprintf(out, "%s%zu: ", i > 0 ? ", " : "", i);
        sf_markup_text(out, json_string_value(json_array_get(names, i)));
    }
    if (json_array_size(names) > MOST_NAMES) fprintf(out, " and %zu more", json_array_size(names) - MOST_NAMES);
    fputs("</p>\n", out);
}

static void print_tokens(FILE *out, const json_t *tokenizer, const json_t *data) {
    const long long context = (long long)json_integer_value(json_object_get(data, "context"));
    fputs("<p>Tokens: those of the tokenizer ", out);
    sf_markup_text(out, json_string_value(tokenizer));
    fprintf(out, ", a vocabulary of %lld ids", (long long)json_integer_value(json_object_get(data, "vocabulary")));
    if (context > 0) fprintf(out, "; sequences of %lld tokens", context);
    fputs(".</p>\n", out);
}

static void print_reading(FILE *out, const char *task, const json_t *data) {
    const json_t *names = json_object_get(data, "labels"), *tokenizer = json_object_get(data, "tokenizer");
    if (json_array_size(names) == 0 && tokenizer == NULL) return;
    fputs("<section class=\"labels\">\n<h2>How ", out);
    sf_markup_text(out, task);
    fputs(" was read</h2>\n", out);
    if (tokenizer != NULL) print_tokens(out, tokenizer, data);
    if (json_array_size(names) > 0) print_names(out, names);
    fputs("</section>\n", out);
}

/* As the record of the first run of each task has it. */
static sf_status print_readings(FILE *out, const sf_study *study, sf_store *store) {
    size_t planned;
    const sf_planned_run *runs = sf_study_runs(study, &planned);
    const char *before = "";
    for (size_t g = 0; g < sf_study_group_count(study); g++) {
        const sf_group *group = sf_study_group(study, g);
        char *environment;
        if (strcmp(before, group->task) == 0) continue;
        before = group->task;
        SF_TRY(sf_store_environment(&environment, store, runs[sf_study_member(study, g, 0)].id));
        json_t *facts = json_loads(environment, 0, NULL);
        print_reading(out, group->task, json_object_get(facts, "data"));
        json_decref(facts);
        free(environment);
    }
    return SF_OK;
}

sf_status sf_print_own_data(FILE *out, const sf_study *study, sf_store *store) {
    results r = {0};
    size_t most = 0;
    for (size_t g = 0; g < sf_study_group_count(study); g++)
        if (sf_study_group(study, g)->runs > most) most = sf_study_group(study, g)->runs;
    sf_status status = SF_NEW(&r.perplexity, most);
    if (status == SF_OK) status = SF_NEW(&r.bits, most);
    if (status == SF_OK) status = print_texts(out, study, store, &r);
    if (status == SF_OK) status = print_readings(out, study, store);
    sf_release(r.perplexity);
    sf_release(r.bits);
    return status;
}
