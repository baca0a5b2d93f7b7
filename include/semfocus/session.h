/* A session trains the missing runs of a list and stores them. Finished runs are skipped, unfinished ones continue from
 * their checkpoint, failed ones are tried again; runs that another process is training are left to it, and taken over
 * if it dies. */
#ifndef SEMFOCUS_SESSION_H
#define SEMFOCUS_SESSION_H

#include "semfocus/api.h"
#include "semfocus/store.h"

SF_API_BEGIN

typedef enum sf_event_kind {
    SF_EVENT_STARTED, /* from the beginning, or after `row.epoch` epochs */
    SF_EVENT_STEP,
    SF_EVENT_EPOCH,
    SF_EVENT_FINISHED, /* also for runs that were done before */
    SF_EVENT_STOPPED,  /* on request; checkpointed */
    SF_EVENT_FAILED,   /* `message` says why */
    SF_EVENT_WAITING,  /* other processes are training the rest */
    SF_EVENT_NOTE,     /* `message` is for the user: what the CPU computes instead of the device, and why */
} sf_event_kind;

typedef struct sf_event {
    sf_event_kind kind;
    size_t run; /* index into the list */
    const char *id, *message;
    sf_epoch row;
    size_t step, steps;
} sf_event;

typedef struct sf_planned_run {
    const char *task;
    sf_config config;
    char id[SF_RUN_ID_SIZE], attention[SF_SPELLING_SIZE]; /* from sf_run_identify(), which also completes the config */
} sf_planned_run;

typedef struct sf_session {
    const sf_planned_run *runs; /* [count] */
    size_t count;
    /* [count], from sf_shard_deal(): the number that a run gets in the store if it is new and the number is free; 0:
     * this session leaves the run to others. NULL: all runs, numbered as they come. */
    const size_t *places;
    const char *name;              /* given to all of these runs (semfocus/labels.h); NULL or "": none */
    const sf_execution *execution; /* NULL: the defaults */
    const sf_stop_flag *stop;      /* not 0: checkpoint and return; may be NULL */
    void (*on_event)(void *context, const sf_event *event); /* may be NULL */
    void *context;
} sf_session;

/* Events come one at a time, from any thread; the store is not in use meanwhile, so a callback may read from it.
 * SF_OK if every run is done or diverged, SF_INTERRUPTED if stopped, SF_IO_ERROR if some failed (each had its event).
 */
sf_status sf_session_run(sf_store *store, const sf_session *session);

SF_API_END

#endif
