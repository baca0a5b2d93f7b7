/* Sequences that are an input followed by blanks, one for each token of the output: what their solvers check. */
#ifndef SF_TASKS_BLANKS_H
#define SF_TASKS_BLANKS_H

#include "tasks/task.h"

/* The input has the tokens 0..blank-1. */
sf_status sf_blanks_split(size_t *input, const int32_t *tokens /* [count] */, size_t count, int32_t blank,
                          const char *task);
/* That there are as many blanks as the output has tokens. */
sf_status sf_blanks_check(size_t blanks, size_t output, const char *task);

/* An input x 2 y of two binary numbers, not 0, the lowest bit first. Blanks are 3. */
typedef struct sf_operands {
    const int32_t *x /* [m] */, *y /* [n] */;
    size_t m, n, input; /* input: m + 1 + n */
} sf_operands;
sf_status sf_operands_read(sf_operands *out, const int32_t *tokens /* [count] */, size_t count, const char *task);

#endif
