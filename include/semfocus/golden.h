/* The check against golden tensors (the command parity): does semfocus compute the numbers of the published model? A
 * golden file (safetensors) holds parameters and a batch, and the logits, gradients, gradient norm and losses of three
 * SGD steps that another program computed from them in double. */
#ifndef SEMFOCUS_GOLDEN_H
#define SEMFOCUS_GOLDEN_H

#include <stdbool.h>

#include "semfocus/api.h"
#include "semfocus/settings.h"
#include "semfocus/status.h"

SF_API_BEGIN

#define SF_GOLDEN_REFERENCE_LIMIT 1e-9
#define SF_GOLDEN_F32_LIMIT       2e-5
#define SF_GOLDEN_TF32_LIMIT      4e-3
#define SF_GOLDEN_BF16_LIMIT      3e-2

typedef struct sf_golden_path {
    double worst;        /* largest error; infinity where a value is not finite */
    char worst_name[64]; /* the tensor it was found in */
    double limit;
    bool passes;
} sf_golden_path;

typedef struct sf_golden {
    sf_golden_path reference; /* in double */
    sf_golden_path computed;  /* by the device, in the precision */
    double equal_kept;        /* bf16 and tf32: the share of queries that keep the same keys as in the reference */
} sf_golden;

/* Computes on the device of `execution` (NULL: the defaults), of which only device and notes are used.
 *
 * Error of the reference and of f32: |a-b|/|b| for losses and the gradient norm; |a-b|/max(|b|, 1e-2 of the largest
 * logit) for logits; |a-b|/max(|b|, 1e-3 of the gradient norm) for gradients.
 *
 * bf16 and tf32 round the factors of matrix products, so single numbers say little, keys with nearly equal scores
 * change places, and ReLUs near 0 open or close. They are compared with the reference that makes the same choices as
 * the device: |a-b|/|b| for losses and the gradient norm; the norm of a-b divided by that of b for the logits and each
 * gradient, where that of a gradient counts as at least 1e-2 of the norm of all.
 *
 * A file that cannot be read, or whose shapes disagree with its metadata, is SF_BAD_INPUT. */
sf_status sf_golden_check(sf_golden *out, const char *path, sf_precision precision, const sf_execution *execution);

SF_API_END

#endif
