/* Tasks by names that are known to be there, and their sequences under one seed. */
#ifndef SF_TESTS_KNOWN_TASK_H
#define SF_TESTS_KNOWN_TASK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "semfocus/task.h"

enum { SEED = 20250614 };

static inline const sf_task *find(const char *name) {
    const sf_task *task;
    if (sf_task_find(&task, name) != SF_OK) fail_msg("%s", sf_message());
    return task;
}

static inline sf_dataset *sampled(const char *name, size_t count, size_t length) {
    sf_dataset *data;
    if (sf_dataset_sample(&data, find(name), SF_TRAINING, SEED, count, length) != SF_OK) fail_msg("%s", sf_message());
    return data;
}

#endif
