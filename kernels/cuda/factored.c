/* The features of fastmax as the kernels of parts_factored.cu take them, in slices like those of kernels/cpu/plan.c. */
#include "base/memory.h"
#include "base/sizes.h"
#include "kernels/cuda/members.h"

bool sf_cuda_is_linear(const sf_shape *s) {
    const sf_attention *a = &s->attention;
    const size_t features = 1 + s->D + s->D * (s->D + 1) / 2;
    return a->weighting == &sf_weighting_fastmax && sf_attention_keeps_visible(a) && !a->causal &&
           sf_attention_score_steps(a) == 0 && 4 * s->T >= features;
}

typedef struct feature_tables {
    uint32_t *codes;      /* [features]: kind, and up to two channels */
    uint32_t *run_begins; /* [D+1] */
    uint32_t *slice_ends; /* [slices] */
} feature_tables;

static uint32_t code_of(uint32_t kind, size_t a, size_t e) {
    return kind | (uint32_t)a << 2 | (uint32_t)e << 17;
}

/* A run: 1 and the channels, or a channel times itself and those after it. */
static size_t add_run(const feature_tables *out, size_t at, size_t run, size_t D) {
    if (out->run_begins != NULL) out->run_begins[run] = (uint32_t)at;
    if (run == 0) {
        if (out->codes != NULL) out->codes[at] = code_of(SF_CUDA_ONE, 0, 0);
        for (size_t e = 0; e < D && out->codes != NULL; e++) out->codes[at + 1 + e] = code_of(SF_CUDA_CHANNEL, 0, e);
        return at + 1 + D;
    }
    const size_t a = run - 1;
    for (size_t e = a; e < D && out->codes != NULL; e++) out->codes[at + e - a] = code_of(SF_CUDA_PRODUCT, a, e);
    return at + D - a;
}

/* NULL tables are not written. Returns the features; *slices: how many slices there are. */
static size_t fill_tables(const feature_tables *out, size_t *slices, size_t D) {
    enum { FULL = 128 };
    size_t features = 0;
    *slices = 0;
    for (size_t run = 0; run <= D; ++*slices) {
        const size_t first = features;
        for (; run <= D && features - first < FULL; run++) features = add_run(out, features, run, D);
        for (; features % SF_PADDING != 0; features++)
            if (out->codes != NULL) out->codes[features] = code_of(SF_CUDA_NO_FEATURE, 0, 0);
        if (out->slice_ends != NULL) out->slice_ends[*slices] = (uint32_t)features;
    }
    return features;
}

static size_t floats_of_head(const sf_cuda_member *m) {
    return 2 * ((size_t)m->parts.features * (m->Dp + 1) + m->T);
}

void sf_cuda_size_factored(sf_cuda_member *m, const sf_shape *s) {
    enum { MOST_BYTES = 1 << 24 };
    const feature_tables none = {0};
    size_t slices;
    if (!sf_cuda_is_linear(s)) return;
    m->parts.features = (uint32_t)fill_tables(&none, &slices, s->D);
    m->parts.slices = (uint32_t)slices;
    const size_t heads = (size_t)m->sequences * m->H;
    m->parts.factored_heads = (uint32_t)sf_larger(1, sf_smaller(heads, MOST_BYTES / sizeof(float) / floats_of_head(m)));
}

size_t sf_cuda_factored_floats(const sf_cuda_member *m) {
    return m->parts.factored_heads * floats_of_head(m);
}

uint32_t sf_cuda_factored_rounds(const sf_cuda_member *m) {
    const uint32_t heads = m->sequences * m->H, held = m->parts.factored_heads;
    return held > 0 ? (heads + held - 1) / held : 0;
}

sf_status sf_cuda_copy_features(const sf_cuda_member *m) {
    const sf_cuda_parts *p = &m->parts;
    const size_t D = m->D, count = p->features + D + 1 + p->slices;
    uint32_t *numbers = NULL;
    size_t slices;
    SF_TRY(SF_NEW(&numbers, count));
    const feature_tables tables = {numbers, numbers + p->features, numbers + p->features + D + 1};
    fill_tables(&tables, &slices, D);
    sf_status status = sf_cuda_copy_in((void *)p->codes, tables.codes, p->features * sizeof *numbers);
    if (status == SF_OK) status = sf_cuda_copy_in((void *)p->run_begins, tables.run_begins, (D + 1) * sizeof *numbers);
    if (status == SF_OK) status = sf_cuda_copy_in((void *)p->slice_ends, tables.slice_ends, slices * sizeof *numbers);
    sf_release(numbers);
    return status;
}
