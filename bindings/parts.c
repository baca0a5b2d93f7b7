/* Selectors and weightings in another language: the functions that all of them share. What a part computes for a head
 * lies in the scratch memory, behind a sentence that says why it could not. */
#include <stdio.h>

#include "base/memory.h"
#include "bindings/bindings.h"

static size_t scratch_size(const sf_head_input *head) {
    return SF_FOREIGN_SENTENCE + head->T * head->T;
}

static const char *failure_of_selector(const void *prepared) {
    const char *sentence = prepared;
    return *sentence != '\0' ? sentence : NULL;
}

static size_t keep(uint32_t *kept, const sf_query *query) {
    const unsigned char *row =
        (const unsigned char *)query->prepared + SF_FOREIGN_SENTENCE + query->query * query->keys;
    size_t count = 0;
    if (failure_of_selector(query->prepared) != NULL) return 0;
    for (size_t j = 0; j < query->visible; j++)
        if (row[j] != 0) kept[count++] = (uint32_t)j;
    return count;
}

static size_t sentence_in_doubles(size_t T, const double *arguments) {
    (void)T;
    (void)arguments;
    return SF_FOREIGN_SENTENCE / sizeof(double);
}

static const char *failure_of_weighting(const double *scratch) {
    return failure_of_selector(scratch);
}

typedef struct words { /* that the registry points to until the process ends; what is cut off is too long anyway */
    char name[64], summary[256];
} words;

static sf_status keep_words(words **out, const char *name, const char *summary) {
    SF_TRY(SF_NEW(out, 1));
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    snprintf((*out)->summary, sizeof(*out)->summary, "%s", summary);
    return SF_OK;
}

static sf_status enter(const sf_plugin *plugin, words *mine, const char *source) {
    const sf_status status = sf_plugin_register_text(plugin, mine->name, source);
    if (status != SF_OK) sf_release(mine);
    return status;
}

sf_status sf_foreign_selector(const char *name, const char *summary, const char *source, bool takes_k, bool keeps_k,
                              bool not_causal,
                              void (*prepare)(void *const *scratch, const sf_head_input *heads, size_t count)) {
    words *mine;
    SF_TRY(keep_words(&mine, name, summary));
    const sf_selector selector = {SF_SELECTOR,
                                  .name = mine->name,
                                  .summary = mine->summary,
                                  .takes_k = takes_k,
                                  .keeps_k = keeps_k,
                                  .selects_by = SF_BY_SCORE | SF_BY_ALL_SCORES,
                                  .keep = keep,
                                  .scratch_size = scratch_size,
                                  .prepare_batch = prepare,
                                  .not_causal = not_causal,
                                  .failure = failure_of_selector};
    const sf_plugin plugin = {SF_PLUGIN, .selectors = (const sf_selector *const[]){&selector, NULL}};
    return enter(&plugin, mine, source);
}

sf_status sf_foreign_weighting(const char *name, const char *summary, const char *source, bool not_causal,
                               void (*weigh)(double *const *weights, const double *const *scores,
                                             const sf_weighing_matrix *rows, size_t count),
                               void (*backward)(double *const *dscores, const double *const *dweights,
                                                const double *const *weights, const double *const *scores,
                                                const sf_weighing_matrix *rows, size_t count)) {
    words *mine;
    SF_TRY(keep_words(&mine, name, summary));
    const sf_weighting weighting = {SF_WEIGHTING,
                                    .name = mine->name,
                                    .summary = mine->summary,
                                    .not_causal = not_causal,
                                    .weigh_batch = weigh,
                                    .weigh_batch_backward = backward,
                                    .matrix_scratch = sentence_in_doubles,
                                    .failure = failure_of_weighting};
    const sf_plugin plugin = {SF_PLUGIN, .weightings = (const sf_weighting *const[]){&weighting, NULL}};
    return enter(&plugin, mine, source);
}
