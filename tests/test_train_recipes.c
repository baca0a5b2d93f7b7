/* Recipes that are ours, at a tiny size: the first epochs lower the loss, and the smallest problems are learned. What
 * they reach at their own size is in docs/guide.md. Those of the paper train by SGD and stay at chance for longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "semfocus/semfocus.h"
#include "train/fleet.h"

enum { SHORT = 12 };

static void set(sf_config *config, const char *name, const char *value) {
    if (sf_config_set(config, name, value) != SF_OK) fail_msg("%s", sf_message());
}

/* All that is not set here comes from the recipe. */
static sf_config tiny(size_t length, const char *epochs) {
    static const char *const small[][2] = {{"train-count", "300"}, {"heldout-count", "20"}, {"blocks", "2"},
                                           {"width", "16"},        {"mlp-width", "32"},     {"batch", "10"},
                                           {"seed", "7"}};
    sf_config config;
    char digits[24];
    sf_config_init(&config);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) set(&config, small[i][0], small[i][1]);
    snprintf(digits, sizeof digits, "%zu", length);
    set(&config, "length", digits);
    set(&config, "epochs", epochs);
    return config;
}

/* Before the first epoch, and after the last one. */
static void train(sf_epoch *before, sf_epoch *after, const char *task, const sf_config *config) {
    sf_fleet *fleet;
    if (sf_fleet_create(&fleet, task, config, 1, &(sf_execution){.threads = 1}) != SF_OK) fail_msg("%s", sf_message());
    assert_int_equal(sf_fleet_evaluate(before, fleet, 0), SF_OK);
    while (!sf_fleet_finished(fleet))
        if (sf_fleet_advance(fleet) != SF_OK) fail_msg("%s", sf_message());
    assert_int_equal(sf_fleet_evaluate(after, fleet, 0), SF_OK);
    sf_fleet_destroy(fleet);
}

static bool trains_by_adam(const sf_task_info *info) {
    for (size_t i = 0; info->recipe[i] != NULL; i += 2)
        if (strcmp(info->recipe[i], "optimizer") == 0) return strncmp(info->recipe[i + 1], "adam", 4) == 0;
    return false;
}

static void first_epochs_lower_the_loss(void **state) {
    (void)state;
    size_t tried = 0;
    for (size_t t = 0; sf_task_at(t) != NULL; t++) {
        const sf_task_info info = sf_task_describe(sf_task_at(t));
        if (!trains_by_adam(&info)) continue;
        tried++;
        const sf_config config = tiny(info.shortest > SHORT ? info.shortest : SHORT, "4");
        sf_epoch before, after;
        train(&before, &after, info.name, &config);
        if (!(after.train_loss < before.train_loss))
            fail_msg("%s: the loss is %.4f before and %.4f after four epochs", info.name, before.train_loss,
                     after.train_loss);
    }
    assert_int_equal(tried, 11);
}

static void small_problems_are_learned(void **state) {
    (void)state;
    static const struct {
        const char *task;
        size_t length;
    } problems[] = {{"reverse-string", 8},   {"duplicate-string", 9},       {"odds-first", 8},   {"bucket-sort", 8},
                    {"binary-addition", 10}, {"binary-multiplication", 10}, {"compute-sqrt", 9}, {"word-problem", 1}};
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++) {
        const sf_config config = tiny(problems[p].length, "40");
        sf_epoch before, after;
        train(&before, &after, problems[p].task, &config);
        if (!(after.train_accuracy > 95 && before.train_accuracy < 70))
            fail_msg("%s: %.1f %% before, %.1f %% after 40 epochs", problems[p].task, before.train_accuracy,
                     after.train_accuracy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_epochs_lower_the_loss),
        cmocka_unit_test(small_problems_are_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
