/* Rank 0's side of a study over ranks, fed with the messages of ranks that do not exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "simulated_ranks.h"

typedef struct place {
    char folder[64];
    simulation s;
} place;

static void open_place(place *p, size_t runs, size_t ranks) {
    strcpy(p->folder, "/tmp/semfocus-clerk-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    assert_int_equal(simulation_open(&p->s, p->folder, runs, ranks), SF_OK);
    for (size_t r = 1; r <= ranks; r++) simulation_hello(&p->s, r);
}

static void close_place(place *p) {
    char command[96];
    simulation_close(&p->s);
    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c,concurrency-mt-unsafe) */
}

static sf_stored_run stored(place *p, size_t run) {
    sf_stored_run out;
    assert_int_equal(sf_store_find(&out, p->s.store, p->s.plans[run].id), SF_OK);
    return out;
}

typedef struct expected_curve {
    size_t run, rows;
} expected_curve;

static void expect_row(void *context, const sf_epoch *row) {
    expected_curve *curve = context;
    const sf_epoch expected = simulated_row(curve->run, ++curve->rows);
    assert_memory_equal(row, &expected, sizeof expected);
}

static void expect_curve(place *p, size_t run, size_t rows) {
    const sf_stored_run at = stored(p, run);
    expected_curve curve = {.run = run};
    assert_int_equal(sf_store_each_epoch(p->s.store, &at, expect_row, &curve), SF_OK);
    assert_int_equal(curve.rows, rows);
}

/* Interleaved as they come from a thousand ranks: every row ends up in its own run. */
static void a_thousand_ranks(void **unused) {
    enum { RANKS = 1000, EPOCHS = 5, FILE_SIZE = 1000 };
    static const unsigned char file[FILE_SIZE];
    place p;
    (void)unused;
    open_place(&p, RANKS, RANKS);
    for (size_t r = 1; r <= RANKS; r++) {
        assert_int_equal(simulation_rank(&p.s, r)->invited, 1);
        simulation_ask(&p.s, r);
        assert_true(simulation_rank(&p.s, r)->has_run);
        simulation_begin(&p.s, r);
    }
    assert_int_equal(sf_clerk_under_way(p.s.clerk), RANKS);
    for (size_t epoch = 1; epoch <= EPOCHS; epoch++)
        for (size_t r = 1; r <= RANKS; r++) simulation_row(&p.s, 1 + (r * 7) % RANKS, epoch);
    for (size_t r = 1; r <= RANKS; r++) {
        if (r % 100 == 0) simulation_checkpoint(&p.s, r, EPOCHS, file, FILE_SIZE);
        if (r % 100 == 0) simulation_complete(&p.s, r);
    }
    assert_int_equal(sf_clerk_under_way(p.s.clerk), RANKS - RANKS / 100);
    for (size_t r = 1; r <= RANKS; r++) {
        const size_t run = (size_t)simulation_rank(&p.s, r)->run.ref.index;
        expect_curve(&p, run, EPOCHS);
        assert_string_equal(stored(&p, run).status, r % 100 == 0 ? "done" : "running");
    }
    assert_int_equal(p.s.notes, 0);
    close_place(&p);
}

/* No run is dealt twice; who finds none gets the first that becomes open. */
static void a_silent_rank_loses_its_run(void **unused) {
    place p;
    (void)unused;
    open_place(&p, 2, 3);
    for (size_t r = 1; r <= 3; r++) simulation_ask(&p.s, r);
    assert_true(simulation_rank(&p.s, 1)->has_run && simulation_rank(&p.s, 2)->has_run &&
                !simulation_rank(&p.s, 3)->has_run);
    assert_int_equal(simulation_rank(&p.s, 3)->none, 1);
    assert_int_not_equal(simulation_rank(&p.s, 1)->run.ref.index, simulation_rank(&p.s, 2)->run.ref.index);
    simulation_begin(&p.s, 1);
    simulation_row(&p.s, 1, 1);
    const double now = sf_clock_seconds();
    for (int second = 0; second < 60; second += 2) sf_clerk_tick(p.s.clerk, now + second);
    assert_false(simulation_rank(&p.s, 3)->has_run);
    simulation_begin(&p.s, 2); /* rank 2 is alive, but the clock below is ahead of it, too */
    sf_clerk_tick(p.s.clerk, now + 62);
    assert_true(simulation_rank(&p.s, 3)->has_run);
    assert_string_equal(p.s.note, "rank 2 on simulated has not answered for 62 seconds; its 1 run continues from the "
                                  "last checkpoint elsewhere");

    /* Rank 1 wakes up: what it says is refused, and changes nothing. */
    const size_t run = (size_t)simulation_rank(&p.s, 3)->run.ref.index;
    const size_t old = run == simulation_rank(&p.s, 1)->run.ref.index ? 1 : 2;
    simulation_begin(&p.s, 3);
    simulation_row(&p.s, 3, 1);
    simulation_row(&p.s, old, 2);
    assert_int_equal(simulation_rank(&p.s, old)->dropped, 1);
    expect_curve(&p, run, 1);
    simulation_complete(&p.s, old); /* also refused */
    assert_string_equal(stored(&p, run).status, "running");
    close_place(&p);
}

/* A rank may get back the run that it had lost: what it said before that is still refused. */
static void a_deal_ends_with_its_ticket(void **unused) {
    place p;
    (void)unused;
    open_place(&p, 1, 1);
    simulation_ask(&p.s, 1);
    const sf_run_ref old = simulation_rank(&p.s, 1)->run.ref;
    const double now = sf_clock_seconds();
    for (int second = 0; second < 64; second += 2) sf_clerk_tick(p.s.clerk, now + second);
    assert_int_equal(sf_clerk_under_way(p.s.clerk), 0);
    simulation_ask(&p.s, 1);
    const sf_run_ref new = simulation_rank(&p.s, 1)->run.ref;
    assert_int_equal(new.index, old.index);
    simulation_begin(&p.s, 1);
    simulation_rank(&p.s, 1)->run.ref = old;
    simulation_row(&p.s, 1, 1);
    assert_int_equal(simulation_rank(&p.s, 1)->dropped, 1);
    expect_curve(&p, 0, 0);
    simulation_rank(&p.s, 1)->run.ref = new;
    simulation_row(&p.s, 1, 1);
    expect_curve(&p, 0, 1);
    close_place(&p);
}

/* Rank 0 itself did nothing for an hour: the others are heard before they are judged. */
static void a_pause_of_rank_0_is_not_silence(void **unused) {
    place p;
    (void)unused;
    open_place(&p, 1, 2);
    simulation_ask(&p.s, 1);
    simulation_ask(&p.s, 2);
    const double now = sf_clock_seconds();
    sf_clerk_tick(p.s.clerk, now);
    sf_clerk_tick(p.s.clerk, now + 3600);
    assert_false(simulation_rank(&p.s, 2)->has_run);
    for (int second = 0; second < 62; second += 2) sf_clerk_tick(p.s.clerk, now + 3600 + second);
    assert_true(simulation_rank(&p.s, 2)->has_run);
    close_place(&p);
}

static void another_program_takes_no_part(void **unused) {
    place p;
    (void)unused;
    open_place(&p, 1, 1);
    simulation_rank(&p.s, 1)->invited = 0;
    sf_hello_message hello = {.program = "semfocus 0.0.1", .host = "elsewhere"};
    sf_coder message = sf_message_write(SF_HELLO);
    sf_code_hello(&message, &hello);
    simulation_say(&p.s, 1, &message);
    assert_int_equal(simulation_rank(&p.s, 1)->invited, 0);
    assert_non_null(strstr(p.s.note, "rank 1 on elsewhere takes no part: it runs semfocus 0.0.1"));
    close_place(&p);
}

/* Every message, cut at every length: none crashes, none writes a row. */
static void cut_messages(void **unused) {
    place p;
    (void)unused;
    open_place(&p, 1, 1);
    simulation_ask(&p.s, 1);
    simulation_begin(&p.s, 1);
    simulation_row(&p.s, 1, 1);
    for (unsigned kind = 0; kind <= SF_LEAVES + 1; kind++) {
        const sf_run_ref ref = simulation_rank(&p.s, 1)->run.ref;
        sf_row_message row = {.ref = ref, .row = simulated_row(0, 2)};
        sf_coder whole = sf_message_write((sf_message_kind)kind);
        sf_code_row(&whole, &row);
        for (size_t size = 0; size < whole.size; size += size < 40 ? 1 : 7) {
            unsigned char *cut = malloc(size + 1); /* so that a sanitizer sees what is read past its end */
            memcpy(cut, whole.bytes, size);
            sf_clerk_receive(p.s.clerk, 1, cut, size);
            free(cut);
        }
        sf_release(whole.bytes);
    }
    expect_curve(&p, 0, 1);
    close_place(&p);
}

static void text_and_arrays_survive(void **unused) {
    const char *text = "a text", *none = NULL, *read = "?";
    const void *block = "bytes", *empty = NULL, *got;
    size_t size = 5, zero = 0;
    (void)unused;
    sf_coder coder = {0};
    sf_code_text(&coder, &text);
    sf_code_text(&coder, &none);
    sf_code_block(&coder, &block, &size);
    sf_code_block(&coder, &empty, &zero);
    sf_coder reading = sf_coder_reading(coder.bytes, coder.size);
    sf_code_text(&reading, &read);
    assert_string_equal(read, "a text");
    sf_code_text(&reading, &read);
    assert_null(read);
    size = 0;
    sf_code_block(&reading, &got, &size);
    assert_int_equal(size, 5);
    assert_memory_equal(got, "bytes", 5);
    sf_code_block(&reading, &got, &size);
    assert_null(got);
    assert_false(reading.failed);
    sf_code_text(&reading, &read); /* past the end */
    assert_true(reading.failed);
    sf_release(coder.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_thousand_ranks),
                                       cmocka_unit_test(a_silent_rank_loses_its_run),
                                       cmocka_unit_test(a_deal_ends_with_its_ticket),
                                       cmocka_unit_test(a_pause_of_rank_0_is_not_silence),
                                       cmocka_unit_test(another_program_takes_no_part),
                                       cmocka_unit_test(cut_messages),
                                       cmocka_unit_test(text_and_arrays_survive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
