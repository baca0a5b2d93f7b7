#include "tasks/blanks.h"

enum { SEPARATOR = 2, OPERAND_BLANK = 3, LONGEST = 65536 };

void sf_blanks_append(int32_t *tokens, int32_t *labels, size_t *count, size_t input, size_t output, int32_t blank) {
    *count = input + output;
    for (size_t t = 0; t < input; t++) labels[t] = -1;
    for (size_t t = input; t < *count; t++) tokens[t] = blank;
}

void sf_bits_draw(int32_t *bits, size_t count, sf_draws *draws) {
    bool is_zero = true;
    while (is_zero)
        for (size_t i = 0; i < count; i++) {
            bits[i] = (int32_t)sf_draw_below(draws, 2);
            is_zero &= bits[i] == 0;
        }
}

sf_status sf_blanks_split(size_t *input, const int32_t *tokens, size_t count, int32_t blank, const char *task) {
    if (count > LONGEST)
        return sf_fail(SF_BAD_INPUT, "a sequence of %zu tokens is too long; %s has at most %d", count, task, LONGEST);
    *input = 0;
    while (*input < count && tokens[*input] >= 0 && tokens[*input] < blank) ++*input;
    for (size_t t = *input; t < count; t++)
        if (tokens[t] != blank)
            return sf_fail(SF_BAD_INPUT,
                           "token %d at position %zu (from 0) is out of place; %s has tokens 0..%d, then blanks %d",
                           tokens[t], t, task, blank - 1, blank);
    return SF_OK;
}

sf_status sf_blanks_check(int32_t *labels, size_t input, size_t count, size_t output, const char *task) {
    for (size_t t = 0; t < input; t++) labels[t] = -1;
    if (count - input == output) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "%zu blanks follow the input but the output of this %s has %zu tokens; give as many",
                   count - input, task, output);
}

void sf_operands_draw(sf_operands *out, int32_t *tokens, size_t input, sf_draws *draws) {
    const size_t m = 1 + sf_draw_below(draws, (uint32_t)(input - 2));
    *out = (sf_operands){.x = tokens, .y = tokens + m + 1, .m = m, .n = input - 1 - m, .input = input};
    sf_bits_draw(tokens, m, draws);
    tokens[m] = SEPARATOR;
    sf_bits_draw(tokens + m + 1, out->n, draws);
}

static sf_status check_operand(const int32_t *bits, size_t count, const char *task) {
    bool is_zero = true;
    for (size_t i = 0; i < count; i++) {
        if (bits[i] == SEPARATOR)
            return sf_fail(SF_BAD_INPUT, "the input has more than one separator 2; %s has two numbers", task);
        is_zero &= bits[i] == 0;
    }
    if (!is_zero) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "a number has no bit that is 1; the numbers of %s are 1 or more", task);
}

sf_status sf_operands_read(sf_operands *out, const int32_t *tokens, size_t count, const char *task) {
    *out = (sf_operands){.x = tokens};
    SF_TRY(sf_blanks_split(&out->input, tokens, count, OPERAND_BLANK, task));
    while (out->m < out->input && tokens[out->m] != SEPARATOR) out->m++;
    if (out->m == out->input)
        return sf_fail(SF_BAD_INPUT, "the input has no separator 2; %s has two numbers with a 2 between them", task);
    out->y = tokens + out->m + 1;
    out->n = out->input - out->m - 1;
    SF_TRY(check_operand(out->x, out->m, task));
    return check_operand(out->y, out->n, task);
}
