/* Tokenizers: text to ids and back.
 *
 *   byte      one id per byte, 0..255
 *   char      one id per character: bytes 0..127 as they are, and one id per longer UTF-8 sequence of the training
 * text; what is not UTF-8, or was not seen, becomes the ids of its bytes, so that any bytes come back word      words
 * and punctuation marks, the most frequent ones; the others are unknown. White space is lost unigram, bpe   pieces of
 * words, trained and applied by SentencePiece (where the build has it)
 *
 * A tokenizer has one more kind of token: the end of a line. That of byte and char is the newline itself.
 *
 *   sf_tokenizer *tokenizer;
 *   SF_TRY(sf_tokenizer_train(&tokenizer, "bpe", 4096, text, size));
 *   SF_TRY(sf_tokenizer_encode(&ids, tokenizer, line, length));
 *   sf_tokenizer_destroy(tokenizer); */
#ifndef SF_IO_TOKENIZER_H
#define SF_IO_TOKENIZER_H

#include <stdbool.h>

#include "io/sequence.h"

typedef struct sf_tokenizer sf_tokenizer;

typedef struct sf_tokenizer_kind {
    const char *name;
    /* The tokenizer as a file, learned from a text; vocab 0: as large as it gets. */
    sf_status (*train)(sf_bytes *file, size_t vocab, const char *text, size_t size);
    sf_status (*load)(sf_tokenizer *tokenizer); /* from its file: sets vocab, line_end and state */
    sf_status (*encode)(sf_ids *ids, const sf_tokenizer *tokenizer, const char *text, size_t size);
    sf_status (*decode)(sf_bytes *text, const sf_tokenizer *tokenizer, const int32_t *ids, size_t count);
    void (*unload)(sf_tokenizer *tokenizer); /* may be NULL */
} sf_tokenizer_kind;

struct sf_tokenizer {
    const sf_tokenizer_kind *kind;
    size_t vocab;
    int32_t line_end;
    uint64_t hash; /* of the file */
    sf_bytes file;
    void *state;
};

extern const sf_tokenizer_kind sf_tokenizer_byte, sf_tokenizer_char, sf_tokenizer_word, sf_tokenizer_unigram,
    sf_tokenizer_bpe;
/* In our own files, the first line is this, the name of the kind and a newline. */
#define SF_TOKENIZER_MARK "semfocus tokenizer "

enum { SF_LARGEST_VOCABULARY = 65536 };

/* The names of the kinds, in this order; NULL past the end. */
const char *sf_tokenizer_name(size_t i);
bool sf_tokenizer_is_name(const char *name);
/* Learns one from a text; vocab 0: as many ids as suit the text. */
sf_status sf_tokenizer_train(sf_tokenizer **out, const char *name, size_t vocab, const char *text, size_t size);
/* From a file of one: ours, or a SentencePiece model. */
sf_status sf_tokenizer_parse(sf_tokenizer **out, const char *bytes, size_t size);
sf_status sf_tokenizer_read(sf_tokenizer **out, const char *path);
void sf_tokenizer_destroy(sf_tokenizer *tokenizer); /* NULL is legal */

/* Both append. A line end in the text is a token of byte and char, and white space for the others; corpora add the
 * token of the line end themselves. */
sf_status sf_tokenizer_encode(sf_ids *ids, const sf_tokenizer *tokenizer, const char *text, size_t size);
sf_status sf_tokenizer_decode(sf_bytes *text, const sf_tokenizer *tokenizer, const int32_t *ids, size_t count);

/* For text that comes as words already, each of which is one token whatever its characters: a tokenizer word of the
 * most frequent ones of a list, and the id of one. */
struct sf_words;
sf_status sf_tokenizer_of_words(sf_tokenizer **out, const struct sf_words *words, size_t vocab);
int32_t sf_tokenizer_word_id(const sf_tokenizer *tokenizer, const char *word, size_t length);

/* Whether decoding gives back what was encoded, as far as the tokenizer is made for it: then bits per byte mean
 * something. */
bool sf_tokenizer_keeps_text(const sf_tokenizer *tokenizer);

#endif
