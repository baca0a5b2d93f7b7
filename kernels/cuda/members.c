/* A model in device memory: what it looks like to the kernels, and where its arrays lie. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "kernels/cuda/members.h"

/* Hands out device memory; with base NULL it only counts. */
typedef struct device_arena {
    char *base;
    size_t used;
} device_arena;

static void *take(device_arena *arena, size_t count, size_t size) {
    const size_t at = arena->used;
    arena->used += (count * size + 255) / 256 * 256;
    return arena->base != NULL ? arena->base + at : NULL;
}

#define TAKE(pointer, count) (pointer) = take(arena, (count), sizeof *(pointer))
/* What feeds products, which may be narrower than a float. */
#define TAKE_STORED(pointer, count) (pointer) = take(arena, (count), stored)

/* Bits of dropout on all weights of a head, in words of 32, where they are kept for the backward pass. */
static size_t weight_words(const member_memory *memory) {
    enum { LONGEST_KEPT = 4096 };
    const sf_cuda_member *m = &memory->device;
    const bool wanted = m->on_tensor_cores && m->selection == SF_CUDA_DENSE && m->threshold > 0;
    if (!wanted || memory->role != SF_CUDA_TRAINS || m->T > LONGEST_KEPT) return 0;
    return (size_t)((m->T + 15) / 16) * ((m->T + 63) / 64) * 32;
}

/* Whether there is a backward pass. */
static bool goes_back(sf_cuda_role role) {
    return role == SF_CUDA_TRAINS || role == SF_CUDA_ATTENDS;
}

/* What attention alone needs besides the caller's trace. */
static void lay_out_attention(sf_cuda_trace *t, device_arena *arena, const member_memory *memory) {
    const sf_cuda_member *m = &memory->device;
    const size_t R = (size_t)m->sequences * m->T, slots = (size_t)m->sequences * m->H;
    const bool chosen = m->selection > SF_CUDA_BY_PATTERN, listed = m->selection >= SF_CUDA_BY_PATTERN;
    TAKE(t->qkv, R * 3 * m->HDp);
    TAKE(t->key_offsets, chosen ? slots * (m->T + 1) : 0);
    TAKE(t->key_places, chosen ? slots * m->kept : 0);
    TAKE(t->factors, listed ? slots * m->kept : 0);
    TAKE(t->dscores, listed ? slots * m->kept : 0);
    TAKE(t->norms, m->norm_factors[0] != 0 ? R * 2 * m->H : 0);
    TAKE(t->context, R * m->HDp);
    TAKE(t->dqkv, R * 3 * m->HDp);
    TAKE(t->dcontext, R * m->HDp);
}

static void lay_out_trace(sf_cuda_trace *t, device_arena *arena, const member_memory *memory) {
    const sf_cuda_member *m = &memory->device;
    const bool tensor = m->on_tensor_cores;
    const size_t stored = tensor && memory->precision == SF_BF16 ? sizeof(uint16_t) : sizeof(float);
    const size_t R = (size_t)m->sequences * m->T, slots = (size_t)m->sequences * m->H, bits = (R + 15) / 16 * 16;
    const size_t C_words = (m->C + 63) / 64, F_words = (m->F + 63) / 64;
    const size_t G = memory->role == SF_CUDA_TRAINS ? R : 0; /* rows of gradients */
    const bool dense = m->selection == SF_CUDA_DENSE, chosen = m->selection > SF_CUDA_BY_PATTERN;
    const bool listed = chosen || m->selection == SF_CUDA_BY_PATTERN;
    const bool many = chosen && m->K > 32;
    const bool normed1 = !(tensor && m->pre_norm && memory->role == SF_CUDA_TRAINS);
    const size_t words = weight_words(memory);
    TAKE(t->input, m->pre_norm && !tensor ? 0 : R * m->Cp);
    TAKE(t->normed1, normed1 ? R * m->Cp : 0);
    TAKE(t->mean1, tensor ? R : 0);
    TAKE(t->rstd1, R);
    TAKE_STORED(t->qkv, R * 3 * m->HDp);
    TAKE(t->stats, dense ? slots * m->T : 0);
    TAKE(t->kept_weights, slots * words);
    TAKE(t->keys, chosen ? slots * m->kept : 0);
    TAKE(t->key_offsets, chosen && G > 0 ? slots * (m->T + 1) : 0);
    TAKE(t->key_places, chosen && G > 0 ? slots * m->kept : 0);
    TAKE(t->weights, listed ? slots * m->kept : 0);
    TAKE(t->factors, listed ? slots * m->kept : 0);
    TAKE(t->dscores, !listed || (G == 0 && !many) ? 0 : slots * m->kept); /* where many are chosen, scores pass here */
    TAKE(t->norms, m->norm_factors[0] != 0 ? R * 2 * m->H : 0);
    TAKE_STORED(t->context, R * m->HDp);
    TAKE(t->normed2, R * m->Cp);
    TAKE(t->rstd2, R);
    TAKE(t->hidden, R * m->Fp);
    TAKE(t->kept_attention, bits * C_words);
    TAKE(t->kept_hidden, bits * F_words);
    TAKE(t->kept_mlp, bits * C_words);
    TAKE_STORED(t->dmlp, G * m->Cp);
    TAKE_STORED(t->dhidden, G * m->Fp);
    TAKE_STORED(t->dattention, G * m->Cp);
    TAKE_STORED(t->dqkv, G * 3 * m->HDp);
    TAKE_STORED(t->dcontext, G * m->HDp);
    if (!normed1) t->normed1 = NULL;
    if (words == 0) t->kept_weights = NULL;
}

/* An evaluation goes through one block at a time, in the same place. */
static void lay_out_traces(member_memory *memory, device_arena *arena) {
    sf_cuda_trace counted = {0};
    for (size_t l = 0; l < memory->device.L; l++) {
        sf_cuda_trace *t = memory->traces != NULL ? &memory->traces[l] : &counted;
        if (memory->role == SF_CUDA_ATTENDS)
            lay_out_attention(t, arena, memory);
        else if (l == 0 || memory->role != SF_CUDA_EVALUATES)
            lay_out_trace(t, arena, memory);
        else if (memory->traces != NULL)
            *t = memory->traces[0];
    }
}

size_t sf_cuda_groups(const sf_cuda_member *m) {
    return m->sequences / (SF_CUDA_WHOLE_ROWS / sf_smaller(m->T, SF_CUDA_WHOLE_ROWS)) + 1;
}

static void lay_out_whole(member_memory *memory, device_arena *arena) {
    sf_cuda_member *m = &memory->device;
    const size_t evaluation = sf_cuda_groups(m) * SF_CUDA_WHOLE_TILE;
    const size_t training = (size_t)SF_CUDA_CHUNKS * (m->L * SF_CUDA_WHOLE_LAYER + SF_CUDA_WHOLE_SCRATCH);
    TAKE(m->whole, memory->role == SF_CUDA_TRAINS ? sf_larger(training, evaluation) : evaluation);
    TAKE(m->arranged, (size_t)m->L * 6 * 2 * SF_CUDA_WHOLE_WEIGHT);
    TAKE(m->pattern_masks, m->selection == SF_CUDA_BY_PATTERN ? m->T : 0);
}

static void lay_out_rows(member_memory *memory, device_arena *arena) {
    sf_cuda_member *m = &memory->device;
    const size_t R = memory->role == SF_CUDA_ATTENDS ? 0 : (size_t)m->sequences * m->T;
    TAKE(m->x, R * m->Cp);
    TAKE(m->dx, memory->role == SF_CUDA_EVALUATES ? 0 : R * m->Cp); /* the head writes it while training */
    TAKE(m->kept_embedding, (R + 15) / 16 * 16 * ((m->C + 63) / 64));
    TAKE(m->traces, m->L);
    lay_out_traces(memory, arena);
}

static void lay_out_parts(sf_cuda_member *m, device_arena *arena, sf_cuda_role role) {
    sf_cuda_parts *p = &m->parts;
    const size_t T = m->T, unit = (size_t)p->units * SF_CUDA_UNIT, kept = unit * p->most_kept;
    const bool softmax = p->weighting == SF_CUDA_SOFTMAX, trains = goes_back(role);
    const size_t marks = p->selector == SF_CUDA_FULL ? 0 : unit * ((T + 31) / 32);
    TAKE(p->counts, unit);
    TAKE(p->keys, kept);
    TAKE(p->weights, kept);
    TAKE(p->scores, softmax ? 0 : kept);
    if (softmax) p->scores = p->weights;
    TAKE(p->raw, p->steps > 0 ? kept : 0);
    TAKE(p->exact, softmax ? 0 : kept);
    TAKE(p->wide, softmax || !trains ? 0 : kept);
    TAKE(p->slopes, !trains ? 0 : p->straight_through ? unit * T : kept);
    TAKE(p->all_raw, p->scores_all ? unit * T : 0);
    TAKE(p->all, p->scores_all && p->steps > 0 ? unit * T : 0);
    if (p->steps == 0) p->all = p->all_raw;
    TAKE(p->bits, marks);
    TAKE(p->own, marks);
    const size_t heads = (size_t)m->sequences * m->H;
    TAKE(p->gates, unit * p->blocks);
    TAKE(p->vectors, heads * p->vectors_size);
    TAKE(p->groups, heads * p->groups_size);
    TAKE(p->codes, p->features);
    TAKE(p->run_begins, p->features > 0 ? m->D + 1 : 0);
    TAKE(p->slice_ends, p->slices);
    TAKE(p->sums, p->features > 0 ? sf_cuda_factored_floats(m) : 0);
    TAKE(p->potentials, sf_cuda_potentials(m));
    if (p->vectors_size == 0) p->vectors = NULL;
    TAKE(p->heap, p->selector == SF_CUDA_TOPP ? unit * T : 0);
}

/* Weights, optimizer, head and embedding. */
static void lay_out_weights(member_memory *memory, device_arena *arena) {
    sf_cuda_member *m = &memory->device;
    const size_t slopes = memory->role == SF_CUDA_TRAINS ? m->size : 0;
    TAKE(m->params, m->size);
    TAKE(m->packed, m->on_tensor_cores ? (size_t)2 * m->L * (4 * (size_t)m->H + 2) * SF_CUDA_PACKED : 0);
    for (size_t i = 0; i < MOST_MOMENTS; i++) TAKE(m->moments[i], i < memory->moments ? m->size : 0);
    for (size_t i = 0; i < 1 + MOST_MOMENTS; i++) TAKE(memory->before[i], i <= memory->moments ? slopes : 0);
    TAKE(m->gradient, slopes);
    TAKE(m->chunks, SF_CUDA_CHUNKS * slopes);
    TAKE(m->squares, m->size / SF_CUDA_STRETCH + 1);
    TAKE(m->losses, m->sequences);
    TAKE(m->correct, m->sequences);
    TAKE(m->pooled, (size_t)m->sequences * m->C);
    TAKE(m->slopes, (size_t)m->sequences * m->classes);
    const bool each = m->readout == SF_CUDA_EACH;
    const size_t rows = each ? (size_t)m->sequences * m->T : 0;
    TAKE(m->logits,
         (each ? m->T : (size_t)m->sequences) * (each && memory->role != SF_CUDA_EVALUATES ? 0 : m->classes));
    TAKE(m->row_losses, rows);
    TAKE(m->row_slopes, memory->role != SF_CUDA_EVALUATES ? rows : 0);
    TAKE(m->row_correct, rows);
    TAKE(m->positions, (size_t)m->T * m->Cp);
}

static void lay_out_mechanism(member_memory *memory, device_arena *arena) {
    sf_cuda_member *m = &memory->device;
    const size_t kept = sf_cuda_is_patterned(m) ? m->kept : 0;
    const size_t offsets = m->selection > SF_CUDA_BY_PARTS || kept > 0 ? m->T + 1 : 0;
    TAKE(m->offsets, offsets);
    TAKE(m->pattern, kept);
    TAKE(m->key_offsets, kept > 0 ? m->T + 1 : 0);
    TAKE(m->key_queries, kept);
    TAKE(m->key_places, kept);
    TAKE(m->angles, m->angles_count);
    if (m->angles_count == 0) m->angles = NULL;
    if (m->selection == SF_CUDA_BY_PARTS) lay_out_parts(m, arena, memory->role);
}

static void lay_out_data(member_memory *memory, device_arena *arena) {
    sf_cuda_member *m = &memory->device;
    const bool each = m->readout == SF_CUDA_EACH;
    for (size_t i = 0; i < 2; i++) {
        TAKE(m->splits[i].tokens, (size_t)m->splits[i].count * m->T);
        TAKE(m->splits[i].labels, m->splits[i].count * sf_cuda_labels(m));
        TAKE(m->splits[i].last, m->readout == SF_CUDA_LAST ? m->splits[i].count : 0);
        TAKE(m->splits[i].labelled, each ? m->splits[i].count : 0);
    }
    TAKE(memory->order, m->splits[0].count);
    TAKE(memory->rates, m->splits[0].count / m->batch + 1);
    m->order = memory->order;
    m->schedule = memory->rates;
}

static void lay_out(member_memory *memory, device_arena *arena) {
    sf_cuda_member *m = &memory->device;
    const bool alone = memory->role == SF_CUDA_ATTENDS;
    if (!alone) lay_out_weights(memory, arena);
    lay_out_mechanism(memory, arena);
    if (!alone) lay_out_data(memory, arena);
    if (memory->moments < 1) m->moments[0] = NULL;
    if (memory->moments < 2) m->moments[1] = NULL;
    if (m->is_whole)
        lay_out_whole(memory, arena);
    else
        lay_out_rows(memory, arena);
}
#undef TAKE_STORED
#undef TAKE

/* Whether whole.cuh serves a model whose T queries keep this many keys together. */
static bool taken_whole(const sf_shape *s, size_t kept) {
    const bool fits = s->T > 1 && s->T <= SF_CUDA_WHOLE_LENGTH && s->V <= SF_CUDA_WHOLE_VOCABULARY;
    const bool of_the_paper = s->C == SF_CUDA_WHOLE_WIDTH && s->F == SF_CUDA_WHOLE_WIDTH && s->H == 1;
    return fits && of_the_paper && s->D == s->C && s->readout == SF_READ_MEAN && !s->tied && !s->attention.causal &&
           s->attention.transforms[0].part == NULL && sf_cuda_selection_of(&s->attention) != SF_CUDA_BY_PARTS &&
           SF_CUDA_WHOLE_ROWS / s->T * kept <= SF_CUDA_WHOLE_MATRIX;
}

/* Causal models keep fewer for the first queries, in lists of the same length. */
static bool lists_causally(const sf_attention *attention) {
    return attention->causal && sf_cuda_selection_of(attention) > SF_CUDA_BY_PATTERN;
}

/* Whether a pattern lists the kept keys, or how many they are. */
static bool has_lists(const sf_attention *attention) {
    const uint32_t selection = sf_cuda_selection_of(attention);
    if (selection == SF_CUDA_DENSE || lists_causally(attention)) return false;
    return selection != SF_CUDA_BY_PARTS || sf_cuda_has_pattern(attention);
}

static size_t kept_per_query(const sf_shape *s) {
    return sf_smaller(s->attention.k, s->T);
}

sf_status sf_cuda_count_kept(size_t *out, const sf_shape *s) {
    sf_pattern pattern = {0};
    *out = lists_causally(&s->attention) ? s->T * kept_per_query(s) : 0;
    if (!has_lists(&s->attention)) return SF_OK;
    const sf_attention patterned = sf_cuda_patterned(&s->attention);
    SF_TRY(sf_pattern_create(&pattern, &patterned, s->T));
    *out = pattern.offsets[s->T];
    sf_pattern_destroy(&pattern);
    return SF_OK;
}

bool sf_cuda_takes_whole(const sf_shape *s) {
    size_t kept;
    return s->T <= SF_CUDA_WHOLE_LENGTH && sf_cuda_count_kept(&kept, s) == SF_OK && taken_whole(s, kept);
}

/* Whether tensor_launch.h has kernels for it. */
static bool fits_tensor_cores(const sf_shape *s) {
    return s->C <= SF_CUDA_NARROW && s->F <= SF_CUDA_NARROW && s->H <= SF_CUDA_HEADS &&
           sf_cuda_shared_most() >= SF_CUDA_TENSOR_SHARED;
}

/* On tensor cores: softmax over the keys of a fixed pattern, of a number of extreme scores, or of as many drawn by
 * chance. */
static sf_status check_mechanism(const sf_attention *a) {
    const bool by_pattern = sf_attention_selects_by(a) == SF_BY_POSITION;
    if (a->weighting != &sf_weighting_softmax) return sf_cuda_no_kernel_for("weighting", a->weighting->name);
    if (a->transforms[0].part != NULL) return sf_cuda_no_kernel_for("score transform", a->transforms[0].part->name);
    if (sf_cuda_selection_of(a) != SF_CUDA_BY_PARTS) return SF_OK;
    if (a->straight_through) return sf_cuda_no_kernel_for("extra", sf_extra_st.name);
    if (!by_pattern && a->globals > 0) return sf_cuda_no_kernel_for("extra", sf_extra_global.name);
    if (sf_attention_has_extras(a)) return sf_cuda_no_kernel_for("extra", a->extras[0].part->name);
    return sf_cuda_no_kernel_for("selector", a->selector->name);
}

sf_status sf_cuda_supports(const sf_shape *s, sf_precision precision) {
    enum { MOST_SHARED = 227 * 1024 };
    static const char *const readouts[] = {
        [SF_READ_MEAN] = "mean", [SF_READ_LAST] = "last", [SF_READ_CLS] = "cls", [SF_READ_EACH] = "each"};
    SF_TRY(precision == SF_F32 ? sf_cuda_check_parts(s) : check_mechanism(&s->attention));
    if (s->attention.causal && precision != SF_F32) return sf_cuda_no_kernel_for("setting", "causal");
    if (s->tied && precision != SF_F32) return sf_cuda_no_kernel_for("setting", "tie-weights");
    if (s->D != s->C && precision != SF_F32) return sf_cuda_no_kernel_for("setting", "head-width");
    if (s->readout != SF_READ_MEAN && precision != SF_F32)
        return sf_cuda_no_kernel_for("readout", readouts[s->readout]);
    if (sf_cuda_rows_shared((uint32_t)sf_padded(s->C), (uint32_t)sf_padded(s->F)) > MOST_SHARED)
        return sf_fail(SF_UNSUPPORTED, "width %zu with mlp-width %zu is too wide for the CUDA kernels", s->C, s->F);
    if (precision != SF_F32 && !fits_tensor_cores(s))
        return sf_fail(
            SF_UNSUPPORTED,
            "tensor cores are used for width and mlp-width up to %d and up to %d heads, not for %zu, %zu and %zu",
            SF_CUDA_NARROW, SF_CUDA_HEADS, s->C, s->F, s->H);
    return SF_OK;
}

size_t sf_cuda_shared_most(void) {
    int device = 0, bytes = 0;
    if (cudaGetDevice(&device) == cudaSuccess)
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return (size_t)bytes;
}

void sf_cuda_describe_optimizer(sf_cuda_member *m, const sf_cuda_model *model) {
    m->optimizer = (uint32_t)model->optimizer;
    m->momentum = (float)model->momentum;
    m->weight_decay = (float)model->weight_decay;
    m->beta1 = (float)model->beta1;
    m->beta2 = (float)model->beta2;
    m->epsilon = (float)model->epsilon;
    m->fresh1 = (float)(1.0 - model->beta1);
    m->fresh2 = (float)(1.0 - model->beta2);
    m->clip = model->clip;
}

static void describe(sf_cuda_member *m, const sf_cuda_model *model, size_t kept) {
    const sf_shape *s = &model->model->shape;
    const sf_param *block = sf_model_block(model->model, 0), *head = sf_model_head(model->model);
    const sf_dropout dropout = sf_dropout_of(s->dropout);
    *m = (sf_cuda_member){
        .V = (uint32_t)s->V,
        .T = (uint32_t)s->T,
        .C = (uint32_t)s->C,
        .Cp = (uint32_t)sf_padded(s->C),
        .F = (uint32_t)s->F,
        .Fp = (uint32_t)sf_padded(s->F),
        .H = (uint32_t)s->H,
        .D = (uint32_t)s->D,
        .Dp = (uint32_t)sf_padded(s->D),
        .HDp = (uint32_t)(s->H * sf_padded(s->D)),
        .L = (uint32_t)s->L,
        .classes = (uint32_t)s->classes,
        .size = (uint32_t)model->model->size,
        .activation = (uint32_t)s->activation,
        .readout = (uint32_t)s->readout,
        .tied = s->tied,
        .pre_norm = s->norm == SF_PRE_NORM,
        .score_scale = (float)(s->inverse_temperature / sqrt((double)s->D)),
        .embedding_scale = (float)sqrt((double)s->C),
        .embedding = (uint32_t)sf_model_embedding(model->model)->offset,
        .head_weight = (uint32_t)head[0].offset,
        .head_bias = (uint32_t)head[1].offset,
        .selection = sf_cuda_selection_of(&s->attention),
        .causal = s->attention.causal,
        .K = (uint32_t)kept_per_query(s),
        .kept = (uint32_t)kept,
        .is_whole = model->role != SF_CUDA_OBSERVES && taken_whole(s, kept), /* it leaves nothing to observe */
        .seed = model->seed,
        .batch = (uint32_t)model->batch,
        .threshold = dropout.threshold,
        .keep_scale = (float)dropout.scale,
    };
    sf_cuda_describe_optimizer(m, model);
    m->on_tensor_cores = !m->is_whole && model->precision != SF_F32;
    for (size_t i = 0; i < SF_CUDA_BLOCK_PARAMS; i++) m->block_params[i] = (uint32_t)block[i].offset;
    const size_t next = s->L > 1 ? sf_model_block(model->model, 1)->offset : sf_model_head_offset(model->model);
    m->block_size = (uint32_t)(next - block->offset);
    m->splits[0].count = (uint32_t)model->training.count;
    m->splits[1].count = (uint32_t)model->heldout.count;
    const size_t most = sf_larger(model->training.count, model->heldout.count);
    m->sequences = (uint32_t)sf_larger(sf_smaller(model->batch, model->training.count),
                                       sf_smaller(m->is_whole ? EVALUATED_WHOLE_AT_ONCE : EVALUATED_AT_ONCE, most));
    if (model->sequences > 0) m->sequences = (uint32_t)model->sequences;
    if (m->selection == SF_CUDA_BY_PARTS) sf_cuda_describe_parts(&m->parts, s);
    sf_cuda_size_parts(m);
    sf_cuda_size_factored(m, s);
    sf_cuda_describe_turns(m, s);
    m->angles_count = sf_cuda_rotates(s) ? m->T * (m->D / 2 * 2) : 0;
}

sf_status sf_cuda_copy_in(void *to, const void *from, size_t bytes) {
    return sf_cuda_ok(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copying");
}

/* Who keeps each key, in ascending order of the queries. */
static void invert(uint32_t *key_offsets /* [T+1] */, uint32_t *queries, uint32_t *places, const sf_pattern *pattern,
                   size_t T) {
    memset(key_offsets, 0, (T + 1) * sizeof *key_offsets);
    for (size_t i = 0; i < pattern->offsets[T]; i++) key_offsets[pattern->keys[i] + 1]++;
    for (size_t j = 0; j < T; j++) key_offsets[j + 1] += key_offsets[j];
    for (size_t query = T; query-- > 0;) /* from the end, so that offsets end where they began */
        for (size_t i = pattern->offsets[query + 1]; i-- > pattern->offsets[query];) {
            const uint32_t at = --key_offsets[pattern->keys[i] + 1];
            queries[at] = (uint32_t)query;
            places[at] = (uint32_t)i;
        }
    /* every end became its beginning: shift them back */
    for (size_t j = 0; j < T; j++) key_offsets[j] = key_offsets[j + 1];
    key_offsets[T] = (uint32_t)pattern->offsets[T];
}

static sf_status copy_causal_offsets(const sf_cuda_member *m) {
    uint32_t *offsets = NULL;
    SF_TRY(SF_NEW(&offsets, (size_t)m->T + 1));
    for (size_t i = 0; i <= m->T; i++) offsets[i] = (uint32_t)(i * m->K);
    const sf_status status = sf_cuda_copy_in((void *)m->offsets, offsets, ((size_t)m->T + 1) * sizeof *offsets);
    sf_release(offsets);
    return status;
}

static sf_status copy_pattern(const sf_cuda_member *m, const sf_pattern *pattern) {
    uint32_t *numbers = NULL;
    const size_t T = m->T, kept = sf_cuda_is_patterned(m) ? m->kept : 0;
    SF_TRY(SF_NEW(&numbers, 2 * (T + 1) + 2 * kept));
    uint32_t *offsets = numbers, *key_offsets = offsets + T + 1, *queries = key_offsets + T + 1,
             *places = queries + kept;
    for (size_t i = 0; i <= T; i++) offsets[i] = (uint32_t)pattern->offsets[i];
    sf_status status = sf_cuda_copy_in((void *)m->offsets, offsets, (T + 1) * sizeof *offsets);
    if (kept > 0) {
        invert(key_offsets, queries, places, pattern, T);
        if (status == SF_OK) status = sf_cuda_copy_in((void *)m->pattern, pattern->keys, kept * sizeof *numbers);
        if (status == SF_OK) status = sf_cuda_copy_in((void *)m->key_offsets, key_offsets, (T + 1) * sizeof *numbers);
        if (status == SF_OK) status = sf_cuda_copy_in((void *)m->key_queries, queries, kept * sizeof *numbers);
        if (status == SF_OK) status = sf_cuda_copy_in((void *)m->key_places, places, kept * sizeof *numbers);
    }
    sf_release(numbers);
    return status;
}

static sf_status copy_masks(const sf_cuda_member *m, const sf_pattern *pattern) {
    uint64_t masks[SF_CUDA_WHOLE_LENGTH] = {0};
    for (size_t query = 0; query < m->T; query++)
        for (size_t i = pattern->offsets[query]; i < pattern->offsets[query + 1]; i++)
            masks[query] |= UINT64_C(1) << pattern->keys[i];
    return sf_cuda_copy_in((void *)m->pattern_masks, masks, m->T * sizeof *masks);
}

static sf_status copy_positions(const sf_cuda_member *m) {
    double *wide = NULL;
    float *narrow = NULL;
    sf_status status = SF_NEW(&wide, (size_t)m->T * m->C);
    if (status == SF_OK) status = SF_NEW(&narrow, (size_t)m->T * m->Cp);
    if (status == SF_OK) {
        sf_positions(wide, m->T, m->C);
        for (size_t t = 0; t < m->T; t++)
            for (size_t c = 0; c < m->C; c++) narrow[t * m->Cp + c] = (float)wide[t * m->C + c];
        status = sf_cuda_copy_in((void *)m->positions, narrow, (size_t)m->T * m->Cp * sizeof *narrow);
    }
    sf_release(wide);
    sf_release(narrow);
    return status;
}

static sf_status copy_weights(const sf_cuda_member *m, const sf_cuda_model *model) {
    float *weights = NULL;
    SF_TRY(SF_NEW(&weights, m->size));
    sf_model_initialize(weights, model->model, model->seed);
    const sf_status status = sf_cuda_copy_in(m->params, weights, m->size * sizeof *weights);
    sf_release(weights);
    return status;
}

/* labelled: [count]; returns their sum. */
static size_t count_labels(uint32_t *labelled, const int32_t *labels /* [count,T] */, size_t count, size_t T) {
    size_t all = 0;
    for (size_t n = 0; n < count; n++) {
        labelled[n] = 0;
        for (size_t t = 0; t < T; t++) labelled[n] += labels[n * T + t] != SF_NO_LABEL;
        all += labelled[n];
    }
    return all;
}

static sf_status copy_set(size_t *labelled, const sf_cuda_member *m, const sf_cuda_split *split,
                          const sf_cuda_set *set) {
    const size_t count = set->count;
    uint32_t *each = NULL;
    *labelled = count;
    SF_TRY(sf_cuda_copy_in((void *)split->tokens, set->tokens, count * m->T * sizeof *set->tokens));
    SF_TRY(sf_cuda_copy_in((void *)split->labels, set->labels, count * sf_cuda_labels(m) * sizeof *set->labels));
    if (m->readout == SF_CUDA_LAST) return sf_cuda_copy_in((void *)split->last, set->last, count * sizeof *set->last);
    if (m->readout != SF_CUDA_EACH) return SF_OK;
    SF_TRY(SF_NEW(&each, count));
    *labelled = count_labels(each, set->labels, count, m->T);
    const sf_status status = sf_cuda_copy_in((void *)split->labelled, each, count * sizeof *each);
    sf_release(each);
    return status;
}

sf_status sf_cuda_member_fill(member_memory *memory, const sf_cuda_model *model) {
    sf_cuda_member *m = &memory->device;
    const sf_shape *s = &model->model->shape;
    sf_pattern pattern = {0};
    SF_TRY(sf_cuda_supports(s, model->precision));
    const bool listed = lists_causally(&s->attention);
    const sf_attention patterned = sf_cuda_patterned(&s->attention);
    if (has_lists(&s->attention)) SF_TRY(sf_pattern_create(&pattern, &patterned, s->T));
    describe(m, model, pattern.offsets != NULL ? pattern.offsets[s->T] : listed ? s->T * kept_per_query(s) : 0);
    memory->moments = model->moments;
    memory->role = model->role;
    memory->precision = model->precision;
    device_arena arena = {0};
    sf_status status = m->is_whole ? SF_OK : SF_NEW(&memory->traces, s->L);
    if (status == SF_OK) {
        lay_out(memory, &arena);
        status = sf_cuda_ok(cudaMalloc(&memory->memory, arena.used), "allocating a model's memory");
    }
    if (status == SF_OK) status = sf_cuda_ok(cudaMemset(memory->memory, 0, arena.used), "clearing memory");
    if (status == SF_OK) {
        arena = (device_arena){.base = memory->memory};
        lay_out(memory, &arena);
        if (model->training.tokens != NULL) status = copy_weights(m, model);
    }
    if (status == SF_OK && pattern.offsets != NULL) status = copy_pattern(m, &pattern);
    if (status == SF_OK && listed) status = copy_causal_offsets(m);
    const bool masked = m->is_whole && m->selection == SF_CUDA_BY_PATTERN;
    if (status == SF_OK && pattern.offsets != NULL && masked) status = copy_masks(m, &pattern);
    if (status == SF_OK && model->role != SF_CUDA_ATTENDS) status = copy_positions(m);
    if (status == SF_OK && m->angles != NULL) status = sf_cuda_copy_angles(m);
    if (status == SF_OK && m->parts.features > 0) status = sf_cuda_copy_features(m);
    const sf_cuda_set *sets[] = {&model->training, &model->heldout};
    for (size_t i = 0; i < 2 && status == SF_OK && sets[i]->tokens != NULL; i++)
        status = copy_set(&memory->labelled[i], m, &m->splits[i], sets[i]);
    if (status == SF_OK && !m->is_whole)
        status = sf_cuda_copy_in(m->traces, memory->traces, s->L * sizeof *memory->traces);
    sf_pattern_destroy(&pattern);
    return status;
}

size_t sf_cuda_bytes(const sf_cuda_model *model) {
    member_memory memory = {.moments = model->moments, .role = model->role, .precision = model->precision};
    device_arena arena = {0};
    const sf_shape *s = &model->model->shape;
    size_t kept;
    if (sf_cuda_count_kept(&kept, s) != SF_OK) return 0;
    describe(&memory.device, model, kept);
    lay_out(&memory, &arena);
    return arena.used;
}

void sf_cuda_member_close(member_memory *memory) {
    cudaFree(memory->memory);
    sf_release(memory->traces);
    *memory = (member_memory){0};
}
