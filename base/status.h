/* Failing with a sentence, and passing failures on. */
#ifndef SF_BASE_STATUS_H
#define SF_BASE_STATUS_H

#include "semfocus/status.h"

/* Stores the message for this thread and returns `code`. */
sf_status sf_fail(sf_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a failure that is about a setting, whose name outlives every message (a row of the table, a literal). */
sf_status sf_fail_on(sf_status code, const char *setting, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Records which setting a failure that is being passed on is about; SF_OK is returned unchanged. */
sf_status sf_fail_about(sf_status code, const char *setting);

/* Puts "where: " before the message of a failure that is being passed on; SF_OK is returned unchanged. */
sf_status sf_fail_in(sf_status code, const char *where, ...) __attribute__((format(printf, 2, 3)));

#define SF_TRY(call)                                                                                                   \
    do {                                                                                                               \
        const sf_status try_status = (call);                                                                           \
        if (try_status != SF_OK) return try_status;                                                                    \
    } while (0)

/* The same where something must be released first: jumps to `label` with `status` set. */
#define SF_TRY_GOTO(status, call, label)                                                                               \
    do {                                                                                                               \
        (status) = (call);                                                                                             \
        if ((status) != SF_OK) goto label;                                                                             \
    } while (0)

#endif
