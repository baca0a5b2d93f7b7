/* Event files of TensorBoard, written and read without its libraries.
 *
 * A file is a sequence of records: the length (64 bits, little-endian), its masked CRC-32C, the bytes, their masked
 * CRC-32C. The bytes are one Event of protocol buffers. A reader stops at the first record that is not whole, so a file
 * that only ever grows is readable at any moment, whatever happens to the process or the power.
 *
 * Events are collected in a log in memory, then appended to a file (sf_events_append) or written as a new one. */
#ifndef SF_IO_TENSORBOARD_H
#define SF_IO_TENSORBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct sf_event_log { /* start with {0} */
    unsigned char *bytes;     /* whole records */
    size_t count, room;
    sf_status status; /* of the first failure; later events are not added */
} sf_event_log;
void sf_event_log_close(sf_event_log *log);

typedef struct sf_scalar {
    const char *tag;
    double value; /* stored in single precision, like every scalar of TensorBoard */
} sf_scalar;

typedef struct sf_hparam {
    const char *name, *text;
    double number;
    bool is_number; /* else it is the text */
} sf_hparam;

/* What HParams knows about how a run ended. */
typedef enum sf_session_status {
    SF_SESSION_SUCCESS = 1,
    SF_SESSION_FAILURE = 2,
    SF_SESSION_RUNNING = 3
} sf_session_status;

/* The first event of a file. Times are in seconds. */
void sf_event_version(sf_event_log *log, double time);
/* One event for all scalars of a step: they are read together or not at all. */
void sf_event_scalars(sf_event_log *log, double time, int64_t step, const sf_scalar *scalars /* [count] */,
                      size_t count);
/* Hyperparameters of a run; HParams shows runs of the same group as one. */
void sf_event_session_start(sf_event_log *log, double time, const char *group, const sf_hparam *hparams /* [count] */,
                            size_t count);
void sf_event_session_end(sf_event_log *log, double time, sf_session_status status);

typedef struct sf_event_file { /* one that is being continued */
    int file;
    size_t size;       /* of its whole records */
    int64_t last_step; /* of its scalars; -1: there are none */
    bool has_start;    /* it has the hyperparameters of a session */
    bool has_end;      /* its last event is the end of a session */
} sf_event_file;

/* Opens the file, creating it where it does not exist, and reads what it has. What follows the last whole record is cut
 * off: the rest of a write that was interrupted. Other processes wait until it is closed. */
sf_status sf_event_file_open(sf_event_file *out, const char *path);
sf_status sf_event_file_append(sf_event_file *file, const sf_event_log *log, const char *path);
void sf_event_file_close(sf_event_file *file);

#endif
