/* Fleets: the same bits alone, among others and on any number of threads; learning, stopping, diverging. */
#include "instruction_set.h"

#include <pthread.h>
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
#include "train/fleet.h"

typedef struct setting_value {
    const char *name, *value;
} setting_value;

static sf_config small_config(const char *attention, const char *seed) {
    static const setting_value small[] = {
        {"length", "11"},    {"train-count", "60"}, {"heldout-count", "20"}, {"blocks", "2"},    {"width", "16"},
        {"mlp-width", "24"}, {"epochs", "2"},       {"batch", "25"},         {"dropout", "0.1"}, {"heads", "2"}};
    sf_config config;
    sf_config_init(&config);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        assert_int_equal(sf_config_set(&config, small[i].name, small[i].value), SF_OK);
    assert_int_equal(sf_config_set(&config, "attention", attention), SF_OK);
    assert_int_equal(sf_config_set(&config, "seed", seed), SF_OK);
    return config;
}

static void set(sf_config *config, const char *name, const char *value) {
    assert_int_equal(sf_config_set(config, name, value), SF_OK);
}

static sf_fleet *train_all(const char *task, const sf_config *configs, size_t count, int64_t threads) {
    sf_fleet *fleet;
    if (sf_fleet_create(&fleet, task, configs, count, &(sf_execution){.threads = threads}) != SF_OK)
        fail_msg("%s", sf_message());
    while (!sf_fleet_finished(fleet)) assert_int_equal(sf_fleet_advance(fleet), SF_OK);
    return fleet;
}

typedef struct trained_model {
    sf_result result;
    uint64_t hash;
} trained_model;

static uint64_t hash_of(const sf_fleet *fleet, size_t s) {
    uint64_t hash;
    assert_int_equal(sf_fleet_weights_hash(&hash, fleet, s), SF_OK);
    return hash;
}

static trained_model result_of(const sf_fleet *fleet, size_t s) {
    return (trained_model){sf_fleet_result(fleet, s), hash_of(fleet, s)};
}

static trained_model train_one(const char *task, const sf_config *config, int64_t threads) {
    sf_fleet *fleet = train_all(task, config, 1, threads);
    const trained_model trained = result_of(fleet, 0);
    sf_fleet_destroy(fleet);
    return trained;
}

static const char *const mechanisms[] = {"full",   "banded:3",  "banded:3+global:1", "block:4",
                                         "topk:3", "bottomk:3", "random:3"};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms, RUNS = 2 * MECHANISMS };

static void assert_same_run(const trained_model *a, const trained_model *b) {
    assert_int_equal(a->hash, b->hash);
    assert_true(a->result.last.train_loss == b->result.last.train_loss);
    assert_true(a->result.last.heldout_loss == b->result.last.heldout_loss);
    assert_int_equal(a->result.status, b->result.status);
}

static void threads_and_company_do_not_change_a_bit(void **state) {
    (void)state;
    static const int64_t threads[] = {1, 2, 3, 5};
    static const char *const seeds[] = {"7", "8"};
    trained_model alone[RUNS];
    for (size_t i = 0; i < RUNS; i++) {
        const sf_config config = small_config(mechanisms[i / 2], seeds[i % 2]);
        alone[i] = train_one("even-pairs", &config, 1);
    }
    for (size_t i = 0; i < RUNS; i++)
        for (size_t j = 0; j < i; j++) assert_int_not_equal(alone[i].hash, alone[j].hash);
    for (size_t t = 0; t < 4; t++) {
        sf_config configs[RUNS];
        for (size_t i = 0; i < RUNS; i++) configs[i] = small_config(mechanisms[i / 2], seeds[i % 2]);
        for (size_t i = 0; i < RUNS; i += 3) { /* threads inside one model */
            const trained_model inside = train_one("even-pairs", &configs[i], threads[t]);
            assert_same_run(&inside, &alone[i]);
        }
        sf_fleet *fleet = train_all("even-pairs", configs, RUNS, threads[t]); /* models side by side */
        for (size_t i = 0; i < RUNS; i++) {
            const trained_model beside = result_of(fleet, i);
            assert_same_run(&beside, &alone[i]);
        }
        sf_fleet_destroy(fleet);
    }
}

/* What a backend says a model needs is what it takes: counted here, but for the plan's tables and what each block of
 * memory has around it. */
static void the_bytes_of_a_model_are_told(void **state) {
    (void)state;
    for (size_t m = 0; m < MECHANISMS; m++)
        for (int wide = 0; wide < 2; wide++) {
            sf_config config = small_config(mechanisms[m], "1");
            if (wide) set(&config, "width", "96");
            if (wide) set(&config, "optimizer", "adam");
            sf_member *member;
            sf_fleet *fleet;
            size_t told, s;
            assert_int_equal(sf_member_create(&member, "even-pairs", &config, NULL, 0, NULL), SF_OK);
            const sf_demand demand = sf_member_demand(member);
            assert_int_equal(sf_backend_cpu.bytes_per_model(&told, &demand), SF_OK);
            const size_t before = sf_bytes_in_use();
            assert_int_equal(sf_fleet_open(&fleet, &sf_backend_cpu, &demand, 1, 1), SF_OK);
            assert_int_equal(sf_fleet_add(fleet, &s, member), SF_OK);
            const size_t taken = sf_bytes_in_use() - before;
            assert_true(told <= taken && taken < told + told / 50 + 16384);
            sf_fleet_destroy(fleet);
        }
    assert_int_equal(sf_bytes_in_use(), 0);
}

static void a_mechanism_that_keeps_all_is_full(void **state) {
    (void)state;
    const sf_config full = small_config("full", "3"), wide = small_config("topk:11", "3");
    const trained_model a = train_one("even-pairs", &full, 1), b = train_one("even-pairs", &wide, 1);
    assert_string_equal(b.result.attention, "full");
    assert_same_run(&a, &b);
}

static void lengths_are_the_papers(void **state) {
    (void)state;
    static const struct {
        const char *attention;
        size_t positions;
    } expected[] = {{"full", 40},
                    {"topk:5", 40},
                    {"banded:5+global:1", 41},
                    {"block:5+global:3", 43},
                    {"topk:9", 45},
                    {"banded:9+global:1", 46},
                    {"block:9+global:3", 48}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        sf_config config = small_config(expected[i].attention, "1");
        set(&config, "length", "40");
        sf_fleet *fleet;
        assert_int_equal(sf_fleet_create(&fleet, "even-pairs", &config, 1, NULL), SF_OK);
        assert_int_equal(sf_fleet_result(fleet, 0).positions, expected[i].positions);
        sf_fleet_destroy(fleet);
    }
}

static void every_optimizer_and_schedule_learns(void **state) {
    (void)state;
    static const setting_value optimizers[][2] = {{{"optimizer", "sgd"}, {"lr", "0.1"}},
                                                  {{"optimizer", "adam"}, {"lr", "0.002"}},
                                                  {{"optimizer", "adamw"}, {"lr", "0.002"}}};
    static const char *const schedules[] = {"decay", "constant", "cosine"};
    for (size_t o = 0; o < 3; o++)
        for (size_t s = 0; s < 3; s++) {
            sf_config config = small_config("full", "5");
            set(&config, "length", "4");
            set(&config, "train-count", "200");
            set(&config, "epochs", "40");
            set(&config, "dropout", "0");
            set(&config, optimizers[o][0].name, optimizers[o][0].value);
            set(&config, optimizers[o][1].name, optimizers[o][1].value);
            if (o == 0) set(&config, "momentum", "0.9");
            set(&config, "weight-decay", "0.0001");
            set(&config, "schedule", schedules[s]);
            if (s == 2) set(&config, "warmup", "3");
            const sf_result result = train_one("even-pairs", &config, 2).result;
            printf("  %s, %s: %.1f %% in epoch %zu\n", optimizers[o][0].value, schedules[s], result.last.train_accuracy,
                   result.converged_epoch);
            assert_true(result.last.train_accuracy >= SF_CONVERGED_AT);
            assert_true(result.last.heldout_accuracy >= SF_CONVERGED_AT);
        }
}

static void stop_at_stops(void **state) {
    (void)state;
    sf_config config = small_config("full", "5");
    set(&config, "length", "4");
    set(&config, "train-count", "200");
    set(&config, "epochs", "60");
    set(&config, "momentum", "0.9");
    set(&config, "stop-at", "95");
    const sf_result result = train_one("even-pairs", &config, 2).result;
    assert_int_equal(result.status, SF_RUN_STOPPED);
    assert_int_equal(result.converged_epoch, result.last.epoch);
    assert_true(result.last.epoch < 60);
}

/* Divergence is an event of its run: named, and without effect on its neighbours. */
static void divergence_stays_with_its_run(void **state) {
    (void)state;
    sf_config configs[3];
    for (size_t i = 0; i < 3; i++) configs[i] = small_config("full", "1");
    set(&configs[1], "lr", "10000");
    set(&configs[1], "clip", "0");
    set(&configs[1], "momentum", "0.99");
    set(&configs[1], "epochs", "50");
    sf_fleet *fleet = train_all("even-pairs", configs, 3, 2);
    const sf_result wild = sf_fleet_result(fleet, 1);
    const trained_model calm = result_of(fleet, 0);
    assert_int_equal(wild.status, SF_RUN_DIVERGED);
    assert_true(wild.diverged_epoch > 0);
    assert_int_equal(wild.last.epoch, wild.diverged_epoch - 1);
    assert_int_equal(calm.result.status, SF_RUN_DONE);
    const trained_model alone = train_one("even-pairs", &configs[0], 2);
    assert_same_run(&calm, &alone);
    sf_fleet_destroy(fleet);
}

static void a_users_file_trains(void **state) {
    (void)state;
    char path[] = "/tmp/semfocus-test-XXXXXX", name[64];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    fputs("tokens\tlabel\n", stream);
    for (int i = 0; i < 60; i++) fprintf(stream, i % 3 == 0 ? "%d 4\t%d\n" : "%d 4 1\t%d\n", i % 4, i % 4 % 2);
    fclose(stream);
    snprintf(name, sizeof name, "tsv:%s", path);
    sf_config config;
    sf_config_init(&config);
    set(&config, "epochs", "1");
    set(&config, "blocks", "1");
    const sf_result result = train_one(name, &config, 0).result;
    assert_int_equal(result.train_count, 48);
    assert_int_equal(result.heldout_count, 12);
    assert_int_equal(result.positions, 3);
    set(&config, "vocab", "3");
    sf_fleet *fleet;
    assert_int_equal(sf_fleet_create(&fleet, name, &config, 1, NULL), SF_BAD_INPUT);
    unlink(path);
}

/* Every order of four equally often over many epochs (24 cells, 23 degrees of freedom), other orders for other seeds.
 */
static void epochs_visit_in_uniform_order(void **state) {
    (void)state;
    enum { EPOCHS = 24000, CELLS = 256 };
    size_t seen[CELLS] = {0}, distinct = 0, same = 0;
    double chi_square = 0;
    for (uint32_t epoch = 1; epoch <= EPOCHS; epoch++) {
        uint32_t order[4], other[4], visited = 0;
        sf_epoch_order(order, 4, 9, epoch);
        sf_epoch_order(other, 4, 10, epoch);
        for (size_t i = 0; i < 4; i++) visited |= 1U << order[i];
        assert_int_equal(visited, 0xf);
        seen[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
        same += memcmp(order, other, sizeof order) == 0;
    }
    for (size_t i = 0; i < CELLS; i++) {
        distinct += seen[i] > 0;
        if (seen[i] > 0) chi_square += ((double)seen[i] - 1000) * ((double)seen[i] - 1000) / 1000;
    }
    printf("  chi-square %.1f over 24 orders\n", chi_square);
    assert_int_equal(distinct, 24);
    assert_true(chi_square < 60);           /* beyond it once in 30,000 */
    assert_true(same > 800 && same < 1200); /* one in 24, by chance */
}

typedef struct alarm_clock {
    atomic_int stop;
    long microseconds;
} alarm_clock;

static void *ring(void *context) {
    alarm_clock *clock = context;
    usleep((useconds_t)clock->microseconds);
    atomic_store(&clock->stop, 1);
    return NULL;
}

/* An epoch with a request to stop at some moment, in a step or an evaluation: true if it was stopped. */
static bool advance_interrupted(sf_fleet *fleet, long microseconds) {
    alarm_clock clock = {.microseconds = microseconds};
    const sf_watch watch = {.stop = &clock.stop};
    pthread_t thread;
    const uint64_t before = hash_of(fleet, 0);
    const size_t epoch = sf_fleet_result(fleet, 0).last.epoch;
    sf_fleet_watch(fleet, &watch);
    assert_int_equal(pthread_create(&thread, NULL, ring, &clock), 0);
    const sf_status status = sf_fleet_advance(fleet);
    assert_int_equal(pthread_join(thread, NULL), 0);
    sf_fleet_watch(fleet, NULL);
    if (status == SF_OK) return false;
    assert_int_equal(status, SF_INTERRUPTED);
    assert_int_equal(sf_fleet_result(fleet, 0).status, SF_RUN_RUNNING);
    assert_int_equal(sf_fleet_result(fleet, 0).last.epoch, epoch);
    assert_true(hash_of(fleet, 0) == before);
    return true;
}

static void stopped_inside_a_step_nothing_has_happened(void **state) {
    (void)state;
    enum { ENOUGH = 15 };
    static const char *const long_ones[] = {"full",     "topk:3",   "topk:40", "bottomk:3",
                                            "random:5", "banded:3", "block:40"};
    for (size_t m = 0; m < sizeof long_ones / sizeof *long_ones; m++) {
        sf_config config = small_config(long_ones[m], "3");
        const sf_execution execution = {.threads = m % 2 == 0 ? 2 : 1};
        set(&config, "length", "300");
        set(&config, "train-count", "9");
        set(&config, "heldout-count", "3");
        set(&config, "batch", "3");
        set(&config, "epochs", "100000");
        sf_fleet *fleet, *undisturbed;
        assert_int_equal(sf_fleet_create(&fleet, "even-pairs", &config, 1, &execution), SF_OK);
        assert_int_equal(sf_fleet_create(&undisturbed, "even-pairs", &config, 1, &execution), SF_OK);
        size_t stopped = 0, attempts = 0;
        for (long moment = 1; stopped < ENOUGH; moment = moment < 100000 ? moment + moment / 3 + 50 : 1) {
            assert_true(attempts++ < 10000); /* on a busy machine the clock may ring after the epoch, but not always */
            stopped += advance_interrupted(fleet, moment);
        }
        const size_t epochs = sf_fleet_result(fleet, 0).last.epoch;
        printf("  %s: stopped %zu times in %zu attempts\n", long_ones[m], stopped, attempts);
        assert_int_equal(sf_fleet_advance(fleet), SF_OK);
        for (size_t epoch = 0; epoch <= epochs; epoch++) assert_int_equal(sf_fleet_advance(undisturbed), SF_OK);
        assert_true(hash_of(fleet, 0) == hash_of(undisturbed, 0));
        sf_fleet_destroy(undisturbed);
        sf_fleet_destroy(fleet);
    }
}

int main(void) {
    if (!has_instruction_set(SF_F32)) return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_and_company_do_not_change_a_bit),
        cmocka_unit_test(the_bytes_of_a_model_are_told),
        cmocka_unit_test(a_mechanism_that_keeps_all_is_full),
        cmocka_unit_test(lengths_are_the_papers),
        cmocka_unit_test(every_optimizer_and_schedule_learns),
        cmocka_unit_test(stop_at_stops),
        cmocka_unit_test(divergence_stays_with_its_run),
        cmocka_unit_test(a_users_file_trains),
        cmocka_unit_test(epochs_visit_in_uniform_order),
        cmocka_unit_test(stopped_inside_a_step_nothing_has_happened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
