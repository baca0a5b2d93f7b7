/* Labelled sequences from tables: training and held-out rows, the tokenizer of their tokens and the names of their
 * labels.
 *
 * Tokens are ids (0..65535, blanks between them) if those of the first row are and no tokenizer is asked for; otherwise
 * they are text. Labels are numbers (0..65535) if that of the first row is; otherwise they are names, numbered in the
 * order of their bytes. The tokenizer comes from the training rows alone, and so do the names if held-out rows have a
 * file of their own, where others are refused.
 *
 * With one label per token, a label field has as many words as there are tokens, "-" for none, and the words of a text
 * are what stands between blanks; likewise in a JSON list. */
#ifndef SF_TASKS_TABLE_DATA_H
#define SF_TASKS_TABLE_DATA_H

#include <stdatomic.h>

#include "io/table.h"
#include "io/tokenizer.h"
#include "io/words.h"
#include "semfocus/task.h"
#include "tasks/table_rows.h"

typedef struct sf_table_request {
    sf_table_format format;
    const char *training, *heldout; /* files; heldout NULL: a share of the rows is held out by seed */
    sf_table_columns columns;
    const char *tokenizer; /* a name or a file; empty: ids or word */
    size_t vocab;          /* of the tokenizer; 0: as suits the text */
    bool each;             /* one label per token */
    bool ids;              /* tokens and labels are numbers, whatever the first row has */
    uint32_t seed;
    double share;
} sf_table_request;

typedef struct sf_table_data {
    sf_dataset *training, *heldout;
    sf_tokenizer *tokenizer; /* NULL: the tokens are ids */
    sf_words labels;         /* count 0: the labels are numbers */
    bool odd_first_row;      /* it may be a header: its label is a name that no other row has, unlike others */
} sf_table_data;

sf_status sf_table_data_open(sf_table_data **out, const sf_table_request *request, const atomic_int *stop);
void sf_table_data_close(sf_table_data *data); /* NULL is legal */

#endif
