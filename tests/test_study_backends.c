/* Sessions on backends that pack runs into fleets, that support only some of them, and whose calls fail: the same bits
 * as alone on the CPU, and no run is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend_double.h"

#include "base/memory.h"
#include "semfocus/semfocus.h"
#include "store/store.h"
#include "study/session_run_on.h"

typedef struct trial { /* what its run differs in; the first lr makes the loss infinite */
    const char *attention, *seed, *lr, *epochs, *stop_at, *length;
} trial;

static const trial trials[] = {
    {"full", "1", "0.1", "3", "0", "9"},      {"topk:3", "1", "0.1", "5", "0", "9"},
    {"banded:3", "1", "0.05", "2", "0", "9"}, {"random:3", "2", "0.1", "4", "0", "9"},
    {"full", "3", "10000", "9", "0", "9"},    {"full", "4", "0.1", "6", "40", "9"}, /* stops at once */
    {"topk:3", "5", "0.2", "3", "0", "9"},    {"full", "5", "0.1", "3", "0", "7"},  /* of another shape */
    {"block:3", "6", "0.1", "1", "0", "9"},
};
enum { TRIALS = sizeof trials / sizeof *trials, WILD = 4, STOPPING = 5, LONGEST = 1 };

static sf_planned_run native[TRIALS], foreign[TRIALS]; /* in f32, and in the arithmetic of the double alone */
static sf_planned_run *runs = native;
static const sf_execution usual = {.checkpoint_seconds = 0, .measure_every = 2};
static size_t threads = 2;

typedef struct outcome { /* all numbers that a store has for a run */
    char status[16];
    size_t epochs, checkpoint_epoch, best_saved_epoch, diverged_epoch;
    uint64_t weights_hash, best_hash, measures_seal;
    sf_epoch rows[16];
} outcome;

static outcome alone[2][TRIALS];           /* in f32 on the CPU; in the other arithmetic on the double */
static const outcome *expected = alone[0]; /* of `runs` */

static void take_runs(bool of_double) {
    runs = of_double ? foreign : native;
    expected = alone[of_double];
}

static sf_planned_run plan(const trial *t, bool is_foreign) {
    const char *const settings[] = {
        "attention", t->attention, "seed",   t->seed,   "lr",          t->lr, "epochs",        t->epochs,
        "stop-at",   t->stop_at,   "length", t->length, "blocks",      "1",   "width",         "8",
        "mlp-width", "8",          "batch",  "10",      "train-count", "20",  "heldout-count", "10",
        "momentum",  "0.9",        "clip",   "0"};
    sf_planned_run run = {.task = "even-pairs"};
    sf_config_init(&run.config);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
        assert_int_equal(sf_config_set(&run.config, settings[i], settings[i + 1]), SF_OK);
    if (is_foreign) {
        assert_int_equal(sf_config_set(&run.config, "precision", "tf32"), SF_OK);
        assert_int_equal(sf_config_set(&run.config, "architecture", "sm_0"), SF_OK);
    }
    assert_int_equal(sf_run_identify(run.id, run.attention, &run.config, run.task), SF_OK);
    return run;
}

typedef struct place { /* a store in a folder of its own */
    char folder[64];
    sf_store *store;
} place;

static place open_place(void) {
    place p;
    strcpy(p.folder, "/tmp/semfocus-backends-XXXXXX");
    assert_non_null(mkdtemp(p.folder));
    assert_int_equal(sf_store_open(&p.store, p.folder, SF_STORE_WRITE), SF_OK);
    for (size_t r = 0; r < TRIALS; r++) { /* numbered alike, since seals of rows know the number of their run */
        sf_stored_run entry;
        assert_int_equal(sf_store_enter(&entry, p.store, runs[r].id, runs[r].task, runs[r].attention, &runs[r].config),
                         SF_OK);
    }
    return p;
}

static void close_place(place *p) {
    char command[96];
    sf_store_close(p->store);
    snprintf(command, sizeof command, "rm -r %s", p->folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c,concurrency-mt-unsafe) */
}

typedef struct heard {                        /* of events */
    size_t notes, failed, epochs, stop_after; /* epochs; 0: never */
    char last_note[1024], last_failure[1024];
    atomic_int stop;
} heard;

static void listen(void *context, const sf_event *event) {
    heard *h = context;
    if (event->kind == SF_EVENT_NOTE) {
        h->notes++;
        snprintf(h->last_note, sizeof h->last_note, "%s", event->message);
    }
    if (event->kind == SF_EVENT_FAILED) {
        h->failed++;
        snprintf(h->last_failure, sizeof h->last_failure, "%s", event->message);
    }
    if (event->kind == SF_EVENT_EPOCH && ++h->epochs == h->stop_after) atomic_store(&h->stop, 1);
}

static sf_status train(heard *h, const place *p, const sf_planned_run *list, size_t count, const sf_backend *backend) {
    const sf_session session = {
        .runs = list, .count = count, .execution = &usual, .stop = &h->stop, .on_event = listen, .context = h};
    return sf_session_run_on(p->store, &session, &(sf_machine){.threads = threads, .backend = backend});
}

static outcome outcome_of(const place *p, const sf_planned_run *run) {
    sf_stored_run stored;
    outcome o;
    sf_epoch *rows;
    size_t count;
    memset(&o, 0, sizeof o);
    assert_int_equal(sf_store_find(&stored, p->store, run->id), SF_OK);
    assert_int_equal(sf_store_curve(&rows, &count, p->store, &stored), SF_OK);
    assert_true(count <= 16);
    memcpy(o.rows, rows, count * sizeof *rows);
    for (size_t i = 0; i < count; i++) o.rows[i].seconds = 0;
    sf_release(rows);
    strcpy(o.status, stored.status);
    o.epochs = stored.epochs;
    o.checkpoint_epoch = stored.checkpoint_epoch;
    o.best_saved_epoch = stored.best_saved_epoch;
    o.diverged_epoch = stored.diverged_epoch;
    o.weights_hash = stored.weights_hash;
    o.best_hash = stored.best_hash;
    o.measures_seal = stored.measures_seal;
    return o;
}

static bool same_rows(const sf_epoch *a, const sf_epoch *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (a[i].epoch != b[i].epoch || a[i].train_loss != b[i].train_loss ||
            a[i].train_accuracy != b[i].train_accuracy || a[i].heldout_loss != b[i].heldout_loss ||
            a[i].heldout_accuracy != b[i].heldout_accuracy)
            return false;
    return true;
}

static bool same_outcome(const outcome *a, const outcome *b) {
    return strcmp(a->status, b->status) == 0 && a->epochs == b->epochs && a->checkpoint_epoch == b->checkpoint_epoch &&
           a->best_saved_epoch == b->best_saved_epoch && a->diverged_epoch == b->diverged_epoch &&
           a->weights_hash == b->weights_hash && a->best_hash == b->best_hash && a->measures_seal == b->measures_seal &&
           same_rows(a->rows, b->rows, a->epochs);
}

static void assert_as_expected(const place *p) {
    for (size_t r = 0; r < TRIALS; r++) {
        const outcome got = outcome_of(p, &runs[r]), *want = &expected[r];
        if (!same_outcome(&got, want))
            fail_msg("run %zu: %s after %zu epochs with weights %016llx, but alone %s after %zu with %016llx", r,
                     got.status, got.epochs, (unsigned long long)got.weights_hash, want->status, want->epochs,
                     (unsigned long long)want->weights_hash);
    }
}

static int train_alone(void **state) {
    (void)state;
    for (size_t r = 0; r < TRIALS; r++) {
        native[r] = plan(&trials[r], false);
        foreign[r] = plan(&trials[r], true);
        assert_string_not_equal(native[r].id, foreign[r].id);
    }
    heard h = {0};
    for (int i = 1; i >= 0; i--) {
        take_runs(i == 1);
        place p = open_place();
        reset_double(1);
        for (size_t r = 0; r < TRIALS; r++) {
            assert_int_equal(train(&h, &p, &runs[r], 1, i == 1 ? &backend_double : &sf_backend_cpu), SF_OK);
            alone[i][r] = outcome_of(&p, &runs[r]);
        }
        close_place(&p);
    }
    for (size_t r = 0; r < TRIALS; r++) assert_int_equal(alone[0][r].weights_hash, alone[1][r].weights_hash);
    assert_int_equal(h.notes, 0);
    assert_string_equal(expected[WILD].status, "diverged");
    assert_int_equal(expected[STOPPING].epochs, 1);
    assert_int_equal(expected[LONGEST].epochs, 5);
    return 0;
}

/* Members of different length, one that diverges, one that stops early, one of another shape. */
static void packed_runs_are_as_alone(void **state) {
    (void)state;
    for (size_t models = 1; models <= 5; models++) {
        place p = open_place();
        heard h = {0};
        reset_double(models);
        assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
        assert_int_equal(h.notes + h.failed, 0);
        assert_int_equal(the_double.most_members, models);
        assert_true(models == 5 || the_double.late_adds > 0);
        assert_as_expected(&p);
        close_place(&p);
    }
}

static sf_planned_run first_epochs(const sf_planned_run *run, int64_t epochs) {
    sf_planned_run part = *run;
    part.config.epochs = epochs;
    return part;
}

static void a_member_goes_on_from_its_checkpoint(void **state) {
    (void)state;
    place p = open_place();
    heard h = {0};
    reset_double(4);
    const sf_planned_run part = first_epochs(&runs[LONGEST], 2);
    assert_int_equal(train(&h, &p, &part, 1, &sf_backend_cpu), SF_OK);
    assert_int_equal(h.epochs, 2);
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
    assert_true(the_double.calls[FLEET_WRITE] > 0);
    size_t epochs = 0;
    for (size_t r = 0; r < TRIALS; r++) epochs += expected[r].epochs;
    assert_int_equal(h.epochs, epochs);
    assert_as_expected(&p);
    close_place(&p);
}

static void a_lost_checkpoint_is_computed_again_among_others(void **state) {
    (void)state;
    place p = open_place();
    heard h = {0};
    reset_double(4);
    const sf_planned_run part = first_epochs(&runs[LONGEST], 2);
    char path[SF_CHECKPOINT_PATH_SIZE];
    assert_int_equal(train(&h, &p, &part, 1, &sf_backend_cpu), SF_OK);
    sf_stored_run stored;
    assert_int_equal(sf_store_find(&stored, p.store, part.id), SF_OK);
    sf_store_checkpoint_path(path, p.store, &stored, false, 2);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
    assert_as_expected(&p);
    size_t epochs = 2; /* computed twice */
    for (size_t r = 0; r < TRIALS; r++) epochs += expected[r].epochs;
    assert_int_equal(h.epochs, epochs);
    close_place(&p);
}

static void a_stop_at_any_epoch_loses_nothing(void **state) {
    (void)state;
    for (size_t after = 1; after <= 20; after += 3) {
        place p = open_place();
        heard h = {.stop_after = after};
        reset_double(4);
        assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_INTERRUPTED);
        for (size_t r = 0; r < TRIALS; r++) assert_string_not_equal(outcome_of(&p, &runs[r]).status, "running");
        h = (heard){0};
        assert_int_equal(train(&h, &p, runs, TRIALS, after % 2 == 0 ? &backend_double : &sf_backend_cpu), SF_OK);
        assert_as_expected(&p);
        close_place(&p);
    }
}

static void what_is_not_supported_runs_on_the_cpu(void **state) {
    (void)state;
    place p = open_place();
    heard h = {0};
    reset_double(4);
    the_double.only_full = true;
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
    assert_as_expected(&p);
    assert_int_equal(the_double.most_members, 3);
    assert_int_equal(h.notes, 4); /* topk:3 twice, banded:3, random:3, block:3 */
    assert_non_null(strstr(h.last_note, "the double computes full attention alone, not "));
    assert_non_null(strstr(h.last_note, "; it is computed on the CPU instead"));
    close_place(&p);
}

static void other_bits_are_no_substitute(void **state) {
    (void)state;
    take_runs(true);
    place p = open_place();
    heard h = {0};
    reset_double(4);
    the_double.only_full = true;
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_IO_ERROR);
    assert_int_equal(h.failed, 5);
    assert_non_null(strstr(h.last_failure, "and the CPU would compute other bits"));
    reset_double(4);
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
    assert_as_expected(&p);
    close_place(&p);
    take_runs(false);
}

/* What is stored is shown by any machine; what is not is refused before anything is written. */
static void foreign_runs_are_refused_unless_they_are_done(void **state) {
    (void)state;
    take_runs(true);
    place p = open_place();
    heard h = {0};
    reset_double(4);
    assert_int_equal(train(&h, &p, runs, TRIALS - 1, &backend_double), SF_OK);
    h = (heard){0};
    assert_int_equal(train(&h, &p, runs, TRIALS - 1, &sf_backend_cpu), SF_OK);
    assert_int_equal(h.epochs, 0);
    const sf_planned_run both[] = {native[LONGEST], runs[TRIALS - 1]};
    assert_int_equal(train(&h, &p, both, 2, &sf_backend_cpu), SF_UNSUPPORTED);
    assert_non_null(strstr(sf_message(), runs[TRIALS - 1].id));
    assert_non_null(strstr(sf_message(), "nothing here computes tf32-sm_0"));
    sf_stored_run stored;
    bool found;
    assert_int_equal(sf_store_look_up(&stored, &found, p.store, native[LONGEST].id), SF_OK);
    assert_false(found);
    close_place(&p);
    take_runs(false);
}

/* A run of the CPU's arithmetic in the same session is trained there. */
static void each_run_goes_where_its_arithmetic_is(void **state) {
    (void)state;
    place p = open_place();
    heard h = {0};
    reset_double(4);
    const sf_planned_run both[] = {native[LONGEST], foreign[LONGEST]};
    assert_int_equal(train(&h, &p, both, 2, &backend_double), SF_OK);
    assert_int_equal(the_double.calls[FLEET_OPEN], 2); /* precisions do not share a fleet */
    const outcome a = outcome_of(&p, &both[0]), b = outcome_of(&p, &both[1]);
    assert_int_equal(a.weights_hash, b.weights_hash); /* the double's tf32 is f32 by another name */
    close_place(&p);
}

static void members_wait_for_memory(void **state) {
    (void)state;
    for (int other_bits = 0; other_bits < 2; other_bits++)
        for (size_t memory = 1; memory <= 3; memory++) {
            take_runs(other_bits != 0);
            place p = open_place();
            heard h = {0};
            reset_double(5);
            the_double.memory = memory;
            assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
            assert_int_equal(h.notes + h.failed, 0);
            assert_int_equal(the_double.most_members, memory);
            assert_as_expected(&p);
            close_place(&p);
        }
    take_runs(false);
}

/* The device has no memory for even one member. */
static void what_fits_nowhere_runs_on_the_cpu(void **state) {
    (void)state;
    place p = open_place();
    heard h = {0};
    reset_double(5);
    the_double.memory = the_double.others = 1;
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.notes, 1);
    assert_string_equal(h.last_note, "a member does not fit; it is computed on the CPU instead");
    assert_as_expected(&p);
    close_place(&p);

    take_runs(true);
    p = open_place();
    h = (heard){0};
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_IO_ERROR);
    assert_int_equal(h.failed, TRIALS);
    assert_non_null(strstr(h.last_failure, "does not fit"));
    reset_double(5);
    assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
    assert_as_expected(&p);
    close_place(&p);
    take_runs(false);
}

/* Two devices, one of which dies: the other one takes its runs, whatever their arithmetic. */
static void the_other_device_goes_on(void **state) {
    (void)state;
    for (int other_bits = 0; other_bits < 2; other_bits++)
        for (size_t at = 1; at <= 4; at++) {
            take_runs(other_bits != 0);
            place p = open_place();
            heard h = {0};
            reset_double(2);
            the_double.fleets = 2;
            the_double.fails = FLEET_ADVANCE;
            the_double.at = at;
            the_double.dies = true;
            assert_int_equal(train(&h, &p, runs, TRIALS, &backend_double), SF_OK);
            assert_int_equal(h.failed, 0);
            assert_int_equal(h.notes, 1);
            assert_non_null(strstr(h.last_note, "its runs continue on the other devices from their checkpoints"));
            assert_as_expected(&p);
            close_place(&p);
        }
    take_runs(false);
}

static void an_unknown_version_is_not_used(void **state) {
    (void)state;
    place p = open_place();
    heard h = {0};
    const sf_backend newer = {.version = SF_BACKEND_VERSION + 1, .name = "newer"};
    assert_int_equal(train(&h, &p, runs, TRIALS, &newer), SF_OK);
    assert_int_equal(h.notes, 1);
    assert_non_null(strstr(h.last_note, "backend 'newer' has version 2"));
    assert_as_expected(&p);
    close_place(&p);
}

static bool is_everybodys(call_kind kind) {
    return kind == FLEET_OPEN || kind == FLEET_REMOVE || kind == FLEET_ADVANCE;
}

/* A session in which one call fails, or the device from then on. False if there were fewer calls of the kind. */
static bool fail_once(call_kind kind, size_t at, bool same_bits, bool dies) {
    take_runs(!same_bits);
    place p = open_place();
    heard h = {0};
    const sf_planned_run part = first_epochs(&runs[LONGEST], 2);
    reset_double(4);
    assert_int_equal(train(&h, &p, &part, 1, &backend_double), SF_OK);
    reset_double(4);
    the_double.fails = kind;
    the_double.at = at;
    the_double.dies = dies;
    const sf_status status = train(&h, &p, runs, TRIALS, &backend_double);
    const bool happened = the_double.calls[kind] >= at;
    if (happened) {
        char words[64];
        const bool everybodys = is_everybodys(kind) || dies, elsewhere = everybodys && same_bits;
        snprintf(words, sizeof words, "call %zu of %s fails", at, call_names[kind]);
        const bool was_the_last = kind == FLEET_REMOVE && h.notes == 0 && status == SF_OK; /* no run was left to lose */
        assert_int_equal(status, elsewhere || was_the_last ? SF_OK : SF_IO_ERROR);
        assert_int_equal(h.notes, elsewhere && !was_the_last ? 1 : 0);
        assert_int_equal(h.failed, everybodys ? 0 : 1); /* the others were not affected */
        if (elsewhere && !was_the_last) assert_non_null(strstr(h.last_note, dies ? "fail" : words));
        if (h.failed > 0) assert_non_null(strstr(h.last_failure, words));
        if (everybodys && !elsewhere && !was_the_last) {
            assert_non_null(strstr(sf_message(), "the same command continues from the checkpoints"));
            for (size_t r = 0; r < TRIALS; r++) assert_string_not_equal(outcome_of(&p, &runs[r]).status, "running");
        }
    } else {
        assert_int_equal(status, SF_OK);
    }
    h = (heard){0};
    reset_double(4);
    assert_int_equal(train(&h, &p, runs, TRIALS, same_bits ? &sf_backend_cpu : &backend_double), SF_OK);
    assert_int_equal(h.failed, 0);
    assert_as_expected(&p);
    for (size_t r = 0; r < TRIALS; r++) {
        sf_stored_run stored;
        assert_int_equal(sf_store_find(&stored, p.store, runs[r].id), SF_OK);
        const sf_status checked = sf_store_check(p.store, &stored);
        if (checked != (same_bits || stored.checkpoint_epoch == 0 ? SF_OK : SF_UNSUPPORTED))
            fail_msg("%s", sf_message());
    }
    close_place(&p);
    take_runs(false);
    return happened;
}

static bool is_of_a_fleet(call_kind kind) {
    return kind == FLEET_ADD || kind == FLEET_REMOVE || kind == FLEET_ADVANCE || kind == FLEET_READ ||
           kind == FLEET_WRITE;
}

static void no_failing_call_loses_a_run(void **state) {
    (void)state;
    threads = 1;
    for (call_kind kind = 0; kind < CALL_KINDS; kind++)
        for (int same_bits = 0; same_bits < 2; same_bits++)
            for (int dies = 0; dies <= is_of_a_fleet(kind); dies++) {
                size_t at = 1;
                while (fail_once(kind, at, same_bits != 0, dies != 0)) at += at >= 10 ? 13 : dies ? 4 : 1;
                printf("  %s, %s%s: failed at up to call %zu\n", call_names[kind],
                       same_bits ? "same bits" : "other bits", dies ? ", for good" : "", at - 1);
                assert_true(at > 1);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_runs_are_as_alone),
        cmocka_unit_test(a_member_goes_on_from_its_checkpoint),
        cmocka_unit_test(a_lost_checkpoint_is_computed_again_among_others),
        cmocka_unit_test(a_stop_at_any_epoch_loses_nothing),
        cmocka_unit_test(what_is_not_supported_runs_on_the_cpu),
        cmocka_unit_test(other_bits_are_no_substitute),
        cmocka_unit_test(foreign_runs_are_refused_unless_they_are_done),
        cmocka_unit_test(each_run_goes_where_its_arithmetic_is),
        cmocka_unit_test(members_wait_for_memory),
        cmocka_unit_test(what_fits_nowhere_runs_on_the_cpu),
        cmocka_unit_test(the_other_device_goes_on),
        cmocka_unit_test(an_unknown_version_is_not_used),
        cmocka_unit_test(no_failing_call_loses_a_run),
    };
    return cmocka_run_group_tests(tests, train_alone, NULL);
}
