/* What a file of the user's holds. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

enum { SHOWN = 20 }; /* labels in the table */

static bool ends_with(const char *name, const char *ending) {
    const size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcasecmp(name + length - tail, ending) == 0;
}

bool is_own_data(const char *name) {
    static const char *const prefixes[] = {"csv:", "tsv:", "jsonl:", "text:"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

/* The kind of a file without a prefix, by its ending. */
static const char *task_of(char out[SF_PATH_SIZE + 8], const char *name) {
    static const char *const kinds[][2] = {
        {".csv", "csv:"}, {".tsv", "tsv:"}, {".jsonl", "jsonl:"}, {".ndjson", "jsonl:"}};
    if (is_own_data(name)) return name;
    const char *prefix = "text:";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (ends_with(name, kinds[i][0])) prefix = kinds[i][1];
    snprintf(out, SF_PATH_SIZE + 8, "%s%s", prefix, name);
    return out;
}

static int print_as_json(const sf_data_description *about) {
    json_t *labels = json_array(), *warnings = json_array();
    for (size_t i = 0; i < about->label_count; i++)
        json_array_append_new(labels, json_pack("{s:o, s:I}", "label", json_text(about->labels[i].name), "count",
                                                (json_int_t)about->labels[i].count));
    for (size_t i = 0; i < about->warning_count; i++) json_array_append_new(warnings, json_text(about->warnings[i]));
    return print_json(json_pack("{s:I, s:I, s:I, s:I, s:f, s:o, s:I, s:I, s:f, s:I, s:o, s:f, s:o}", "training",
                                (json_int_t)about->training, "heldout", (json_int_t)about->heldout, "shortest",
                                (json_int_t)about->shortest, "longest", (json_int_t)about->longest, "mean_length",
                                about->mean, "tokenizer",
                                about->tokenizer != NULL ? json_text(about->tokenizer) : json_null(), "vocabulary",
                                (json_int_t)about->vocabulary, "used", (json_int_t)about->used, "unseen_heldout_tokens",
                                about->unknown, "classes", (json_int_t)about->classes, "labels", labels,
                                "majority_accuracy", about->majority, "warnings", warnings));
}

static void print_labels(const sf_data_description *about) {
    const size_t shown = about->label_count < SHOWN ? about->label_count : SHOWN;
    printf("labels       %zu of %zu occur in the training data\n", about->label_count, about->classes);
    for (size_t i = 0; i < shown; i++)
        printf("             %-20s %9zu  %6.2f %%\n", on_one_line(about->labels[i].name), about->labels[i].count,
               100.0 * (double)about->labels[i].count / (double)about->training_labels);
    if (about->label_count > shown) printf("             ... and %zu more\n", about->label_count - shown);
}

static int print_description(const sf_data_description *about) {
    printf("sequences    %zu for training, %zu held out\n", about->training, about->heldout);
    printf("lengths      %zu to %zu tokens, %.1f on average\n", about->shortest, about->longest, about->mean);
    printf("vocabulary   %zu ids%s%s, %zu of them in the training data; %.2f %% of the held-out tokens are not\n",
           about->vocabulary, about->tokenizer != NULL ? " of tokenizer " : "",
           about->tokenizer != NULL ? about->tokenizer : "", about->used, about->unknown);
    print_labels(about);
    printf("majority     always '%s' is right for %.2f %% of the held-out labels\n",
           about->label_count > 0 ? on_one_line(about->labels[0].name) : "", about->majority);
    for (size_t i = 0; i < about->warning_count; i++) printf("warning      %s\n", on_one_line(about->warnings[i]));
    return finish_output();
}

int describe_data(const cli_request *request) {
    char task[SF_PATH_SIZE + 8];
    sf_data_description *about;
    if (strlen(request->words[0]) >= SF_PATH_SIZE) return fail_usage("the file name is too long");
    const sf_status status = sf_data_describe(&about, task_of(task, request->words[0]), &request->config);
    if (status != SF_OK) return fail(status);
    const int code = request->options.json ? print_as_json(about) : print_description(about);
    sf_data_description_release(about);
    return code;
}

void warn_of_data(const sf_study *study) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    for (size_t i = 0; i < count; i++) {
        sf_data_description *about;
        const bool table = is_own_data(runs[i].task) && strncmp(runs[i].task, "text:", 5) != 0;
        if (!table || (i > 0 && strcmp(runs[i].task, runs[i - 1].task) == 0)) continue;
        if (sf_data_describe(&about, runs[i].task, &runs[i].config) != SF_OK) continue;
        for (size_t w = 0; w < about->warning_count; w++)
            fprintf(stderr, "semfocus: warning: %s: %s\n", on_one_line(runs[i].task), about->warnings[w]);
        sf_data_description_release(about);
    }
}
