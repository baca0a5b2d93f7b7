#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/sizes.h"

static bool starts_like_a_number(const char *text) {
    const unsigned char first = (unsigned char)text[0];
    const unsigned char second = (unsigned char)(first == '-' ? text[1] : 0);
    return isdigit(first) || first == '.' || isdigit(second) || second == '.';
}

bool sf_text_integer(int64_t *out, const char *text) {
    if (!starts_like_a_number(text)) return false;
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') return false;
    *out = value;
    return true;
}

bool sf_text_real(double *out, const char *text) {
    if (!starts_like_a_number(text) || strpbrk(text, "xXpP") != NULL) return false;
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) return false;
    *out = value;
    return true;
}

enum { LONGEST_NAME = 48 };

static size_t edit_distance(const char *a, const char *b) {
    const size_t n = strlen(b);
    size_t row[LONGEST_NAME + 1];
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            const size_t substituted = diagonal + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j]));
            diagonal = row[j + 1];
            row[j + 1] = sf_smaller(substituted, sf_smaller(row[j], row[j + 1]) + 1);
        }
    }
    return row[n];
}

const char *sf_text_nearest(const char *name, const char *(*candidate)(const void *context, size_t i),
                            const void *context) {
    const char *best = NULL;
    size_t fewest = strlen(name) / 3 + 2;
    for (size_t i = 0;; i++) {
        const char *other = candidate(context, i);
        if (other == NULL) return best;
        if (*other == '\0' || strlen(other) > LONGEST_NAME || strlen(name) > LONGEST_NAME) continue;
        const size_t distance = edit_distance(name, other);
        if (distance < fewest) {
            fewest = distance;
            best = other;
        }
    }
}

bool sf_text_ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), width = strlen(ending);
    return length >= width && strcasecmp(text + length - width, ending) == 0;
}

const char *sf_text_quote(char out[SF_QUOTE_SIZE], const char *text) {
    size_t i = 0;
    for (; i < SF_QUOTE_SIZE - 4 && text[i] != '\0'; i++)
        out[i] = (char)(iscntrl((unsigned char)text[i]) ? '?' : text[i]);
    while (i > 0 && text[i] != '\0' && ((unsigned char)text[i] & 0xc0) == 0x80) i--; /* not within a character */
    strcpy(out + i, text[i] == '\0' ? "" : "...");
    return out;
}

bool sf_text_is_line(const char *text) {
    for (; *text != '\0'; text++)
        if (iscntrl((unsigned char)*text) != 0) return false;
    return true;
}

void sf_text_json(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') fputc('\\', out);
        if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}
