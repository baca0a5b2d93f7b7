/* A mechanism in plain English: topk:5+sink:1/entmax15@rope is "each query keeps the keys with the 5 largest scores and
 * the first key, weighted by entmax15, between softmax and sparsemax; queries and keys are rotated by their positions
 * beforehand".
 *
 * Every part has a phrase in which {K} stands for the number with that letter in `list attention`, {M-1} for one less,
 * and {K|one|many} for the first text if it is 1 and otherwise the second, with # for the number. A part without a
 * phrase, such as one of a plug-in, is described by its summary. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "base/sizes.h"

typedef struct phrase {
    const char *name, *text;
} phrase;

static const phrase selectors[] = {
    {"full", "every key"},
    {"banded", "the {K|key at its own position|# positions nearest to its own}"},
    {"block", "the keys of its own block of {K|one position|# positions}"},
    {"topk", "the {K|key with the largest score|keys with the # largest scores}"},
    {"bottomk", "the {K|key with the smallest score|keys with the # smallest scores}"},
    {"random", "{K|one key|# keys} drawn at random at every step"},
    {"topp", "the keys with the largest scores until they hold {P} of the softmax weight"},
    {"within", "the keys whose scores are at most {D} below its largest"},
    {"blocktopk", "{M|its own block|the # blocks} of {B|one key|# keys}{M|| that match it best, its own among them}"},
    {"kmeans", "the keys of its own cluster, of {C|one cluster|# clusters} found in {R|one round|# rounds}"},
    {"lsh", "the keys in its own bucket, of {B} buckets, in {R|one round|any of # rounds} of hashing"},
};
static const phrase extras[] = {
    {"global", "{K|one global token that keeps|# global tokens that keep} all keys and {K|is|are} kept by all queries"},
    {"random", "{K|one key|# keys} drawn at random at every step"},
    {"sink", "the first {K|key|# keys}"},
    {"window", "the {K|key at its own position|# positions nearest to its own}"},
};
static const phrase weightings[] = {
    {"softmax", "softmax"},
    {"softmax1", "softmax1, a softmax that may leave weight to nothing"},
    {"sigmoid", "a sigmoid, each key by itself"},
    {"softplus", "softplus to the power {P}, divided by the sum"},
    {"sparsemax", "sparsemax, which gives low scores exactly 0"},
    {"entmax15", "entmax15, between softmax and sparsemax"},
    {"entmax", "entmax with alpha = {A}, between softmax (1) and sparsemax (2)"},
    {"fastmax", "fastmax, a polynomial in place of the exponential"},
    {"doubly", "an exponential normalized over queries and over keys, {R|once|# times}"},
};
static const phrase transforms[] = {
    {"rope", "queries and keys are rotated by their positions beforehand"},
    {"qknorm", "scores are {G} times the cosine of query and key"},
    {"alibi", "scores fall with the distance between query and key"},
    {"softcap", "scores are squeezed into (-{C}, {C})"},
    {"logn", "scores are multiplied by {A} times the logarithm of the number of visible keys"},
};

typedef struct sentence {
    char *out;
    size_t used;
} sentence;

__attribute__((format(printf, 2, 3))) static void add(sentence *s, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(s->out + s->used, SF_WORDS_SIZE - s->used, format, arguments);
    va_end(arguments);
    if (length > 0) s->used += sf_smaller((size_t)length, SF_WORDS_SIZE - 1 - s->used);
}

typedef struct numbers { /* of a part, by the letters of its spelling */
    const char *letters[SF_MOST_ARGUMENTS + 1];
    double values[SF_MOST_ARGUMENTS + 1];
    size_t count;
} numbers;

static numbers numbers_of(bool takes_k, size_t k, const sf_argument *arguments, const double *values) {
    numbers n = {0};
    if (takes_k) {
        n.letters[0] = "K";
        n.values[n.count++] = (double)k;
    }
    for (size_t i = 0; i < SF_MOST_ARGUMENTS && arguments[i].letter != NULL; i++) {
        n.letters[n.count] = arguments[i].letter;
        n.values[n.count++] = values[i];
    }
    return n;
}

/* The number that `text` names at its beginning; *length is that of its name, 0 if it names none. */
static double number_at(const char *text, const numbers *n, size_t *length) {
    for (size_t i = 0; i < n->count; i++) {
        *length = strlen(n->letters[i]);
        if (strncmp(text, n->letters[i], *length) == 0) return n->values[i];
    }
    *length = 0;
    return 0;
}

static void add_plural(sentence *s, const char *from, const char *to, double value) {
    for (; from < to; from++) {
        if (*from == '#')
            add(s, "%.6g", value);
        else
            add(s, "%c", *from);
    }
}

/* What is in braces; returns where it ends. */
static const char *add_number(sentence *s, const char *text, const numbers *n) {
    size_t length;
    const double value = number_at(text + 1, n, &length);
    const char *at = text + 1 + length, *end = strchr(text, '}');
    const char *many = *at == '|' ? strchr(at + 1, '|') : NULL;
    if (many == NULL)
        add(s, "%.6g", value);
    else if (value == 1)
        add_plural(s, at + 1, many, value);
    else
        add_plural(s, many + 1, end, value);
    return end + 1;
}

static void add_phrase(sentence *s, const char *text, const numbers *n) {
    while (*text != '\0') {
        if (*text == '{')
            text = add_number(s, text, n);
        else
            add(s, "%c", *text++);
    }
}

static const char *find_phrase(const phrase *phrases, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(phrases[i].name, name) == 0) return phrases[i].text;
    return NULL;
}

/* The summary of a part without a phrase, with its spelling for the numbers. */
static void add_summary(sentence *s, const char *name, const char *summary, const numbers *n) {
    add(s, "%s (%s", summary, name);
    for (size_t i = 0; i < n->count; i++) add(s, "%s%s = %.6g", i == 0 ? " with " : ", ", n->letters[i], n->values[i]);
    add(s, ")");
}

#define ADD_PART(s, phrases, part, n)                                                                                  \
    do {                                                                                                               \
        const char *text_ = find_phrase(phrases, sizeof(phrases) / sizeof *(phrases), (part)->name);                   \
        if (text_ != NULL)                                                                                             \
            add_phrase(s, text_, n);                                                                                   \
        else                                                                                                           \
            add_summary(s, (part)->name, (part)->summary, n);                                                          \
    } while (0)

static void add_extras(sentence *s, const sf_attention *attention) {
    size_t count = 0, said = 0;
    while (count < SF_MOST_EXTRAS && attention->extras[count].part != NULL) count++;
    const size_t all = count + (attention->globals > 0);
    if (attention->globals > 0) {
        const numbers n = {.letters = {"K"}, .values = {(double)attention->globals}, .count = 1};
        add(s, all == 1 ? " and " : ", ");
        add_phrase(s, find_phrase(extras, sizeof extras / sizeof *extras, "global"), &n);
        said++;
    }
    for (size_t i = 0; i < count; i++, said++) {
        const sf_selector *part = attention->extras[i].part;
        const numbers n = numbers_of(part->takes_k, attention->extras[i].k, part->arguments, (const double[]){0, 0});
        add(s, said + 1 == all ? " and " : ", ");
        ADD_PART(s, extras, part, &n);
    }
}

void sf_attention_say(char out[SF_WORDS_SIZE], const sf_attention *attention) {
    sentence s = {.out = out};
    const sf_selector *selector = attention->selector;
    const sf_weighting *weighting = attention->weighting;
    const numbers kept = numbers_of(selector->takes_k, attention->k, selector->arguments, attention->arguments);
    const numbers weighed = numbers_of(false, 0, weighting->arguments, attention->weighting_arguments);
    *out = '\0';
    add(&s, "each query keeps ");
    ADD_PART(&s, selectors, selector, &kept);
    add_extras(&s, attention);
    add(&s, ", weighted by ");
    ADD_PART(&s, weightings, weighting, &weighed);
    for (size_t i = 0; i < SF_MOST_TRANSFORMS && attention->transforms[i].part != NULL; i++) {
        const sf_score_transform *part = attention->transforms[i].part;
        const numbers n = numbers_of(false, 0, part->arguments, attention->transforms[i].arguments);
        add(&s, "; ");
        ADD_PART(&s, transforms, part, &n);
    }
    if (attention->straight_through) add(&s, "; gradients flow as if every key had been kept");
}
