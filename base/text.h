/* Reading numbers strictly, and guessing what a mistyped name meant. */
#ifndef SF_BASE_TEXT_H
#define SF_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The whole text must be one number (no blanks, no trailing letters); false otherwise or when out of range. */
bool sf_text_integer(int64_t *out, const char *text);
bool sf_text_real(double *out, const char *text); /* finite only */

/* The candidate with the fewest edits to `name`, or NULL if none is near enough to be a typing mistake.
 * candidate(context, i) returns the i-th name, "" to skip it, NULL at the end. */
const char *sf_text_nearest(const char *name, const char *(*candidate)(const void *context, size_t i),
                            const void *context);

/* Whether a file name has this ending (".md"), in upper or lower case. */
bool sf_text_ends_with(const char *text, const char *ending);

/* Makes untrusted text fit for a one-line message: at most a few dozen characters, control characters as '?'. */
/* Whether the text is one line without control characters. */
bool sf_text_is_line(const char *text);

enum { SF_QUOTE_SIZE = 64 };
const char *sf_text_quote(char out[SF_QUOTE_SIZE], const char *text);

/* Prints `text` as a JSON string with its quotes. JSON that must be complete is printed with this into an
 * open_memstream(), which reports every lack of memory; jansson can lose a part of its output without an error. */
void sf_text_json(FILE *out, const char *text);

#endif
