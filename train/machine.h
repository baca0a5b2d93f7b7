/* Where to compute. No result depends on it. */
#ifndef SF_TRAIN_MACHINE_H
#define SF_TRAIN_MACHINE_H

#include <stddef.h>

#include "semfocus/settings.h"

typedef struct sf_machine {
    size_t threads; /* 0: one per core */
    sf_device device;
    const struct sf_backend *backend; /* NULL: that of the device */
    /* Passes on a sentence for the user, for example that the CPU computes what the device cannot; may be NULL. */
    void (*on_note)(void *context, const char *sentence);
    void *context;
} sf_machine;

/* SF_AUTO is not decided yet (train/automatic.h). */
sf_machine sf_machine_of(const sf_execution *execution /* NULL: the defaults */);

#endif
