/* In place of io/sentencepiece.cpp where the library was not found. */
#include "io/sentencepiece.h"

#include "base/rebuild.h"

static sf_status absent(void) {
    return sf_fail_on(
        SF_UNSUPPORTED, "tokenizer",
        "this semfocus was built without SentencePiece, which tokenizers unigram and bpe and their files "
        "need; install libsentencepiece-dev, then " SF_REBUILD_WITH("SENTENCEPIECE") ", or use byte, char or word");
}

sf_status sf_pieces_train(sf_bytes *file, const char *type, size_t vocab, const char *text, size_t size) {
    (void)file, (void)type, (void)vocab, (void)text, (void)size;
    return absent();
}

sf_status sf_pieces_open(sf_pieces **out, const char *file, size_t size) {
    (void)file, (void)size;
    *out = NULL;
    return absent();
}

void sf_pieces_close(sf_pieces *pieces) {
    (void)pieces;
}

size_t sf_pieces_count(const sf_pieces *pieces) {
    (void)pieces;
    return 0;
}

int32_t sf_pieces_end(const sf_pieces *pieces) {
    (void)pieces;
    return -1;
}

sf_status sf_pieces_encode(sf_ids *ids, const sf_pieces *pieces, const char *text, size_t size) {
    (void)ids, (void)pieces, (void)text, (void)size;
    return absent();
}

sf_status sf_pieces_decode(sf_bytes *text, const sf_pieces *pieces, const int32_t *ids, size_t count) {
    (void)text, (void)pieces, (void)ids, (void)count;
    return absent();
}
