/* Everything random is a function of its index: Philox4x32-10 (Random123) under
 *
 *   key     = (seed, stream)            stream = purpose | block << 8 | head << 20
 *   counter = (draw, sample, step, epoch)
 *
 * so threads, order and resume cannot change what is drawn. Each call of Philox gives four 32-bit words.
 *
 * Dropout layout, fixed for every backend: an element (row, column) of a matrix with `columns` columns takes the 16-bit
 * lane (column % 64) / 8 of draw  row * 8 * ceil(columns / 64) + column / 64 * 8 + column % 8;
 * lanes 2w and 2w + 1 are the low and the high half of word w. Eight consecutive draws thus serve 64 columns and
 * eight SIMD lanes without a shuffle. */
#ifndef SF_BASE_RANDOM_H
#define SF_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef enum sf_purpose {
    SF_TRAINING_DATA = 1, /* step 0; a sequence that was swapped: step 1 or more; epoch 1: its length, if drawn */
    SF_HELDOUT_DATA = 2,
    SF_INITIAL_WEIGHTS = 3,
    SF_SHUFFLE = 4,
    SF_DROP_EMBEDDING = 5,
    SF_DROP_WEIGHTS = 6,   /* attention weights, rows = queries, columns = keys, per head */
    SF_DROP_ATTENTION = 7, /* output of the attention layer */
    SF_DROP_HIDDEN = 8,    /* before the activation */
    SF_DROP_MLP = 9,       /* output of the MLP */
    SF_RANDOM_KEYS = 10,
    SF_RANDOM_KEYS_EVALUATION = 11,
    SF_HOLD_OUT = 12,  /* which rows of a user's file are held out */
    SF_BOOTSTRAP = 13, /* resampling of statistics */
    SF_STUDY_SEEDS = 14,
    SF_SURFACE_DIRECTIONS = 20, /* step: direction, sample: tensor; four elements per draw */
    SF_EMBEDDING_NOISE = 30,    /* rows = positions, two columns per draw */
    SF_START_VECTORS = 31,      /* of power iterations */
    SF_RANDOM_PREPARATION = 40, /* of a head for its selector; sample UINT32_MAX: for all sequences of a step */
    SF_RANDOM_PREPARATION_EVALUATION = 41,
    SF_GENERATED_TOKENS = 50, /* sample: which token after the prompt */
} sf_purpose;

typedef struct sf_index { /* the address of a draw, except its number */
    uint32_t seed, stream, epoch, step, sample;
} sf_index;

static inline uint32_t sf_stream(sf_purpose purpose, size_t block, size_t head) {
    return (uint32_t)purpose | (uint32_t)block << 8 | (uint32_t)head << 20;
}

void sf_philox(uint32_t words[4], const sf_index *index, uint32_t draw);

/* Successive words of one index. */
typedef struct sf_draws {
    sf_index index;
    uint32_t next_draw, left;
    uint32_t words[4];
} sf_draws;

sf_draws sf_draws_at(sf_index index);
uint32_t sf_draw_word(sf_draws *draws);
uint32_t sf_draw_below(sf_draws *draws, uint32_t bound); /* uniform on 0..bound-1, unbiased; bound > 0 */
double sf_draw_unit(sf_draws *draws);                    /* uniform on (0,1), 32 bits */
double sf_draw_normal(sf_draws *draws);                  /* mean 0, deviation 1; takes two words */

/* Dropout: an element is dropped iff its 16-bit lane < threshold; kept elements are multiplied by scale. */
typedef struct sf_dropout {
    uint32_t threshold; /* 0: no dropout */
    double scale;
} sf_dropout;

sf_dropout sf_dropout_of(double rate);
static inline uint32_t sf_dropout_draws_per_row(size_t columns) {
    return (uint32_t)(8 * ((columns + 63) / 64));
}
/* Words of 64 bits that hold one bit per column of a row. */
static inline size_t sf_kept_words(size_t columns) {
    return (columns + 63) / 64;
}
/* Gaussian noise of an element of a matrix, laid out row by row, two columns per draw. */
double sf_noise_at(const sf_index *index, size_t row, size_t column, size_t columns);

uint32_t sf_dropout_lane(const sf_index *index, size_t row, size_t column, size_t columns);

#endif
