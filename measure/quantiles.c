#include "measure/quantiles.h"

#include <math.h>
#include <string.h>

#include "base/sorted.h"

enum {
    CUT_BITS = 12, /* of the 32: 20 are left, the sign, 8 of exponent, 11 of mantissa */
    PAGE_BITS = 11,
    PAGE_SIZE = 1 << PAGE_BITS,
    PAGES = 1 << (32 - CUT_BITS - PAGE_BITS),
    FIRST_ROOM = 64,
};

/* f32 towards zero: rounding up could reach the next bin. */
static float truncated(double value) {
    const float nearest = (float)value;
    return fabs((double)nearest) > fabs(value) && isfinite(value) ? nextafterf(nearest, 0) : nearest;
}

/* Bins are numbered in the order of their values. */
static uint32_t bin_of(double value) {
    const float single = truncated(value) + 0.0F; /* no -0 */
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return (bits >> 31 ? ~bits : bits | UINT32_C(1) << 31) >> CUT_BITS;
}

static double value_of(uint32_t bin) {
    const uint32_t ordered = bin << CUT_BITS;
    const bool positive = ordered >> 31;
    const uint32_t bits = positive ? ordered ^ UINT32_C(1) << 31 : ~(ordered | ((UINT32_C(1) << CUT_BITS) - 1));
    float single;
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

static void count_in_bin(sf_quantiles *q, double value, uint64_t times) {
    const uint32_t bin = bin_of(value), page = bin >> PAGE_BITS;
    if (q->pages[page] == NULL && SF_NEW(&q->pages[page], PAGE_SIZE) != SF_OK) {
        q->failed = true;
        return;
    }
    q->pages[page][bin % PAGE_SIZE] += times;
}

static void change_to_bins(sf_quantiles *q) {
    if (q->pages != NULL || q->failed) return;
    if (SF_NEW(&q->pages, PAGES) != SF_OK) {
        q->failed = true;
        return;
    }
    for (uint64_t i = 0; i < q->count && !q->failed; i++) count_in_bin(q, q->exact[i], 1);
    sf_release(q->exact);
    q->exact = NULL;
    q->room = 0;
}

static void make_room(sf_quantiles *q) {
    if (q->count < q->room) return;
    const size_t room = q->room > 0 ? 2 * q->room : FIRST_ROOM;
    if (SF_GROW(&q->exact, q->count, room) == SF_OK)
        q->room = room;
    else
        q->failed = true;
}

static void note_extremes(sf_quantiles *q, double least, double greatest) {
    q->least = q->count == 0 || least < q->least ? least : q->least;
    q->greatest = q->count == 0 || greatest > q->greatest ? greatest : q->greatest;
}

void sf_quantiles_add(sf_quantiles *q, double value) {
    if (isnan(value)) {
        q->not_numbers++;
        return;
    }
    value += 0.0; /* no -0 */
    note_extremes(q, value, value);
    if (q->count == SF_EXACT_VALUES) change_to_bins(q);
    if (q->pages == NULL && !q->failed) make_room(q);
    if (q->failed) return;
    if (q->pages != NULL)
        count_in_bin(q, value, 1);
    else
        q->exact[q->count] = value;
    q->count++;
}

void sf_quantiles_merge(sf_quantiles *into, const sf_quantiles *from) {
    into->failed |= from->failed;
    if (from->pages == NULL || into->failed) {
        into->not_numbers += from->not_numbers;
        for (uint64_t i = 0; i < from->count && !into->failed; i++) sf_quantiles_add(into, from->exact[i]);
        return;
    }
    change_to_bins(into);
    note_extremes(into, from->least, from->greatest);
    into->count += from->count;
    into->not_numbers += from->not_numbers;
    for (size_t page = 0; page < PAGES && !into->failed; page++) {
        if (from->pages[page] == NULL) continue;
        if (into->pages[page] == NULL && SF_NEW(&into->pages[page], PAGE_SIZE) != SF_OK) into->failed = true;
        for (size_t i = 0; i < PAGE_SIZE && !into->failed; i++) into->pages[page][i] += from->pages[page][i];
    }
}

static double in_bins(const sf_quantiles *q, uint64_t rank) {
    uint64_t before = 0;
    for (uint32_t page = 0; page < PAGES; page++) {
        if (q->pages[page] == NULL) continue;
        for (uint32_t i = 0; i < PAGE_SIZE; i++) {
            before += q->pages[page][i];
            if (before > rank) return value_of(page << PAGE_BITS | i);
        }
    }
    return q->greatest;
}

/* The value at position `rank` in ascending order, from 0. */
static double at_rank(const sf_quantiles *q, uint64_t rank) {
    if (rank == 0) return q->least;
    if (rank + 1 >= q->count) return q->greatest;
    if (q->exact != NULL) return q->exact[rank];
    return fmin(fmax(in_bins(q, rank), q->least), q->greatest);
}

static double between(double low, double high, double share) {
    if (share <= 0 || low == high || isinf(low)) return low;
    return share < 0.5 ? low + (high - low) * share : high - (high - low) * (1 - share);
}

sf_status sf_quantiles_read(double *out /* [count] */, sf_quantiles *q, const double *percents /* [count] */,
                            size_t count) {
    if (q->failed) return sf_fail(SF_NO_MEMORY, "no memory left for the quantiles");
    if (q->exact != NULL) sf_sort(q->exact, q->count);
    for (size_t i = 0; i < count; i++) {
        if (q->count == 0) {
            out[i] = NAN;
            continue;
        }
        const double place = percents[i] / 100 * (double)(q->count - 1);
        const uint64_t below = (uint64_t)place;
        out[i] = between(at_rank(q, below), at_rank(q, below + 1), place - (double)below);
    }
    return SF_OK;
}

void sf_quantiles_clear(sf_quantiles *q) {
    for (size_t page = 0; q->pages != NULL && page < PAGES; page++) sf_release(q->pages[page]);
    sf_release(q->pages);
    sf_release(q->exact);
    *q = (sf_quantiles){0};
}
