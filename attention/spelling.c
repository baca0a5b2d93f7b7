/* A mechanism as the user writes it: selector[:number[:number]][+global:g][/weighting[:number[:number]]]. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "base/text.h"

enum { LARGEST_K = 65536, LARGEST_GLOBALS = 1024 };

static const char *selector_name(const void *context, size_t i) {
    (void)context;
    const sf_selector *selector = sf_selector_at(i);
    return selector != NULL ? selector->name : NULL;
}

static const char *weighting_name(const void *context, size_t i) {
    (void)context;
    const sf_weighting *weighting = sf_weighting_at(i);
    return weighting != NULL ? weighting->name : NULL;
}

static sf_status unknown_selector(const char *name) {
    char quoted[SF_QUOTE_SIZE];
    sf_text_quote(quoted, name);
    const char *nearest = sf_text_nearest(name, selector_name, NULL);
    if (nearest == NULL)
        return sf_fail(SF_BAD_INPUT, "unknown attention '%s'; 'semfocus list attention' names them all", quoted);
    return sf_fail(SF_BAD_INPUT,
                   "unknown attention '%s'; did you mean '%s%s'? 'semfocus list attention' names them all", quoted,
                   nearest, sf_selector_named(nearest)->takes_k ? ":5" : "");
}

static sf_status unknown_weighting(const char *name, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    const char *nearest = sf_text_nearest(name, weighting_name, NULL);
    return sf_fail(SF_BAD_INPUT,
                   "attention '%s': the weighting after '/' must be %s%s; 'semfocus list attention' names them all",
                   sf_text_quote(quoted, whole), nearest != NULL ? nearest : sf_weighting_softmax.name,
                   sf_weighting_at(1) != NULL ? " or another" : "");
}

static sf_status parse_count(size_t *out, const char *what, const char *digits, const char *whole, int64_t largest) {
    char quoted[SF_QUOTE_SIZE];
    int64_t value;
    if (!sf_text_integer(&value, digits) || value < 1 || value > largest)
        return sf_fail(SF_BAD_INPUT, "attention '%s': %s must be a whole number from 1 to %lld",
                       sf_text_quote(quoted, whole), what, (long long)largest);
    *out = (size_t)value;
    return SF_OK;
}

/* Cuts `text` at the first `mark` and returns what follows it, or NULL. */
static char *cut(char *text, char mark) {
    char *at = text != NULL ? strchr(text, mark) : NULL;
    if (at != NULL) *at++ = '\0';
    return at;
}

static sf_status parse_argument(double *out, const sf_argument *argument, const char *name, const char *text,
                                const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    *out = argument->initial;
    if (text == NULL && argument->required)
        return sf_fail(SF_BAD_INPUT, "attention '%s' needs %s after %s, e.g. %s:%g", sf_text_quote(quoted, whole),
                       argument->meaning, name, name, argument->initial);
    if (text == NULL) return SF_OK;
    if (!sf_text_real(out, text) || *out < argument->low || *out > argument->high ||
        (argument->whole && *out != floor(*out)))
        return sf_fail(SF_BAD_INPUT, "attention '%s': %s must be a %s from %g to %g", sf_text_quote(quoted, whole),
                       argument->meaning, argument->whole ? "whole number" : "number", argument->low, argument->high);
    *out += 0.0; /* -0 is 0 */
    return SF_OK;
}

/* `text` is what follows the name and its k: "0.9:2", or NULL. */
static sf_status parse_arguments(double out[SF_MOST_ARGUMENTS], const sf_argument *arguments, const char *name,
                                 char *text, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    for (size_t i = 0; i < SF_MOST_ARGUMENTS && arguments[i].letter != NULL; i++) {
        char *next = cut(text, ':');
        SF_TRY(parse_argument(&out[i], &arguments[i], name, text, whole));
        text = next;
    }
    if (text == NULL) return SF_OK;
    if (arguments[0].letter == NULL)
        return sf_fail(SF_BAD_INPUT, "attention '%s': %s takes no number '%s'; leave it out",
                       sf_text_quote(quoted, whole), name, text);
    return sf_fail(SF_BAD_INPUT, "attention '%s': ':%s' is one number too many for %s; leave it out",
                   sf_text_quote(quoted, whole), text, name);
}

static sf_status parse_selector(sf_attention *out, char *text, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    char *numbers = cut(text, ':');
    out->selector = sf_selector_named(text);
    if (out->selector == NULL) return unknown_selector(text);
    if (out->selector->takes_k) {
        if (numbers == NULL)
            return sf_fail(SF_BAD_INPUT, "attention '%s' needs the number of kept keys, e.g. %s:5",
                           sf_text_quote(quoted, whole), text);
        char *rest = cut(numbers, ':');
        SF_TRY(parse_count(&out->k, "the number of kept keys", numbers, whole, LARGEST_K));
        numbers = rest;
    } else if (numbers != NULL && out->selector->arguments[0].letter == NULL) {
        return sf_fail(SF_BAD_INPUT, "attention '%s': %s takes no number; write %s", sf_text_quote(quoted, whole), text,
                       text);
    }
    return parse_arguments(out->arguments, out->selector->arguments, text, numbers, whole);
}

static sf_status parse_extra(sf_attention *out, char *extra, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    if (!out->selector->takes_globals)
        return sf_fail(SF_BAD_INPUT,
                       "attention '%s': only fixed sparse patterns take global tokens, e.g. banded:5+global:1",
                       sf_text_quote(quoted, whole));
    char *globals = cut(extra, ':');
    if (strcmp(extra, "global") != 0 || globals == NULL)
        return sf_fail(SF_BAD_INPUT, "attention '%s': only +global:N may follow the selector, e.g. banded:5+global:1",
                       sf_text_quote(quoted, whole));
    return parse_count(&out->globals, "the number of global tokens", globals, whole, LARGEST_GLOBALS);
}

static sf_status parse_weighting(sf_attention *out, char *text, const char *whole) {
    char *numbers = cut(text, ':');
    out->weighting = sf_weighting_named(text);
    if (out->weighting == NULL) return unknown_weighting(text, whole);
    return parse_arguments(out->weighting_arguments, out->weighting->arguments, text, numbers, whole);
}

static size_t spell(char out[SF_SPELLING_SIZE], const sf_attention *attention);

sf_status sf_attention_parse(sf_attention *out, const char *text) {
    char quoted[SF_QUOTE_SIZE], name[SF_SPELLING_SIZE], softmax[] = "softmax", canonical[SF_SPELLING_SIZE];
    if (strlen(text) >= sizeof name) return unknown_selector(text);
    strcpy(name, text);
    char *weighting = cut(name, '/');
    char *extra = cut(name, '+');
    *out = (sf_attention){0};
    SF_TRY(parse_selector(out, name, text));
    if (extra != NULL) SF_TRY(parse_extra(out, extra, text));
    SF_TRY(parse_weighting(out, weighting != NULL ? weighting : softmax, text));
    if (spell(canonical, out) < SF_SPELLING_SIZE) return SF_OK;
    return sf_fail(SF_BAD_INPUT,
                   "attention '%s' is longer than %d characters with all digits of its numbers; round them",
                   sf_text_quote(quoted, text), SF_SPELLING_SIZE - 1);
}

/* The shortest text that reads back as the same number; 1e30 instead of 1e+30, because '+' starts the globals. */
static void number_text(char out[32], double value) {
    double back = NAN;
    for (int digits = 1; digits <= 17 && back != value; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (!sf_text_real(&back, out)) back = NAN;
    }
    char *plus = strchr(out, '+');
    if (plus != NULL) memmove(plus, plus + 1, strlen(plus));
}

typedef struct writer {
    char *at;
    size_t used; /* including what did not fit */
} writer;

static void write_text(writer *w, const char *mark, const char *text) {
    const size_t room = w->used < SF_SPELLING_SIZE ? SF_SPELLING_SIZE - w->used : 0;
    w->used += (size_t)snprintf(room > 0 ? w->at + w->used : NULL, room, "%s%s", mark, text);
}

/* Up to the last one that is not at its default. */
static void write_arguments(writer *w, const double *values, const sf_argument *arguments) {
    size_t count = 0;
    for (size_t i = 0; i < SF_MOST_ARGUMENTS && arguments[i].letter != NULL; i++)
        if (arguments[i].required || values[i] != arguments[i].initial) count = i + 1;
    for (size_t i = 0; i < count; i++) {
        char number[32];
        number_text(number, values[i]);
        write_text(w, ":", number);
    }
}

/* Returns the length, including what does not fit. */
static size_t spell(char out[SF_SPELLING_SIZE], const sf_attention *attention) {
    writer w = {.at = out};
    char number[32];
    write_text(&w, "", attention->selector->name);
    snprintf(number, sizeof number, "%zu", attention->k);
    if (attention->selector->takes_k) write_text(&w, ":", number);
    write_arguments(&w, attention->arguments, attention->selector->arguments);
    snprintf(number, sizeof number, "%zu", attention->globals);
    if (attention->globals > 0) write_text(&w, "+global:", number);
    if (attention->weighting == &sf_weighting_softmax) return w.used;
    write_text(&w, "/", attention->weighting->name);
    write_arguments(&w, attention->weighting_arguments, attention->weighting->arguments);
    return w.used;
}

void sf_attention_spell(char out[SF_SPELLING_SIZE], const sf_attention *attention) {
    spell(out, attention);
}
