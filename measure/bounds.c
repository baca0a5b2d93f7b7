#include "measure/bounds.h"

#include <math.h>

#include "base/elementary.h"

static double square(double x) {
    return x * x;
}

static double cube(double x) {
    return x * x * x;
}

const char *sf_bound_kind_name(sf_bound_kind kind) {
    static const char *const names[] = {"published", "proven", "local"};
    return names[kind];
}

/* ReLU's slopes are 0 and 1. GELU's, Phi(z) + z phi(z), is largest where its derivative (2 - z^2) phi(z) changes its
 * sign: at sqrt 2, where it is erfc(-1) / 2 + 1 / (e sqrt pi). Mish's largest was bracketed near 1.4906
 * (tests/test_measure_bounds_softmax.c searches for a larger one). */
double sf_activation_slope(sf_activation activation) {
    switch (activation) {
    case SF_RELU:
        return 1;
    case SF_GELU:
        return 1.1289041451851547;
    case SF_MISH:
        return 1.0884982;
    }
    return INFINITY;
}

double sf_largest_weight(double dispersion, double kept) {
    return 1 / (1 + (kept - 1) * sf_exp(-dispersion));
}

static double softmax_slope(double dispersion, double kept) {
    return kept <= 1 ? 0 : fmin(0.5, sf_largest_weight(dispersion, kept));
}

double sf_softmax_stability(sf_bound_kind kind, double dispersion, double separation, double kept) {
    const double published = sf_exp(dispersion) / kept, slope = softmax_slope(dispersion, kept);
    switch (kind) {
    case SF_BOUND_PUBLISHED:
        return published * (1 + 1 / separation);
    case SF_BOUND_PROVEN: /* a change of the kept set takes a step of sqrt(2) separation, and the weights move by at
                           * most sqrt(2) */
        return fmax(slope, fmin(sf_hypot(slope, sf_largest_weight(dispersion, kept) / separation), 1 / separation));
    default:
        return slope;
    }
}

/* ---- one attention layer */

typedef struct layer { /* what the constants of one head are computed from */
    const sf_bound_domain *domain;
    double T, reach; /* positions; |(h, 1)| at most */
    bool by_score;
} layer;

/* Largest sum of a column of attention weights: the total weight of a key. Section 2. */
static double column_sum(const layer *at, double dispersion) {
    return fmin(at->T, at->domain->in_degree * sf_largest_weight(dispersion, at->domain->fewest_kept));
}

/* If scores do not depend on the input, the same keys are kept for all inputs. */
static bool keys_change(const layer *at, const sf_head_norms *head) {
    return at->by_score && head->gamma > 0;
}

/* Derivative with kept sets held fixed, where dispersions are at most `dispersion`. Section 3. */
static double input_slope(const layer *at, const sf_head_norms *head, double dispersion) {
    const double root = sqrt(column_sum(at, dispersion)), reach = head->gamma * square(at->reach);
    const double scores = at->domain->most_kept > 1 ? reach * (1 + root) : 0;
    return head->upsilon * (scores + root);
}

static double input_published(const layer *at, const sf_head_norms *head) {
    const sf_bound_domain *d = at->domain;
    const double beta = fmax(1, d->in_degree / d->fewest_kept), reach = head->gamma * square(at->reach);
    const double jumps = keys_change(at, head) ? 2 * (1 + 1 / d->separation) : 1;
    return head->upsilon * sf_exp(d->dispersion) * (reach * (1 + beta) * jumps + beta);
}

static double input_proven(const layer *at, const sf_head_norms *head) {
    const double reach = head->gamma * square(at->reach);
    /* Between two inputs dispersions may be as large as the tokens allow. */
    const double smooth = input_slope(at, head, 2 * reach);
    if (!keys_change(at, head)) return smooth;
    return sf_hypot(smooth, 2 * head->upsilon * reach * (1 + sqrt(at->domain->in_degree)) / at->domain->separation);
}

static double input_of(const layer *at, const sf_head_norms *head, sf_bound_kind kind) {
    switch (kind) {
    case SF_BOUND_PUBLISHED:
        return input_published(at, head);
    case SF_BOUND_PROVEN: /* two proofs; the smaller constant is used */
        return fmin(input_proven(at, head), input_published(at, head));
    default:
        return input_slope(at, head, at->domain->dispersion);
    }
}

/* How far the context moves per unit of |G|, G = q^T k: section 3. */
static double score_matrix_slope(const layer *at, const sf_head_norms *head, sf_bound_kind kind) {
    const sf_bound_domain *d = at->domain;
    const double smooth = d->most_kept > 1 ? head->upsilon * cube(at->reach) : 0;
    const double jumps = at->by_score ? 2 * (1 + 1 / d->separation) : 1;
    const double published = head->upsilon * cube(at->reach) * sf_exp(d->dispersion) * jumps;
    switch (kind) {
    case SF_BOUND_PUBLISHED:
        return published;
    case SF_BOUND_PROVEN:
        return at->by_score ? fmin(published, head->upsilon * cube(at->reach) * fmax(1, 2 / d->separation)) : smooth;
    default:
        return smooth;
    }
}

static double weights_of_head(const layer *at, const sf_head_norms *head, double scale, sf_bound_kind kind) {
    const double moved = scale * sf_hypot(head->q, head->k);
    return sf_hypot(moved > 0 ? moved * score_matrix_slope(at, head, kind) : 0, at->reach);
}

/* sqrt(3) |V| (|A|^2 R^4 (4 T + 1) + T)^(1/2). */
static double length_law(const layer *at, const sf_head_norms *head) {
    return sqrt(3) * head->upsilon * sqrt(square(head->gamma) * square(square(at->reach)) * (4 * at->T + 1) + at->T);
}

static void attention_bounds(sf_block_bounds *out, const layer *at, const sf_block_norms *norms, const sf_shape *s) {
    const double scale = s->inverse_temperature / sqrt((double)s->D);
    double values = 0, law = 0;
    for (size_t h = 0; h < s->H; h++) {
        const sf_head_norms *head = &norms->heads[h];
        out->gamma = fmax(out->gamma, head->gamma);
        out->upsilon = fmax(out->upsilon, head->upsilon);
        values += square(head->upsilon);
        law += square(length_law(at, head));
    }
    out->length_law = norms->wo * sqrt(law);
    for (sf_bound_kind kind = 0; kind < SF_BOUND_KINDS; kind++) {
        double input = 0, weights = 0;
        for (size_t h = 0; h < s->H; h++) {
            input = sf_hypot(input, input_of(at, &norms->heads[h], kind));
            weights = fmax(weights, weights_of_head(at, &norms->heads[h], scale, kind));
        }
        out->softmax[kind] =
            sf_softmax_stability(kind, at->domain->dispersion, at->domain->separation, at->domain->fewest_kept);
        out->attention_input[kind] = norms->wo * input;
        out->attention_weights[kind] = sf_hypot(norms->wo * weights, sqrt(values * square(at->reach) + 1));
    }
}

/* ---- a block, and the whole model */

static double mlp_reach(const sf_shape *s) { /* |(h, 1)| of a row after a LayerNorm */
    return sqrt((double)s->C + 1);
}

void sf_block_bounds_of(sf_block_bounds *out, const sf_block_norms *norms, const sf_shape *s,
                        const sf_bound_domain *domain) {
    const layer at = {.domain = domain,
                      .T = (double)s->T,
                      .reach = sf_hypot(domain->token_norm, 1),
                      .by_score = s->attention.selector->separates_scores && domain->separation < INFINITY};
    *out = (sf_block_bounds){.domain = *domain, .wo = norms->wo, .w1 = norms->w1, .w2 = norms->w2};
    out->sink_ratio = domain->in_degree / domain->fewest_kept;
    attention_bounds(out, &at, norms, s);

    const double slope = sf_activation_slope(s->activation), reach = mlp_reach(s);
    out->attention_norm = 1 / domain->attention_deviation;
    out->mlp_norm = 1 / domain->mlp_deviation;
    out->mlp_input = norms->w2 * slope * norms->w1;
    out->mlp_weights = sf_hypot(norms->w2 * slope * reach, sf_hypot(norms->w1 * reach, 1));
    for (sf_bound_kind kind = 0; kind < SF_BOUND_KINDS; kind++) {
        const double input = out->attention_input[kind], weights = out->attention_weights[kind];
        if (s->norm == SF_PRE_NORM) {
            const double rest = 1 + out->mlp_input * out->mlp_norm;
            out->block_input[kind] = (1 + input * out->attention_norm) * rest;
            out->block_weights[kind] = sf_hypot(weights * rest, out->mlp_weights);
        } else {
            const double rest = out->attention_norm * (1 + out->mlp_input) * out->mlp_norm;
            out->block_input[kind] = (1 + input) * rest;
            out->block_weights[kind] = sf_hypot(weights * rest, out->mlp_weights * out->mlp_norm);
        }
    }
}

/* log10 of the hypotenuse of 10^a and 10^b. */
static double log10_hypot(double a, double b) {
    const double larger = fmax(a, b), smaller = fmin(a, b);
    return larger == smaller ? larger + sf_log10(2) / 2 : larger + sf_log10(sf_hypot(1, sf_pow(10, smaller - larger)));
}

/* log10 of 10^a + 10^b: a tensor with two uses has the sum of two gradients. */
static double log10_sum(double a, double b) {
    const double larger = fmax(a, b), smaller = fmin(a, b);
    return larger + sf_log10(1 + sf_pow(10, smaller - larger));
}

/* Largest norm of a row of the last block's output, and so of what the head reads. Section 5. */
static double pooled_norm(const sf_model *model, const float *params, const sf_bounds *bounds,
                          const sf_block_norms *norms /* [L] */) {
    const sf_shape *s = &model->shape;
    if (s->norm == SF_POST_NORM) return sqrt((double)s->C);
    const sf_param *embedding = sf_model_embedding(model);
    double largest = 0;
    for (size_t v = 0; v < s->V; v++) {
        double sum = 0;
        for (size_t c = 0; c < s->C; c++) sum += square((double)params[sf_param_index(embedding, v, c)]);
        largest = fmax(largest, sqrt(sum * (double)s->C));
    }
    double reach = largest + sqrt(ceil((double)s->C / 2)); /* a position has sine and cosine pairs of norm 1 */
    for (size_t l = 0; l < s->L; l++) {
        double values = 0;
        for (size_t h = 0; h < s->H; h++) values += square(norms[l].heads[h].upsilon);
        const double token = sf_hypot(bounds->blocks[l].domain.token_norm, 1);
        reach += norms[l].wo * sf_hypot(sqrt(values) * token, 1);
        reach += norms[l].w2 * sf_hypot(norms[l].w1 * mlp_reach(s), 1);
    }
    return reach;
}

static sf_status compose(sf_bounds *bounds, const sf_model *model, const float *params,
                         const sf_block_norms *norms /* [L] */) {
    const sf_shape *s = &model->shape;
    double head;
    SF_TRY(sf_linear_norm(&head, sf_model_head(model), params, 0, s->classes));
    /* A mean over positions takes the norm over sqrt(T) to the norm; what reads single positions does not. */
    const double read = s->readout == SF_READ_MEAN ? 1 : sqrt((double)s->T);
    const double to_loss = sf_log10(sqrt(2) * head * read);
    for (sf_bound_kind kind = 0; kind < SF_BOUND_KINDS; kind++) {
        double above = to_loss; /* from the rows after block l (Frobenius over sqrt(T)) to the loss */
        const double at_head = sf_log10(sqrt(2) * sf_hypot(pooled_norm(model, params, bounds, norms), 1));
        double all = at_head;
        for (size_t l = s->L; l-- > 0;) {
            all = log10_hypot(all, above + sf_log10(bounds->blocks[l].block_weights[kind]));
            above += sf_log10(bounds->blocks[l].block_input[kind]);
        }
        const double embedding = above + sf_log10((double)s->C) / 2;
        bounds->log10_loss_embedding[kind] = above - sf_log10((double)s->T) / 2;
        bounds->log10_loss_weights[kind] =
            s->tied ? log10_hypot(all, log10_sum(at_head, embedding)) : log10_hypot(all, embedding);
    }
    return SF_OK;
}

sf_status sf_bounds_create(sf_bounds **out, const sf_model *model, const float *params /* [size] */,
                           const sf_bound_domain *domains /* [L] */) {
    *out = NULL;
    SF_TRY(sf_attention_check_theory(&model->shape.attention, "Lipschitz bounds are"));
    const size_t L = model->shape.L;
    sf_bounds *bounds;
    sf_block_norms *norms = NULL;
    SF_TRY(SF_NEW(&bounds, 1));
    bounds->count = L;
    bounds->positions = model->shape.T;
    sf_status status = SF_NEW(&bounds->blocks, L);
    if (status == SF_OK) status = SF_NEW(&norms, L);
    for (size_t l = 0; l < L && status == SF_OK; l++) {
        status = sf_block_norms_open(&norms[l], model, params, l);
        if (status == SF_OK) sf_block_bounds_of(&bounds->blocks[l], &norms[l], &model->shape, &domains[l]);
    }
    if (status == SF_OK) status = compose(bounds, model, params, norms);
    for (size_t l = 0; l < L && norms != NULL; l++) sf_block_norms_close(&norms[l]);
    sf_release(norms);
    if (status != SF_OK) {
        sf_bounds_destroy(bounds);
        return status;
    }
    *out = bounds;
    return SF_OK;
}

void sf_bounds_destroy(sf_bounds *bounds) {
    if (bounds == NULL) return;
    sf_release(bounds->blocks);
    sf_release(bounds);
}
