/* Tables, one row at a time and in bounded memory: TSV (fields between tabs), CSV (RFC 4180: fields may be quoted, and
 * then contain commas, doubled quotes and line ends) and JSON Lines (one object per line).
 *
 *   sf_table *table;
 *   SF_TRY(sf_table_open(&table, path, SF_TABLE_CSV));
 *   while ((status = sf_table_next(table, &more)) == SF_OK && more) ... sf_table_field(table, i) ...
 *   sf_table_close(table);
 *
 * Every row has as many fields as the first; empty lines are passed over. The fields of a JSON object come in the order
 * of the first object's names. Errors name file and line. */
#ifndef SF_IO_TABLE_H
#define SF_IO_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef enum sf_table_format { SF_TABLE_TSV, SF_TABLE_CSV, SF_TABLE_JSONL } sf_table_format;
typedef struct sf_table sf_table;

typedef struct sf_field {
    const char *text; /* valid until the next row; the elements of a JSON list with blanks between them */
    size_t length;
    bool is_list, is_missing; /* the latter: a JSON object lacks it */
} sf_field;

sf_status sf_table_open(sf_table **out, const char *path, sf_table_format format);
void sf_table_close(sf_table *table); /* NULL is legal */
sf_status sf_table_next(sf_table *table, bool *more);

size_t sf_table_line(const sf_table *table);   /* on which the row begins */
size_t sf_table_fields(const sf_table *table); /* per row */
sf_field sf_table_field(const sf_table *table, size_t i);
/* The name of a column that the format itself has: NULL for TSV and CSV, whose first row may be a header. */
const char *sf_table_name(const sf_table *table, size_t i);

#endif
