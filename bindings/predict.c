/* Logits of a stored model. */
#include "base/memory.h"
#include "base/sizes.h"
#include "bindings/bindings.h"
#include "store/model_facts.h"
#include "store/stored_model.h"
#include "train/evaluator.h"
#include "train/numerics.h"

struct sf_predictor {
    sf_stored_model stored;
    sf_evaluator evaluator;
    int32_t *tokens; /* [SF_EVALUATION_BATCH,T] */
    int32_t *labels; /* [SF_EVALUATION_BATCH,labels]: none, or 0; the loss is not used */
    uint32_t *last;  /* [SF_EVALUATION_BATCH] */
};

static const sf_shape *shape_of(const sf_predictor *predictor) {
    return &predictor->stored.model->shape;
}

static sf_status open_model(sf_predictor *p, sf_store *store, const char *id, sf_weights_at at, size_t threads) {
    sf_stored_run run;
    SF_TRY(sf_store_find(&run, store, id));
    SF_TRY(sf_stored_model_open(&p->stored, store, &run, at));
    sf_machine machine = {.threads = threads};
    machine.device = sf_numerics_device(p->stored.config, SF_CPU);
    SF_TRY(sf_backend_check_run(sf_machine_backend(&machine), p->stored.config));
    SF_TRY(sf_evaluator_open(&p->evaluator, &machine, SF_EVALUATION_WORK, p->stored.model,
                             (sf_precision)p->stored.config->precision, SF_EVALUATION_BATCH, 1));
    SF_TRY(SF_NEW(&p->tokens, SF_EVALUATION_BATCH * shape_of(p)->T));
    SF_TRY(SF_NEW(&p->last, SF_EVALUATION_BATCH));
    const size_t labels = SF_EVALUATION_BATCH * sf_shape_labels(shape_of(p));
    SF_TRY(SF_NEW(&p->labels, labels));
    for (size_t i = 0; i < labels && shape_of(p)->readout == SF_READ_EACH; i++) p->labels[i] = SF_NO_LABEL;
    return SF_OK;
}

sf_status sf_predictor_open(sf_predictor **out, sf_store *store, const char *id, int at, size_t threads) {
    sf_predictor *predictor;
    *out = NULL;
    if (at < SF_AT_LAST || at > SF_AT_INIT)
        return sf_fail(SF_BAD_INPUT, "the weights to use are 0 (last), 1 (best) or 2 (initial), not %d", at);
    SF_TRY(SF_NEW(&predictor, 1));
    const sf_status status = open_model(predictor, store, id, (sf_weights_at)at, threads);
    if (status != SF_OK) {
        sf_predictor_close(predictor);
        return status;
    }
    *out = predictor;
    return SF_OK;
}

void sf_predictor_close(sf_predictor *predictor) {
    if (predictor == NULL) return;
    sf_evaluator_close(&predictor->evaluator);
    sf_stored_model_close(&predictor->stored);
    sf_release(predictor->tokens);
    sf_release(predictor->labels);
    sf_release(predictor->last);
    sf_release(predictor);
}

sf_status sf_predictor_json(char **out, const sf_predictor *predictor) {
    const sf_shape *s = shape_of(predictor);
    sf_model_facts facts = {0};
    sf_collected collected;
    *out = NULL;
    SF_TRY(sf_collect(&collected));
    sf_model_facts_add(&facts, "run", "%s", predictor->stored.run.id);
    sf_model_facts_add(&facts, "epoch", "%zu", predictor->stored.epoch);
    sf_model_facts_fill(&facts, predictor->stored.config, &s->attention,
                        &(sf_model_sizes){.tokens = s->V, .classes = s->classes, .positions = s->T});
    fputc('{', collected.stream);
    sf_json_text(collected.stream, "{run", facts.pairs[1]);
    for (size_t i = 1; i < facts.count; i++) sf_json_text(collected.stream, facts.pairs[2 * i], facts.pairs[2 * i + 1]);
    fputc('}', collected.stream);
    return sf_collected_end(out, &collected, SF_OK);
}

size_t sf_predictor_classes(const sf_predictor *predictor) {
    return shape_of(predictor)->classes;
}

size_t sf_predictor_labels(const sf_predictor *predictor) {
    return sf_shape_labels(shape_of(predictor));
}

size_t sf_predictor_positions(const sf_predictor *predictor) {
    return shape_of(predictor)->T;
}

sf_status sf_predictor_lay_out(int32_t *tokens, const sf_predictor *predictor, const int32_t *sequence, size_t length) {
    const sf_shape *s = shape_of(predictor);
    const size_t plain = s->T - s->attention.globals, cls = s->readout == SF_READ_CLS ? 1 : 0;
    const int32_t pad = predictor->stored.data->pad;
    if (length < 1 || length > predictor->stored.data->longest)
        return sf_fail(SF_BAD_INPUT, "a sequence has %zu tokens but run %s was trained on 1 to %zu; give it as many",
                       length, predictor->stored.run.id, predictor->stored.data->longest);
    for (size_t t = 0; t < length; t++)
        if (sequence[t] < 0 || sequence[t] > pad)
            return sf_fail(SF_BAD_INPUT, "token %d is not one of run %s; its tokens are 0 to %d", (int)sequence[t],
                           predictor->stored.run.id, (int)pad);
    if (cls > 0) tokens[0] = pad + 1 + (int32_t)s->attention.globals;
    for (size_t t = cls; t < plain; t++) tokens[t] = t - cls < length ? sequence[t - cls] : pad;
    for (size_t t = plain; t < s->T; t++) tokens[t] = pad + 1 + (int32_t)(t - plain);
    return SF_OK;
}

/* As many sequences as an evaluation takes at a time; *at moves past their tokens. */
static sf_status run_some(float *logits, sf_predictor *p, const int32_t **at, const size_t *lengths, size_t first,
                          size_t B) {
    const sf_shape *s = shape_of(p);
    const float *params = p->stored.params;
    sf_evaluation unused;
    for (size_t n = 0; n < B; n++) {
        SF_TRY(sf_predictor_lay_out(p->tokens + n * s->T, p, *at, lengths[n]));
        p->last[n] = (uint32_t)lengths[n] - 1;
        *at += lengths[n];
    }
    const sf_batch batch = {.tokens = p->tokens, .labels = p->labels, .B = B, .last = p->last};
    const sf_moment moment = sf_evaluation_moment((uint32_t)p->stored.config->seed, SF_HELDOUT, first);
    SF_TRY(sf_evaluator_evaluate(&p->evaluator, &unused, logits, &params, 1, &batch, &moment));
    return sf_member_check(p->stored.member);
}

sf_status sf_predictor_run(float *logits, sf_predictor *predictor, const int32_t *tokens, const size_t *lengths,
                           size_t count) {
    const size_t numbers = sf_predictor_labels(predictor) * sf_predictor_classes(predictor);
    for (size_t first = 0; first < count; first += SF_EVALUATION_BATCH)
        SF_TRY(run_some(logits + first * numbers, predictor, &tokens, lengths + first, first,
                        sf_smaller(count - first, SF_EVALUATION_BATCH)));
    return SF_OK;
}
