#include "study/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sorted.h"

double sf_quantile(double *values, size_t count, double q) {
    sf_sort(values, count);
    return sf_sorted_quantile(values, count, q);
}

/* Moves values until values[place] is where sorting would put it, smaller ones before and larger ones behind it. */
static void put_in_place(double *values, size_t count, size_t place) {
    size_t from = 0, to = count - 1;
    while (from < to) {
        const double pivot = values[from + (to - from) / 2];
        size_t left = from, right = to;
        while (left <= right) {
            while (values[left] < pivot) left++;
            while (values[right] > pivot) right--;
            if (left > right) break;
            const double moved = values[left];
            values[left++] = values[right];
            values[right] = moved;
            if (right == 0) break;
            right--;
        }
        if (place <= right)
            to = right;
        else if (place >= left)
            from = left;
        else
            return;
    }
}

void sf_quartiles(double *values, size_t count, double *low, double *median, double *high) {
    double *const out[] = {low, median, high};
    for (size_t q = 0; q < 3; q++) {
        const double share = 0.25 * (double)(q + 1);
        const size_t below = (size_t)(share * (double)(count - 1)), above = below + 1;
        put_in_place(values, count, below);
        if (above < count) put_in_place(values + above, count - above, 0); /* the smallest of the larger ones */
        *out[q] = sf_sorted_quantile(values, count, share);                /* which looks at these two only */
    }
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

/* The median of a resample, given how often it holds each of the sorted values. */
static double resampled_median(const double *values, const uint32_t *times, size_t count) {
    const size_t lower = (count - 1) / 2, upper = count / 2; /* the same where count is odd */
    size_t i = 0, passed = times[0];
    while (passed <= lower) passed += times[++i];
    const double below = values[i];
    while (passed <= upper) passed += times[++i];
    return lower == upper ? below : below + 0.5 * (values[i] - below);
}

sf_interval sf_bootstrap_median(double *values, size_t count, uint32_t seed, uint32_t *scratch) {
    if (count == 0) return (sf_interval){NAN, NAN};
    double medians[SF_RESAMPLES];
    sf_sort(values, count);
    for (size_t r = 0; r < SF_RESAMPLES; r++) {
        sf_draws draws =
            sf_draws_at((sf_index){.seed = seed, .stream = sf_stream(SF_BOOTSTRAP, 0, 0), .sample = (uint32_t)r});
        memset(scratch, 0, count * sizeof *scratch);
        for (size_t i = 0; i < count; i++) scratch[sf_draw_below(&draws, (uint32_t)count)]++;
        medians[r] = resampled_median(values, scratch, count);
    }
    sf_sort(medians, SF_RESAMPLES);
    return (sf_interval){sf_sorted_quantile(medians, SF_RESAMPLES, 0.025),
                         sf_sorted_quantile(medians, SF_RESAMPLES, 0.975)};
}

double sf_sign_test(size_t wins, size_t losses) {
    const size_t n = wins + losses, fewer = wins < losses ? wins : losses;
    int exponent = 0; /* of (n over fewer) = most * 2^exponent, which no double may hold */
    double most = 1;
    for (size_t i = 1; i <= fewer; i++) {
        int grown;
        most = frexp(most * (double)(n - fewer + i) / (double)i, &grown);
        exponent += grown;
    }
    double share = 1, tail = 1; /* (n over k) and the sum of them, in units of (n over fewer) */
    for (size_t k = fewer; k > 0; k--) tail += share *= (double)k / (double)(n - k + 1);
    return fmin(1.0, ldexp(2 * most * tail, exponent - (int)n));
}

static int by_size(const void *a, const void *b) {
    const double left = fabs(*(const double *)a), right = fabs(*(const double *)b);
    return (left > right) - (left < right);
}

/* The doubled mean rank of differences[first], which `*end` - first of them share: mean ranks are halves. */
static size_t twice_rank(const double *differences, size_t count, size_t first, size_t *end) {
    for (*end = first + 1; *end < count && fabs(differences[*end]) == fabs(differences[first]);) ++*end;
    return first + *end + 1; /* 2 * mean of first+1 .. end */
}

/* Probability that a random choice of signs gives a (doubled) sum of at most `extreme`. */
static double exact_tail(const double *differences, size_t count, size_t extreme) {
    double probability[SF_WILCOXON_EXACT * (SF_WILCOXON_EXACT + 1) / 2 + 1] = {1}; /* a tail is at most half of all */
    for (size_t first = 0, end; first < count; first = end) {
        const size_t rank = twice_rank(differences, count, first, &end);
        for (size_t tied = first; tied < end; tied++)
            for (size_t s = extreme + 1; s-- > 0;)
                probability[s] = 0.5 * (probability[s] + (s >= rank ? probability[s - rank] : 0));
    }
    double tail = 0;
    for (size_t s = 0; s <= extreme; s++) tail += probability[s];
    return tail;
}

static double normal_tail(const double *differences, size_t count, size_t extreme) {
    double variance = 0; /* of the doubled sum: each rank is in it or not */
    for (size_t first = 0, end; first < count; first = end) {
        const double rank = (double)twice_rank(differences, count, first, &end);
        variance += 0.25 * rank * rank * (double)(end - first);
    }
    const double mean = 0.5 * (double)(count * (count + 1));
    const double z = fmax(0, mean - (double)extreme - 1) / sqrt(variance); /* 1: half a doubled unit, for continuity */
    return 0.5 * sf_erfc(z * M_SQRT1_2);
}

double sf_wilcoxon_test(double *differences, size_t count) {
    size_t n = 0, positive = 0;
    for (size_t i = 0; i < count; i++)
        if (differences[i] != 0) differences[n++] = differences[i];
    if (n == 0) return 1;
    qsort(differences, n, sizeof *differences, by_size);
    for (size_t first = 0, end; first < n; first = end) {
        const size_t rank = twice_rank(differences, n, first, &end);
        for (size_t i = first; i < end; i++) positive += differences[i] > 0 ? rank : 0;
    }
    const size_t total = n * (n + 1), extreme = positive < total - positive ? positive : total - positive;
    return fmin(1.0, 2 * (n <= SF_WILCOXON_EXACT ? exact_tail : normal_tail)(differences, n, extreme));
}

double sf_smallest_p(size_t pairs) {
    return fmin(1.0, ldexp(2, -(int)pairs));
}

size_t sf_fewest_pairs(size_t tests, double level) {
    size_t pairs = 1;
    while (sf_smallest_p(pairs) * (double)tests > level) pairs++;
    return pairs;
}

static int by_value(const void *a, const void *b) {
    const double left = **(double *const *)a, right = **(double *const *)b;
    return (left > right) - (left < right);
}

sf_status sf_holm(double *p /* [count] */, size_t count) {
    double **sorted, least = 0;
    size_t tests = 0;
    SF_TRY(SF_NEW(&sorted, count));
    for (size_t i = 0; i < count; i++)
        if (!isnan(p[i])) sorted[tests++] = &p[i];
    qsort(sorted, tests, sizeof *sorted, by_value);
    for (size_t i = 0; i < tests; i++) { /* none is smaller than one before it */
        least = fmax(least, fmin(1, (double)(tests - i) * *sorted[i]));
        *sorted[i] = least;
    }
    sf_release(sorted);
    return SF_OK;
}
