#include "store/condition_text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "semfocus/settings.h"
#include "semfocus/suggest.h"

static bool begins_word(char c) {
    return isalpha((unsigned char)c) != 0 || c == '_' || (c & 0x80) != 0;
}

static size_t word_length(const char *text) {
    size_t length = 0;
    while (begins_word(text[length]) || isdigit((unsigned char)text[length]) != 0 || text[length] == '$') length++;
    return length;
}

static size_t length_until(const char *text, const char *end) {
    const char *at = strstr(text, end);
    return at != NULL ? (size_t)(at - text) + strlen(end) : strlen(text);
}

/* A doubled quote within quotes ends one text and begins the next, which comes to the same. */
static size_t quoted_length(const char *text, char end) {
    return 1 + length_until(text + 1, (char[]){end, '\0'});
}

/* What is copied as it is: a comment, or something in quotes; 0: neither. */
static size_t literal_length(const char *text) {
    if (strncmp(text, "--", 2) == 0) return length_until(text, "\n");
    if (strncmp(text, "/*", 2) == 0) return 2 + length_until(text + 2, "*/");
    if (strchr("'\"`", *text) != NULL) return quoted_length(text, *text);
    return *text == '[' ? quoted_length(text, ']') : 0;
}

static bool is_word(const char *text, size_t length, const char *word) {
    return length == strlen(word) && strncasecmp(text, word, length) == 0;
}

/* The next word or sign after blanks and comments. */
static const char *next_token(const char *text) {
    for (;;) {
        while (isspace((unsigned char)*text) != 0) text++;
        if (strncmp(text, "--", 2) != 0 && strncmp(text, "/*", 2) != 0) return text;
        text += literal_length(text);
    }
}

/* GROUP BY of a query within the condition stays as it is. */
static bool is_setting(const char *text, size_t length) {
    const char *next = next_token(text + length);
    return is_word(text, length, "group") && !is_word(next, word_length(next), "by");
}

sf_status sf_condition_text(char **out, const char *where) {
    SF_TRY(SF_NEW(out, 3 * strlen(where) + 1)); /* every letter in quotes would fit */
    char *end = *out;
    while (*where != '\0') {
        size_t length = literal_length(where);
        const bool is_name = length == 0 && begins_word(*where);
        if (is_name) length = word_length(where);
        if (length == 0) length = isdigit((unsigned char)*where) != 0 ? word_length(where) : 1;
        const bool quotes = is_name && is_setting(where, length);
        if (quotes) *end++ = '"';
        memcpy(end, where, length);
        end += length;
        if (quotes) *end++ = '"';
        where += length;
    }
    *end = '\0';
    return SF_OK;
}

static const char *const columns[] = {"id",
                                      "task",
                                      "status",
                                      "converged-epoch",
                                      "train-accuracy",
                                      "heldout-accuracy",
                                      "best-epoch",
                                      "best-accuracy",
                                      "best-heldout-accuracy",
                                      "diverged-epoch",
                                      "message",
                                      "isa",
                                      "name",
                                      "tags",
                                      "note",
                                      "archived",
                                      "settings",
                                      "environment",
                                      "earlier-id"};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* As settings are written, so that what people know them by is found. */
static const char *column_at(const void *context, size_t i) {
    (void)context;
    if (i < COLUMNS) return columns[i];
    const sf_setting *setting = sf_setting_at(i - COLUMNS);
    if (setting == NULL) return NULL;
    return setting->home == SF_IN_CONFIG && strcmp(setting->name, "stop-at") != 0 ? setting->name : "";
}

static void replace(char *text, char from, char to) {
    for (; *text != '\0'; text++)
        if (*text == from) *text = to;
}

const char *sf_condition_column(char out[SF_COLUMN_SIZE], const char *word) {
    if (strlen(word) >= SF_COLUMN_SIZE) return NULL;
    strcpy(out, word);
    replace(out, '_', '-');
    const char *column = sf_suggest(SF_NAMES_SETTINGS, out, column_at, NULL);
    if (column == NULL) return NULL;
    strcpy(out, column);
    replace(out, '-', '_');
    return out;
}
