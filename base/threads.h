/* How many threads a parallel region uses. Results never depend on the answer. */
#ifndef SF_BASE_THREADS_H
#define SF_BASE_THREADS_H

#include <stddef.h>

/* `asked` threads, or one per available core where asked is 0; one inside a parallel region. */
int sf_threads_for(size_t asked);

#endif
