/* Statistics of a model's attention scores on data: dispersion, separation, in-degrees, stability, the conditions, and
 * the largest token. Streaming: memory does not grow with the number of sequences. */
#ifndef SF_MEASURE_SCORES_H
#define SF_MEASURE_SCORES_H

#include <stdatomic.h>

#include "model/model.h"
#include "semfocus/measure.h"
#include "train/data.h"
#include "train/machine.h"

typedef struct sf_meter sf_meter; /* memory for measuring one model, reusable */

typedef struct sf_measured_data {
    const sf_run_data *data;
    sf_split split;
    size_t samples; /* the first of the split; 0: all */
    uint32_t seed;  /* of the run: random keys are those of its evaluation */
} sf_measured_data;

sf_status sf_meter_create(sf_meter **out, const sf_model *model, const sf_machine *machine);
void sf_meter_destroy(sf_meter *meter);
/* Measuring ends with SF_INTERRUPTED once *stop is not 0. NULL, the default: never. */
void sf_meter_obey(sf_meter *meter, const atomic_int *stop);

/* Replaces what was measured before. */
sf_status sf_meter_measure(sf_meter *meter, const float *params /* [size] */, const sf_measured_data *what);

/* Of one block; or of all, for block = L. The spectral norms are not set. */
sf_status sf_meter_read(sf_block_measures *out, sf_meter *meter, size_t block);

/* The divisor of the sink ratio, and whether the mechanism chooses by score and leaves keys out. */
size_t sf_sink_keys(const sf_shape *shape);
bool sf_has_separation(const sf_shape *shape);

#endif
