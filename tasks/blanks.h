/* Sequences that are an input followed by blanks, one for each token of the output: what their samplers write and what
 * their solvers check. The two share no code. */
#ifndef SF_TASKS_BLANKS_H
#define SF_TASKS_BLANKS_H

#include "tasks/task.h"

/* For samplers: the blanks behind an input, which has no labels. Sets `count`. */
void sf_blanks_append(int32_t *tokens, int32_t *labels, size_t *count, size_t input, size_t output, int32_t blank);
/* For samplers: the bits of a number that is not 0. */
void sf_bits_draw(int32_t *bits /* [count] */, size_t count, sf_draws *draws);

/* For solvers: where the input ends, which has the tokens 0..blank-1. */
sf_status sf_blanks_split(size_t *input, const int32_t *tokens /* [count] */, size_t count, int32_t blank,
                          const char *task);
/* For solvers: that there are as many blanks as the output has tokens. The input gets no labels. */
sf_status sf_blanks_check(int32_t *labels, size_t input, size_t count, size_t output, const char *task);

/* An input x 2 y of two binary numbers, not 0, the lowest bit first. Blanks are 3. */
typedef struct sf_operands {
    const int32_t *x /* [m] */, *y /* [n] */;
    size_t m, n, input; /* input: m + 1 + n */
} sf_operands;
/* For samplers: x has m bits, m uniform on 1..input-2, and y the rest. */
void sf_operands_draw(sf_operands *out, int32_t *tokens /* [input] */, size_t input, sf_draws *draws);
/* For solvers. */
sf_status sf_operands_read(sf_operands *out, const int32_t *tokens /* [count] */, size_t count, const char *task);

#endif
