/* Whether this process may use the tiles of AMX. */
#ifndef SF_KERNELS_CPU_TILES_H
#define SF_KERNELS_CPU_TILES_H

#include <stdbool.h>

bool sf_tiles_in_hardware(void);

#endif
