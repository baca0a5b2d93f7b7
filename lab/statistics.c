#include "lab/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"

static int by_value(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Of values already in order. */
static double sorted_quantile(const double *values, size_t count, double q) {
    if (count == 0) return NAN;
    const double place = q * (double)(count - 1);
    const size_t below = (size_t)place;
    const double share = place - (double)below;
    if (share <= 0 || below + 1 >= count) return values[below];
    if (isinf(values[below + 1])) return values[below + 1];
    return values[below] + share * (values[below + 1] - values[below]);
}

double sf_quantile(double *values, size_t count, double q) {
    qsort(values, count, sizeof *values, by_value);
    return sorted_quantile(values, count, q);
}

sf_order sf_arrival_compare(const sf_arrival *ours, const sf_arrival *theirs) {
    if (ours->reached && (theirs->reached ? ours->epochs < theirs->epochs : ours->epochs <= theirs->epochs))
        return SF_SOONER;
    if (theirs->reached && (ours->reached ? theirs->epochs < ours->epochs : theirs->epochs <= ours->epochs))
        return SF_LATER;
    return SF_UNDECIDED;
}

double sf_arrival_ratio(const sf_arrival *ours, const sf_arrival *theirs, bool *bounded) {
    *bounded = ours->reached != theirs->reached;
    if (!ours->reached && !theirs->reached) return NAN;
    return theirs->epochs / ours->epochs;
}

sf_interval sf_bootstrap_median(const double *values, size_t count, size_t resamples, uint32_t seed, double *scratch) {
    if (count == 0) return (sf_interval){NAN, NAN};
    double *sample = scratch, *medians = scratch + count;
    for (size_t r = 0; r < resamples; r++) {
        sf_draws draws =
            sf_draws_at((sf_index){.seed = seed, .stream = sf_stream(SF_BOOTSTRAP, 0, 0), .sample = (uint32_t)r});
        for (size_t i = 0; i < count; i++) sample[i] = values[sf_draw_below(&draws, (uint32_t)count)];
        medians[r] = sf_quantile(sample, count, 0.5);
    }
    qsort(medians, resamples, sizeof *medians, by_value);
    return (sf_interval){sorted_quantile(medians, resamples, 0.025), sorted_quantile(medians, resamples, 0.975)};
}

double sf_sign_test(size_t wins, size_t losses) {
    const size_t n = wins + losses, fewer = wins < losses ? wins : losses;
    double tail = 0;
    for (size_t k = 0; k <= fewer; k++)
        tail += exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) - (double)n * M_LN2);
    return fmin(1.0, 2 * tail);
}

typedef struct ranked {
    double size; /* of the difference */
    bool positive;
    size_t twice_rank; /* mean ranks are halves: doubled they are whole */
} ranked;

static int by_size(const void *a, const void *b) {
    const double left = ((const ranked *)a)->size, right = ((const ranked *)b)->size;
    return (left > right) - (left < right);
}

static size_t rank_differences(ranked *out, const double *differences, size_t count) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (differences[i] != 0) out[n++] = (ranked){.size = fabs(differences[i]), .positive = differences[i] > 0};
    qsort(out, n, sizeof *out, by_size);
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && out[end].size == out[first].size;) end++;
        for (size_t i = first; i < end; i++) out[i].twice_rank = first + end + 1; /* 2 * mean of first+1 .. end */
    }
    return n;
}

double sf_wilcoxon_test(const double *differences, size_t count) {
    assert(count <= SF_WILCOXON_MOST);
    ranked ranks[SF_WILCOXON_MOST] = {0};
    const size_t n = rank_differences(ranks, differences, count);
    if (n == 0) return 1;
    size_t total = 0, positive = 0;
    for (size_t i = 0; i < n; i++) {
        total += ranks[i].twice_rank;
        if (ranks[i].positive) positive += ranks[i].twice_rank;
    }
    /* probability[s]: that a random choice of signs gives the (doubled) sum s */
    double probability[SF_WILCOXON_MOST * (SF_WILCOXON_MOST + 1) + 1] = {1};
    for (size_t i = 0; i < n; i++)
        for (size_t s = total + 1; s-- > 0;)
            probability[s] =
                0.5 * (probability[s] + (s >= ranks[i].twice_rank ? probability[s - ranks[i].twice_rank] : 0));
    const size_t extreme = positive < total - positive ? positive : total - positive;
    double tail = 0;
    for (size_t s = 0; s <= extreme; s++) tail += probability[s];
    return fmin(1.0, 2 * tail);
}

double sf_smallest_p(size_t pairs) {
    return fmin(1.0, 2 * pow(0.5, (double)pairs));
}
