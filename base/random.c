#include "base/random.h"

#include <Random123/philox.h>
#include <assert.h>
#include <math.h>

#include "base/elementary.h"

void sf_philox(uint32_t words[4], const sf_index *index, uint32_t draw) {
    const philox4x32_ctr_t counter = {{draw, index->sample, index->step, index->epoch}};
    const philox4x32_key_t key = {{index->seed, index->stream}};
    const philox4x32_ctr_t out = philox4x32(counter, key);
    for (int w = 0; w < 4; w++) words[w] = out.v[w];
}

sf_draws sf_draws_at(sf_index index) {
    return (sf_draws){.index = index};
}

uint32_t sf_draw_word(sf_draws *draws) {
    if (draws->left == 0) {
        sf_philox(draws->words, &draws->index, draws->next_draw++);
        draws->left = 4;
    }
    return draws->words[4 - draws->left--];
}

uint32_t sf_draw_below(sf_draws *draws, uint32_t bound) {
    assert(bound > 0);
    /* Lemire's multiplication: the high word is uniform once the few low words that would favour some values are
     * rejected. */
    const uint32_t refused = (uint32_t)(-bound) % bound;
    for (;;) {
        const uint64_t product = (uint64_t)sf_draw_word(draws) * bound;
        if ((uint32_t)product >= refused) return (uint32_t)(product >> 32);
    }
}

static double unit_of(uint32_t word) {
    return ((double)word + 0.5) * 0x1p-32;
}

double sf_draw_unit(sf_draws *draws) {
    return unit_of(sf_draw_word(draws));
}

/* Box and Muller's radius and angle. */
static double normal_of(double radius_unit, double angle_unit) {
    return sqrt(-2 * sf_log(radius_unit)) * sf_cos(2 * M_PI * angle_unit);
}

double sf_draw_normal(sf_draws *draws) {
    const double radius = sf_draw_unit(draws);
    return normal_of(radius, sf_draw_unit(draws));
}

double sf_noise_at(const sf_index *index, size_t row, size_t column, size_t columns) {
    uint32_t words[4];
    sf_philox(words, index, (uint32_t)(row * ((columns + 1) / 2) + column / 2));
    const size_t first = 2 * (column % 2);
    return normal_of(unit_of(words[first]), unit_of(words[first + 1]));
}

sf_dropout sf_dropout_of(double rate) {
    const double threshold = round(65536.0 * rate);
    return (sf_dropout){.threshold = (uint32_t)threshold, .scale = 65536.0 / (65536.0 - threshold)};
}

uint32_t sf_dropout_lane(const sf_index *index, size_t row, size_t column, size_t columns) {
    const uint32_t draw = (uint32_t)row * sf_dropout_draws_per_row(columns) + (uint32_t)(column / 64 * 8 + column % 8);
    uint32_t words[4];
    sf_philox(words, index, draw);
    const size_t lane = column % 64 / 8;
    return words[lane / 2] >> 16 * (lane % 2) & 0xffffU;
}
