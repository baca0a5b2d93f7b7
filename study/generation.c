/* What a causal model of text writes: one token after the other, each drawn from what the model expects after the
 * tokens before it. */
#include <assert.h>
#include <stdlib.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "base/random.h"
#include "semfocus/text.h"
#include "store/stored_model.h"
#include "train/automatic.h"
#include "train/batch.h"
#include "train/evaluator.h"
#include "train/numerics.h"
#include "train/own_data.h"

typedef struct writing {
    sf_stored_model stored;
    sf_evaluator evaluator;
    sf_ids ids;               /* prompt and what was written */
    int32_t *tokens;          /* [T] */
    int32_t *labels;          /* [T] */
    float *logits;            /* [T,classes] */
    size_t *order;            /* [classes] */
    size_t T, shown, classes; /* positions, those of them for text, ids */
} writing;

static sf_status check_run(const sf_stored_run *run, const sf_config *config) {
    if (sf_run_data_is_text(run->task) && config->causal && config->readout == SF_READ_EACH) return SF_OK;
    return sf_fail(
        SF_BAD_INPUT,
        "run %s is not a causal model of text, so it cannot write any; train one with 'semfocus train text:FILE "
        "--readout each --causal'",
        run->id);
}

static sf_status choose_machine(sf_machine *out, const writing *w, const sf_execution *execution, size_t count) {
    sf_workload work = {0};
    *out = sf_machine_of(execution);
    out->device = sf_numerics_device(w->stored.config, out->device);
    sf_workload_add_evaluation(&work, &w->stored.model->shape, 1, count);
    sf_machine_decide(out, &work);
    return sf_backend_check_run(sf_machine_backend(out), w->stored.config);
}

static sf_status open_writing(writing *w, const sf_generation_request *request) {
    sf_machine machine;
    const sf_shape *shape = &w->stored.model->shape;
    w->T = shape->T;
    w->shown = w->stored.data->longest;
    w->classes = shape->classes;
    SF_TRY(choose_machine(&machine, w, &request->execution, request->tokens));
    SF_TRY(sf_evaluator_open(&w->evaluator, &machine, SF_EVALUATION_WORK, w->stored.model,
                             (sf_precision)w->stored.config->precision, 1, 1));
    SF_TRY(SF_NEW(&w->tokens, w->T));
    SF_TRY(SF_NEW(&w->labels, w->T));
    SF_TRY(SF_NEW(&w->logits, w->T * w->classes));
    return SF_NEW(&w->order, w->classes);
}

static void close_writing(writing *w) {
    sf_evaluator_close(&w->evaluator);
    sf_stored_model_close(&w->stored);
    sf_ids_release(&w->ids);
    sf_release(w->tokens);
    sf_release(w->labels);
    sf_release(w->logits);
    sf_release(w->order);
}

/* Line by line, as the training text was. */
static sf_status read_prompt(sf_ids *ids, const sf_tokenizer *tokenizer, const char *prompt) {
    for (;;) {
        const size_t length = strcspn(prompt, "\n");
        SF_TRY(sf_tokenizer_encode(ids, tokenizer, prompt, length));
        prompt += length;
        if (*prompt == '\0') break;
        SF_TRY(sf_ids_add(ids, tokenizer->line_end));
        prompt++;
    }
    return ids->count > 0 ? SF_OK : sf_ids_add(ids, tokenizer->line_end);
}

/* The logits of the next token: those of the last position that has a token. What follows it is not seen. */
static sf_status predict(const float **out, writing *w) {
    const sf_shape *shape = &w->stored.model->shape;
    const size_t count = w->ids.count < w->shown ? w->ids.count : w->shown, globals = shape->attention.globals;
    const int32_t pad = w->stored.data->pad, *shown = w->ids.at + w->ids.count - count;
    for (size_t t = 0; t < w->T; t++) {
        const bool global = t >= w->T - globals;
        w->tokens[t] = t < count ? shown[t] : global ? pad + 1 + (int32_t)(t - (w->T - globals)) : pad;
        w->labels[t] = t == count - 1 ? 0 : -1;
    }
    const uint32_t last = (uint32_t)count - 1;
    const sf_batch batch = {.tokens = w->tokens, .labels = w->labels, .B = 1, .last = &last};
    const sf_moment moment = sf_evaluation_moment((uint32_t)w->stored.config->seed, SF_HELDOUT, 0);
    const float *params = w->stored.params;
    sf_evaluation ignored;
    *out = w->logits + (size_t)last * w->classes;
    return sf_evaluator_evaluate(&w->evaluator, &ignored, w->logits, &params, 1, &batch, &moment);
}

static _Thread_local const float *compared; /* qsort() has no context */

static int by_logit(const void *a, const void *b) {
    const size_t left = *(const size_t *)a, right = *(const size_t *)b;
    if (compared[left] != compared[right]) return compared[left] > compared[right] ? -1 : 1;
    return (left > right) - (left < right);
}

/* The ids from the most probable on; equally probable ones in their order. */
static void sort_ids(writing *w, const float *logits) {
    for (size_t i = 0; i < w->classes; i++) w->order[i] = i;
    compared = logits;
    qsort(w->order, w->classes, sizeof *w->order, by_logit);
}

static int32_t draw(writing *w, const float *logits, const sf_generation_request *request, uint32_t number) {
    sort_ids(w, logits);
    if (request->temperature == 0) return (int32_t)w->order[0];
    const size_t kept = request->top > 0 && request->top < w->classes ? request->top : w->classes;
    const double most = logits[w->order[0]];
    double total = 0, below = 0;
    for (size_t i = 0; i < kept; i++) total += sf_exp((logits[w->order[i]] - most) / request->temperature);
    sf_draws draws = sf_draws_at(
        (sf_index){.seed = request->seed, .stream = sf_stream(SF_GENERATED_TOKENS, 0, 0), .sample = number});
    const double at = sf_draw_unit(&draws) * total;
    for (size_t i = 0; i < kept; i++) {
        below += sf_exp((logits[w->order[i]] - most) / request->temperature);
        if (at < below) return (int32_t)w->order[i];
    }
    return (int32_t)w->order[kept - 1];
}

static sf_status write_tokens(writing *w, const sf_generation_request *request) {
    const float *logits;
    SF_TRY(read_prompt(&w->ids, w->stored.data->own->tokenizer, request->prompt));
    for (size_t i = 0; i < request->tokens; i++) {
        SF_TRY(predict(&logits, w));
        SF_TRY(sf_ids_add(&w->ids, draw(w, logits, request, (uint32_t)i)));
    }
    return SF_OK;
}

static sf_status to_text(char **out, const writing *w) {
    sf_bytes text = {0};
    sf_status status = sf_tokenizer_decode(&text, w->stored.data->own->tokenizer, w->ids.at, w->ids.count);
    *out = status == SF_OK ? malloc(text.count + 1) : NULL;
    if (status == SF_OK && *out == NULL) status = sf_fail(SF_NO_MEMORY, "no memory left for the generated text");
    if (*out != NULL) {
        assert(text.count == 0 || text.at != NULL);
        for (size_t i = 0; i < text.count; i++) {
            const char byte = text.at[i];
            (*out)[i] = (char)(byte == '\0' ? ' ' : byte); /* the text ends with the first zero byte */
        }
        (*out)[text.count] = '\0';
    }
    sf_bytes_release(&text);
    return status;
}

sf_status sf_generate(char **out, sf_store *store, const sf_stored_run *run, const sf_generation_request *request) {
    sf_config config;
    writing w = {0};
    *out = NULL;
    SF_TRY(sf_store_config(&config, store, run));
    SF_TRY(check_run(run, &config));
    sf_status status = sf_stored_writer_open(&w.stored, store, run, request->at);
    if (status == SF_OK) status = open_writing(&w, request);
    if (status == SF_OK) status = write_tokens(&w, request);
    if (status == SF_OK) status = to_text(out, &w);
    close_writing(&w);
    return status;
}
