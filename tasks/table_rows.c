#include "tasks/table_rows.h"

#include <stdio.h>
#include <strings.h>

#include "base/stop.h"
#include "base/text.h"

#define FAIL(rows, line, ...) sf_fail_in(sf_fail(SF_BAD_INPUT, __VA_ARGS__), "%s:%zu", (rows)->path, (line))

static const char *const token_names[] = {"tokens", "text",   "sentence", "source",   "input", "sequence",
                                          "words",  "review", "content",  "question", NULL};
static const char *const label_names[] = {"label", "labels", "class",  "target",    "category",
                                          "tag",   "tags",   "output", "sentiment", NULL};

static const char *const how_to_separate[] = {[SF_TABLE_TSV] = "put a tab between them",
                                              [SF_TABLE_CSV] = "put a comma between them",
                                              [SF_TABLE_JSONL] = "give it both"};

typedef struct places { /* of the two columns */
    size_t tokens, label;
    bool has_header;
} places;

static const char *column_name(const sf_table *table, size_t i) {
    const char *name = sf_table_name(table, i);
    return name != NULL ? name : sf_table_field(table, i).text;
}

static bool find_name(size_t *out, const sf_table *table, const char *name) {
    for (size_t i = 0; i < sf_table_fields(table); i++) {
        if (strcasecmp(column_name(table, i), name) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

static bool find_one_of(size_t *out, const sf_table *table, const char *const *names) {
    for (; *names != NULL; names++)
        if (find_name(out, table, *names)) return true;
    return false;
}

enum { COLUMNS_SIZE = 256 };

static const char *list_columns(char out[COLUMNS_SIZE], const sf_table *table) {
    char quoted[SF_QUOTE_SIZE];
    size_t used = 0;
    *out = '\0';
    for (size_t i = 0; i < sf_table_fields(table) && used < COLUMNS_SIZE - SF_QUOTE_SIZE; i++)
        used += (size_t)snprintf(out + used, COLUMNS_SIZE - used, "%s%s", i > 0 ? ", " : "",
                                 sf_text_quote(quoted, column_name(table, i)));
    return out;
}

static sf_status no_such_column(const sf_table_rows *rows, const sf_table *table, const char *name,
                                const char *setting) {
    char quoted[SF_QUOTE_SIZE], all[COLUMNS_SIZE];
    return sf_fail_about(FAIL(rows, sf_table_line(table), "has no column '%s'; its columns are: %s",
                              sf_text_quote(quoted, name), list_columns(all, table)),
                         setting);
}

/* As asked for; *named: by its name, so there must be a header. */
static sf_status find_asked(size_t *out, bool *named, const sf_table_rows *rows, const sf_table *table,
                            const char *asked, const char *setting) {
    int64_t number;
    if (find_name(out, table, asked)) {
        *named = true;
        return SF_OK;
    }
    if (!sf_text_integer(&number, asked) || number < 1 || (size_t)number > sf_table_fields(table))
        return no_such_column(rows, table, asked, setting);
    *out = (size_t)number - 1;
    return SF_OK;
}

/* With a header and more than two columns, a column that nobody named is not guessed. */
static sf_status refuse_to_guess(const sf_table_rows *rows, const sf_table *table, const char *setting) {
    char all[COLUMNS_SIZE];
    return sf_fail_about(FAIL(rows, sf_table_line(table),
                              "which column has the %s? Its columns are: %s; name one with --%s",
                              strcmp(setting, "label") == 0 ? "labels" : "tokens", list_columns(all, table), setting),
                         setting);
}

/* In the first row, which is a header if it has a name that was asked for or that people use. */
static sf_status find_columns(places *out, const sf_table_rows *rows, const sf_table *table,
                              const sf_table_columns *columns) {
    const size_t count = sf_table_fields(table);
    bool named = sf_table_name(table, 0) != NULL;
    *out = (places){.tokens = 0, .label = count - 1};
    const bool tokens_known = find_one_of(&out->tokens, table, token_names);
    const bool label_known = find_one_of(&out->label, table, label_names);
    named |= tokens_known || label_known;
    if (*columns->tokens != '\0') SF_TRY(find_asked(&out->tokens, &named, rows, table, columns->tokens, "tokens"));
    if (*columns->label != '\0') SF_TRY(find_asked(&out->label, &named, rows, table, columns->label, "label"));
    out->has_header = named && sf_table_name(table, 0) == NULL;
    if (count < 2)
        return FAIL(rows, sf_table_line(table), "has one column, but a row needs tokens and a label; %s",
                    how_to_separate[rows->format]);
    const bool guesses = named && count > 2;
    if (guesses && !tokens_known && *columns->tokens == '\0') return refuse_to_guess(rows, table, "tokens");
    if (guesses && !label_known && *columns->label == '\0') return refuse_to_guess(rows, table, "label");
    if (out->tokens == out->label && *columns->tokens == '\0') out->tokens = out->label == 0 ? 1 : 0;
    if (out->tokens == out->label && *columns->label == '\0') out->label = out->tokens == count - 1 ? 0 : count - 1;
    if (out->tokens != out->label) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "label", "%s: tokens and label are the same column; name two different ones",
                      rows->path);
}

static sf_status keep(size_t *start, sf_table_rows *rows, const sf_field *field) {
    *start = rows->text.count;
    return sf_bytes_add(&rows->text, field->text, field->length + 1);
}

static sf_status add_row(sf_table_rows *rows, const sf_table *table, const places *at) {
    const sf_field tokens = sf_table_field(table, at->tokens), label = sf_table_field(table, at->label);
    char quoted[SF_QUOTE_SIZE];
    if (tokens.is_missing || label.is_missing)
        return FAIL(rows, sf_table_line(table), "lacks '%s', which the first row has; give it to every row",
                    sf_text_quote(quoted, column_name(table, tokens.is_missing ? at->tokens : at->label)));
    if (tokens.text[strspn(tokens.text, " \t\r\n")] == '\0')
        return FAIL(rows, sf_table_line(table), "has no tokens; give at least one, or leave out the row");
    if (label.text[strspn(label.text, " \t\r\n")] == '\0')
        return FAIL(rows, sf_table_line(table), "has no label; give it one, or leave out the row");
    if (rows->count > 0 && rows->lists != tokens.is_list)
        return FAIL(rows, sf_table_line(table), "has tokens as a %s, unlike the rows before it; write all alike",
                    tokens.is_list ? "list" : "text");
    rows->lists = tokens.is_list;
    if (rows->count == rows->room) {
        SF_TRY(SF_GROW(&rows->at, rows->count, 2 * rows->room + 64));
        rows->room = 2 * rows->room + 64;
    }
    sf_table_row row = {.line = sf_table_line(table), .token_bytes = tokens.length};
    SF_TRY(keep(&row.tokens, rows, &tokens));
    SF_TRY(keep(&row.label, rows, &label));
    rows->at[rows->count++] = row;
    return SF_OK;
}

static sf_status read_all(sf_table_rows *rows, sf_table *table, const sf_table_columns *columns,
                          const atomic_int *stop) {
    places at;
    bool more;
    SF_TRY(sf_table_next(table, &more));
    if (!more) return FAIL(rows, (size_t)1, "is empty; give it one row per sequence");
    SF_TRY(find_columns(&at, rows, table, columns));
    rows->named = at.has_header || sf_table_name(table, 0) != NULL;
    if (at.has_header) SF_TRY(sf_table_next(table, &more));
    for (; more;) {
        if (sf_stop_asked(stop)) return sf_fail(SF_INTERRUPTED, "stopped on request");
        SF_TRY(add_row(rows, table, &at));
        SF_TRY(sf_table_next(table, &more));
    }
    if (rows->count > 0) return SF_OK;
    return FAIL(rows, sf_table_line(table), "no row follows the header; add at least one");
}

sf_status sf_table_rows_read(sf_table_rows *out, const char *path, sf_table_format format,
                             const sf_table_columns *columns, const atomic_int *stop) {
    sf_table *table;
    *out = (sf_table_rows){.path = path, .format = format};
    SF_TRY(sf_table_open(&table, path, format));
    const sf_status status = read_all(out, table, columns, stop);
    sf_table_close(table);
    if (status != SF_OK) sf_table_rows_release(out);
    return status;
}

void sf_table_rows_release(sf_table_rows *rows) {
    sf_bytes_release(&rows->text);
    sf_release(rows->at);
    *rows = (sf_table_rows){0};
}
