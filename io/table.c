#include "io/table.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "base/text.h"
#include "io/regular.h"
#include "io/sequence.h"
#include "io/words.h"

enum { LONGEST_ROW = 16 << 20, MOST_FIELDS = 1024, BLOCK = 1 << 16 };

typedef struct stretch {
    size_t start, length;
    bool is_list, is_missing;
} stretch;

struct sf_table {
    const char *path;
    sf_table_format format;
    FILE *stream;
    char block[BLOCK];
    size_t at, filled;
    size_t line, next_line; /* of the row, and of what is read next */
    sf_bytes row;           /* one zero byte after every field */
    stretch fields[MOST_FIELDS];
    size_t count, expected; /* fields of this row, and of every row; 0: not known yet */
    sf_words names;         /* of the columns of JSON Lines */
};

#define FAIL(table, number, ...) sf_fail_in(sf_fail(SF_BAD_INPUT, __VA_ARGS__), "%s:%zu", (table)->path, (number))

/* The next byte; -1 at the end. */
static sf_status read_byte(int *out, sf_table *table) {
    if (table->at == table->filled) {
        table->filled = fread(table->block, 1, sizeof table->block, table->stream);
        table->at = 0;
        if (ferror(table->stream) != 0)
            return sf_fail(SF_BAD_INPUT, "%s: cannot be read: %s", table->path, strerror(errno));
    }
    *out = table->filled == 0 ? -1 : (unsigned char)table->block[table->at++];
    if (*out == '\0') return FAIL(table, table->next_line, "contains a NUL byte, so it is not text; give a text file");
    table->next_line += *out == '\n';
    return SF_OK;
}

static int peek_byte(sf_table *table) {
    int byte = -1;
    if (table->at < table->filled) return (unsigned char)table->block[table->at];
    if (read_byte(&byte, table) != SF_OK || byte < 0) return -1;
    table->at--;
    table->next_line -= byte == '\n';
    return byte;
}

static sf_status add_byte(sf_table *table, int byte) {
    if (table->row.count >= LONGEST_ROW)
        return FAIL(table, table->line, "is a row of more than %d bytes; break it up", LONGEST_ROW);
    return sf_bytes_add(&table->row, (const char[]){(char)byte}, 1);
}

static sf_status open_field(sf_table *table) {
    if (table->count == MOST_FIELDS)
        return FAIL(table, table->line, "has more than %d fields; leave out columns", MOST_FIELDS);
    table->fields[table->count++] = (stretch){.start = table->row.count};
    return SF_OK;
}

static sf_status close_field(sf_table *table) {
    stretch *field = &table->fields[table->count - 1];
    field->length = table->row.count - field->start;
    return add_byte(table, '\0');
}

/* The carriage return of CRLF is not part of the line. */
static bool ends_line(sf_table *table, int byte) {
    return byte < 0 || byte == '\n' || (byte == '\r' && peek_byte(table) == '\n');
}

/* What follows the opening quote, up to the closing one. */
static sf_status read_quoted(sf_table *table) {
    const size_t opened = table->next_line;
    for (int byte = 0;;) {
        SF_TRY(read_byte(&byte, table));
        if (byte < 0)
            return FAIL(table, opened, "opens a quote that is never closed; close it, or double quotes that are text");
        if (byte == '"') {
            if (peek_byte(table) != '"') return SF_OK;
            SF_TRY(read_byte(&byte, table));
        }
        SF_TRY(add_byte(table, byte));
    }
}

/* One field; *byte is its first one, and then the one after it: a separator or the end of the line. */
static sf_status read_field(int *byte, sf_table *table, int separator) {
    SF_TRY(open_field(table));
    if (*byte == '"' && table->format == SF_TABLE_CSV) {
        SF_TRY(read_quoted(table));
        SF_TRY(read_byte(byte, table));
        if (*byte != separator && !ends_line(table, *byte))
            return FAIL(table, table->next_line, "has text after a closing quote; double quotes that are text");
    }
    while (*byte != separator && !ends_line(table, *byte)) {
        SF_TRY(add_byte(table, *byte));
        SF_TRY(read_byte(byte, table));
    }
    return close_field(table);
}

static sf_status read_separated(sf_table *table, int byte) {
    const int separator = table->format == SF_TABLE_CSV ? ',' : '\t';
    for (;;) {
        SF_TRY(read_field(&byte, table, separator));
        if (byte != separator) break;
        SF_TRY(read_byte(&byte, table));
    }
    if (byte == '\r') SF_TRY(read_byte(&byte, table));
    if (table->expected == 0) table->expected = table->count;
    if (table->count == table->expected) return SF_OK;
    return FAIL(table, table->line, "has %zu field%s but the first row has %zu; give every row the same fields",
                table->count, table->count == 1 ? "" : "s", table->expected);
}

static sf_status add_text(sf_table *table, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) SF_TRY(add_byte(table, (unsigned char)text[i]));
    return SF_OK;
}

static sf_status add_scalar(sf_table *table, const char *name, const json_t *value) {
    char number[64];
    if (json_is_string(value)) return add_text(table, json_string_value(value), json_string_length(value));
    if (json_is_boolean(value)) return json_is_true(value) ? add_text(table, "true", 4) : add_text(table, "false", 5);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
    else
        return FAIL(table, table->line, "has no text, number or list as '%s'; write one", name);
    return add_text(table, number, strlen(number));
}

static sf_status add_list(sf_table *table, const char *name, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const char *word = json_is_string(item) ? json_string_value(item) : "0";
        if (*word == '\0' || word[strcspn(word, " \t\r\n")] != '\0')
            return FAIL(table, table->line,
                        "has an empty word or one with a blank in the list '%s'; write one token per item", name);
        if (i > 0) SF_TRY(add_byte(table, ' '));
        SF_TRY(json_is_null(item) ? add_byte(table, '-') : add_scalar(table, name, item));
    }
    return SF_OK;
}

static sf_status add_member(sf_table *table, size_t i, const json_t *object) {
    const char *name = sf_words_text(&table->names, i);
    char quoted[SF_QUOTE_SIZE];
    const json_t *value = json_object_get(object, name);
    sf_text_quote(quoted, name);
    SF_TRY(open_field(table));
    table->fields[i].is_list = json_is_array(value);
    table->fields[i].is_missing = value == NULL;
    SF_TRY(json_is_array(value) ? add_list(table, quoted, value)
           : value == NULL || json_is_null(value) || json_is_object(value)
               ? SF_OK /* empty: a problem only where it is used */
               : add_scalar(table, quoted, value));
    return close_field(table);
}

static sf_status take_names(sf_table *table, const json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) SF_TRY(sf_words_add(NULL, &table->names, name, strlen(name)));
    table->expected = table->names.count;
    if (table->expected > 0 && table->expected <= MOST_FIELDS) return SF_OK;
    return FAIL(table, table->line, "is an object with %zu members; give it from 1 to %d", table->expected,
                MOST_FIELDS);
}

static sf_status read_object(sf_table *table, int byte) {
    json_error_t error;
    for (; !ends_line(table, byte);) {
        SF_TRY(add_byte(table, byte));
        SF_TRY(read_byte(&byte, table));
    }
    if (byte == '\r') SF_TRY(read_byte(&byte, table));
    json_t *object = json_loadb(table->row.at, table->row.count, 0, &error);
    table->row.count = 0;
    if (!json_is_object(object)) {
        json_decref(object);
        char quoted[SF_QUOTE_SIZE];
        return FAIL(table, table->line, "is not a JSON object%s%s; write one object per line",
                    object == NULL ? ": " : "", object == NULL ? sf_text_quote(quoted, error.text) : "");
    }
    sf_status status = table->expected == 0 ? take_names(table, object) : SF_OK;
    for (size_t i = 0; i < table->expected && status == SF_OK; i++) status = add_member(table, i, object);
    json_decref(object);
    return status;
}

/* The first byte of the next line that is not empty. */
static sf_status skip_empty_lines(int *byte, sf_table *table) {
    *byte = 0;
    do {
        table->line = table->next_line;
        SF_TRY(read_byte(byte, table));
        if (*byte == '\r' && peek_byte(table) == '\n') SF_TRY(read_byte(byte, table));
    } while (*byte == '\n');
    return SF_OK;
}

sf_status sf_table_next(sf_table *table, bool *more) {
    int byte;
    table->row.count = table->count = 0;
    SF_TRY(skip_empty_lines(&byte, table));
    *more = byte >= 0;
    if (!*more) return SF_OK;
    return table->format == SF_TABLE_JSONL ? read_object(table, byte) : read_separated(table, byte);
}

static sf_status start(sf_table *table) {
    SF_TRY(sf_check_regular(table->path, "data is read more than once"));
    table->stream = fopen(table->path, "rb");
    if (table->stream == NULL) return sf_fail(SF_BAD_INPUT, "%s: cannot be opened: %s", table->path, strerror(errno));
    table->filled = fread(table->block, 1, sizeof table->block, table->stream);
    if (table->filled >= 3 && memcmp(table->block, "\xEF\xBB\xBF", 3) == 0) table->at = 3; /* the byte order mark */
    return SF_OK;
}

sf_status sf_table_open(sf_table **out, const char *path, sf_table_format format) {
    sf_table *table;
    *out = NULL;
    SF_TRY(SF_NEW(&table, 1));
    table->path = path;
    table->format = format;
    table->next_line = 1;
    const sf_status status = start(table);
    if (status != SF_OK) {
        sf_table_close(table);
        return status;
    }
    *out = table;
    return SF_OK;
}

void sf_table_close(sf_table *table) {
    if (table == NULL) return;
    if (table->stream != NULL) fclose(table->stream);
    sf_bytes_release(&table->row);
    sf_words_release(&table->names);
    sf_release(table);
}

size_t sf_table_line(const sf_table *table) {
    return table->line;
}

size_t sf_table_fields(const sf_table *table) {
    return table->expected;
}

sf_field sf_table_field(const sf_table *table, size_t i) {
    const stretch *field = &table->fields[i];
    return (sf_field){.text = table->row.at + field->start,
                      .length = field->length,
                      .is_list = field->is_list,
                      .is_missing = field->is_missing};
}

const char *sf_table_name(const sf_table *table, size_t i) {
    return table->format == SF_TABLE_JSONL ? sf_words_text(&table->names, i) : NULL;
}
