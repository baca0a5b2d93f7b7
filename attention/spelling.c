/* A mechanism as the user writes it:
 *
 *   SELECTOR[:number[:number]][+EXTRA[:number]]...[/WEIGHTING[:number]][@SCORES[:number]]...  */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "base/text.h"
#include "semfocus/suggest.h"

enum { LARGEST_K = 65536, LARGEST_GLOBALS = 1024 };

typedef const char *name_at(const void *context, size_t i);

static const char *selector_name(const void *context, size_t i) {
    (void)context;
    const sf_selector *selector = sf_selector_at(i);
    return selector != NULL ? selector->name : NULL;
}

static const char *extra_name(const void *context, size_t i) {
    (void)context;
    const sf_selector *extra = sf_extra_at(i);
    return extra != NULL ? extra->name : NULL;
}

static const char *weighting_name(const void *context, size_t i) {
    (void)context;
    const sf_weighting *weighting = sf_weighting_at(i);
    return weighting != NULL ? weighting->name : NULL;
}

static const char *transform_name(const void *context, size_t i) {
    (void)context;
    const sf_score_transform *transform = sf_score_transform_at(i);
    return transform != NULL ? transform->name : NULL;
}

enum {
    USUAL_DIGITS = 6, /* significant digits up to which a number is written without an exponent: 10, not 1e01 */
    ID_DIGITS = 1     /* likewise in ids of runs, which must not change */
};

static void number_text(char out[32], double value, int digits);

/* ":5" or ":5:2": numbers that may follow the name. */
static void example_numbers(char out[64], bool takes_k, const sf_argument *arguments) {
    size_t used = (size_t)snprintf(out, 64, "%s", takes_k ? ":5" : "");
    for (size_t i = 0; i < SF_MOST_ARGUMENTS && arguments[i].letter != NULL && arguments[i].required; i++) {
        char number[32];
        number_text(number, arguments[i].initial, USUAL_DIGITS);
        used += (size_t)snprintf(out + used, 64 - used, ":%s", number);
    }
}

/* A mechanism with the weighting or score transform that is called `name`: "full/entmax15", "full@rope". */
static bool example_with_part(char out[SF_SPELLING_SIZE], const char *name) {
    char numbers[64];
    const sf_weighting *weighting = sf_weighting_named(name);
    const sf_score_transform *transform = sf_score_transform_named(name);
    if (weighting == NULL && transform == NULL) return false;
    example_numbers(numbers, false, weighting != NULL ? weighting->arguments : transform->arguments);
    snprintf(out, SF_SPELLING_SIZE, "full%c%s%s", weighting != NULL ? '/' : '@', name, numbers);
    return true;
}

static bool example_with_extra(char out[SF_SPELLING_SIZE], const char *name) {
    const sf_selector *extra = sf_extra_named(name);
    if (extra == NULL) return false;
    snprintf(out, SF_SPELLING_SIZE, "topk:5+%s%s", name, extra->takes_k ? ":1" : "");
    return true;
}

/* The selector that was probably meant. */
static bool example_near(char out[SF_SPELLING_SIZE], const char *name) {
    char numbers[64];
    const char *nearest = sf_suggest(SF_NAMES_MECHANISMS, name, selector_name, NULL);
    if (nearest == NULL) return false;
    const sf_selector *selector = sf_selector_named(nearest);
    example_numbers(numbers, selector->takes_k, selector->arguments);
    snprintf(out, SF_SPELLING_SIZE, "%s%s", nearest, numbers);
    return true;
}

static sf_status unknown_selector(const char *name) {
    char quoted[SF_QUOTE_SIZE], example[SF_SPELLING_SIZE];
    sf_text_quote(quoted, name);
    if (!example_with_part(example, name) && !example_near(example, name) && !example_with_extra(example, name))
        return sf_fail(SF_BAD_INPUT, "unknown attention '%s'; 'semfocus list attention' names them all", quoted);
    return sf_fail(SF_BAD_INPUT, "unknown attention '%s'; did you mean '%s'? 'semfocus list attention' names them all",
                   quoted, example);
}

/* `kind`: "extra", after `mark`. */
static sf_status unknown_part(const char *kind, char mark, const char *name, name_at *names, const char *whole) {
    char quoted[SF_QUOTE_SIZE], quoted_name[SF_QUOTE_SIZE];
    const char *nearest = sf_suggest(SF_NAMES_MECHANISMS, name, names, NULL);
    sf_text_quote(quoted, whole);
    sf_text_quote(quoted_name, name);
    if (nearest == NULL)
        return sf_fail(SF_BAD_INPUT,
                       "attention '%s': there is no %s '%s' (after '%c'); 'semfocus list attention' names them all",
                       quoted, kind, quoted_name, mark);
    return sf_fail(
        SF_BAD_INPUT,
        "attention '%s': there is no %s '%s' (after '%c'); did you mean '%s'? 'semfocus list attention' names them all",
        quoted, kind, quoted_name, mark, nearest);
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

static sf_status check_refusal(const sf_selector *selector, size_t k, const double *arguments, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    const char *rule = selector->refuse != NULL ? selector->refuse(k, arguments) : NULL;
    if (rule == NULL) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "attention '%s': %s", sf_text_quote(quoted, whole), rule);
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
    SF_TRY(parse_arguments(out->arguments, out->selector->arguments, text, numbers, whole));
    return check_refusal(out->selector, out->k, out->arguments, whole);
}

static sf_status named_twice(const char *name, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    return sf_fail(SF_BAD_INPUT, "attention '%s' names %s twice; leave one of them out", sf_text_quote(quoted, whole),
                   name);
}

/* Extras stay sorted by name. There is room for all: the same one may not come twice. */
static sf_status add_extra(sf_attention *out, const sf_selector *extra, size_t k, const char *whole) {
    size_t count = 0;
    for (; count < SF_MOST_EXTRAS && out->extras[count].part != NULL; count++)
        if (out->extras[count].part == extra) return named_twice(extra->name, whole);
    assert(count < SF_MOST_EXTRAS);
    size_t place = count;
    for (; place > 0 && strcmp(out->extras[place - 1].part->name, extra->name) > 0; place--)
        out->extras[place] = out->extras[place - 1];
    out->extras[place] = (sf_attention_extra){extra, k};
    return SF_OK;
}

static sf_status parse_extra(sf_attention *out, char *text, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    char *number = cut(text, ':');
    const sf_selector *extra = sf_extra_named(text);
    if (extra == NULL) return unknown_part("extra", '+', text, extra_name, whole);
    if (!extra->takes_k && number != NULL)
        return sf_fail(SF_BAD_INPUT, "attention '%s': +%s takes no number; write +%s", sf_text_quote(quoted, whole),
                       text, text);
    if (extra->takes_k && number == NULL)
        return sf_fail(SF_BAD_INPUT, "attention '%s': +%s needs a number, e.g. +%s:1", sf_text_quote(quoted, whole),
                       text, text);
    if (extra == &sf_extra_st) {
        if (out->straight_through) return named_twice(text, whole);
        out->straight_through = true;
        return SF_OK;
    }
    if (extra == &sf_extra_global) {
        if (out->globals > 0) return named_twice(text, whole);
        return parse_count(&out->globals, "the number of global tokens", number, whole, LARGEST_GLOBALS);
    }
    size_t k = 0;
    SF_TRY(parse_count(&k, extra == &sf_extra_window ? "the width of the window" : "the number of added keys", number,
                       whole, LARGEST_K));
    return add_extra(out, extra, k, whole);
}

/* entmax has names of its own for two exponents. */
static void name_entmax(sf_attention *out) {
    if (out->weighting != &sf_weighting_entmax) return;
    const double alpha = out->weighting_arguments[0];
    if (alpha == 2 || alpha == 1.5) {
        out->weighting = alpha == 2 ? &sf_weighting_sparsemax : &sf_weighting_entmax15;
        out->weighting_arguments[0] = 0;
    }
}

static sf_status parse_weighting(sf_attention *out, char *text, const char *whole) {
    char *numbers = cut(text, ':');
    out->weighting = sf_weighting_named(text);
    if (out->weighting == NULL) return unknown_part("weighting", '/', text, weighting_name, whole);
    SF_TRY(parse_arguments(out->weighting_arguments, out->weighting->arguments, text, numbers, whole));
    name_entmax(out);
    return SF_OK;
}

/* Those of queries and keys come first, in the order of the registry; those of scores in the order written. */
static size_t rank_of(const sf_score_transform *transform) {
    size_t i = 0;
    while (sf_score_transform_at(i) != transform) i++;
    return transform->turn != NULL ? i : SIZE_MAX;
}

static sf_status parse_transform(sf_attention *out, char *text, const char *whole) {
    char *numbers = cut(text, ':');
    sf_attention_transform added = {.part = sf_score_transform_named(text)};
    if (added.part == NULL) return unknown_part("score transform", '@', text, transform_name, whole);
    SF_TRY(parse_arguments(added.arguments, added.part->arguments, text, numbers, whole));
    size_t count = 0;
    for (; count < SF_MOST_TRANSFORMS && out->transforms[count].part != NULL; count++)
        if (out->transforms[count].part == added.part) return named_twice(text, whole);
    size_t place = count;
    for (; place > 0 && rank_of(added.part) < rank_of(out->transforms[place - 1].part); place--)
        out->transforms[place] = out->transforms[place - 1];
    out->transforms[place] = added;
    return SF_OK;
}

static sf_status check_straight_through(const sf_attention *attention, const char *whole) {
    char quoted[SF_QUOTE_SIZE];
    if (!attention->straight_through || attention->weighting == &sf_weighting_softmax) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "attention '%s': +st is defined for the weighting softmax alone; leave /%s or +st out",
                   sf_text_quote(quoted, whole), attention->weighting->name);
}

static size_t spell(char out[SF_SPELLING_SIZE], const sf_attention *attention, int digits);

static sf_status parse_parts(sf_attention *out, char *text, const char *whole) {
    char softmax[] = "softmax";
    char *transforms = cut(text, '@'), *weighting = cut(text, '/'), *extras = cut(text, '+');
    SF_TRY(parse_selector(out, text, whole));
    for (char *next; extras != NULL; extras = next) {
        next = cut(extras, '+');
        SF_TRY(parse_extra(out, extras, whole));
    }
    SF_TRY(parse_weighting(out, weighting != NULL ? weighting : softmax, whole));
    for (char *next; transforms != NULL; transforms = next) {
        next = cut(transforms, '@');
        SF_TRY(parse_transform(out, transforms, whole));
    }
    return check_straight_through(out, whole);
}

sf_status sf_attention_parse(sf_attention *out, const char *text) {
    char quoted[SF_QUOTE_SIZE], copy[SF_SPELLING_SIZE], canonical[SF_SPELLING_SIZE];
    if (strlen(text) >= sizeof copy) return unknown_selector(text);
    strcpy(copy, text);
    *out = (sf_attention){0};
    SF_TRY(parse_parts(out, copy, text));
    if (spell(canonical, out, USUAL_DIGITS) < SF_SPELLING_SIZE) return SF_OK;
    return sf_fail(SF_BAD_INPUT,
                   "attention '%s' is longer than %d characters with all digits of its numbers; round them",
                   sf_text_quote(quoted, text), SF_SPELLING_SIZE - 1);
}

/* A short text that reads back as the same number; 1e30 instead of 1e+30, because '+' starts the globals. */
static void number_text(char out[32], double value, int digits) {
    double back = NAN;
    for (; digits <= 17 && back != value; digits++) {
        snprintf(out, 32, "%.*g", digits, value);
        if (!sf_text_real(&back, out)) back = NAN;
    }
    char *plus = strchr(out, '+');
    if (plus != NULL) memmove(plus, plus + 1, strlen(plus));
}

typedef struct writer {
    char *at;
    size_t used; /* including what did not fit */
    int digits;  /* of numbers, at least */
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
        number_text(number, values[i], w->digits);
        write_text(w, ":", number);
    }
}

/* global, st and the others, sorted by name. */
static void write_extras(writer *w, const sf_attention *attention) {
    const sf_selector *extra;
    for (size_t i = 0; (extra = sf_extra_at(i)) != NULL; i++) {
        size_t k = extra == &sf_extra_global ? attention->globals : 0;
        for (size_t e = 0; e < SF_MOST_EXTRAS; e++)
            if (attention->extras[e].part == extra) k = attention->extras[e].k;
        char number[32];
        snprintf(number, sizeof number, "%zu", k);
        if (k > 0 || (extra == &sf_extra_st && attention->straight_through)) write_text(w, "+", extra->name);
        if (k > 0) write_text(w, ":", number);
    }
}

/* Returns the length, including what does not fit. */
static size_t spell(char out[SF_SPELLING_SIZE], const sf_attention *attention, int digits) {
    writer w = {.at = out, .digits = digits};
    char number[32];
    write_text(&w, "", attention->selector->name);
    snprintf(number, sizeof number, "%zu", attention->k);
    if (attention->selector->takes_k) write_text(&w, ":", number);
    write_arguments(&w, attention->arguments, attention->selector->arguments);
    write_extras(&w, attention);
    if (attention->weighting != &sf_weighting_softmax) {
        write_text(&w, "/", attention->weighting->name);
        write_arguments(&w, attention->weighting_arguments, attention->weighting->arguments);
    }
    for (size_t t = 0; t < SF_MOST_TRANSFORMS && attention->transforms[t].part != NULL; t++) {
        write_text(&w, "@", attention->transforms[t].part->name);
        write_arguments(&w, attention->transforms[t].arguments, attention->transforms[t].part->arguments);
    }
    return w.used;
}

void sf_attention_spell(char out[SF_SPELLING_SIZE], const sf_attention *attention) {
    spell(out, attention, USUAL_DIGITS);
}

void sf_attention_spell_in_ids(char out[SF_SPELLING_SIZE], const sf_attention *attention) {
    spell(out, attention, ID_DIGITS);
}
