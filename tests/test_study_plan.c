/* Plans: how much memory they take, and how much a study may hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "semfocus/semfocus.h"

enum { MIB = 1 << 20 };

/* "0.001,0.002,...": `count` values. */
static void list_values(char *out, size_t size, size_t count) {
    size_t used = 0;
    for (size_t i = 1; i <= count; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%g", i > 1 ? "," : "", (double)i / 1000);
    assert_true(used < size);
}

static sf_study *open_study(const char *const *settings) {
    sf_study *study;
    assert_int_equal(sf_study_create(&study), SF_OK);
    assert_int_equal(sf_study_add_tasks(study, "even-pairs"), SF_OK);
    for (; *settings != NULL; settings += 2)
        if (sf_study_set(study, settings[0], settings[1]) != SF_OK) fail_msg("%s", sf_message());
    return study;
}

static void assert_small(const char *const *settings, size_t groups) {
    const size_t before = sf_bytes_in_use();
    sf_study *study = open_study(settings);
    size_t count;
    if (sf_study_plan(study) != SF_OK) fail_msg("%s", sf_message());
    sf_study_runs(study, &count);
    const size_t bytes = sf_bytes_in_use() - before;
    printf("%zu runs in %zu groups take %.1f MiB\n", count, sf_study_group_count(study), (double)bytes / MIB);
    assert_int_equal(count, 10000);
    assert_int_equal(sf_study_group_count(study), groups);
    assert_true(bytes < 20 * (size_t)MIB);
    sf_study_destroy(study);
    assert_int_equal(sf_bytes_in_use(), before);
}

static void ten_thousand_runs_take_less_than_20_mib(void **state) {
    (void)state;
    char ten[128], hundred[1024];
    list_values(ten, sizeof ten, 10);
    list_values(hundred, sizeof hundred, 100);
    assert_small((const char *const[]){"attention", "full", "lr", ten, "seeds", "1000", NULL}, 10);
    assert_small(
        (const char *const[]){"attention", "full,topk:5", "weight-decay", ten, "lr", hundred, "seeds", "5", NULL},
        2000);
    assert_small((const char *const[]){"attention", "full", "weight-decay", hundred, "lr", hundred, "seeds", "1", NULL},
                 10000);
}

static void one_run_more_is_refused(void **state) {
    (void)state;
    char values[16384];
    list_values(values, sizeof values, 1001);
    sf_study *study = open_study((const char *const[]){"attention", "full", "lr", values, "seeds", "10", NULL});
    assert_int_equal(sf_study_plan(study), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "10000 runs"));
    assert_string_equal(sf_message_setting(), "seed");
    sf_study_destroy(study);
}

/* Every setting of a run at once, and more variants than a user would write. */
static void any_number_of_settings_and_variants(void **state) {
    (void)state;
    sf_study *study = open_study((const char *const[]){"attention", "full", "seeds", "1", NULL});
    const sf_setting *setting;
    size_t count;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        /* beside seed, adam, a constant rate, and for a task that has no variants and is sampled */
        static const char *const useless =
            " seeds momentum gamma warmup warmup-steps add-seeds pairs noise writes group "
            "vocab classes tokenizer context tokens label ";
        char name[64];
        snprintf(name, sizeof name, " %s ", setting->name);
        if (strstr(useless, name) != NULL || strcmp(setting->name, "seed") == 0) continue;
        const char *value = strcmp(setting->name, "optimizer") == 0  ? "adam"
                            : strcmp(setting->name, "schedule") == 0 ? "constant"
                            : strcmp(setting->name, "shard") == 0    ? "1/1" /* an empty one is refused */
                                                                     : setting->initial;
        if (sf_study_set(study, setting->name, value) != SF_OK) fail_msg("%s", sf_message());
    }
    for (size_t v = 0; v < 3000; v++) {
        char name[32], lr[32];
        snprintf(name, sizeof name, "variant %zu", v);
        snprintf(lr, sizeof lr, "%zu", v + 1);
        assert_int_equal(sf_study_add_variant(study, name), SF_OK);
        assert_int_equal(sf_study_set(study, "lr", lr), SF_OK);
    }
    if (sf_study_plan(study) != SF_OK) fail_msg("%s", sf_message());
    const sf_planned_run *runs = sf_study_runs(study, &count);
    assert_int_equal(count, 3000);
    for (size_t i = 0; i < count; i++) assert_true(runs[i].config.lr == (double)(i + 1));
    assert_string_equal(sf_study_group(study, 2999)->name, "variant 2999");
    sf_study_destroy(study);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_runs_take_less_than_20_mib),
        cmocka_unit_test(one_run_more_is_refused),
        cmocka_unit_test(any_number_of_settings_and_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
