/* The rows of a table as text: what the columns of tokens and labels hold. */
#ifndef SF_TASKS_TABLE_ROWS_H
#define SF_TASKS_TABLE_ROWS_H

#include <stdatomic.h>

#include "io/sequence.h"
#include "io/table.h"

typedef struct sf_table_row {
    size_t tokens, token_bytes, label; /* where they start in the text, each with a zero byte after it */
    size_t line;
} sf_table_row;

typedef struct sf_table_rows {
    const char *path;
    sf_table_format format;
    sf_bytes text;
    sf_table_row *at; /* [count] */
    size_t count, room;
    bool lists; /* the tokens are a JSON list */
    bool named; /* the columns have names */
} sf_table_rows;

typedef struct sf_table_columns { /* names, or numbers from 1; empty: guessed from the header */
    const char *tokens, *label;
} sf_table_columns;

sf_status sf_table_rows_read(sf_table_rows *out, const char *path, sf_table_format format,
                             const sf_table_columns *columns, const atomic_int *stop);
void sf_table_rows_release(sf_table_rows *rows);

static inline const char *sf_table_tokens(const sf_table_rows *rows, size_t i) {
    return rows->text.at + rows->at[i].tokens;
}

static inline const char *sf_table_label(const sf_table_rows *rows, size_t i) {
    return rows->text.at + rows->at[i].label;
}

#endif
