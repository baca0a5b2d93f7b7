/* Which kernels serve a mechanism, and mechanisms of the generic kernels as these see them. */
#include <math.h>

#include "attention/room.h"
#include "base/elementary.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "kernels/cuda/members.h"

/* Besides softmax over listed keys, nothing that the special kernels do not know. */
static bool is_plain(const sf_attention *a) {
    return a->weighting == &sf_weighting_softmax && sf_attention_score_steps(a) == 0;
}

uint32_t sf_cuda_selection_of(const sf_attention *a) {
    if (!is_plain(a)) return SF_CUDA_BY_PARTS;
    if (sf_attention_keeps_visible(a)) return SF_CUDA_DENSE;
    if (a->straight_through) return SF_CUDA_BY_PARTS;
    if (sf_attention_selects_by(a) == SF_BY_POSITION) return SF_CUDA_BY_PATTERN;
    if (sf_attention_has_extras(a) || a->globals > 0) return SF_CUDA_BY_PARTS;
    if (a->selector == &sf_selector_topk) return SF_CUDA_BY_LARGEST;
    if (a->selector == &sf_selector_bottomk) return SF_CUDA_BY_SMALLEST;
    if (a->selector == &sf_selector_random) return SF_CUDA_BY_CHANCE;
    return SF_CUDA_BY_PARTS;
}

sf_status sf_cuda_no_kernel_for(const char *kind, const char *name) {
    return sf_fail(SF_UNSUPPORTED, "the %s %s has no CUDA kernel", kind, name);
}

enum { UNKNOWN = -1 };

static int selector_of(const sf_selector *selector) {
    const struct {
        const sf_selector *part;
        int what;
    } known[] = {{&sf_selector_full, SF_CUDA_FULL},
                 {&sf_selector_topk, SF_CUDA_TOPK},
                 {&sf_selector_bottomk, SF_CUDA_BOTTOMK},
                 {&sf_selector_random, SF_CUDA_RANDOM},
                 {&sf_selector_blocktopk, SF_CUDA_BLOCKTOPK},
                 {&sf_selector_kmeans, SF_CUDA_KMEANS},
                 {&sf_selector_lsh, SF_CUDA_LSH},
                 {&sf_selector_topp, SF_CUDA_TOPP},
                 {&sf_selector_within, SF_CUDA_WITHIN},
                 {&sf_extra_sink, SF_CUDA_SINK},
                 {&sf_extra_window, SF_CUDA_WINDOW},
                 {&sf_extra_random, SF_CUDA_RANDOM}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].part == selector) return known[i].what;
    return selector->selects_by == SF_BY_POSITION ? SF_CUDA_PATTERN : UNKNOWN;
}

static int weighting_of(const sf_weighting *weighting) {
    const struct {
        const sf_weighting *part;
        int what;
    } known[] = {{&sf_weighting_softmax, SF_CUDA_SOFTMAX},  {&sf_weighting_softmax1, SF_CUDA_SOFTMAX1},
                 {&sf_weighting_sigmoid, SF_CUDA_SIGMOID},  {&sf_weighting_softplus, SF_CUDA_SOFTPLUS},
                 {&sf_weighting_sparsemax, SF_CUDA_ENTMAX}, {&sf_weighting_entmax15, SF_CUDA_ENTMAX},
                 {&sf_weighting_entmax, SF_CUDA_ENTMAX},    {&sf_weighting_fastmax, SF_CUDA_FASTMAX},
                 {&sf_weighting_doubly, SF_CUDA_DOUBLY}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].part == weighting) return known[i].what;
    return UNKNOWN;
}

static int transform_of(const sf_score_transform *transform) {
    if (transform == &sf_transform_alibi) return SF_CUDA_ALIBI;
    if (transform == &sf_transform_softcap) return SF_CUDA_SOFTCAP;
    return transform == &sf_transform_logn ? SF_CUDA_LOGN : UNKNOWN;
}

sf_status sf_cuda_check_parts(const sf_shape *s) {
    const sf_attention *a = &s->attention;
    if (sf_cuda_selection_of(a) != SF_CUDA_BY_PARTS) return SF_OK;
    if (weighting_of(a->weighting) == UNKNOWN) return sf_cuda_no_kernel_for("weighting", a->weighting->name);
    if (selector_of(a->selector) == UNKNOWN) return sf_cuda_no_kernel_for("selector", a->selector->name);
    return SF_OK;
}

/* As kernels/cpu/plan.c chooses the kernel of short lists, which keeps weights as floats. */
static bool has_short_lists(const sf_attention *a, size_t T) {
    if (sf_attention_score_steps(a) > 0 || a->straight_through || sf_attention_keeps_visible(a)) return false;
    if (sf_attention_selects_by(a) == SF_BY_POSITION) return true;
    return a->selector->keeps_k && !a->causal && sf_attention_most_kept_by(a, 0, T) < T;
}

static double alpha_of(const sf_attention *a) {
    if (a->weighting == &sf_weighting_sparsemax) return 2;
    return a->weighting == &sf_weighting_entmax15 ? 1.5 : a->weighting_arguments[0];
}

/* Whether the pattern has the extras' keys, too. */
static bool lies_in_pattern(const sf_attention *a) {
    return sf_attention_selects_by(a) == SF_BY_POSITION;
}

sf_attention sf_cuda_patterned(const sf_attention *a) {
    sf_attention alone = *a;
    for (size_t e = 0; e < SF_MOST_EXTRAS && !lies_in_pattern(a); e++) alone.extras[e] = (sf_attention_extra){0};
    return alone;
}

bool sf_cuda_has_pattern(const sf_attention *a) {
    return selector_of(a->selector) == SF_CUDA_PATTERN;
}

void sf_cuda_describe_parts(sf_cuda_parts *out, const sf_shape *s) {
    const sf_attention *a = &s->attention;
    const bool by_score = (sf_attention_selects_by(a) & SF_BY_SCORE) != 0;
    *out = (sf_cuda_parts){.selector = (uint32_t)selector_of(a->selector),
                           .k = (uint32_t)a->k,
                           .globals = (uint32_t)a->globals,
                           .arguments = {a->arguments[0], a->arguments[1]},
                           .weighting = (uint32_t)weighting_of(a->weighting),
                           .weighting_argument = alpha_of(a),
                           .scores_all = by_score || a->straight_through || sf_attention_keeps_visible(a),
                           .rounds_weights = has_short_lists(a, s->T),
                           .straight_through = a->straight_through,
                           .most_kept = (uint32_t)sf_attention_most_kept(a, s->T)};
    _Static_assert((int)SF_CUDA_MOST_PARTS >= (int)SF_MOST_TRANSFORMS, "there is room for all");
    _Static_assert((int)SF_CUDA_MOST_PARTS >= (int)SF_MOST_EXTRAS, "there is room for all");
    const bool listed = !sf_attention_keeps_visible(a) && !lies_in_pattern(a);
    for (size_t e = 0; e < SF_MOST_EXTRAS && a->extras[e].part != NULL && listed; e++) {
        out->extras[e] = (uint32_t)selector_of(a->extras[e].part);
        out->extra_k[e] = (uint32_t)a->extras[e].k;
        out->extra_count++;
    }
    for (size_t t = 0; t < SF_MOST_TRANSFORMS; t++) {
        const sf_attention_transform *transform = &a->transforms[t];
        if (transform->part == NULL || transform->part->transform == NULL) continue;
        out->transforms[out->steps++] =
            (sf_cuda_transform){(uint32_t)transform_of(transform->part), transform->arguments[0]};
    }
}

/* What parts_vectors.cuh needs of a head. */
static void size_vectors(sf_cuda_parts *p, const sf_cuda_member *m) {
    const size_t T = m->T - p->globals, first = (size_t)p->arguments[0];
    if (p->selector == SF_CUDA_BLOCKTOPK) {
        p->blocks = (T + first - 1) / first;
        p->vectors_size = m->D * p->blocks;
    } else if (p->selector == SF_CUDA_KMEANS) {
        p->vectors_size = m->D * (first + T);
        p->groups_size = 2 * T;
    } else if (p->selector == SF_CUDA_LSH) {
        p->vectors_size = m->D * (first / 2);
        p->groups_size = 2 * (size_t)p->arguments[1] * T;
    }
}

static size_t tiles_of(const sf_cuda_member *m) {
    return (m->T + SF_CUDA_UNIT - 1) / SF_CUDA_UNIT;
}

static size_t units_of(const sf_cuda_member *m) {
    return (size_t)m->sequences * m->H * tiles_of(m);
}

size_t sf_cuda_potentials(const sf_cuda_member *m) {
    if (m->parts.weighting != SF_CUDA_DOUBLY) return 0;
    return m->parts.units / tiles_of(m) * (2 * (size_t)m->parts.weighting_argument + 1) * m->T;
}

static size_t bytes_of_unit(const sf_cuda_member *m) {
    const sf_cuda_parts *p = &m->parts;
    const bool softmax = p->weighting == SF_CUDA_SOFTMAX;
    const size_t of_kept = sizeof(uint32_t) + (softmax ? 2 : 3) * sizeof(float) + (softmax ? 0 : 2 * sizeof(double));
    return SF_CUDA_UNIT * (p->most_kept * of_kept + (p->scores_all ? (size_t)m->T * sizeof(float) : 0));
}

void sf_cuda_size_parts(sf_cuda_member *m) {
    enum { MOST_BYTES = 1 << 24 };
    if (m->selection != SF_CUDA_BY_PARTS) return;
    size_vectors(&m->parts, m);
    const size_t together = m->parts.weighting == SF_CUDA_DOUBLY ? tiles_of(m) : 1;
    const size_t room = MOST_BYTES / (together * bytes_of_unit(m)), all = units_of(m) / together;
    m->parts.units = (uint32_t)(together * sf_larger(1, sf_smaller(room, all)));
}

uint32_t sf_cuda_rounds(const sf_cuda_member *m) {
    return (uint32_t)((units_of(m) + m->parts.units - 1) / m->parts.units);
}

uint32_t sf_cuda_key_tiles(const sf_cuda_member *m) {
    const size_t tiles = tiles_of(m), heads = (size_t)m->sequences * m->H;
    return (uint32_t)(sf_smaller(heads, (m->parts.units - 1) / tiles + 2) * tiles);
}

/* ---- transforms of queries and keys */

static const sf_attention_transform *transform_named(const sf_attention *a, const sf_score_transform *part) {
    for (size_t t = 0; t < SF_MOST_TRANSFORMS; t++)
        if (a->transforms[t].part == part) return &a->transforms[t];
    return NULL;
}

bool sf_cuda_rotates(const sf_shape *s) {
    return transform_named(&s->attention, &sf_transform_rope) != NULL && s->D > 1;
}

void sf_cuda_describe_turns(sf_cuda_member *m, const sf_shape *s) {
    const sf_attention_transform *norm = transform_named(&s->attention, &sf_transform_qknorm);
    for (size_t i = 0; i < 2 && norm != NULL; i++)
        m->norm_factors[i] = (float)sf_qknorm_factor(norm->arguments, s->D, i == 1);
}

sf_status sf_cuda_copy_angles(const sf_cuda_member *m) {
    const size_t pairs = m->D / 2, count = (size_t)m->T * pairs * 2;
    float *angles = NULL;
    SF_TRY(SF_NEW(&angles, count));
    for (size_t i = 0; i < m->T * pairs; i++) {
        const double angle = sf_rope_angle(i / pairs, i % pairs, m->D);
        float *row = angles + i / pairs * 2 * pairs;
        row[i % pairs] = (float)sf_cos(angle);
        row[pairs + i % pairs] = (float)sf_sin(angle);
    }
    const sf_status status = sf_cuda_copy_in((void *)m->angles, angles, count * sizeof *angles);
    sf_release(angles);
    return status;
}
