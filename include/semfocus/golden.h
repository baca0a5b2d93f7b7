/* The check against golden tensors (the command parity): does semfocus compute the numbers of the published model? A
 * golden file (safetensors) holds parameters and a batch, and the logits, gradients, gradient norm and losses of three
 * SGD steps that another program computed from them in double. */
#ifndef SEMFOCUS_GOLDEN_H
#define SEMFOCUS_GOLDEN_H

#include <stdbool.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

#define SF_GOLDEN_REFERENCE_LIMIT 1e-9
#define SF_GOLDEN_F32_LIMIT       2e-5

typedef struct sf_golden_path {
    double worst;        /* largest error; infinity where a value is not finite */
    char worst_name[64]; /* the tensor it was found in */
    double limit;
    bool passes;
} sf_golden_path;

typedef struct sf_golden {
    sf_golden_path reference, f32;
} sf_golden;

/* Error: |a-b|/|b| for logits, losses and the gradient norm; |a-b|/max(|b|, 1e-3 of the gradient norm) for gradients.
 * A file that cannot be read, or whose shapes disagree with its metadata, is SF_BAD_INPUT. */
sf_status sf_golden_check(sf_golden *out, const char *path);

SF_API_END

#endif
