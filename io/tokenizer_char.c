/* The tokenizers byte and char. Ids 0..255 are bytes. Those of char from 256 are the characters of the training text
 * that take two bytes or more in UTF-8, in the order of their code points; with --vocab N, the N - 256 most frequent
 * ones. The file of char has one of them per line. */
#include "base/text.h"
#include "io/tokenizer.h"
#include "io/words.h"

enum { BYTES = 256 };

/* Bytes of the UTF-8 sequence at the start of the text: 2 to 4 for a valid one that is not ASCII, else 1. */
static size_t sequence_length(const char *text, size_t size) {
    const unsigned char *at = (const unsigned char *)text;
    const size_t length = at[0] < 0xC2 ? 1 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : at[0] < 0xF5 ? 4 : 1;
    if (length == 1 || length > size) return 1;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80) return 1;
    const bool overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    const bool surrogate = at[0] == 0xED && at[1] >= 0xA0, too_large = at[0] == 0xF4 && at[1] >= 0x90;
    return overlong || surrogate || too_large ? 1 : length;
}

static sf_status no_vocabulary(size_t vocab) {
    if (vocab == 0 || vocab == BYTES) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "vocab", "vocab is %zu but tokenizer byte has 256 ids; leave vocab out", vocab);
}

static sf_status train_byte(sf_bytes *file, size_t vocab, const char *text, size_t size) {
    static const char whole[] = SF_TOKENIZER_MARK "byte\n";
    (void)text, (void)size;
    SF_TRY(no_vocabulary(vocab));
    return sf_bytes_add(file, whole, strlen(whole));
}

static sf_status load_byte(sf_tokenizer *tokenizer) {
    tokenizer->vocab = BYTES;
    tokenizer->line_end = '\n';
    return SF_OK;
}

static sf_status encode_bytes(sf_ids *ids, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) SF_TRY(sf_ids_add(ids, (unsigned char)text[i]));
    return SF_OK;
}

static sf_status encode_byte(sf_ids *ids, const sf_tokenizer *tokenizer, const char *text, size_t size) {
    (void)tokenizer;
    return encode_bytes(ids, text, size);
}

static sf_status decode_byte(sf_bytes *text, const sf_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    (void)tokenizer;
    for (size_t i = 0; i < count; i++) SF_TRY(sf_bytes_add(text, (const char[]){(char)ids[i]}, 1));
    return SF_OK;
}

const sf_tokenizer_kind sf_tokenizer_byte = {
    .name = "byte", .train = train_byte, .load = load_byte, .encode = encode_byte, .decode = decode_byte};

static sf_status count_characters(sf_words *out, const char *text, size_t size) {
    for (size_t at = 0, length; at < size; at += length) {
        length = sequence_length(text + at, size - at);
        if (length > 1) SF_TRY(sf_words_add(NULL, out, text + at, length));
    }
    return SF_OK;
}

static sf_status write_characters(sf_bytes *file, const sf_words *seen, size_t most) {
    sf_words frequent = {0}, sorted = {0};
    sf_status status = sf_words_sorted(&frequent, seen, SF_MOST_FREQUENT_FIRST, most);
    if (status == SF_OK) status = sf_words_sorted(&sorted, &frequent, SF_BY_BYTES, most); /* the order of code points */
    static const char first_line[] = SF_TOKENIZER_MARK "char\n";
    if (status == SF_OK) status = sf_bytes_add(file, first_line, strlen(first_line));
    for (size_t i = 0; i < sorted.count && status == SF_OK; i++) {
        status = sf_bytes_add(file, sf_words_text(&sorted, i), sorted.at[i].length);
        if (status == SF_OK) status = sf_bytes_add(file, "\n", 1);
    }
    sf_words_release(&frequent);
    sf_words_release(&sorted);
    return status;
}

static sf_status train_char(sf_bytes *file, size_t vocab, const char *text, size_t size) {
    if (vocab > 0 && vocab < BYTES)
        return sf_fail_on(SF_BAD_INPUT, "vocab", "vocab is %zu but tokenizer char has at least 256 ids; raise it",
                          vocab);
    sf_words seen = {0};
    const size_t largest = vocab > 0 ? vocab : SF_LARGEST_VOCABULARY;
    sf_status status = count_characters(&seen, text, size);
    if (status == SF_OK) status = write_characters(file, &seen, largest - BYTES);
    sf_words_release(&seen);
    return status;
}

static sf_status bad_line(void) {
    return sf_fail(SF_BAD_INPUT, "a line of it is not one character, so it is not a tokenizer that was written whole");
}

static sf_status read_characters(sf_words *out, const sf_bytes *file) {
    const char *at = memchr(file->at, '\n', file->count), *end = file->at + file->count;
    for (at++; at < end;) {
        const size_t length = sequence_length(at, (size_t)(end - at));
        if (length == 1 || at + length >= end || at[length] != '\n') return bad_line();
        SF_TRY(sf_words_add(NULL, out, at, length));
        if (out->at[out->count - 1].tally > 1) return bad_line();
        at += length + 1;
    }
    return SF_OK;
}

static void unload_words(sf_tokenizer *tokenizer) {
    if (tokenizer->state != NULL) sf_words_release(tokenizer->state);
    sf_release(tokenizer->state);
}

static sf_status load_char(sf_tokenizer *tokenizer) {
    sf_words *characters;
    SF_TRY(SF_NEW(&characters, 1));
    tokenizer->state = characters;
    SF_TRY(read_characters(characters, &tokenizer->file));
    tokenizer->vocab = BYTES + characters->count;
    tokenizer->line_end = '\n';
    return SF_OK;
}

static sf_status encode_char(sf_ids *ids, const sf_tokenizer *tokenizer, const char *text, size_t size) {
    for (size_t at = 0, length, index; at < size; at += length) {
        length = sequence_length(text + at, size - at);
        if (length > 1 && sf_words_find(&index, tokenizer->state, text + at, length))
            SF_TRY(sf_ids_add(ids, (int32_t)(BYTES + index)));
        else
            SF_TRY(encode_bytes(ids, text + at, length));
    }
    return SF_OK;
}

static sf_status decode_char(sf_bytes *text, const sf_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    const sf_words *characters = tokenizer->state;
    for (size_t i = 0; i < count; i++) {
        const size_t index = (size_t)ids[i] - BYTES;
        if (ids[i] < BYTES)
            SF_TRY(decode_byte(text, tokenizer, &ids[i], 1));
        else
            SF_TRY(sf_bytes_add(text, sf_words_text(characters, index), characters->at[index].length));
    }
    return SF_OK;
}

const sf_tokenizer_kind sf_tokenizer_char = {.name = "char",
                                             .train = train_char,
                                             .load = load_char,
                                             .encode = encode_char,
                                             .decode = decode_char,
                                             .unload = unload_words};
