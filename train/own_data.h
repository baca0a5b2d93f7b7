/* Data of the user: a text, or a table of labelled sequences.
 *
 *   text:TRAIN[,HELDOUT]     windows of every line, labelled with the following token; or, with --readout each
 *                            --causal, the text cut into pieces, each token labelled with the next one
 *   tsv:  csv:  jsonl:       TRAIN[,HELDOUT] likewise: rows with tokens and a label (tasks/table_data.h)
 *
 * Without HELDOUT, a part is held out: the last tenth of the lines of a text, a random fifth of the rows of a table. */
#ifndef SF_TRAIN_OWN_DATA_H
#define SF_TRAIN_OWN_DATA_H

#include "io/tokenizer.h"
#include "io/words.h"
#include "train/data.h"

typedef struct sf_own_facts {
    struct sf_corpus *corpus;      /* of a text; NULL: a table */
    struct sf_table_data *table;   /* NULL: a text, or a TSV file of ids */
    const sf_tokenizer *tokenizer; /* NULL: the tokens are ids */
    sf_tokenizer *kept;            /* the same, if it was found without the data; NULL: of the corpus or table */
    const sf_words *labels;        /* names; NULL: the labels are numbers, or tokens */
    double bytes_per_token;        /* of the held-out text; 0: not a text, or text that is not kept */
    size_t context;                /* of a text; 0: a table */
    uint64_t hash;                 /* of a text and its tokenizer; of the names of a table */
} sf_own_facts;

sf_status sf_own_data_recipe(sf_config *config, const char *task);
sf_status sf_own_data_check(const char *task, const sf_config *config);
/* Sets everything but `longest`. */
sf_status sf_own_data_open(sf_run_data *out, const char *task, const sf_config *config, const atomic_int *stop);
/* A text of which only the tokenizer is there, which becomes the data's: enough for a model to write. It has no
 * sequences. */
sf_status sf_own_data_without_text(sf_run_data *out, sf_tokenizer *tokenizer, size_t context);
void sf_own_data_close(sf_run_data *data);

bool sf_run_data_is_text(const char *task);

#endif
