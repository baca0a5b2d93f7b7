/* What every fallible call returns, and the sentence that goes with it.
 *
 * A call that returns anything but SF_OK has left a one-sentence message (the value, the rule, the fix)
 * for the calling thread; sf_message() reads it until the next failing call on that thread.
 * The numbers are stable: new codes are only ever appended. */
#ifndef SEMFOCUS_STATUS_H
#define SEMFOCUS_STATUS_H

#include "semfocus/api.h"

SF_API_BEGIN

typedef enum sf_status {
    SF_OK = 0,
    SF_BAD_INPUT = 1, /* the caller's value breaks a rule */
    SF_NO_MEMORY = 2,
    SF_IO_ERROR = 3,    /* the operating system refused a read or a write */
    SF_UNSUPPORTED = 4, /* a legal request that this build or machine cannot serve */
    SF_INTERRUPTED = 5, /* stopped on request */
} sf_status;

const char *sf_message(void);
/* The name of the setting that the message is about; "" if none. */
const char *sf_message_setting(void);

SF_API_END

#endif
