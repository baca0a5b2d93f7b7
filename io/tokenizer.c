#include "io/tokenizer.h"

#include <errno.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/text.h"
#include "io/regular.h"

static const sf_tokenizer_kind *const kinds[] = {&sf_tokenizer_byte, &sf_tokenizer_char, &sf_tokenizer_word,
                                                 &sf_tokenizer_unigram, &sf_tokenizer_bpe};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *sf_tokenizer_name(size_t i) {
    return i < KINDS ? kinds[i]->name : NULL;
}

static const sf_tokenizer_kind *find_kind(const char *name) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

bool sf_tokenizer_is_name(const char *name) {
    return find_kind(name) != NULL;
}

/* Takes over the file. */
static sf_status open_file(sf_tokenizer **out, const sf_tokenizer_kind *kind, sf_bytes *file) {
    sf_tokenizer *tokenizer;
    *out = NULL;
    sf_status status = SF_NEW(&tokenizer, 1);
    if (status != SF_OK) {
        sf_bytes_release(file);
        return status;
    }
    *tokenizer = (sf_tokenizer){.kind = kind, .file = *file, .hash = sf_hash(SF_HASH_START, file->at, file->count)};
    *file = (sf_bytes){0};
    status = kind->load(tokenizer);
    if (status == SF_OK && tokenizer->vocab > SF_LARGEST_VOCABULARY)
        status = sf_fail_on(SF_BAD_INPUT, "vocab", "the tokenizer has %zu ids but at most %d are possible; set vocab",
                            tokenizer->vocab, SF_LARGEST_VOCABULARY);
    if (status != SF_OK) {
        sf_tokenizer_destroy(tokenizer);
        return status;
    }
    *out = tokenizer;
    return SF_OK;
}

sf_status sf_tokenizer_train(sf_tokenizer **out, const char *name, size_t vocab, const char *text, size_t size) {
    char quoted[SF_QUOTE_SIZE];
    const sf_tokenizer_kind *kind = find_kind(name);
    *out = NULL;
    if (kind == NULL)
        return sf_fail_on(SF_BAD_INPUT, "tokenizer",
                          "'%s' is not a tokenizer; use byte, char, word, unigram, bpe or a file",
                          sf_text_quote(quoted, name));
    sf_bytes file = {0};
    const sf_status status = kind->train(&file, vocab, text, size);
    if (status == SF_OK) return open_file(out, kind, &file);
    sf_bytes_release(&file);
    return status;
}

static const sf_tokenizer_kind *kind_of_file(const char *bytes, size_t size) {
    const size_t mark = strlen(SF_TOKENIZER_MARK);
    if (size < mark || memcmp(bytes, SF_TOKENIZER_MARK, mark) != 0)
        return &sf_tokenizer_unigram; /* or bpe: the same code */
    for (size_t i = 0; i < KINDS; i++) {
        const size_t length = strlen(kinds[i]->name);
        if (size > mark + length && memcmp(bytes + mark, kinds[i]->name, length) == 0 && bytes[mark + length] == '\n')
            return kinds[i];
    }
    return NULL;
}

sf_status sf_tokenizer_parse(sf_tokenizer **out, const char *bytes, size_t size) {
    sf_bytes file = {0};
    const sf_tokenizer_kind *kind = kind_of_file(bytes, size);
    *out = NULL;
    if (kind == NULL) return sf_fail(SF_BAD_INPUT, "it is a tokenizer of a kind that this version does not know");
    SF_TRY(sf_bytes_add(&file, bytes, size));
    return open_file(out, kind, &file);
}

enum { LARGEST_FILE = 64 << 20 };

static sf_status read_whole(sf_bytes *out, const char *path) {
    char block[1 << 14];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return sf_fail_on(SF_BAD_INPUT, "tokenizer",
                          "%s: cannot be opened: %s; tokenizer is byte, char, word, unigram, bpe or a file of one",
                          path, strerror(errno));
    sf_status status = SF_OK;
    for (size_t count; status == SF_OK && (count = fread(block, 1, sizeof block, file)) > 0;)
        status = out->count + count > LARGEST_FILE
                     ? sf_fail_on(SF_BAD_INPUT, "tokenizer", "%s: is larger than a tokenizer can be", path)
                     : sf_bytes_add(out, block, count);
    if (status == SF_OK && ferror(file) != 0)
        status = sf_fail(SF_IO_ERROR, "%s: cannot be read: %s", path, strerror(errno));
    fclose(file);
    return status;
}

sf_status sf_tokenizer_read(sf_tokenizer **out, const char *path) {
    sf_bytes bytes = {0};
    *out = NULL;
    SF_TRY(sf_fail_about(sf_check_regular(path, "a tokenizer is read from a file"), "tokenizer"));
    sf_status status = read_whole(&bytes, path);
    if (status == SF_OK)
        status = sf_fail_about(sf_fail_in(sf_tokenizer_parse(out, bytes.at, bytes.count), "%s", path), "tokenizer");
    sf_bytes_release(&bytes);
    return status;
}

void sf_tokenizer_destroy(sf_tokenizer *tokenizer) {
    if (tokenizer == NULL) return;
    if (tokenizer->kind->unload != NULL) tokenizer->kind->unload(tokenizer);
    sf_bytes_release(&tokenizer->file);
    sf_release(tokenizer);
}

sf_status sf_tokenizer_encode(sf_ids *ids, const sf_tokenizer *tokenizer, const char *text, size_t size) {
    return tokenizer->kind->encode(ids, tokenizer, text, size);
}

sf_status sf_tokenizer_decode(sf_bytes *text, const sf_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    return tokenizer->kind->decode(text, tokenizer, ids, count);
}

bool sf_tokenizer_keeps_text(const sf_tokenizer *tokenizer) {
    return tokenizer->kind != &sf_tokenizer_word;
}
