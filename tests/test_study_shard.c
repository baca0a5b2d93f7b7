/* Shards: every run is dealt to exactly one, by the plan alone, and all take about as long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "semfocus/semfocus.h"
#include "train/automatic.h"

enum { MOST = 128 };

static double work_of(const sf_planned_run *run) {
    sf_workload work = {0};
    sf_workload_add_run(&work, &run->config, run->attention, (double)run->config.epochs);
    return work.flops;
}

/* Runs of very different lengths, in no order. */
static size_t plan(sf_planned_run *runs, size_t count) {
    static const char *const attention[] = {"full", "topk:5", "banded:5"};
    for (size_t i = 0; i < count; i++) {
        runs[i] = (sf_planned_run){.task = "even-pairs"};
        sf_config_init(&runs[i].config);
        runs[i].config.epochs = (int64_t)(1 + i * 7919 % 101);
        runs[i].config.blocks = (int64_t)(1 + i % 4);
        snprintf(runs[i].id, sizeof runs[i].id, "%016zx", i * 2654435761U);
        strcpy(runs[i].attention, attention[i % 3]);
    }
    return count;
}

static void each_run_is_in_one_shard(void **state) {
    (void)state;
    static sf_planned_run runs[MOST];
    static const size_t counts[] = {0, 1, 2, 24, 97, MOST}, shards[] = {1, 2, 3, 7, 24, 200};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t s = 0; s < sizeof shards / sizeof *shards; s++) {
            const size_t count = plan(runs, counts[c]);
            size_t places[MOST], seen[MOST] = {0}, total = 0;
            for (size_t i = 1; i <= shards[s]; i++) {
                sf_share share;
                const sf_shard shard = {.index = i, .count = shards[s]};
                assert_int_equal(sf_shard_deal(places, &share, runs, count, &shard), SF_OK);
                size_t ours = 0;
                for (size_t r = 0; r < count; r++) {
                    if (places[r] == 0) continue;
                    assert_int_equal(places[r], r + 1);
                    seen[r]++;
                    ours++;
                }
                assert_int_equal(share.runs, ours);
                assert_int_equal(share.all, count);
                total += ours;
            }
            for (size_t r = 0; r < count; r++) assert_int_equal(seen[r], 1);
            assert_int_equal(total, count);
        }
}

/* Longest first to the least loaded: no shard has more than the mean and the longest run, and with many short runs at
 * the end far less. */
static void shards_take_about_as_long(void **state) {
    (void)state;
    static sf_planned_run runs[MOST];
    const size_t count = plan(runs, MOST);
    double all = 0, longest = 0;
    for (size_t r = 0; r < count; r++) {
        all += work_of(&runs[r]);
        if (work_of(&runs[r]) > longest) longest = work_of(&runs[r]);
    }
    for (size_t shards = 1; shards <= 16; shards++) {
        double most = 0;
        for (size_t i = 1; i <= shards; i++) {
            size_t places[MOST];
            sf_share share;
            double load = 0;
            assert_int_equal(sf_shard_deal(places, &share, runs, count, &(sf_shard){i, shards}), SF_OK);
            for (size_t r = 0; r < count; r++) load += places[r] > 0 ? work_of(&runs[r]) : 0;
            if (load > most) most = load;
        }
        const double mean = all / (double)shards;
        assert_true(most <= mean + longest);
        assert_true(most <= 1.02 * mean);
    }
}

/* Entries of the catalogue share runs: one that is listed twice belongs to one shard, which takes as long as the longer
 * of the two. */
static void repeated_runs_are_dealt_once(void **state) {
    (void)state;
    static sf_planned_run runs[MOST];
    plan(runs, MOST / 2);
    for (size_t r = MOST / 2; r < MOST; r++) {
        runs[r] = runs[MOST - 1 - r];
        runs[r].config.epochs *= 3;
    }
    size_t seen[MOST / 2] = {0};
    for (size_t i = 1; i <= 5; i++) {
        size_t places[MOST];
        sf_share share;
        assert_int_equal(sf_shard_deal(places, &share, runs, MOST, &(sf_shard){i, 5}), SF_OK);
        assert_int_equal(share.all, MOST / 2);
        for (size_t r = 0; r < MOST / 2; r++) {
            assert_int_equal(places[r], places[MOST - 1 - r]);
            assert_true(places[r] == 0 || places[r] == r + 1);
            seen[r] += places[r] > 0;
        }
    }
    for (size_t r = 0; r < MOST / 2; r++) assert_int_equal(seen[r], 1);
}

static void only_parts_of_a_whole_are_read(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "x",
                                        "1",
                                        "/",
                                        "1/",
                                        "/3",
                                        "0/3",
                                        "4/3",
                                        "1/0",
                                        "-1/3",
                                        "1/-3",
                                        "1/3/3",
                                        " 1/3",
                                        "1 /3",
                                        "1/3 ",
                                        "1.0/3",
                                        "1/3x",
                                        "0x1/3",
                                        "1/1000001",
                                        "1,3",
                                        "1//3",
                                        "+1/3x",
                                        "99999999999999999999/3",
                                        "1/99999999999999999999",
                                        "1\n/3"};
    sf_shard shard;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sf_shard_parse(&shard, wrong[i]), SF_BAD_INPUT);
        assert_non_null(strstr(sf_message(), "such as 2/3"));
        assert_string_equal(sf_message_setting(), "shard");
    }
    assert_int_equal(sf_shard_parse(&shard, "2/3"), SF_OK);
    assert_int_equal(shard.index, 2);
    assert_int_equal(shard.count, 3);
    assert_int_equal(sf_shard_parse(&shard, "1000000/1000000"), SF_OK);
    assert_int_equal(sf_shard_parse(&shard, "1/1"), SF_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_run_is_in_one_shard),
        cmocka_unit_test(shards_take_about_as_long),
        cmocka_unit_test(repeated_runs_are_dealt_once),
        cmocka_unit_test(only_parts_of_a_whole_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
