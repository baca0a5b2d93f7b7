/* A worker that has run out of sequences helps one that has not: the owner of a task offers its parts, and helpers take
 * them in order. Parts that add to the same numbers add in that order, too: results do not depend on who took what. */
#ifndef SF_KERNELS_CPU_OFFER_H
#define SF_KERNELS_CPU_OFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct sf_workspace;

enum { SF_CACHE_LINE = 64 };

struct sf_offer;
typedef void sf_take_parts(struct sf_offer *offer, const struct sf_workspace *mine); /* until there are none */

typedef struct sf_offer {
    _Alignas(SF_CACHE_LINE) atomic_bool open;
    atomic_size_t helpers; /* helpers inside, or about to enter */
    atomic_size_t next;    /* the next part to take */
    size_t parts;
    const void *task;
    sf_take_parts *take_parts;
    const atomic_int *stop; /* set: the remaining parts are left undone; may be NULL */
} sf_offer;

/* The owner's call: returns when all parts are done. A task of one part is not offered. */
void sf_offer_share(sf_offer *offer, const void *task, size_t parts, sf_take_parts *take_parts,
                    const struct sf_workspace *mine);
/* A helper's call: true if there is something to do; call sf_offer_leave() when done. */
bool sf_offer_enter(sf_offer *offer);
void sf_offer_leave(sf_offer *offer);

/* The next part, for a worker that is inside; `parts` or more: there is none, or all must stop. */
size_t sf_offer_next_part(sf_offer *offer);

/* Waits a little, busily at first, because most waits last microseconds. `turns` counts the calls, from 0. */
void sf_wait_a_little(size_t *turns);

/* Parts that add to the same numbers take turns: a part's n-th turn comes after the n-th of the part before it. `turns`
 * counts the ended turns of each part. False: all must stop, and the turn does not come. */
void sf_turns_clear(atomic_size_t *turns /* [parts] */, size_t parts);
bool sf_turn_await(const atomic_size_t *turns, size_t part, const atomic_int *stop);
void sf_turn_end(atomic_size_t *turns, size_t part);

#endif
