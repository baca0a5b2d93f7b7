/* within:t: every query keeps the visible keys whose score is at most t below its largest.
 *
 * The dispersion of the kept scores, delta_h, is at most t by construction: the most direct way to bound it
 * (docs/theory.md). The largest score itself is always kept. Settings: t from 0 to 1e30. Cost: T^2 d for the scores; a
 * query saves its least kept score, not its keys. Example: semfocus train even-pairs --attention within:2 */
#include "attention/attention.h"

static size_t keep_near_largest(uint32_t *kept, const sf_query *query) {
    const double *scores = query->scores;
    double largest = scores[0];
    for (size_t j = 1; j < query->visible; j++) largest = scores[j] > largest ? scores[j] : largest;
    size_t count = 0;
    for (size_t j = 0; j < query->visible; j++)
        if (scores[j] >= largest - query->arguments[0]) kept[count++] = (uint32_t)j;
    if (count == 0) kept[count++] = (uint32_t)query->query; /* NaN is near nothing */
    return count;
}

const sf_selector sf_selector_within = {
    SF_SELECTOR,
    .name = "within",
    .summary = "the scores at most D below the largest",
    .selects_by = SF_BY_SCORE,
    .keep = keep_near_largest,
    .separates_scores = true,
    .arguments = {{.letter = "D",
                   .meaning = "the largest distance from the largest score",
                   .low = 0,
                   .high = 1e30,
                   .initial = 2,
                   .required = true}},
    .formula = "s_ij >= max_j s_ij - D",
    .cost = "T^2 d for the scores; saves one threshold per query",
    .source = "semfocus: caps the dispersion of Ram et al. 2025",
};
