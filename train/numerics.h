/* The arithmetic of a run, by name. It is part of what a run is: a run is trained, resumed and evaluated only where
 * its arithmetic is found.
 *
 *   f32          docs/numerics.md: the same bits on every CPU and GPU
 *   bf16         the CPU's
 *   bf16-sm_90   those of the tensor cores of one GPU architecture
 *   tf32-sm_90 */
#ifndef SF_TRAIN_NUMERICS_H
#define SF_TRAIN_NUMERICS_H

#include "train/backend.h"

enum { SF_NUMERICS_SIZE = 32 };

void sf_numerics_name(char out[SF_NUMERICS_SIZE], const sf_config *config);
/* The same from its parts; architecture "" is the CPU. */
const char *sf_numerics_spell(char out[SF_NUMERICS_SIZE], sf_precision precision, const char *architecture);

/* Fills in the architecture of a run that is planned for a device. Refused: a device that is not there, and a
 * precision that it does not compute. */
sf_status sf_numerics_settle(sf_config *config, sf_device device);

/* Whether the settings name an arithmetic, and one that the CPU has if they name no architecture. */
sf_status sf_numerics_check(const sf_config *config);

/* Whether the backend computes the arithmetic of the run on this machine; SF_UNSUPPORTED with a sentence if not. */
sf_status sf_backend_check_run(const sf_backend *backend, const sf_config *config);
bool sf_backend_computes(const sf_backend *backend, const sf_config *config);

/* The device that computes a run as it was trained: what is asked for if its arithmetic leaves a choice, else the CPU
 * or the GPU, whether this machine has it or not. */
sf_device sf_numerics_device(const sf_config *config, sf_device asked);

#endif
