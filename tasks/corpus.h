/* A text as token ids, for training and held out, that are read from a memory map.
 *
 * The training text is TRAIN, the held-out text HELDOUT; without the latter, the last tenth of the lines of TRAIN is
 * held out. The tokenizer learns from the training text alone. Between two lines stands the tokenizer's line end.
 *
 * Ids and tokenizers are made once per text and tokenizer. They are kept in the folders texts/ and tokenizers/ of the
 * run store, and in this process. Files are named by the hash of what they were made from and appear whole or not at
 * all. Everything may be called from any thread. */
#ifndef SF_TASKS_CORPUS_H
#define SF_TASKS_CORPUS_H

#include <stdatomic.h>

#include "io/tokenizer.h"
#include "semfocus/task.h"

typedef struct sf_corpus sf_corpus;

typedef struct sf_corpus_part {
    const int32_t *ids; /* [count], line ends included */
    size_t count, lines, line_ends, bytes;
} sf_corpus_part;

/* `names`: TRAIN[,HELDOUT]. `tokenizer`: a name or a file. vocab 0: as suits the text. SF_INTERRUPTED once *stop is not
 * 0; stop may be NULL. */
sf_status sf_corpus_open(sf_corpus **out, const char *names, const char *tokenizer, size_t vocab,
                         const atomic_int *stop);
void sf_corpus_close(sf_corpus *corpus); /* NULL is legal */

const sf_tokenizer *sf_corpus_tokenizer(const sf_corpus *corpus);
const sf_corpus_part *sf_corpus_part_of(const sf_corpus *corpus, sf_split split);
uint64_t sf_corpus_hash(const sf_corpus *corpus); /* of both texts and the tokenizer */
/* The mean number of tokens per training line, rounded down; at least 1. */
size_t sf_corpus_context(const sf_corpus *corpus);

/* Both make views of the corpus, which must outlive them. Every window of `context` tokens of a line that has a
 * following token, its label; or the text cut into pieces, the label of each token the next one. */
sf_status sf_corpus_windows(sf_dataset **out, const sf_corpus *corpus, sf_split split, size_t context);
sf_status sf_corpus_pieces(sf_dataset **out, const sf_corpus *corpus, sf_split split, size_t context);

/* A store was opened: from now on, what was made is found in its folder, and new files are kept there if it may be
 * written. */
void sf_corpus_keep_in(const char *store, bool write);
/* The store was closed. */
void sf_corpus_leave(const char *store);
/* Before a store is opened, what was made is looked for in its folder, which need not exist. */
void sf_corpus_look_in(const char *store);
/* Keeps a tokenizer of other data there, under its hash. */
sf_status sf_corpus_keep_tokenizer(const sf_tokenizer *tokenizer);
/* The one of this hash that is kept there, whatever it learned from; NULL: there is none. The caller destroys it. */
sf_tokenizer *sf_corpus_kept_tokenizer(uint64_t hash);
/* Copies those of a store that another one lacks. */
sf_status sf_corpus_copy_tokenizers(const char *to, const char *from);

#endif
