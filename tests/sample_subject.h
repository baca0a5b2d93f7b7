/* Small models over even-pairs, for the tests of the measures. */
#ifndef SF_TESTS_SAMPLE_SUBJECT_H
#define SF_TESTS_SAMPLE_SUBJECT_H

#include "sample_model.h"

#include "measure/observation.h"

typedef struct sample_subject {
    sample s; /* its tokens are not used */
    float *params;
    sf_run_data data;
    sf_subject subject;
} sample_subject;

/* Takes T, attention and so on from the case; samples = B. */
static inline void subject_open(sample_subject *out, const sample_case *c) {
    const sf_task *task;
    sample_open(&out->s, c);
    assert_int_equal(SF_NEW(&out->params, out->s.model.size), SF_OK);
    for (size_t i = 0; i < out->s.model.size; i++) out->params[i] = (float)out->s.params[i];
    assert_int_equal(sf_task_find(&task, "even-pairs"), SF_OK);
    out->data = (sf_run_data){.pad = 4, .classes = 3, .longest = c->T};
    /* sequences two shorter than the positions, so that there is padding */
    const size_t length = c->T > 2 ? c->T - 2 : 1;
    assert_int_equal(sf_dataset_sample(&out->data.training, task, SF_TRAINING, c->seed, c->B, length), SF_OK);
    assert_int_equal(sf_dataset_sample(&out->data.heldout, task, SF_HELDOUT, c->seed, c->B, length), SF_OK);
    out->subject = (sf_subject){.model = &out->s.model,
                                .params = out->params,
                                .data = &out->data,
                                .split = SF_HELDOUT,
                                .samples = c->B,
                                .seed = c->seed,
                                .machine.threads = 1};
}

static inline void subject_close(sample_subject *it) {
    sf_dataset_destroy(it->data.training);
    sf_dataset_destroy(it->data.heldout);
    sf_release(it->params);
    sample_close(&it->s);
}

/* The sequence i of the subject's split as a batch of one, laid out anew. */
static inline sf_batch subject_batch(const sample_subject *it, size_t i, int32_t *tokens /* [T] */, int32_t *label) {
    const sf_shape *s = &it->s.model.shape;
    size_t count;
    const int32_t *from = sf_dataset_tokens(it->data.heldout, i, &count);
    for (size_t t = 0; t < s->T; t++) {
        const size_t plain = s->T - s->attention.globals;
        tokens[t] = t < count ? from[t] : t < plain ? 4 : (int32_t)(5 + t - plain);
    }
    *label = sf_dataset_label(it->data.heldout, i);
    return (sf_batch){.tokens = tokens, .labels = label, .B = 1};
}

/* The address of that sequence in an evaluation. */
static inline sf_moment subject_moment(const sample_subject *it, size_t i, double noise) {
    return (sf_moment){.seed = it->subject.seed, .step = 1, .first_sample = (uint32_t)i, .noise = noise};
}

#endif
