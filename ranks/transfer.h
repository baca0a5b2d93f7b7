/* Messages between the ranks that train one model together.
 *
 * Sending and receiving only begin here; bytes stay in place until the transfer was waited for. Messages of one sender
 * on one channel arrive in order. Waiting sleeps: ranks share their machines with other work. Between
 * sf_transfer_open() and sf_transfer_close() a thread of its own keeps messages moving while all others compute. It
 * tells rank 0 that this rank is alive, and passes on requests to stop in both directions:
 *
 *   rank 0 to the others   once the flag of sf_transfer_open() is set, for the order that is being carried out
 *   the others to rank 0   a signal that reached one of them is sent to the process of rank 0
 *
 * A rank that rank 0 waits for and that gives no sign of life is lost: then waiting fails at rank 0. */
#ifndef SF_RANKS_TRANSFER_H
#define SF_RANKS_TRANSFER_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SF_CHANNELS = 32000, SF_LARGEST_MESSAGE = INT_MAX }; /* channels from 0; bytes */

typedef struct sf_transfer {
    void *request;
    bool begun; /* false, as in a zeroed one: there is nothing to wait for */
} sf_transfer;

void sf_transfer_send(sf_transfer *out, size_t to, unsigned channel, const void *bytes, size_t size);
void sf_transfer_receive(sf_transfer *out, size_t from, unsigned channel, void *bytes, size_t size);
/* Until all are complete; SF_IO_ERROR at rank 0 if another rank is lost. */
sf_status sf_transfer_wait(sf_transfer *transfers /* [count] */, size_t count);
bool sf_transfer_is_complete(sf_transfer *transfer);
/* Only of a message that was not sent. */
void sf_transfer_forget(sf_transfer *receiving);

/* Sleeps a little; longer the longer it was waited already. *waited starts at 0 and counts seconds. */
void sf_transfer_nap(double *waited);

/* At rank 0, `flag` asks for a stop. At the others it holds the number of a signal that arrived, or 0. May be NULL. A
 * rank that gives no sign of life for so many seconds is lost. */
sf_status sf_transfer_open(const atomic_int *flag, double seconds);
void sf_transfer_close(void);

/* What rank 0 orders is numbered; orders that can be stopped are carried out between these two calls. The flag that is
 * returned at other ranks is set once rank 0 was asked to stop. */
const atomic_int *sf_transfer_begin_order(uint64_t number);
void sf_transfer_end_order(void);

/* SF_IO_ERROR with a sentence at rank 0 if another rank is lost. */
sf_status sf_transfer_check(void);

/* The name of the machine that a rank is on; known at rank 0. */
const char *sf_transfer_host(size_t rank);

#endif
