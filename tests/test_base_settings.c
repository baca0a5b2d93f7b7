/* The table of settings: defaults, bounds, choices, what was given, and what a failure is about. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "base/text.h"
#include "semfocus/settings.h"
#include "semfocus/task.h"

/* A setting may be in either struct. */
typedef struct both {
    sf_config config;
    sf_options options;
} both;

static void init(both *values) {
    sf_config_init(&values->config);
    sf_options_init(&values->options);
}

static bool is_of_run(const char *name) {
    const sf_setting *setting;
    assert_int_equal(sf_setting_find(&setting, name, ~0U), SF_OK);
    return setting->home == SF_IN_CONFIG;
}

static sf_status set(both *values, const char *name, const char *value) {
    return is_of_run(name) ? sf_config_set(&values->config, name, value)
                           : sf_options_set(&values->options, name, value);
}

static bool given(const both *values, const char *name) {
    return is_of_run(name) ? sf_config_given(&values->config, name) : sf_options_given(&values->options, name);
}

static void text_of(char out[SF_TEXT_SIZE], const both *values, const sf_setting *setting) {
    if (setting->home == SF_IN_CONFIG)
        sf_config_text(out, &values->config, setting);
    else
        sf_options_text(out, &values->options, setting);
}

static const void *member_of(const both *values, const sf_setting *setting) {
    const void *home = setting->home == SF_IN_CONFIG ? (const void *)&values->config : &values->options;
    return (const char *)home + setting->offset;
}

static void assert_refused(const char *name, const char *value) {
    both values;
    char before[SF_TEXT_SIZE], after[SF_TEXT_SIZE];
    const sf_setting *setting;
    init(&values);
    assert_int_equal(sf_setting_find(&setting, name, ~0U), SF_OK);
    text_of(before, &values, setting);
    if (set(&values, name, value) != SF_BAD_INPUT) fail_msg("%s accepts \"%s\"", name, value);
    assert_string_equal(sf_message_setting(), name);
    text_of(after, &values, setting);
    assert_string_equal(before, after);
    assert_false(given(&values, name));
    assert_non_null(strstr(sf_message(), name));
}

static void defaults_round_trip(void **state) {
    (void)state;
    both initial, copy;
    init(&initial);
    init(&copy);
    size_t count = 0;
    for (const sf_setting *s; (s = sf_setting_at(count)) != NULL; count++) {
        char text[SF_TEXT_SIZE], again[SF_TEXT_SIZE];
        double number;
        text_of(text, &initial, s);
        if (s->kind == SF_REAL) {
            assert_true(sf_text_real(&number, s->initial));
            assert_true(*(const double *)member_of(&initial, s) == number);
        } else {
            assert_string_equal(text, s->initial);
        }
        assert_false(given(&copy, s->name));
        assert_int_equal(set(&copy, s->name, text), SF_OK);
        text_of(again, &copy, s);
        assert_string_equal(again, text);
        assert_non_null(s->help);
        for (size_t i = 0; i <= count; i++) assert_true(given(&copy, sf_setting_at(i)->name));
        for (size_t i = 0; i < count; i++) { /* no two rows share a name or a member */
            assert_string_not_equal(sf_setting_at(i)->name, s->name);
            assert_true(sf_setting_at(i)->home != s->home || sf_setting_at(i)->offset != s->offset);
        }
    }
    for (size_t i = 0; i < count; i++) assert_false(given(&initial, sf_setting_at(i)->name));
    static const char *const hard[] = {"0.1", "0.3333333333333333", "1e-08", "0.30000000000000004", "5e-324"};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
        char text[SF_TEXT_SIZE];
        const sf_setting *lr;
        assert_int_equal(sf_setting_find(&lr, "lr", ~0U), SF_OK);
        assert_int_equal(sf_config_set(&copy.config, "lr", hard[i]), SF_OK);
        sf_config_text(text, &copy.config, lr);
        assert_string_equal(text, hard[i]);
    }
}

/* What defines a run is small, and no place for paths, threads or what is printed. */
static void runs_and_commands_have_settings_of_their_own(void **state) {
    (void)state;
    static const char *const of_commands[] = {"threads", "device", "store", "out", "quiet", "json", "seeds"};
    both values;
    init(&values);
    assert_true(sizeof(sf_config) < 1024); /* copied for every run: no paths in it */
    for (size_t i = 0; i < sizeof of_commands / sizeof *of_commands; i++) {
        assert_int_equal(sf_config_set(&values.config, of_commands[i], "1"), SF_BAD_INPUT);
        assert_string_equal(sf_message_setting(), of_commands[i]);
        assert_false(sf_config_given(&values.config, of_commands[i]));
    }
    assert_int_equal(sf_options_set(&values.options, "lr", "1"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "lr is a setting of a run"));
    assert_int_equal(sf_config_apply_recipe(&values.config, (const char *const[]){"threads", "1", NULL}), SF_BAD_INPUT);
    sf_execution execution;
    sf_execution_init(&execution);
    assert_int_equal(execution.checkpoint_seconds, 10);
}

static void a_failure_knows_its_setting(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    assert_int_equal(sf_config_set(&config, "lr", "fast"), SF_BAD_INPUT);
    assert_string_equal(sf_message_setting(), "lr");
    assert_int_equal(sf_fail_in(SF_BAD_INPUT, "file:%d", 3), SF_BAD_INPUT);
    assert_string_equal(sf_message_setting(), "lr");
    assert_int_equal(sf_fail(SF_IO_ERROR, "lr is not what this is about"), SF_IO_ERROR);
    assert_string_equal(sf_message_setting(), "");
    assert_int_equal(sf_config_set(&config, "warmup", "3"), SF_OK);
    assert_int_equal(sf_config_check(&config), SF_BAD_INPUT);
    assert_string_equal(sf_message_setting(), "warmup");
}

static void bounds_are_inclusive(void **state) {
    (void)state;
    for (size_t i = 0; sf_setting_at(i) != NULL; i++) {
        const sf_setting *s = sf_setting_at(i);
        if (s->kind != SF_INTEGER && s->kind != SF_REAL) continue;
        assert_true(s->low < s->high);
        for (int end = 0; end < 2; end++) {
            const double bound = end == 0 ? s->low : s->high, away = end == 0 ? -1 : 1;
            const double beyond = s->kind == SF_INTEGER ? bound + away : nextafter(bound, away * INFINITY);
            char text[64];
            both values;
            init(&values);
            snprintf(text, sizeof text, "%.17g", bound);
            if (set(&values, s->name, text) != SF_OK) fail_msg("%s", sf_message());
            snprintf(text, sizeof text, "%.17g", beyond);
            assert_refused(s->name, text);
        }
        static const char *const never[] = {"", "nan", "inf", "1x", " 1", "many", "99999999999999999999999999"};
        for (size_t j = 0; j < sizeof never / sizeof *never; j++) assert_refused(s->name, never[j]);
        if (s->kind == SF_INTEGER) assert_refused(s->name, "1.0");
    }
}

static void choices_flags_and_texts(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    assert_int_equal(sf_config_set(&config, "activation", "mish"), SF_OK);
    assert_int_equal(config.activation, SF_MISH);
    assert_int_equal(sf_config_set(&config, "activation", "gelu"), SF_OK);
    assert_int_equal(config.activation, SF_GELU);
    assert_int_equal(sf_config_set(&config, "optimizer", "adamw"), SF_OK);
    assert_int_equal(config.optimizer, SF_ADAMW);
    assert_int_equal(sf_config_set(&config, "optimizer", "adam"), SF_OK); /* a prefix of another choice */
    assert_int_equal(config.optimizer, SF_ADAM);
    assert_int_equal(sf_config_set(&config, "schedule", "cosine"), SF_OK);
    assert_int_equal(config.schedule, SF_COSINE);
    assert_int_equal(sf_config_set(&config, "norm", "post"), SF_OK);
    assert_int_equal(config.norm, SF_POST_NORM);
    assert_int_equal(sf_config_set(&config, "pad", "mask"), SF_OK);
    assert_int_equal(config.pad, SF_PAD_MASK);
    sf_options options;
    sf_options_init(&options);
    assert_int_equal(sf_options_set(&options, "json", "yes"), SF_OK);
    assert_int_equal(options.json, 1);
    static const char *const wrong[][2] = {{"activation", ""},     {"activation", "rel"},       {"activation", "relu|"},
                                           {"activation", "RELU"}, {"activation", "relu|gelu"}, {"json", "1"},
                                           {"json", "true"},       {"json", "no|yes"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_refused(wrong[i][0], wrong[i][1]);
    char text[SF_TEXT_SIZE + 1];
    memset(text, 'x', SF_TEXT_SIZE);
    text[SF_TEXT_SIZE] = '\0';
    assert_refused("attention", text);
    text[SF_TEXT_SIZE - 1] = '\0';
    assert_int_equal(sf_config_set(&config, "attention", text), SF_OK);
    assert_string_equal(config.attention, text);
    assert_int_equal(sf_options_set(&options, "out", text), SF_OK);
    assert_string_equal(options.out, text);
}

static void unknown_settings(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    const sf_setting *setting;
    assert_int_equal(sf_config_set(&config, "atention", "full"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "'atention'"));
    assert_non_null(strstr(sf_message(), "did you mean 'attention'"));
    assert_int_equal(sf_config_set(&config, "weight_decay", "0"), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "'weight-decay'"));
    assert_int_equal(sf_setting_find(&setting, "attention", SF_GROUP_DATA | SF_GROUP_MODEL), SF_OK);
    assert_int_equal(sf_setting_find(&setting, "attention", SF_GROUP_DATA | SF_GROUP_FILE), SF_BAD_INPUT);
    assert_null(setting);
    assert_int_equal(sf_setting_find(&setting, "lenght", SF_GROUP_TRAINING), SF_BAD_INPUT);
    assert_null(strstr(sf_message(), "did you mean 'length'"));
    assert_int_equal(sf_setting_find(&setting, "zzzzzzzz\n", ~0U), SF_BAD_INPUT);
    assert_null(strstr(sf_message(), "did you mean"));
    assert_null(strchr(sf_message(), '\n'));
    assert_false(sf_config_given(&config, "atention"));
}

static void recipes_yield_to_the_user(void **state) {
    (void)state;
    sf_config config;
    sf_config_init(&config);
    assert_int_equal(sf_config_set(&config, "lr", "0.1"), SF_OK); /* given, though equal to the default */
    const char *const recipe[] = {"lr", "0.5", "blocks", "10", "pad", "mask", NULL};
    assert_int_equal(sf_config_apply_recipe(&config, recipe), SF_OK);
    assert_true(config.lr == 0.1);
    assert_int_equal(config.blocks, 10);
    assert_int_equal(config.pad, SF_PAD_MASK);
    assert_false(sf_config_given(&config, "blocks"));
    assert_int_equal(sf_config_apply_recipe(&config, NULL), SF_OK);
    assert_int_equal(sf_config_apply_recipe(&config, (const char *const[]){"bloks", "1", NULL}), SF_BAD_INPUT);
    assert_int_equal(sf_config_apply_recipe(&config, (const char *const[]){"blocks", "0", NULL}), SF_BAD_INPUT);
    for (size_t t = 0; sf_task_at(t) != NULL; t++) {
        sf_config_init(&config);
        assert_int_equal(sf_config_apply_recipe(&config, sf_task_describe(sf_task_at(t)).recipe), SF_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_round_trip),         cmocka_unit_test(runs_and_commands_have_settings_of_their_own),
        cmocka_unit_test(a_failure_knows_its_setting), cmocka_unit_test(bounds_are_inclusive),
        cmocka_unit_test(choices_flags_and_texts),     cmocka_unit_test(unknown_settings),
        cmocka_unit_test(recipes_yield_to_the_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
