/* What we use of SentencePiece, in C. Where the build does not have it, every call that would need it is
 * SF_UNSUPPORTED with a sentence. */
#ifndef SF_IO_SENTENCEPIECE_H
#define SF_IO_SENTENCEPIECE_H

#include "io/sequence.h"

typedef struct sf_pieces sf_pieces;

/* Trains a model of this type (unigram, bpe) with exactly `vocab` pieces on the lines of a text: the same text gives
 * the same model. Appends the file of the model. */
sf_status sf_pieces_train(sf_bytes *file, const char *type, size_t vocab, const char *text, size_t size);

sf_status sf_pieces_open(sf_pieces **out, const char *file, size_t size);
void sf_pieces_close(sf_pieces *pieces); /* NULL is legal */
size_t sf_pieces_count(const sf_pieces *pieces);
int32_t sf_pieces_end(const sf_pieces *pieces); /* id of the end of a sentence; -1: it has none */
sf_status sf_pieces_encode(sf_ids *ids, const sf_pieces *pieces, const char *text, size_t size);
sf_status sf_pieces_decode(sf_bytes *text, const sf_pieces *pieces, const int32_t *ids, size_t count);

#endif
