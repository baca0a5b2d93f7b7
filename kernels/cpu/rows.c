#include "kernels/cpu/rows.h"

#include "kernels/cpu/simd.h"

static bool all_equal(const float *row, size_t C) {
    for (size_t c = 1; c < C; c++)
        if (row[c] != row[0]) return false;
    return true;
}

/* The vector at column `at`, with 0 in the padding of its row. */
INLINE vf only_real(vf v, size_t at, size_t C, size_t Cp) {
    return C == Cp ? v : masked(real_bits(at, C), v);
}

INLINE void norm_row(float *y, float *rstd, const float *x, float epsilon, size_t C, size_t Cp) {
    const float inverse = 1.0F / (float)C;
    vf held[HELD];
    lane_sums sums = {0}, squares = {0};
    hold(held, x, Cp);
    for (size_t c = 0; c < Cp; c += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS; v++) sums.at[v] += held_or_loaded(held, x, c + v * VL, Cp);
    const vf mean = splat(total_of(sums) * inverse);
    for (size_t c = 0; c < Cp; c += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS; v++) {
            const size_t at = c + v * VL;
            const vf centred = only_real(held_or_loaded(held, x, at, Cp) - mean, at, C, Cp);
            squares.at[v] = multiply_add(centred, centred, squares.at[v]);
            if (Cp == COMMON_N)
                held[at / VL] = centred;
            else
                store(y + at, centred);
        }
    const float variance = total_of(squares) * inverse;
    /* Without variance and epsilon the output and its gradient are 0 by definition. */
    const float factor = epsilon == 0.0F && all_equal(x, C) ? 0.0F : 1.0F / sqrtf(variance + epsilon);
    *rstd = factor;
    for (size_t c = 0; c < Cp; c += VL) store(y + c, held_or_loaded(held, y, c, Cp) * splat(factor));
}

void sf_rows_norm(float *y /* [R,Cp] */, float *rstd /* [R] */, const float *x /* [R,Cp] */, float epsilon, size_t R,
                  size_t C) {
    const size_t Cp = sf_padded(C);
    for (size_t r = 0; r < R; r++) {
        const size_t at = r * Cp;
        if (C == COMMON_N)
            norm_row(y + at, &rstd[r], x + at, epsilon, COMMON_N, COMMON_N);
        else
            norm_row(y + at, &rstd[r], x + at, epsilon, C, Cp);
    }
}

INLINE void norm_row_backward(float *dx, const float *dy, const float *y, float rstd, bool add, size_t C, size_t Cp) {
    const float inverse = 1.0F / (float)C;
    lane_sums sums = {0}, dots = {0};
    for (size_t c = 0; c < Cp; c += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS; v++) {
            const vf slope = load(dy + c + v * VL);
            sums.at[v] += slope;
            dots.at[v] = multiply_add(slope, load(y + c + v * VL), dots.at[v]);
        }
    const vf mean = splat(total_of(sums) * inverse), along = splat(total_of(dots) * inverse);
    for (size_t c = 0; c < Cp; c += VL) {
        const vf across = multiply_subtract(load(y + c), along, load(dy + c) - mean);
        const vf slope = only_real(across, c, C, Cp);
        store(dx + c, add ? multiply_add(splat(rstd), slope, load(dx + c)) : splat(rstd) * slope);
    }
}

void sf_rows_norm_backward(float *dx /* [R,Cp] */, const float *dy /* [R,Cp] */, const float *y /* [R,Cp] */,
                           const float *rstd /* [R] */, bool add, size_t R, size_t C) {
    const size_t Cp = sf_padded(C);
    for (size_t r = 0; r < R; r++) {
        const size_t at = r * Cp;
        if (C == COMMON_N)
            norm_row_backward(dx + at, dy + at, y + at, rstd[r], add, COMMON_N, COMMON_N);
        else
            norm_row_backward(dx + at, dy + at, y + at, rstd[r], add, C, Cp);
    }
}

/* Both tails of the normal distribution from one exponential:
 * P(Z > a) = exp(-a^2/2) W(a) / 2 for a >= 0, with W(a) = erfc(a/sqrt 2) exp(a^2/2) as a polynomial in t = 1/(1 + 0.35
 * a), fitted by least squares of the relative error on 0 <= a <= 14 (largest relative error 4e-8, in float 1.4e-7). */
INLINE void normal(vf *cdf, vf *density, vf z) {
    static const float W[] = {0.27923924F, 0.27979112F,  0.23914030F, 0.21322800F, -0.05174167F,
                              0.32675838F, -0.51909530F, 0.29178500F, -0.05910514F};
    const vf zero = splat(0.0F), a = if_less(z, zero, -z, z);
    const vf t = splat(1.0F) / multiply_add(splat(0.35F), a, splat(1.0F));
    const vf bell = exp_of(splat(-0.5F) * z * z);
    vf w = splat(W[8]);
    for (int i = 7; i >= 0; i--) w = multiply_add(w, t, splat(W[i]));
    const vf tail = splat(0.5F) * bell * w * t;
    *cdf = if_less(z, zero, tail, splat(1.0F) - tail);
    *density = bell * splat(0.39894228F);
}

/* tanh(softplus(z)) = n / (n + 2) with n = e^z (e^z + 2); beyond z = 20 it is 1 in float. */
INLINE void mish_parts(vf *e, vf *n, vf z) {
    *e = exp_of(if_less(splat(20.0F), z, splat(20.0F), z));
    *n = *e * (*e + splat(2.0F));
}

INLINE vf activate(vf z, sf_activation activation) {
    vf a, b;
    switch (activation) {
    case SF_RELU:
        return max_of(splat(0.0F), z); /* NaN stays NaN, -0 stays -0 */
    case SF_GELU:
        normal(&a, &b, z);
        return z * a;
    case SF_MISH:
        mish_parts(&a, &b, z);
        return z * (b / (b + splat(2.0F)));
    }
    return z;
}

INLINE vf activate_slope(vf z, sf_activation activation) {
    vf a, b;
    switch (activation) {
    case SF_RELU:
        return if_less(splat(0.0F), z, splat(1.0F), splat(0.0F));
    case SF_GELU:
        normal(&a, &b, z);
        return multiply_add(z, b, a);
    case SF_MISH: {
        mish_parts(&a, &b, z);
        const vf below = splat(1.0F) / (b + splat(2.0F));
        const vf sech_squared = splat(4.0F) * (b + splat(1.0F)) * below * below;
        return multiply_add(z * sech_squared, a / (splat(1.0F) + a), b * below);
    }
    }
    return z;
}

#define FOR_EACH_ACTIVATION(activation, body)                                                                          \
    switch (activation) {                                                                                              \
    case SF_RELU:                                                                                                      \
        body(SF_RELU) break;                                                                                           \
    case SF_GELU:                                                                                                      \
        body(SF_GELU) break;                                                                                           \
    case SF_MISH:                                                                                                      \
        body(SF_MISH) break;                                                                                           \
    }

void sf_rows_activate(float *y, const float *z, sf_activation activation, size_t count) {
#define BODY(which)                                                                                                    \
    for (size_t i = 0; i < count; i += VL) store(y + i, activate(load(z + i), which));
    FOR_EACH_ACTIVATION(activation, BODY)
#undef BODY
}

void sf_rows_activate_backward(float *dz /* in: dy */, const float *z, sf_activation activation, size_t count) {
#define BODY(which)                                                                                                    \
    for (size_t i = 0; i < count; i += VL) store(dz + i, load(dz + i) * activate_slope(load(z + i), which));
    FOR_EACH_ACTIVATION(activation, BODY)
#undef BODY
}

/* kept[n]: one bit for each of 64 columns, set if the column is kept, from the eight draws from first_draws[n] on. A
 * draw is a long chain of dependent steps: several at once keep the multipliers busy. */
#if defined(__AVX512F__)
enum { DRAWN_AT_ONCE = 6 };
/* A bit for each of 32 columns. Column 8 * lane + draw comes from 4 * draw + (lane ^ 2): the odd word stands in the low
 * half. */
INLINE uint64_t kept_of(const lanes64 words[EIGHT_CALLS], uint32_t threshold) {
    const __m512i by_column = _mm512_set_epi16(29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0, 31, 27, 23, 19,
                                               15, 11, 7, 3, 30, 26, 22, 18, 14, 10, 6, 2);
    return _mm512_cmpge_epu16_mask(_mm512_permutexvar_epi16(by_column, words[0]), _mm512_set1_epi16((short)threshold));
}
#elif defined(__AVX2__)
enum { DRAWN_AT_ONCE = 2 };
/* As above. A 128-bit half has four of the eight draws; packed to bytes they come lane by lane, then half by half. */
INLINE uint64_t kept_of(const lanes64 words[EIGHT_CALLS], uint32_t threshold) {
    const __m256i least = _mm256_set1_epi16((short)threshold);
    const __m256i kept[EIGHT_CALLS] = {_mm256_cmpeq_epi16(_mm256_max_epu16(words[0], least), words[0]),
                                       _mm256_cmpeq_epi16(_mm256_max_epu16(words[1], least), words[1])};
    const __m256i by_lane = _mm256_setr_epi8(2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7,
                                             11, 15, 0, 4, 8, 12, 1, 5, 9, 13);
    const __m256i halves_in_turn = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_packs_epi16(kept[0], kept[1]), by_lane);
    return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, halves_in_turn));
}
#else
enum { DRAWN_AT_ONCE = 1 };
#endif

INLINE void draw_some(uint64_t kept[DRAWN_AT_ONCE], sf_drop_mask mask, const sf_index *index, const philox_keys *keys,
                      const uint32_t first_draws[DRAWN_AT_ONCE]) {
#if defined(__AVX2__)
    enum { CALLS = DRAWN_AT_ONCE * EIGHT_CALLS };
    lanes64 draws[CALLS], x[CALLS][4];
    const __m256i consecutive = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (size_t n = 0; n < DRAWN_AT_ONCE; n++)
        place_draws(draws + n * EIGHT_CALLS, _mm256_add_epi32(consecutive, _mm256_set1_epi32((int)first_draws[n])));
    philox_all_but_last(x, index, keys, draws, CALLS);
    for (size_t n = 0; n < DRAWN_AT_ONCE; n++) {
        lanes64 pairs[EIGHT_CALLS][2], firsts[EIGHT_CALLS], seconds[EIGHT_CALLS];
        for (size_t i = 0; i < EIGHT_CALLS; i++) {
            philox_last(pairs[i], x[n * EIGHT_CALLS + i], keys);
            firsts[i] = pairs[i][0];
            seconds[i] = pairs[i][1];
        }
        kept[n] = kept_of(firsts, mask.threshold) | kept_of(seconds, mask.threshold) << 32;
    }
#else
    uint32_t draws[8], words[4][8];
    *kept = 0;
    for (uint32_t i = 0; i < 8; i++) draws[i] = *first_draws + i;
    philox_eight(words, index, keys, draws);
    for (size_t w = 0; w < 4; w++) {
        uint64_t bits = 0;
        for (int i = 0; i < 8; i++)
            bits |= (uint64_t)((words[w][i] & 0xffffU) >= mask.threshold) << i |
                    (uint64_t)(words[w][i] >> 16 >= mask.threshold) << (i + 8);
        *kept |= bits << 16 * w;
    }
#endif
}

/* Bits of 64 * words columns of R rows. */
static void draw(uint64_t *kept /* [R,kept_row] */, size_t kept_row, sf_drop_mask mask, const sf_index *index,
                 size_t first_draw, size_t draws_per_row, size_t R, size_t words) {
    const philox_keys keys = philox_keys_of(index);
    const size_t total = R * words;
    for (size_t at = 0, row = 0, word = 0; at < total; at += DRAWN_AT_ONCE) {
        uint32_t first_draws[DRAWN_AT_ONCE];
        uint64_t drawn[DRAWN_AT_ONCE];
        size_t places[DRAWN_AT_ONCE];
        for (size_t n = 0; n < DRAWN_AT_ONCE; n++) {
            first_draws[n] = (uint32_t)(first_draw + row * draws_per_row + 8 * word);
            places[n] = row * kept_row + word;
            if (++word == words) {
                word = 0;
                row++;
            }
        }
        draw_some(drawn, mask, index, &keys, first_draws);
        for (size_t n = 0; n < DRAWN_AT_ONCE && n < total - at; n++) kept[places[n]] = drawn[n];
    }
}

void sf_rows_draw(uint64_t *kept /* [R,columns / 64 rounded up] */, sf_drop_mask mask, const sf_index *index,
                  size_t first_row, size_t R, size_t columns) {
    const size_t draws_per_row = sf_dropout_draws_per_row(columns), words = sf_kept_words(columns);
    draw(kept, words, mask, index, first_row * draws_per_row, draws_per_row, R, words);
}

void sf_keep_factors_of(float *factors /* [offsets[R]] */, sf_drop_mask mask, const sf_index *index, size_t columns,
                        const size_t *offsets /* [R+1] */, const uint32_t *listed /* [offsets[R]] */, size_t first_row,
                        size_t R) {
    const uint32_t per_row = sf_dropout_draws_per_row(columns);
    const size_t end = offsets[R];
    const philox_keys keys = philox_keys_of(index);
    uint32_t draws[8] = {0}, words[4][8];
    for (size_t start = offsets[0], row = 0; start < end; start += 8) { /* eight at a time, across rows */
        const size_t now = end - start < 8 ? end - start : 8;
        for (size_t i = 0; i < now; i++) {
            const uint32_t column = listed[start + i];
            while (start + i >= offsets[row + 1]) row++;
            draws[i] = (uint32_t)(first_row + row) * per_row + column / 64 * 8 + column % 8;
        }
        philox_eight(words, index, &keys, draws);
        for (size_t i = 0; i < now; i++) {
            const uint32_t lane = listed[start + i] % 64 / 8;
            const uint32_t bits = words[lane / 2][i] >> 16 * (lane % 2) & 0xffffU;
            factors[start + i] = bits < mask.threshold ? 0.0F : mask.scale;
        }
    }
}

typedef struct word_draws { /* words of which several columns are listed: all 64 are drawn */
    uint32_t draws[DRAWN_AT_ONCE];
    size_t from[DRAWN_AT_ONCE], to[DRAWN_AT_ONCE]; /* where their columns are listed */
    size_t count;
} word_draws;

INLINE void draw_words(float *factors, word_draws *words, const uint32_t *listed, sf_drop_mask mask,
                       const sf_index *index, const philox_keys *keys) {
    uint64_t kept[DRAWN_AT_ONCE];
    for (size_t i = words->count; i < DRAWN_AT_ONCE; i++) words->draws[i] = 0;
    draw_some(kept, mask, index, keys, words->draws);
    for (size_t i = 0; i < words->count; i++) {
        const size_t from = words->from[i], to = words->to[i];
        if (to - from == 64)
            for (size_t v = 0; v < 64 / VL; v++)
                store(factors + from + v * VL, kept_lanes(&kept[i], v, splat(mask.scale)));
        else
            for (size_t n = from; n < to; n++) factors[n] = kept[i] >> listed[n] % 64 & 1 ? mask.scale : 0.0F;
    }
    words->count = 0;
}

typedef struct single_draws { /* the others: one draw per column */
    uint32_t draws[8];
    size_t at[8];
    size_t count;
} single_draws;

INLINE void draw_singles(float *factors, single_draws *singles, const uint32_t *listed, sf_drop_mask mask,
                         const sf_index *index, const philox_keys *keys) {
    uint32_t words[4][8];
    for (size_t i = singles->count; i < 8; i++) singles->draws[i] = 0;
    philox_eight(words, index, keys, singles->draws);
    for (size_t i = 0; i < singles->count; i++) {
        const uint32_t lane = listed[singles->at[i]] % 64 / 8;
        const uint32_t bits = words[lane / 2][i] >> 16 * (lane % 2) & 0xffffU;
        factors[singles->at[i]] = bits < mask.threshold ? 0.0F : mask.scale;
    }
    singles->count = 0;
}

void sf_keep_factors_of_row(float *factors /* [count] */, sf_drop_mask mask, const sf_index *index, size_t columns,
                            const uint32_t *listed /* [count] */, size_t count, size_t row) {
    enum { SEVERAL = 6 }; /* listed columns of a word from which on drawing all 64 takes less time */
    const uint32_t first_draw = (uint32_t)row * sf_dropout_draws_per_row(columns);
    const philox_keys keys = philox_keys_of(index);
    word_draws words = {.count = 0};
    single_draws singles = {.count = 0};
    for (size_t n = 0, to; n < count; n = to) {
        const uint32_t word = listed[n] / 64;
        for (to = n + 1; to < count && listed[to] / 64 == word;) to++;
        if (to - n >= SEVERAL) {
            words.draws[words.count] = first_draw + 8 * word;
            words.from[words.count] = n;
            words.to[words.count] = to;
            if (++words.count == DRAWN_AT_ONCE) draw_words(factors, &words, listed, mask, index, &keys);
            continue;
        }
        for (size_t i = n; i < to; i++) {
            singles.draws[singles.count] = first_draw + 8 * word + listed[i] % 8;
            singles.at[singles.count] = i;
            if (++singles.count == 8) draw_singles(factors, &singles, listed, mask, index, &keys);
        }
    }
    if (words.count > 0) draw_words(factors, &words, listed, mask, index, &keys);
    if (singles.count > 0) draw_singles(factors, &singles, listed, mask, index, &keys);
}

/* `columns`, `add` and `drops` are constants where this is inlined. */
INLINE void drop_rows(float *y, bool add, const float *x, float scale, bool drops, const uint64_t *kept, size_t R,
                      size_t columns) {
    const size_t padded = sf_padded(columns), words = sf_kept_words(columns);
    for (size_t r = 0; r < R; r++)
        for (size_t v = 0; v < padded / VL; v++) {
            const size_t at = r * padded + v * VL;
            const vf factor = drops ? kept_lanes(kept + r * words, v, splat(scale)) : splat(1.0F);
            store(y + at, add ? multiply_add(load(x + at), factor, load(y + at)) : load(x + at) * factor);
        }
}

void sf_rows_drop(float *y, bool add, const float *x /* [R,padded columns] */, sf_drop_mask mask,
                  const uint64_t *kept /* [R,columns / 64 rounded up] */, size_t R, size_t columns) {
    if (mask.threshold == 0)
        drop_rows(y, add, x, 1.0F, false, kept, R, columns);
    else if (columns != COMMON_N)
        drop_rows(y, add, x, mask.scale, true, kept, R, columns);
    else if (add)
        drop_rows(y, true, x, mask.scale, true, kept, R, COMMON_N);
    else
        drop_rows(y, false, x, mask.scale, true, kept, R, COMMON_N);
}

void sf_rows_add(float *x, const float *y, size_t count) {
    for (size_t i = 0; i < count; i += VL) store(x + i, load(x + i) + load(y + i));
}

/* `vectors` (a constant where this is inlined) vectors side by side, because each addition of a single chain waits for
 * the one before. */
INLINE void sum_columns(float *sums, bool add, const float *x, size_t x_row, size_t R, size_t vectors) {
    vf chains[HELD] = {{0}};
    for (size_t r = 0; r < R; r++)
        for (size_t v = 0; v < vectors; v++) chains[v] += load(x + r * x_row + v * VL);
    for (size_t v = 0; v < vectors; v++) store(sums + v * VL, add ? load(sums + v * VL) + chains[v] : chains[v]);
}

void sf_rows_sum(float *sums /* [N] */, bool add, const float *x /* [R,N] */, size_t x_row, size_t R, size_t N) {
    enum { WIDE = HELD < 8 ? HELD : 8 };
    const size_t columns = (size_t)WIDE * VL;
    size_t n = 0;
    for (; n + columns <= N; n += columns) sum_columns(sums + n, add, x + n, x_row, R, WIDE);
    for (; n < N; n += VL) sum_columns(sums + n, add, x + n, x_row, R, 1);
}

float sf_dot(const float *a, const float *b, size_t N) {
    return dot(a, b, N);
}

void sf_row_scale(float *row, float factor, size_t N) {
    for (size_t n = 0; n < N; n += VL) store(row + n, splat(factor) * load(row + n));
}

void sf_add_scaled(float *y, float factor, const float *x, size_t N) {
    add_scaled(y, factor, x, N);
}

INLINE float largest_of(const float *row, size_t count) {
    enum { CHAINS = 4 }; /* in a single chain every step would wait for the one before */
    vf chains[CHAINS] = {splat(-INFINITY), splat(-INFINITY), splat(-INFINITY), splat(-INFINITY)};
    const size_t keys = (size_t)CHAINS * VL;
    size_t j = 0;
    for (; j + keys <= count; j += keys)
        for (size_t i = 0; i < CHAINS; i++) chains[i] = max_of(load(row + j + i * VL), chains[i]);
    vf largest = max_of(max_of(chains[0], chains[1]), max_of(chains[2], chains[3]));
    for (; j + VL <= count; j += VL) largest = max_of(load(row + j), largest);
    if (j < count) largest = max_of(load_first(row + j, count - j, -INFINITY), largest);
    return max_lanes(largest);
}

enum { PER_WORD = 64 / VL }; /* vectors */

/* How many vectors of some words are computed side by side. */
INLINE size_t side_by_side(size_t words) {
    return words * PER_WORD < SIDE_BY_SIDE ? words * PER_WORD : SIDE_BY_SIDE;
}

INLINE void weights_of(vf *weights, const float *scores, float largest, size_t count) {
    for (size_t i = 0; i < count; i++) weights[i] = load(scores + i * VL) - splat(largest);
    exp_each_below_zero(weights, count);
}

/* Weights of whole words of 64 keys; `words` (1 or 2) and `drops` are constants where this is inlined. */
INLINE void weigh_words(lane_sums *sums, float *row, const float *scores, float largest, const uint64_t *kept,
                        float scale, size_t words, bool drops) {
    const size_t count = side_by_side(words);
    vf weights[SIDE_BY_SIDE];
    for (size_t first = 0; first < words * PER_WORD; first += count) {
        weights_of(weights, scores + first * VL, largest, count);
        for (size_t i = 0, v = first; i < count; i++, v++) {
            sums->at[v % SUM_VECTORS] += weights[i];
            store(row + v * VL, drops ? kept_product(kept, v, weights[i], splat(scale)) : weights[i]);
        }
    }
}

/* The same for the last keys, fewer than 64. */
INLINE void weigh_rest(lane_sums *sums, float *row, const float *scores, float largest, const uint64_t *kept,
                       float scale, size_t keys, bool drops) {
    for (size_t c = 0; c < keys; c += SUM_LANES)
        for (size_t v = 0; v < SUM_VECTORS; v++) {
            const size_t at = c + v * VL;
            const vf weight = masked(real_bits(at, keys), exp_below_zero(load(scores + at) - splat(largest)));
            sums->at[v] += weight;
            store(row + at, drops ? kept_product(kept, at / VL, weight, splat(scale)) : weight);
        }
}

/* How many keys of the tile its i-th query sees. */
INLINE size_t visible_keys(const sf_softmax_tile *tile, size_t i) {
    const size_t visible = tile->first_query + i + 1;
    if (!tile->causal) return tile->keys;
    return visible > tile->first_key ? sf_smaller(visible - tile->first_key, tile->keys) : 0;
}

/* Sets what weigh_rest or slope_rest has not written of a row: the keys that its query does not see. */
INLINE void clear_invisible(float *row, size_t visible, size_t keys) {
    for (size_t j = (visible + VL - 1) / VL * VL; j < sf_padded(keys); j += VL) store(row + j, splat(0.0F));
}

INLINE void weigh_rows(const sf_softmax_tile *tile, sf_softmax_sums *sums, float scale, bool drops) {
    for (size_t i = 0; i < tile->queries; i++) {
        float *row = tile->at + i * tile->row;
        const float *scores = tile->scores + i * tile->scores_row;
        const uint64_t *kept = tile->kept + i * tile->kept_row;
        const float largest = sums->largest[i];
        const size_t keys = visible_keys(tile, i);
        lane_sums here = {0};
        size_t j = 0;
        for (; keys - j >= 128; j += 128)
            weigh_words(&here, row + j, scores + j, largest, kept + j / 64, scale, 2, drops);
        for (; keys - j >= 64; j += 64)
            weigh_words(&here, row + j, scores + j, largest, kept + j / 64, scale, 1, drops);
        if (j < keys) weigh_rest(&here, row + j, scores + j, largest, kept + j / 64, scale, keys - j, drops);
        if (keys < tile->keys) clear_invisible(row, keys, tile->keys);
        sums->total[i] = sums->total[i] * sums->shrink[i] + total_of(here);
    }
}

void sf_softmax_draw(const sf_softmax_tile *tile, const sf_weight_drop *drop) {
    if (drop->mask.threshold > 0)
        draw(tile->kept, tile->kept_row, drop->mask, &drop->index,
             tile->first_query * drop->draws_per_row + tile->first_key / 8, drop->draws_per_row, tile->queries,
             sf_kept_words(tile->keys));
}

/* First the largest score of every row, then all weights: so no row has to wait for its own maximum. */
void sf_softmax_rows(const sf_softmax_tile *tile, sf_softmax_sums *sums, sf_drop_mask mask) {
    float before[SF_QUERY_TILE] = {0};
    for (size_t i = 0; i < tile->queries; i++) {
        const float largest = largest_of(tile->scores + i * tile->scores_row, visible_keys(tile, i));
        before[i] = sums->largest[i];
        sums->largest[i] = before[i] > largest ? before[i] : largest;
    }
    for (size_t i = 0; i < tile->queries; i += VL)
        store(sums->shrink + i, exp_below_zero(load(before + i) - load(sums->largest + i)));
    if (mask.threshold > 0)
        weigh_rows(tile, sums, mask.scale, true);
    else
        weigh_rows(tile, sums, 1.0F, false);
}

typedef struct row_slopes { /* what the gradients of a row's scores are computed from */
    sf_softmax_stats stats;
    float mean, scale, kept_scale;
} row_slopes;

/* The v-th vector of `kept`. */
INLINE void slope_vector(float *row, float *slopes, vf weight, const row_slopes *by, const uint64_t *kept, size_t v,
                         bool drops) {
    weight *= splat(by->stats.inverse_total);
    vf slope = load(slopes), left = weight;
    if (drops) {
        slope = multiply_add(slope, kept_lanes(kept, v, splat(by->kept_scale)), splat(-by->mean));
        left = kept_product(kept, v, left, splat(by->kept_scale));
    } else {
        slope -= splat(by->mean);
    }
    store(row, left);
    store(slopes, splat(by->scale) * weight * slope);
}

/* Like weigh_words and weigh_rest: computes the weights again, and the gradients of the scores. */
INLINE void slope_words(float *row, float *slopes, const float *scores, const row_slopes *by, const uint64_t *kept,
                        size_t words, bool drops) {
    const size_t count = side_by_side(words);
    vf weights[SIDE_BY_SIDE];
    for (size_t first = 0; first < words * PER_WORD; first += count) {
        weights_of(weights, scores + first * VL, by->stats.largest, count);
        for (size_t i = 0, v = first; i < count; i++, v++)
            slope_vector(row + v * VL, slopes + v * VL, weights[i], by, kept, v, drops);
    }
}

INLINE void slope_rest(float *row, float *slopes, const float *scores, const row_slopes *by, const uint64_t *kept,
                       size_t keys, bool drops) {
    for (size_t c = 0; c < keys; c += VL) {
        const vf weight = masked(real_bits(c, keys), exp_below_zero(load(scores + c) - splat(by->stats.largest)));
        slope_vector(row + c, slopes + c, weight, by, kept, c / VL, drops);
    }
}

INLINE void slope_rows(const sf_softmax_tile *tile, float *slopes, const sf_softmax_stats *stats, const float *means,
                       float scale, float kept_scale, bool drops) {
    for (size_t i = 0; i < tile->queries; i++) {
        float *row = tile->at + i * tile->row, *slopes_here = slopes + i * tile->row;
        const float *scores = tile->scores + i * tile->scores_row;
        const uint64_t *kept = tile->kept + i * tile->kept_row;
        const row_slopes by = {stats[i], means[i], scale, kept_scale};
        const size_t keys = visible_keys(tile, i);
        size_t j = 0;
        for (; keys - j >= 128; j += 128)
            slope_words(row + j, slopes_here + j, scores + j, &by, kept + j / 64, 2, drops);
        for (; keys - j >= 64; j += 64) slope_words(row + j, slopes_here + j, scores + j, &by, kept + j / 64, 1, drops);
        if (j < keys) slope_rest(row + j, slopes_here + j, scores + j, &by, kept + j / 64, keys - j, drops);
        if (keys == tile->keys) continue;
        clear_invisible(row, keys, tile->keys);
        clear_invisible(slopes_here, keys, tile->keys);
    }
}

void sf_softmax_rows_backward(const sf_softmax_tile *tile, float *slopes, const sf_softmax_stats *stats,
                              const float *means, float scale, sf_drop_mask mask) {
    if (mask.threshold > 0)
        slope_rows(tile, slopes, stats, means, scale, mask.scale, true);
    else
        slope_rows(tile, slopes, stats, means, scale, 1.0F, false);
}
