/* A backend for tests: the CPU's, wrapped so that it counts calls, makes the n-th of a kind fail, supports only some
 * mechanisms, packs several members into a fleet, has little memory and can be lost. It also computes an arithmetic
 * that the CPU does not have, tf32-sm_0, with the bits of f32. */
#ifndef SF_TESTS_BACKEND_DOUBLE_H
#define SF_TESTS_BACKEND_DOUBLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "train/backend.h"

typedef enum call_kind {
    SUPPORTS,
    FLEET_OPEN,
    FLEET_ADD,
    FLEET_REMOVE,
    FLEET_ADVANCE,
    FLEET_READ,
    FLEET_WRITE,
    EVALUATOR_OPEN,
    OBSERVE,
    CALL_KINDS
} call_kind;

static const char *const call_names[CALL_KINDS] = {"supports",     "fleet_open",     "fleet_add",
                                                   "fleet_remove", "fleet_advance",  "fleet_read",
                                                   "fleet_write",  "evaluator_open", "observe"};

static struct {
    size_t models;   /* of a fleet */
    bool only_full;  /* other mechanisms are not supported */
    size_t fleets;   /* at a time; 0: one */
    size_t memory;   /* members that fit into it; 0: any number */
    size_t others;   /* of them, those of other programs */
    call_kind fails; /* this kind of call ... */
    size_t at;       /* ... at this call, from 1; 0: never */
    bool dies;       /* every later call of that fleet fails as well */
    void *dead;      /* that fleet */
    size_t calls[CALL_KINDS];
    size_t members, most_members, late_adds; /* now; at a time; after the fleet's first epoch */
    bool advanced;
} the_double;

static pthread_mutex_t double_lock = PTHREAD_MUTEX_INITIALIZER;

static void reset_double(size_t models) {
    memset(&the_double, 0, sizeof the_double);
    the_double.models = models;
}

/* fleet NULL: the call is for none. */
static sf_status count_call_of(void *fleet, call_kind kind) {
    pthread_mutex_lock(&double_lock);
    const bool now = ++the_double.calls[kind] == the_double.at && kind == the_double.fails;
    if (now && the_double.dies) the_double.dead = fleet;
    const bool dead = fleet != NULL && the_double.dead == fleet;
    pthread_mutex_unlock(&double_lock);
    if (!now && !dead) return SF_OK;
    return sf_fail(SF_IO_ERROR, "call %zu of %s fails", the_double.at, call_names[the_double.fails]);
}

static sf_status count_call(call_kind kind) {
    return count_call_of(NULL, kind);
}

static sf_status double_alive(void *fleet) {
    return fleet == the_double.dead ? sf_fail(SF_IO_ERROR, "the double is dead") : SF_OK;
}

static const char *double_numerics(sf_precision precision) {
    return precision == SF_TF32 ? "tf32-sm_0" : sf_backend_cpu.numerics(precision);
}

static sf_status double_check(sf_precision precision) {
    return precision == SF_TF32 ? SF_OK : sf_backend_cpu.check(precision);
}

static const char *double_variant(sf_precision precision) {
    return sf_backend_cpu.variant(precision);
}

/* The CPU's kernels for tf32 are those of f32, behind its refusal. */
static sf_demand as_f32(const sf_demand *demand) {
    sf_demand changed = *demand;
    if (changed.precision == SF_TF32) changed.precision = SF_F32;
    return changed;
}

static sf_status double_supports(const sf_demand *demand) {
    SF_TRY(count_call(SUPPORTS));
    const sf_demand known = as_f32(demand);
    char spelling[SF_SPELLING_SIZE];
    sf_attention_spell(spelling, &demand->shape->attention);
    if (the_double.only_full && demand->shape->attention.selector != &sf_selector_full)
        return sf_fail(SF_UNSUPPORTED, "the double computes full attention alone, not %s", spelling);
    return sf_backend_cpu.supports(&known);
}

static bool double_share_fleet(const sf_demand *a, const sf_demand *b) {
    return a->shape->T == b->shape->T && sf_backend_cpu.share_fleet(a, b);
}

static size_t double_models(const sf_demand *demand, size_t threads) {
    (void)demand;
    (void)threads;
    return the_double.models;
}

static size_t double_fleets(size_t threads, size_t runs) {
    (void)threads;
    (void)runs;
    return the_double.fleets > 0 ? the_double.fleets : 1;
}

static sf_status double_fleet_open(void **fleet, const sf_demand *demand, size_t capacity, size_t threads) {
    *fleet = NULL;
    const sf_demand known = as_f32(demand);
    SF_TRY(count_call(FLEET_OPEN));
    the_double.advanced = false;
    if (the_double.fleets <= 1) the_double.members = 0;
    return sf_backend_cpu.fleet_open(fleet, &known, capacity, threads);
}

static void double_fleet_close(void *fleet) {
    sf_backend_cpu.fleet_close(fleet);
}

static sf_status double_fleet_add(void *fleet, size_t s, sf_member *member) {
    SF_TRY(count_call_of(fleet, FLEET_ADD));
    if (the_double.memory > 0 && the_double.members + the_double.others == the_double.memory)
        return sf_fail(SF_NO_MEMORY, "a member does not fit");
    SF_TRY(sf_backend_cpu.fleet_add(fleet, s, member));
    pthread_mutex_lock(&double_lock);
    the_double.late_adds += the_double.advanced;
    if (++the_double.members > the_double.most_members) the_double.most_members = the_double.members;
    pthread_mutex_unlock(&double_lock);
    return SF_OK;
}

static sf_status double_fleet_remove(void *fleet, size_t s) {
    SF_TRY(count_call_of(fleet, FLEET_REMOVE));
    pthread_mutex_lock(&double_lock);
    the_double.members--;
    pthread_mutex_unlock(&double_lock);
    return sf_backend_cpu.fleet_remove(fleet, s);
}

/* A failing device has done some of its work, and leaves nothing to read. */
static sf_status double_fleet_advance(void *fleet, const sf_watch *watch) {
    the_double.advanced = true;
    SF_TRY(count_call_of(fleet, FLEET_ADVANCE));
    const sf_watch silent = {.stop = watch != NULL ? watch->stop : NULL}; /* no steps: a whole epoch at a time */
    return sf_backend_cpu.fleet_advance(fleet, &silent);
}

static sf_status double_fleet_read(void *fleet, size_t s, size_t block, float *values) {
    SF_TRY(count_call_of(fleet, FLEET_READ));
    return sf_backend_cpu.fleet_read(fleet, s, block, values);
}

static sf_status double_fleet_write(void *fleet, size_t s, size_t block, const float *values) {
    SF_TRY(count_call_of(fleet, FLEET_WRITE));
    return sf_backend_cpu.fleet_write(fleet, s, block, values);
}

static sf_status double_fleet_evaluate(void *fleet, size_t s, sf_epoch *out) {
    return sf_backend_cpu.fleet_evaluate(fleet, s, out);
}

static sf_status double_evaluator_open(void **evaluator, const sf_demand *demand, const sf_model *model, size_t models,
                                       size_t threads) {
    *evaluator = NULL;
    SF_TRY(count_call(EVALUATOR_OPEN));
    return sf_backend_cpu.evaluator_open(evaluator, demand, model, models, threads);
}

static void double_evaluator_close(void *evaluator) {
    sf_backend_cpu.evaluator_close(evaluator);
}

static void double_evaluator_obey(void *evaluator, const atomic_int *stop) {
    sf_backend_cpu.evaluator_obey(evaluator, stop);
}

static size_t double_evaluator_workers(const void *evaluator) {
    return sf_backend_cpu.evaluator_workers(evaluator);
}

static sf_status double_observe(void *evaluator, const sf_observer *observer, const float *params,
                                const sf_batch *batch, const sf_moment *moment) {
    SF_TRY(count_call(OBSERVE));
    return sf_backend_cpu.observe(evaluator, observer, params, batch, moment);
}

static const sf_backend backend_double = {
    .version = SF_BACKEND_VERSION,
    .name = "double",
    .summary = "a double of the CPU for tests",
    .check = double_check,
    .numerics = double_numerics,
    .variant = double_variant,
    .supports = double_supports,
    .share_fleet = double_share_fleet,
    .models = double_models,
    .fleets = double_fleets,
    .fleet_open = double_fleet_open,
    .fleet_close = double_fleet_close,
    .fleet_add = double_fleet_add,
    .fleet_remove = double_fleet_remove,
    .fleet_advance = double_fleet_advance,
    .fleet_read = double_fleet_read,
    .fleet_write = double_fleet_write,
    .fleet_evaluate = double_fleet_evaluate,
    .evaluator_open = double_evaluator_open,
    .evaluator_close = double_evaluator_close,
    .evaluator_obey = double_evaluator_obey,
    .evaluator_workers = double_evaluator_workers,
    .observe = double_observe,
    .alive = double_alive,
};

#endif
