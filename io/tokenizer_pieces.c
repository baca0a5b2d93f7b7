/* The tokenizers unigram and bpe: models of SentencePiece (https://github.com/google/sentencepiece), whose files are
 * those of that library. The line end is the model's end-of-sentence id, or one more id where it has none. */
#include "io/sentencepiece.h"
#include "io/tokenizer.h"

static sf_status check_vocab(size_t vocab, const char *name) {
    enum { FEWEST = 4 };
    if (vocab >= FEWEST) return SF_OK;
    if (vocab > 0)
        return sf_fail_on(SF_BAD_INPUT, "vocab",
                          "vocab is %zu but must be at least %d: unknown text, both ends of a line and one piece",
                          vocab, FEWEST);
    return sf_fail_on(SF_BAD_INPUT, "vocab", "tokenizer %s needs the number of its pieces; set vocab, for example 4096",
                      name);
}

static sf_status train_unigram(sf_bytes *file, size_t vocab, const char *text, size_t size) {
    SF_TRY(check_vocab(vocab, "unigram"));
    return sf_fail_about(sf_pieces_train(file, "unigram", vocab, text, size), "tokenizer");
}

static sf_status train_bpe(sf_bytes *file, size_t vocab, const char *text, size_t size) {
    SF_TRY(check_vocab(vocab, "bpe"));
    return sf_fail_about(sf_pieces_train(file, "bpe", vocab, text, size), "tokenizer");
}

static sf_status load(sf_tokenizer *tokenizer) {
    sf_pieces *pieces;
    SF_TRY(sf_pieces_open(&pieces, tokenizer->file.at, tokenizer->file.count));
    tokenizer->state = pieces;
    const int32_t end = sf_pieces_end(pieces);
    tokenizer->vocab = sf_pieces_count(pieces) + (end < 0);
    tokenizer->line_end = end >= 0 ? end : (int32_t)sf_pieces_count(pieces);
    return SF_OK;
}

static sf_status encode(sf_ids *ids, const sf_tokenizer *tokenizer, const char *text, size_t size) {
    return sf_pieces_encode(ids, tokenizer->state, text, size);
}

static sf_status decode(sf_bytes *text, const sf_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    for (size_t at = 0, end; at < count; at = end + 1) {
        for (end = at; end < count && ids[end] != tokenizer->line_end;) end++;
        SF_TRY(sf_pieces_decode(text, tokenizer->state, ids + at, end - at));
        if (end < count) SF_TRY(sf_bytes_add(text, "\n", 1));
    }
    return SF_OK;
}

static void unload(sf_tokenizer *tokenizer) {
    sf_pieces_close(tokenizer->state);
}

const sf_tokenizer_kind sf_tokenizer_unigram = {
    .name = "unigram", .train = train_unigram, .load = load, .encode = encode, .decode = decode, .unload = unload};
const sf_tokenizer_kind sf_tokenizer_bpe = {
    .name = "bpe", .train = train_bpe, .load = load, .encode = encode, .decode = decode, .unload = unload};
