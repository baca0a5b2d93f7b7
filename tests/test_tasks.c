/* The tasks' solvers against worked examples, sequences that are not of the task, and every short sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "known_task.h"

/* Writing sequences as text: the position of a character in its task's alphabet is its id. */
static const char *alphabet_of(const char *name) {
    static const char *const alphabets[][2] = {
        {"parity", "01#"},
        {"even-pairs", "01#"},
        {"missing-duplicate", "01_#"},
        {"cycle-navigation", "<.>#"},
        {"modular-arithmetic-brackets", "01234+-*()?#"},
        {"solve-equation", "01234+-()x=#"},
        {"stack-manipulation", "01POI#"},
        {"listops", "0123456789mMdS]#"},
        {"modular-arithmetic", "01234+-*#"},
    };
    for (size_t i = 0; i < sizeof alphabets / sizeof *alphabets; i++)
        if (strcmp(alphabets[i][0], name) == 0) return alphabets[i][1];
    fail_msg("no alphabet for %s", name);
    return NULL;
}

static size_t spell(int32_t *tokens, const char *name, const char *text) {
    const char *alphabet = alphabet_of(name);
    size_t count = 0;
    for (; text[count] != '\0'; count++) {
        const char *letter = strchr(alphabet, text[count]);
        if (letter == NULL) fail_msg("\"%c\" is not in the alphabet of %s", text[count], name);
        tokens[count] = (int32_t)(letter - alphabet);
    }
    return count;
}

static sf_status solve_text(int32_t *label, const char *name, const char *text) {
    int32_t tokens[256];
    const size_t count = spell(tokens, name, text);
    return sf_task_solve(label, find(name), tokens, count);
}

static void solves_worked_examples(void **state) {
    (void)state;
    static const struct {
        const char *task, *text;
        int32_t label;
    } examples[] = {
        {"parity", "000101100111", 0},
        {"parity", "1", 1},
        {"parity", "0", 0},
        {"even-pairs", "10111010", 1},
        {"even-pairs", "0", 0},
        {"even-pairs", "1", 0},
        {"even-pairs", "0110", 0},
        {"missing-duplicate", "_1011101", 1},
        {"missing-duplicate", "10010_100100", 0},
        {"missing-duplicate", "1", 1},
        {"missing-duplicate", "_0", 0},
        {"missing-duplicate", "1_#", 1},
        {"missing-duplicate", "01_1#", 0},
        {"cycle-navigation", "<>.....<<", 3},
        {"cycle-navigation", "<", 4},
        {"cycle-navigation", ">>>>>>", 1},
        {"modular-arithmetic-brackets", "((-2)+1)", 4},
        {"modular-arithmetic-brackets", "((((1*4)*(4))+(0))+((-0+(-3))*(2*(-0))))", 1},
        {"modular-arithmetic-brackets", "3", 3},
        {"modular-arithmetic-brackets", "-1", 4},
        {"modular-arithmetic-brackets", "(-0)", 0},
        {"modular-arithmetic-brackets", "(2--3)", 0},
        {"modular-arithmetic-brackets", "(1-(2-(3-4)))", 3},
        {"solve-equation", "((x)+(-0))=4", 4},
        {"solve-equation", "(((x)-(((1)+(3+2))-(2)))-(((-0)+3)+1))=4", 2},
        {"solve-equation", "x=3", 3},
        {"solve-equation", "-x=3", 2},
        {"solve-equation", "(1--x)=0", 4},
        {"stack-manipulation", "01OPP", 0},
        {"stack-manipulation", "110PPP", 2},
        {"stack-manipulation", "1", 1},
        {"stack-manipulation", "0PPI", 1},
        {"stack-manipulation", "0PPIP", 2},
        {"stack-manipulation", "10OIPP", 0},
        {"listops", "d1834]", 3},
        {"listops", "S995d09]]", 7},
        {"listops", "7", 7},
        {"listops", "m35]", 3},
        {"listops", "M3m95]1]", 5},
        {"listops", "d92001]", 1},
        {"listops", "S9999999999]", 0},
        {"modular-arithmetic", "2+3*3+2+1-4", 0},
        {"modular-arithmetic", "4", 4},
        {"modular-arithmetic", "1-2*3*4", 2},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        int32_t label = -1;
        if (solve_text(&label, examples[i].task, examples[i].text) != SF_OK)
            fail_msg("%s %s: %s", examples[i].task, examples[i].text, sf_message());
        if (label != examples[i].label)
            fail_msg("%s %s: label %d, expected %d", examples[i].task, examples[i].text, label, examples[i].label);
    }
}

static void refuses_malformed_sequences(void **state) {
    (void)state;
    static const char *const malformed[][2] = {
        {"parity", "010#"},
        {"parity", "#"},
        {"even-pairs", "0#1"},
        {"missing-duplicate", "0"},
        {"missing-duplicate", "_"},
        {"missing-duplicate", "0101"},
        {"missing-duplicate", "__"},
        {"missing-duplicate", "_10_"},
        {"missing-duplicate", "_101110"},
        {"missing-duplicate", "_1011100"},
        {"missing-duplicate", "01_#"},
        {"missing-duplicate", "1_0"},
        {"cycle-navigation", "<#"},
        {"modular-arithmetic-brackets", "("},
        {"modular-arithmetic-brackets", ")"},
        {"modular-arithmetic-brackets", "-"},
        {"modular-arithmetic-brackets", "1+2"},
        {"modular-arithmetic-brackets", "--1"},
        {"modular-arithmetic-brackets", "-(1)"},
        {"modular-arithmetic-brackets", "()"},
        {"modular-arithmetic-brackets", "((1))"},
        {"modular-arithmetic-brackets", "((1+2))"},
        {"modular-arithmetic-brackets", "(1+2+3)"},
        {"modular-arithmetic-brackets", "(1+)"},
        {"modular-arithmetic-brackets", "(+1)"},
        {"modular-arithmetic-brackets", "(12)"},
        {"modular-arithmetic-brackets", "(1)(2)"},
        {"modular-arithmetic-brackets", "((1+2)"},
        {"modular-arithmetic-brackets", "(1+2))"},
        {"modular-arithmetic-brackets", "(1?2)"},
        {"modular-arithmetic-brackets", "(1+2)#"},
        {"solve-equation", "x="},
        {"solve-equation", "x=x"},
        {"solve-equation", "1=1"},
        {"solve-equation", "(x+x)=2"},
        {"solve-equation", "x=1=1"},
        {"solve-equation", "(x+1=2"},
        {"solve-equation", "x+1=2"},
        {"solve-equation", "((x))=2"},
        {"solve-equation", "(x#1)=2"},
        {"solve-equation", "(x+1)2"},
        {"stack-manipulation", "P"},
        {"stack-manipulation", "01"},
        {"stack-manipulation", "0P1"},
        {"stack-manipulation", "0P#"},
        {"listops", "]"},
        {"listops", "m]"},
        {"listops", "m1]"},
        {"listops", "m12345678901]"},
        {"listops", "m12"},
        {"listops", "m12]]"},
        {"listops", "12"},
        {"listops", "m12]3"},
        {"listops", "m1#]"},
        {"listops", "m1m1m1m1m1m1m1m1m1m12]]]]]]]]]]"}, /* ten operators deep */
        {"modular-arithmetic", "1+"},
        {"modular-arithmetic", "+"},
        {"modular-arithmetic", "12"},
        {"modular-arithmetic", "1+-2"},
        {"modular-arithmetic", "1#2"},
    };
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        int32_t label;
        if (solve_text(&label, malformed[i][0], malformed[i][1]) != SF_BAD_INPUT)
            fail_msg("%s accepts %s", malformed[i][0], malformed[i][1]);
    }
    int32_t label;
    assert_int_equal(solve_text(&label, "listops", "m1m1m1m1m1m1m1m1m12]]]]]]]]]"), SF_OK); /* nine are legal */
    assert_int_equal(solve_text(&label, "missing-duplicate", "01_1"), SF_OK);
}

static void refuses_foreign_tokens_and_nothing(void **state) {
    (void)state;
    for (size_t t = 0; sf_task_at(t) != NULL; t++) {
        const sf_task_info info = sf_task_describe(sf_task_at(t));
        const int32_t foreign[] = {-1, info.pad, info.pad + 1, INT32_MIN, INT32_MAX};
        int32_t labels[64];
        assert_int_equal(sf_task_solve_with(labels, sf_task_at(t), foreign, 0, NULL), SF_BAD_INPUT);
        assert_non_null(strstr(sf_message(), info.name));
        sf_dataset *data = sampled(info.name, 1, info.shortest > 9 ? info.shortest : 9);
        size_t count;
        const int32_t *good = sf_dataset_tokens(data, 0, &count);
        for (size_t i = 0; i < count; i++) {
            for (size_t f = 0; f < sizeof foreign / sizeof *foreign; f++) {
                if (i == count - 1 && foreign[f] == good[i]) continue; /* missing-duplicate ends in its PAD */
                int32_t tokens[64];
                memcpy(tokens, good, count * sizeof *tokens);
                tokens[i] = foreign[f];
                if (sf_task_solve_with(labels, sf_task_at(t), tokens, count, NULL) != SF_BAD_INPUT)
                    fail_msg("%s accepts token %d at position %zu", info.name, foreign[f], i);
            }
        }
        sf_dataset_destroy(data);
    }
}

static void messages_name_value_and_position(void **state) {
    (void)state;
    int32_t label;
    assert_int_equal(solve_text(&label, "parity", "001#"), SF_BAD_INPUT);
    assert_string_equal(sf_message(), "token 2 at position 3 (from 0) is not a bit; parity takes only 0 and 1");
    assert_int_equal(solve_text(&label, "listops", "m3]"), SF_BAD_INPUT);
    assert_string_equal(sf_message(), "] at position 2 (from 0) closes a list of 1 arguments; give it 2..10");
}

/* A million brackets must cost memory, not the C stack. */
static void survives_deep_brackets(void **state) {
    (void)state;
    const size_t deep = 1000000;
    const sf_task *task = find("modular-arithmetic-brackets");
    int32_t *tokens, label;
    assert_int_equal(SF_NEW(&tokens, 4 * deep + 1), SF_OK);
    for (size_t i = 0; i < deep; i++) tokens[i] = 8;
    assert_int_equal(sf_task_solve(&label, task, tokens, deep), SF_BAD_INPUT);
    for (size_t i = 0; i < deep; i++) { /* (1+(1+( ... 2))) */
        tokens[3 * i] = 8;
        tokens[3 * i + 1] = 1;
        tokens[3 * i + 2] = 5;
        tokens[3 * deep + 1 + i] = 9;
    }
    tokens[3 * deep] = 2;
    assert_int_equal(sf_task_solve(&label, task, tokens, 4 * deep + 1), SF_OK);
    assert_int_equal(label, (deep + 2) % 5);
    sf_release(tokens);
}

/* All expressions of up to seven tokens, in plain integers. */
static void modular_arithmetic_exhaustively(void **state) {
    (void)state;
    const sf_task *task = find("modular-arithmetic");
    for (size_t digits = 1, cases = 5; digits <= 4; digits++, cases *= 15) {
        for (size_t c = 0; c < cases; c++) {
            int32_t tokens[7], terms[4], label = -1;
            size_t rest = c / 5;
            tokens[0] = (int32_t)(c % 5);
            for (size_t i = 1; i < digits; i++, rest /= 15) {
                tokens[2 * i - 1] = 5 + (int32_t)(rest % 3);
                tokens[2 * i] = (int32_t)(rest / 3 % 5);
            }
            size_t term = 0;
            terms[0] = tokens[0];
            for (size_t i = 1; i < digits; i++) {
                const int32_t operation = tokens[2 * i - 1], digit = tokens[2 * i];
                if (operation == 7)
                    terms[term] *= digit;
                else
                    terms[++term] = operation == 5 ? digit : -digit;
            }
            int32_t value = 1000;
            for (size_t i = 0; i <= term; i++) value += terms[i];
            assert_int_equal(sf_task_solve(&label, task, tokens, 2 * digits - 1), SF_OK);
            assert_int_equal(label, value % 5);
        }
    }
}

static void bits_exhaustively(void **state) {
    (void)state;
    for (size_t n = 1; n <= 12; n++) {
        for (unsigned word = 0; word < 1U << n; word++) {
            int32_t tokens[12], label = -1, changes = 0;
            for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)(word >> i & 1);
            for (size_t i = 1; i < n; i++) changes += tokens[i] != tokens[i - 1];
            assert_int_equal(sf_task_solve(&label, find("parity"), tokens, n), SF_OK);
            assert_int_equal(label, __builtin_parity(word));
            assert_int_equal(sf_task_solve(&label, find("even-pairs"), tokens, n), SF_OK);
            assert_int_equal(label, changes % 2);
        }
    }
}

/* Every short sequence of actions, on a stack kept in the bits of a word under a leading one. */
static void stacks_exhaustively(void **state) {
    (void)state;
    const sf_task *task = find("stack-manipulation");
    for (unsigned initial = 2; initial < 16; initial++) {
        for (unsigned actions = 0; actions < 729; actions++) {
            int32_t tokens[16], label = -1;
            size_t count = 0;
            unsigned stack = initial, rest = actions;
            for (int bit = 2; bit >= 0; bit--)
                if (initial >> (bit + 1) != 0) tokens[count++] = (int32_t)(initial >> bit & 1);
            for (int i = 0; i < 6; i++, rest /= 3) {
                tokens[count++] = 2 + (int32_t)(rest % 3);
                stack = rest % 3 == 0 ? (stack > 1 ? stack / 2 : 1) : stack * 2 + rest % 3 - 1;
            }
            assert_int_equal(sf_task_solve(&label, task, tokens, count), SF_OK);
            assert_int_equal(label, stack == 1 ? 2 : (int32_t)(stack & 1));
        }
    }
}

static void finds_tasks_by_name(void **state) {
    (void)state;
    size_t count = 0;
    for (; sf_task_at(count) != NULL; count++) {
        const sf_task_info info = sf_task_describe(sf_task_at(count));
        assert_ptr_equal(find(info.name), sf_task_at(count));
        if (count < 9) assert_int_equal(strlen(alphabet_of(info.name)), info.pad + 1);
    }
    assert_int_equal(count, 20);
    const sf_task *task;
    assert_int_equal(sf_task_find(&task, "evenpairs"), SF_BAD_INPUT);
    assert_null(task);
    assert_non_null(strstr(sf_message(), "'evenpairs'"));
    assert_non_null(strstr(sf_message(), "'even-pairs'"));
    assert_non_null(strstr(sf_message(), "semfocus list tasks"));
    assert_int_equal(sf_task_find(&task, "zzzzzz\n"), SF_BAD_INPUT);
    assert_null(strstr(sf_message(), "did you mean"));
    assert_null(strchr(sf_message(), '\n'));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solves_worked_examples),
        cmocka_unit_test(refuses_malformed_sequences),
        cmocka_unit_test(refuses_foreign_tokens_and_nothing),
        cmocka_unit_test(messages_name_value_and_position),
        cmocka_unit_test(survives_deep_brackets),
        cmocka_unit_test(modular_arithmetic_exhaustively),
        cmocka_unit_test(bits_exhaustively),
        cmocka_unit_test(stacks_exhaustively),
        cmocka_unit_test(finds_tasks_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
