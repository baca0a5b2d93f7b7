/* The measures of the theory for runs of a store, as a verb would ask for them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "semfocus/semfocus.h"

static char folder[] = "/tmp/semfocus-theory-XXXXXX";
static sf_store *store;
static sf_planned_run runs[2];

static int train_runs(void **state) {
    (void)state;
    static const char *const settings[] = {"length",    "12", "blocks",      "2",  "width",         "16",
                                           "mlp-width", "16", "train-count", "60", "heldout-count", "30",
                                           "epochs",    "2",  "heads",       "2"};
    if (mkdtemp(folder) == NULL || sf_store_open(&store, folder, SF_STORE_WRITE) != SF_OK) return 1;
    for (size_t r = 0; r < 2; r++) {
        runs[r].task = "even-pairs";
        sf_config_init(&runs[r].config);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
            if (sf_config_set(&runs[r].config, settings[i], settings[i + 1]) != SF_OK) return 1;
        sf_config_set(&runs[r].config, "attention", r == 0 ? "full" : "topk:3");
        if (sf_run_identify(runs[r].id, runs[r].attention, &runs[r].config, runs[r].task) != SF_OK) return 1;
    }
    return sf_session_run(store, &(sf_session){.runs = runs, .count = 2, .execution = &(sf_execution){.threads = 1}}) ==
                   SF_OK
               ? 0
               : 1;
}

static int remove_store(void **state) {
    (void)state;
    char command[128];
    sf_store_close(store);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe) */
}

static sf_theory *open_theory(size_t run, sf_weights_at at, size_t samples, double share) {
    sf_stored_run stored;
    sf_theory *theory;
    assert_int_equal(sf_store_find(&stored, store, runs[run].id), SF_OK);
    assert_int_equal(
        sf_theory_open(&theory, store, &stored,
                       &(sf_theory_options){
                           .at = at, .split = SF_HELDOUT, .samples = samples, .execution.threads = 1, .share = share}),
        SF_OK);
    return theory;
}

static void a_stored_run_tells_its_constants(void **state) {
    (void)state;
    for (size_t run = 0; run < 2; run++)
        for (int at = SF_AT_LAST; at <= SF_AT_INIT; at += 2) {
            sf_theory *theory = open_theory(run, (sf_weights_at)at, 6, 1);
            const sf_bounds *bounds;
            const sf_local_lipschitz *lipschitz;
            const sf_mask_stability *stability;
            assert_int_equal(sf_theory_bounds(&bounds, theory), SF_OK);
            assert_int_equal(sf_theory_local_lipschitz(&lipschitz, theory), SF_OK);
            assert_int_equal(sf_theory_mask_stability(&stability, theory, (double[]){0.01, 0.1}, 2), SF_OK);
            assert_true(bounds->count == 2 && bounds->samples == 6 && lipschitz->samples == 6 && stability->count == 2);
            for (size_t l = 0; l < 2; l++) {
                const sf_block_bounds *b = &bounds->blocks[l];
                assert_true(b->attention_input[SF_BOUND_PROVEN] <= b->attention_input[SF_BOUND_PUBLISHED]);
                assert_true(b->attention_input[SF_BOUND_LOCAL] <= b->attention_input[SF_BOUND_PROVEN]);
                assert_true(lipschitz->blocks[l].largest <= b->attention_input[SF_BOUND_LOCAL]);
                assert_true(b->domain.most_kept == (run == 0 ? 12 : 3));
            }
            assert_true(bounds->log10_loss_weights[SF_BOUND_LOCAL] <= bounds->log10_loss_weights[SF_BOUND_PUBLISHED]);
            assert_true(stability->fixed == (run == 0));
            sf_theory_close(theory);
        }
}

static void a_share_narrows_the_domain(void **state) {
    (void)state;
    sf_theory *all = open_theory(1, SF_AT_LAST, 30, 1), *most = open_theory(1, SF_AT_LAST, 30, 0.9);
    const sf_bounds *wide, *narrow;
    assert_int_equal(sf_theory_bounds(&wide, all), SF_OK);
    assert_int_equal(sf_theory_bounds(&narrow, most), SF_OK);
    assert_true(narrow->blocks[0].domain.dispersion < wide->blocks[0].domain.dispersion);
    assert_true(narrow->blocks[0].domain.separation > wide->blocks[0].domain.separation);
    assert_true(narrow->blocks[0].attention_input[SF_BOUND_PUBLISHED] <
                wide->blocks[0].attention_input[SF_BOUND_PUBLISHED]);
    sf_theory_close(all);
    sf_theory_close(most);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    sf_stored_run stored;
    sf_theory *theory;
    assert_int_equal(sf_store_find(&stored, store, runs[0].id), SF_OK);
    assert_int_equal(sf_theory_open(&theory, store, &stored, &(sf_theory_options){.share = 1}), SF_BAD_INPUT);
    assert_int_equal(sf_theory_open(&theory, store, &stored, &(sf_theory_options){.samples = 1}), SF_BAD_INPUT);
    assert_null(theory);
    sf_theory_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_run_tells_its_constants),
        cmocka_unit_test(a_share_narrows_the_domain),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, train_runs, remove_store);
}
