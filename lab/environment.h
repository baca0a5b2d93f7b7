/* What a run is computed on, for its record. */
#ifndef SF_LAB_ENVIRONMENT_H
#define SF_LAB_ENVIRONMENT_H

#include "semfocus/settings.h"

/* JSON text: version, compiler, cpu, instruction set, threads, precision, numerics. NULL without memory; free() it. */
char *sf_environment_text(int threads, sf_precision precision);

#endif
