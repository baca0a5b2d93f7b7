#include "semfocus/describe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "tasks/table_data.h"
#include "train/own_data.h"

enum { FEW_SEQUENCES = 50 };

typedef struct tally { /* how often every id occurs in the training data */
    size_t *tokens, *labels;
} tally;

static void warn(sf_data_description *about, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void warn(sf_data_description *about, const char *format, ...) {
    va_list values;
    if (about->warning_count == SF_MOST_WARNINGS) return;
    va_start(values, format);
    vsnprintf(about->warnings[about->warning_count++], sizeof *about->warnings, format, values);
    va_end(values);
}

static void measure_lengths(sf_data_description *about, const sf_dataset *const sets[2]) {
    double total = 0;
    about->shortest = SIZE_MAX;
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sf_dataset_count(sets[s]); i++) {
            size_t count;
            sf_dataset_tokens(sets[s], i, &count);
            if (count < about->shortest) about->shortest = count;
            if (count > about->longest) about->longest = count;
            total += (double)count;
        }
    about->mean = total / (double)(about->training + about->heldout);
}

static void count_ids(tally *t, const sf_dataset *set) {
    for (size_t i = 0; i < sf_dataset_count(set); i++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(set, i, &count);
        for (size_t j = 0; j < count; j++) t->tokens[tokens[j]]++;
        const int32_t *labels = sf_dataset_labels(set, i, &count);
        for (size_t j = 0; j < count; j++)
            if (labels[j] >= 0) t->labels[labels[j]]++;
    }
}

static void look_at_heldout(sf_data_description *about, const tally *t, const sf_dataset *set, int32_t guess) {
    size_t unknown = 0, all = 0, right = 0, labelled = 0, unseen = 0;
    for (size_t i = 0; i < sf_dataset_count(set); i++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(set, i, &count);
        all += count;
        for (size_t j = 0; j < count; j++) unknown += t->tokens[tokens[j]] == 0;
        const int32_t *labels = sf_dataset_labels(set, i, &count);
        for (size_t j = 0; j < count; j++) {
            labelled += labels[j] >= 0;
            right += labels[j] == guess;
            unseen += labels[j] >= 0 && t->labels[labels[j]] == 0;
        }
    }
    if (unseen > 0)
        warn(about, "%zu of %zu held-out labels never occur in the training data, so no model can learn them", unseen,
             labelled);
    about->heldout_labels = labelled;
    about->unknown = all > 0 ? 100.0 * (double)unknown / (double)all : 0;
    about->majority = labelled > 0 ? 100.0 * (double)right / (double)labelled : 0;
}

static sf_status name_label(char out[64], const sf_own_facts *own, int32_t label) {
    sf_bytes text = {0};
    if (own->corpus != NULL) { /* the label is a token */
        SF_TRY(sf_tokenizer_decode(&text, own->tokenizer, &label, 1));
        SF_TRY(sf_bytes_add(&text, "", 1));
        snprintf(out, 64, "%s", text.at);
        sf_bytes_release(&text);
    } else if (own->labels != NULL && (size_t)label < own->labels->count) {
        snprintf(out, 64, "%s", sf_words_text(own->labels, (size_t)label));
    } else {
        snprintf(out, 64, "%d", label);
    }
    return SF_OK;
}

typedef struct ranked {
    int32_t label;
    size_t count;
} ranked;

static int by_count(const void *a, const void *b) {
    const ranked *left = a, *right = b;
    if (left->count != right->count) return left->count > right->count ? -1 : 1;
    return (left->label > right->label) - (left->label < right->label);
}

/* *guess: the most frequent one. */
static sf_status list_labels(sf_data_description *about, int32_t *guess, const sf_own_facts *own, const tally *t) {
    ranked *order;
    size_t count = 0;
    SF_TRY(SF_NEW(&order, about->classes));
    for (size_t i = 0; i < about->classes; i++)
        if (t->labels[i] > 0) order[count++] = (ranked){(int32_t)i, t->labels[i]};
    qsort(order, count, sizeof *order, by_count);
    *guess = count > 0 ? order[0].label : -1;
    sf_status status = SF_NEW(&about->labels, count);
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        status = name_label(about->labels[i].name, own, order[i].label);
        about->labels[i].count = order[i].count;
        about->training_labels += order[i].count;
    }
    if (status == SF_OK) about->label_count = count;
    sf_release(order);
    return status;
}

static uint64_t hash_row(const sf_dataset *set, size_t i) {
    size_t count;
    const int32_t *tokens = sf_dataset_tokens(set, i, &count);
    return sf_hash(SF_HASH_START, tokens, count * sizeof *tokens);
}

static int by_value(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Held-out sequences that the training data has as well, told by their hashes. */
static sf_status count_duplicates(size_t *out, const sf_dataset *training, const sf_dataset *heldout) {
    uint64_t *known;
    const size_t count = sf_dataset_count(training);
    *out = 0;
    SF_TRY(SF_NEW(&known, count));
    for (size_t i = 0; i < count; i++) known[i] = hash_row(training, i);
    qsort(known, count, sizeof *known, by_value);
    for (size_t i = 0; i < sf_dataset_count(heldout); i++) {
        const uint64_t hash = hash_row(heldout, i);
        *out += bsearch(&hash, known, count, sizeof *known, by_value) != NULL;
    }
    sf_release(known);
    return SF_OK;
}

static sf_status find_warnings(sf_data_description *about, const sf_run_data *data) {
    size_t duplicates = 0;
    if (about->training < FEW_SEQUENCES)
        warn(about, "training sequences: only %zu, so results will differ much from seed to seed", about->training);
    if (about->heldout < FEW_SEQUENCES)
        warn(about, "held-out sequences: only %zu, so held-out accuracy has steps of %.1f %%", about->heldout,
             100.0 / (double)about->heldout);
    if (data->own->table != NULL && data->own->table->odd_first_row)
        warn(about, "no other row has the label of the first line; if that line is a header, name the columns with "
                    "--tokens and --label");
    if (about->label_count == 1)
        warn(about, "every training label is '%s', so there is nothing to learn", about->labels[0].name);
    if (data->own->corpus == NULL) SF_TRY(count_duplicates(&duplicates, data->training, data->heldout));
    if (duplicates > 0)
        warn(about, "%zu of %zu held-out sequences are in the training data as well, so held-out accuracy is too high",
             duplicates, about->heldout);
    return SF_OK;
}

static sf_status describe(sf_data_description *about, const sf_run_data *data, tally *t) {
    const sf_dataset *const sets[2] = {data->training, data->heldout};
    int32_t guess;
    about->training = sf_dataset_count(data->training);
    about->heldout = sf_dataset_count(data->heldout);
    about->vocabulary = (size_t)data->pad;
    about->classes = data->classes;
    about->tokenizer = data->own->tokenizer != NULL ? data->own->tokenizer->kind->name : NULL;
    measure_lengths(about, sets);
    SF_TRY(SF_NEW(&t->tokens, about->vocabulary));
    SF_TRY(SF_NEW(&t->labels, about->classes));
    count_ids(t, data->training);
    for (size_t i = 0; i < about->vocabulary; i++) about->used += t->tokens[i] > 0;
    SF_TRY(list_labels(about, &guess, data->own, t));
    look_at_heldout(about, t, data->heldout, guess);
    return find_warnings(about, data);
}

sf_status sf_data_describe(sf_data_description **out, const char *task, const sf_config *config) {
    char quoted[SF_QUOTE_SIZE];
    sf_config own = *config;
    sf_run_data data;
    tally t = {0};
    *out = NULL;
    if (!sf_run_data_is_own(task))
        return sf_fail(SF_BAD_INPUT,
                       "'%s' is not data of your own; name a file: text:FILE, csv:FILE, tsv:FILE or jsonl:FILE",
                       sf_text_quote(quoted, task));
    SF_TRY(sf_run_data_recipe(&own, task));
    SF_TRY(sf_run_data_open(&data, task, &own, NULL));
    sf_data_description *about = NULL;
    sf_status status = SF_NEW(&about, 1);
    if (status == SF_OK) status = describe(about, &data, &t);
    sf_release(t.tokens);
    sf_release(t.labels);
    sf_run_data_close(&data);
    if (status != SF_OK) {
        sf_data_description_release(about);
        return status;
    }
    *out = about;
    return SF_OK;
}

void sf_data_description_release(sf_data_description *about) {
    if (about == NULL) return;
    sf_release(about->labels);
    sf_release(about);
}
