/* What rank 0, which owns the store, and the other ranks, which train runs for it, say to each other. */
#ifndef SF_STUDY_RANK_MESSAGES_H
#define SF_STUDY_RANK_MESSAGES_H

#include "ranks/coder.h"
#include "semfocus/session.h"
#include "store/run_state.h"

typedef enum sf_message_kind {
    /* From rank 0. */
    SF_SESSION_OPENS = 1, /* sf_session_message */
    SF_RUN_DEALT,         /* sf_dealt_message */
    SF_NO_RUN,            /* sf_no_run_message: none is open now; one that becomes open is sent unasked */
    SF_DROP_RUN,          /* sf_run_ref: it was given to others */
    SF_STOP_RUNS,         /* checkpoint and stop them */
    SF_SESSION_CLOSES,    /* no run is left */
    SF_SHARE_MODEL,       /* follow the orders of train/cpu/orders.h until they release this rank */
    SF_DISMISS,           /* the end */
    /* To rank 0. */
    SF_HELLO,      /* sf_hello_message */
    SF_ASK,        /* sf_ask_message: a worker of this rank has room for a run */
    SF_BEGUN,      /* sf_begun_message */
    SF_MEASURED,   /* sf_row_message without a row: what was measured before the first epoch */
    SF_ROW,        /* sf_row_message */
    SF_CHECKPOINT, /* sf_checkpoint_message */
    SF_COMPLETED,  /* sf_completed_message */
    SF_RESTORED,   /* sf_run_ref: the lost checkpoint was computed again */
    SF_PAUSED,     /* sf_run_ref */
    SF_ENDED,      /* sf_ended_message: the rank has nothing to do with the run any more */
    SF_PUT_BACK,   /* sf_ended_message: another worker or rank should take it */
    SF_NOTE,       /* text for the user */
    SF_ALIVE,      /* sf_alive_message, every second */
    SF_UNABLE,     /* text: why this rank takes no part */
    SF_LEAVES      /* the answer to SF_DISMISS */
} sf_message_kind;

typedef struct sf_run_ref { /* a run that was dealt to a rank */
    uint64_t index;         /* into the runs of rank 0's session */
    uint64_t ticket;        /* no two deals have the same: those of runs that were given to others are void */
} sf_run_ref;

typedef struct sf_session_message {
    uint64_t session; /* numbered from 1 */
    uint64_t share;   /* runs that this rank may expect, about */
    int64_t threads, device, checkpoint_seconds, measure_every;
} sf_session_message;

typedef struct sf_dealt_message {
    uint64_t worker; /* who asked */
    sf_run_ref ref;
    uint64_t open; /* runs that are still open, divided by the ranks */
    double saving; /* seconds that rank 0 takes for one checkpoint of every run that other ranks have */
    sf_planned_run plan;
    sf_stored_run stored;
    const void *lost; /* [lost_count], not aligned: rows that must come out again; NULL: none */
    size_t lost_count;
    const void *checkpoint; /* [checkpoint_size]: a file of tensors; NULL: the run begins */
    size_t checkpoint_size;
    sf_epoch last, best;
    uint64_t converged_epoch;
    const char *environment; /* of its epochs so far; NULL: there are none */
} sf_dealt_message;

typedef struct sf_no_run_message {
    uint64_t worker;
} sf_no_run_message;

typedef struct sf_hello_message {
    const char *program; /* all must be the same */
    const char *host;
    uint64_t threads;
} sf_hello_message;

typedef struct sf_ask_message {
    uint64_t session, worker;
    bool for_cpu;  /* the backend is the CPU: also takes what other backends left to it */
    bool for_rest; /* takes nothing else */
    bool has_like;
    sf_config like;      /* sizes and precision of the models it may take */
    uint64_t precisions; /* a bit per sf_precision that it computes in runs without architecture */
    char architecture[sizeof((sf_config *)0)->architecture];
} sf_ask_message;

typedef struct sf_begun_message {
    sf_run_ref ref;
    const char *isa, *environment;
    sf_epoch last; /* it continues after */
} sf_begun_message;

typedef struct sf_row_message {
    sf_run_ref ref;
    sf_epoch row;
    double seconds;
    const void *points; /* [point_count] of sf_curve_point, not aligned */
    size_t point_count;
} sf_row_message;

typedef struct sf_checkpoint_message {
    sf_run_ref ref;
    sf_saved saved;
    const void *last, *best; /* files of tensors; best may be NULL */
    size_t last_size, best_size;
} sf_checkpoint_message;

typedef struct sf_completed_message {
    sf_run_ref ref;
    bool diverged;
    uint64_t diverged_epoch, diverged_step;
} sf_completed_message;

typedef struct sf_ended_message {
    sf_run_ref ref;
    int64_t status; /* sf_status */
    bool begun, on_cpu;
    bool left; /* its device is lost, and nobody here computes its bits */
    const char *message;
} sf_ended_message;

typedef struct sf_step {
    sf_run_ref ref;
    uint64_t step, steps;
} sf_step;

typedef struct sf_alive_message {
    const void *steps; /* [step_count] of sf_step, not aligned */
    size_t step_count;
} sf_alive_message;

/* A message of this kind, to be continued by the functions below and sent; and the kind of one that is read. */
sf_coder sf_message_write(sf_message_kind kind);
sf_message_kind sf_message_read(sf_coder *coder);

/* Write what *message has, or read into it (ranks/coder.h). */
void sf_code_session(sf_coder *coder, sf_session_message *message);
void sf_code_dealt(sf_coder *coder, sf_dealt_message *message);
void sf_code_no_run(sf_coder *coder, sf_no_run_message *message);
void sf_code_ref(sf_coder *coder, sf_run_ref *ref);
void sf_code_hello(sf_coder *coder, sf_hello_message *message);
void sf_code_ask(sf_coder *coder, sf_ask_message *message);
void sf_code_begun(sf_coder *coder, sf_begun_message *message);
void sf_code_row(sf_coder *coder, sf_row_message *message);
void sf_code_checkpoint(sf_coder *coder, sf_checkpoint_message *message);
void sf_code_completed(sf_coder *coder, sf_completed_message *message);
void sf_code_ended(sf_coder *coder, sf_ended_message *message);
void sf_code_alive(sf_coder *coder, sf_alive_message *message);

#endif
