/* What an id is made of, and what does not change it.
 *
 * A setting is added to the table as a later version would: sf_setting_at() is wrapped by the linker and gives one row
 * more, in the middle of the others. Its value lies in the unused end of the text of `attention`, which is copied with
 * every sf_config. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "semfocus/semfocus.h"
#include "store/identity.h"

enum { ADDED_AT = 7, UNUSED = SF_TEXT_SIZE - sizeof(int64_t) };

static const sf_setting added = {.name = "added",
                                 .kind = SF_INTEGER,
                                 .group = SF_GROUP_TRAINING,
                                 .home = SF_IN_CONFIG,
                                 .offset = offsetof(sf_config, attention) + UNUSED,
                                 .initial = "0",
                                 .low = 0,
                                 .high = 9,
                                 .value = "N",
                                 .help = "of a later version"};
static bool is_added;

const sf_setting *__real_sf_setting_at(size_t i); /* NOLINT: the linker's name */
const sf_setting *__wrap_sf_setting_at(size_t i); /* NOLINT */
const sf_setting *__wrap_sf_setting_at(size_t i) {
    if (is_added && i == ADDED_AT) return &added;
    return __real_sf_setting_at(is_added && i > ADDED_AT ? i - 1 : i);
}

static void set_added(sf_config *config, int64_t value) {
    memcpy(config->attention + UNUSED, &value, sizeof value);
}

static sf_config config_of(const char *const *settings) {
    sf_config config;
    sf_config_init(&config);
    for (; *settings != NULL; settings += 2)
        if (sf_config_set(&config, settings[0], settings[1]) != SF_OK) fail_msg("%s", sf_message());
    return config;
}

#define CONFIG(...) config_of((const char *const[]){__VA_ARGS__, NULL})

typedef struct id_text {
    char text[SF_RUN_ID_SIZE];
} id_text;

static id_text id_of(const char *task, sf_config config) {
    id_text id;
    char attention[SF_SPELLING_SIZE];
    if (sf_run_identify(id.text, attention, &config, task) != SF_OK) fail_msg("%s", sf_message());
    return id;
}

static void assert_same(const char *task, sf_config a, sf_config b) {
    assert_string_equal(id_of(task, a).text, id_of(task, b).text);
}

/* FNV-1a, 64 bits, over texts with their ends, written a second time. */
static id_text hash_of(const char *const *texts) {
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *texts != NULL; texts++) {
        const char *at = *texts;
        do hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
        while (*at++ != '\0');
    }
    id_text id;
    snprintf(id.text, sizeof id.text, "%016llx", (unsigned long long)hash);
    return id;
}

#define HASH(...) hash_of((const char *const[]){"4", __VA_ARGS__, NULL}).text /* numerics version 4 */

/* Names in order, values as they are spelled, nothing that is at the default of the table. The recipe has pad = mask.
 */
static void an_id_is_the_hash_of_what_is_unusual(void **state) {
    (void)state;
    assert_string_equal(id_of("even-pairs", CONFIG("epochs", "7")).text,
                        HASH("even-pairs", "data-seed", "153476998", "pad", "mask"));
    assert_string_equal(
        id_of("even-pairs", CONFIG("width", "16", "attention", "topk:05", "lr", "2e-1", "seed", "5")).text,
        HASH("even-pairs", "attention", "topk:5", "data-seed", "5", "lr", "0.2", "pad", "mask", "seed", "5", "width",
             "16"));
    assert_string_equal(
        id_of("even-pairs", CONFIG("schedule", "cosine", "epochs", "7", "precision", "f32")).text,
        HASH("even-pairs", "data-seed", "153476998", "epochs", "7", "pad", "mask", "schedule", "cosine"));
}

static void the_same_run_has_one_id(void **state) {
    (void)state;
    const sf_config plain = CONFIG("length", "8");
    assert_same("even-pairs", plain, CONFIG("length", "8", "lr", "0.1", "momentum", "0", "swap-sample", "-1"));
    assert_same("even-pairs", plain, CONFIG("length", "8", "epochs", "3", "stop-at", "95"));
    assert_same("even-pairs", plain, CONFIG("length", "8", "data-seed", "153476998"));
    assert_same("even-pairs", plain, CONFIG("length", "8", "attention", "topk:8"));
    const sf_task *listops; /* its recipe is far from the defaults */
    assert_int_equal(sf_task_find(&listops, "listops"), SF_OK);
    assert_same("listops", CONFIG("seed", "3"), CONFIG("seed", "3", "data-seed", "1"));
}

static void every_setting_of_a_run_counts(void **state) {
    (void)state;
    const id_text plain = id_of("even-pairs", CONFIG("seed", "1"));
    static const char *const others[][2] = {{"seed", "2"},
                                            {"data-seed", "7"},
                                            {"length", "39"},
                                            {"train-count", "9"},
                                            {"heldout-count", "9"},
                                            {"pad", "none"},
                                            {"swap-sample", "0"},
                                            {"attention", "topk:5"},
                                            {"width", "32"},
                                            {"mlp-width", "32"},
                                            {"heads", "2"},
                                            {"head-width", "16"},
                                            {"readout", "last"},
                                            {"tie-weights", "yes"},
                                            {"min-length", "20"},
                                            {"evaluate-count", "100"},
                                            {"readout", "cls"},
                                            {"blocks", "4"},
                                            {"activation", "gelu"},
                                            {"norm", "post"},
                                            {"dropout", "0"},
                                            {"inverse-temperature", "2"},
                                            {"optimizer", "adam"},
                                            {"lr", "0.2"},
                                            {"schedule", "constant"},
                                            {"gamma", "0.9"},
                                            {"momentum", "0.9"},
                                            {"weight-decay", "1"},
                                            {"clip", "0"},
                                            {"batch", "5"}};
    id_text seen[1 + sizeof others / sizeof *others] = {plain};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        seen[1 + i] = id_of("even-pairs", CONFIG("seed", "1", others[i][0], others[i][1]));
        for (size_t j = 0; j <= i; j++) assert_string_not_equal(seen[1 + i].text, seen[j].text);
    }
}

static void a_head_width_equal_to_the_width_is_the_default(void **state) {
    (void)state;
    assert_string_equal(id_of("even-pairs", CONFIG("seed", "1")).text,
                        id_of("even-pairs", CONFIG("seed", "1", "head-width", "64")).text);
    assert_string_equal(id_of("even-pairs", CONFIG("seed", "1", "width", "32")).text,
                        id_of("even-pairs", CONFIG("seed", "1", "width", "32", "head-width", "32")).text);
}

/* The arithmetic is part of a run; f32 is the same everywhere, and names no architecture. */
static void every_arithmetic_has_its_ids(void **state) {
    (void)state;
    static const char *const settings[][4] = {{"precision", "tf32", "architecture", "sm_90"},
                                              {"precision", "tf32", "architecture", "sm_80"},
                                              {"precision", "bf16", "architecture", "sm_90"},
                                              {"precision", "bf16", "architecture", "sm_80"}};
    id_text seen[1 + sizeof settings / sizeof *settings] = {id_of("even-pairs", CONFIG("seed", "1"))};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *const *s = settings[i];
        seen[1 + i] = id_of("even-pairs", CONFIG("seed", "1", s[0], s[1], s[2], s[3]));
        for (size_t j = 0; j <= i; j++) assert_string_not_equal(seen[1 + i].text, seen[j].text);
    }
    assert_string_equal(
        id_of("even-pairs", CONFIG("precision", "tf32", "architecture", "sm_90")).text,
        HASH("even-pairs", "architecture", "sm_90", "data-seed", "153476998", "pad", "mask", "precision", "tf32"));
    char id[SF_RUN_ID_SIZE], attention[SF_SPELLING_SIZE];
    sf_config nameless = CONFIG("precision", "tf32"), idle = CONFIG("architecture", "sm_90"),
              odd = CONFIG("precision", "tf32", "architecture", "sm_x");
    assert_int_not_equal(sf_run_identify(id, attention, &nameless, "even-pairs"), SF_OK);
    assert_string_equal(sf_message_setting(), "precision");
    assert_int_equal(sf_run_identify(id, attention, &idle, "even-pairs"), SF_BAD_INPUT);
    assert_string_equal(sf_message_setting(), "architecture");
    assert_int_equal(sf_run_identify(id, attention, &odd, "even-pairs"), SF_BAD_INPUT);
}

/* As versions up to schema 5 gave them, with and without a swap-sample. */
static void earlier_ids_are_as_ever(void **state) {
    (void)state;
    static const struct {
        const char *task, *attention, *length, *width, *blocks, *id;
    } known[] = {
        {"even-pairs", "full", "12", "16", "2", "3cc078d158df230b"},
        {"even-pairs", "topk:3", "12", "16", "2", "57b1d55468c10639"},
        {"even-pairs", "banded:3+global:1", "12", "16", "2", "b45d2e8088d4c59a"},
        {"even-pairs", "random:4", "12", "16", "2", "34c8dc72f658cf6b"},
        {"listops", "topk:5", "30", "8", "1", "cf9e589004af2a2a"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char attention[SF_SPELLING_SIZE];
        sf_run_ids ids;
        sf_config config =
            CONFIG("attention", known[i].attention, "length", known[i].length, "width", known[i].width, "mlp-width",
                   known[i].width, "blocks", known[i].blocks, "train-count", "60", "heldout-count", "30", "seed", "5");
        assert_int_equal(sf_run_identify(ids.id, attention, &config, known[i].task), SF_OK); /* fills in the recipe */
        assert_int_equal(sf_run_identify_both(&ids, &config, known[i].task), SF_OK);
        assert_string_equal(ids.earlier, known[i].id);
        assert_string_equal(ids.id, id_of(known[i].task, config).text);
        assert_int_equal(sf_config_set(&config, "swap-sample", "0"), SF_OK);
        assert_int_equal(sf_run_identify_both(&ids, &config, known[i].task), SF_OK);
        assert_string_not_equal(ids.earlier, known[i].id);
    }
}

static void a_setting_that_is_added_changes_no_id(void **state) {
    (void)state;
    for (size_t t = 0; sf_task_at(t) != NULL; t++) {
        const char *task = sf_task_describe(sf_task_at(t)).name;
        sf_config config = CONFIG("attention", "topk:3", "lr", "0.3");
        is_added = false;
        const id_text before = id_of(task, config);
        is_added = true;
        assert_string_equal(id_of(task, config).text, before.text);
        set_added(&config, 7);
        assert_string_not_equal(id_of(task, config).text, before.text);
        is_added = false;
        assert_string_equal(id_of(task, config).text, before.text); /* a version without it: the same id */
    }
}

static void count_started(void *context, const sf_event *event) {
    *(size_t *)context += event->kind == SF_EVENT_STARTED;
}

/* Runs two seeds of a study; returns how many had to be trained. */
static size_t train(const char *folder, const char *lr) {
    sf_study *study;
    sf_store *store;
    size_t started = 0, count;
    static const char *const settings[] = {"attention",     "topk:3", "seeds",  "2", "length",      "8",
                                           "blocks",        "1",      "width",  "8", "train-count", "20",
                                           "heldout-count", "9",      "epochs", "1"};
    assert_int_equal(sf_study_create(&study), SF_OK);
    assert_int_equal(sf_study_add_tasks(study, "even-pairs"), SF_OK);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
        assert_int_equal(sf_study_set(study, settings[i], settings[i + 1]), SF_OK);
    assert_int_equal(sf_study_set(study, "lr", lr), SF_OK);
    assert_int_equal(sf_study_plan(study), SF_OK);
    assert_int_equal(sf_store_open(&store, folder, SF_STORE_WRITE), SF_OK);
    const sf_planned_run *runs = sf_study_runs(study, &count);
    assert_int_equal(count, 2);
    const sf_session session = {.runs = runs, .count = count, .on_event = count_started, .context = &started};
    if (sf_session_run(store, &session) != SF_OK) fail_msg("%s", sf_message());
    for (size_t i = 0; i < count; i++) {
        sf_stored_run run;
        if (sf_store_find(&run, store, runs[i].id) != SF_OK || sf_store_check(store, &run) != SF_OK)
            fail_msg("%s", sf_message());
    }
    sf_store_close(store);
    sf_study_destroy(study);
    return started;
}

/* A store written before the setting existed, and one written with it and opened by a version without it. */
static void a_store_outlives_a_new_setting(void **state) {
    (void)state;
    char folder[] = "/tmp/semfocus-identity-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    is_added = false;
    assert_int_equal(train(folder, "0.1"), 2);
    is_added = true;
    assert_int_equal(train(folder, "0.1"), 0);
    assert_int_equal(train(folder, "0.2"), 2);
    is_added = false;
    assert_int_equal(train(folder, "0.2"), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_the_hash_of_what_is_unusual),
        cmocka_unit_test(the_same_run_has_one_id),
        cmocka_unit_test(every_arithmetic_has_its_ids),
        cmocka_unit_test(every_setting_of_a_run_counts),
        cmocka_unit_test(a_head_width_equal_to_the_width_is_the_default),
        cmocka_unit_test(earlier_ids_are_as_ever),
        cmocka_unit_test(a_setting_that_is_added_changes_no_id),
        cmocka_unit_test(a_store_outlives_a_new_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
