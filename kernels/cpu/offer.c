#include "kernels/cpu/offer.h"

#include <sched.h>

#include "base/stop.h"

void sf_offer_share(sf_offer *offer, const void *task, size_t parts, sf_take_parts *take_parts,
                    const struct sf_workspace *mine) {
    offer->task = task;
    offer->parts = parts;
    offer->take_parts = take_parts;
    atomic_store(&offer->next, 0);
    if (parts > 1) atomic_store(&offer->open, true);
    take_parts(offer, mine);
    size_t turns = 0;
    while (atomic_load(&offer->helpers) > 0) sf_wait_a_little(&turns);
}

size_t sf_offer_next_part(sf_offer *offer) {
    const size_t part = sf_stop_asked(offer->stop) ? offer->parts : atomic_fetch_add(&offer->next, 1);
    if (part + 1 >= offer->parts) atomic_store(&offer->open, false);
    return part;
}

bool sf_offer_enter(sf_offer *offer) {
    if (!atomic_load_explicit(&offer->open, memory_order_relaxed)) return false;
    atomic_fetch_add(&offer->helpers, 1);
    if (atomic_load(&offer->open)) return true;
    sf_offer_leave(offer);
    return false;
}

void sf_offer_leave(sf_offer *offer) {
    atomic_fetch_sub(&offer->helpers, 1);
}

void sf_wait_a_little(size_t *turns) {
    enum { BUSY_TURNS = 1000 };
    if (++*turns > BUSY_TURNS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void sf_turns_clear(atomic_size_t *turns /* [parts] */, size_t parts) {
    for (size_t part = 0; part < parts; part++) atomic_store_explicit(&turns[part], 0, memory_order_relaxed);
}

bool sf_turn_await(const atomic_size_t *turns, size_t part, const atomic_int *stop) {
    if (sf_stop_asked(stop)) return false; /* the part before may have been left */
    if (part == 0) return true;
    const size_t ended = atomic_load_explicit(&turns[part], memory_order_relaxed); /* only this part counts them */
    size_t waited = 0;
    while (atomic_load_explicit(&turns[part - 1], memory_order_acquire) <= ended) {
        if (sf_stop_asked(stop)) return false;
        sf_wait_a_little(&waited);
    }
    return true;
}

void sf_turn_end(atomic_size_t *turns, size_t part) {
    atomic_fetch_add_explicit(&turns[part], 1, memory_order_release);
}
