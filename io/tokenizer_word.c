/* The tokenizer word. White space (of ASCII) separates words and is lost; a punctuation mark (of ASCII) is a word of
 * its own. Id 0 is every unknown word, id 1 the end of a line, then come the words of the training text: the most
 * frequent first, equally frequent ones by their bytes; with --vocab N, the first N - 2 of them. The file has one per
 * line. */
#include "io/tokenizer.h"
#include "io/words.h"

enum { UNKNOWN, LINE_END, FIRST_WORD };

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

static bool is_mark(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`' && c != '_') ||
           (c >= '{' && c <= '~');
}

/* The next word from `*at` on, and its length; 0: there is none. */
static size_t next_word(size_t *at, const char *text, size_t size) {
    while (*at < size && is_space(text[*at])) ++*at;
    size_t end = *at;
    if (end < size && is_mark(text[end])) return 1;
    while (end < size && !is_space(text[end]) && !is_mark(text[end])) end++;
    return end - *at;
}

static sf_status count_words(sf_words *out, const char *text, size_t size) {
    for (size_t at = 0, length; (length = next_word(&at, text, size)) > 0; at += length)
        SF_TRY(sf_words_add(NULL, out, text + at, length));
    return SF_OK;
}

static sf_status write_words(sf_bytes *file, const sf_words *words) {
    static const char first_line[] = SF_TOKENIZER_MARK "word\n";
    SF_TRY(sf_bytes_add(file, first_line, strlen(first_line)));
    for (size_t i = 0; i < words->count; i++) {
        SF_TRY(sf_bytes_add(file, sf_words_text(words, i), words->at[i].length));
        SF_TRY(sf_bytes_add(file, "\n", 1));
    }
    return SF_OK;
}

static sf_status check_vocab(size_t vocab) {
    if (vocab == 0 || vocab > FIRST_WORD) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "vocab",
                      "vocab is %zu but must be at least 3: unknown words, the line end and one word", vocab);
}

static sf_status write_frequent(sf_bytes *file, const sf_words *seen, size_t vocab) {
    sf_words kept;
    const size_t largest = vocab > 0 ? vocab : SF_LARGEST_VOCABULARY;
    SF_TRY(check_vocab(vocab));
    SF_TRY(sf_words_sorted(&kept, seen, SF_MOST_FREQUENT_FIRST, largest - FIRST_WORD));
    const sf_status status = write_words(file, &kept);
    sf_words_release(&kept);
    return status;
}

static sf_status train_word(sf_bytes *file, size_t vocab, const char *text, size_t size) {
    sf_words seen = {0};
    sf_status status = count_words(&seen, text, size);
    if (status == SF_OK) status = write_frequent(file, &seen, vocab);
    sf_words_release(&seen);
    return status;
}

sf_status sf_tokenizer_of_words(sf_tokenizer **out, const sf_words *words, size_t vocab) {
    sf_bytes file = {0};
    *out = NULL;
    sf_status status = write_frequent(&file, words, vocab);
    if (status == SF_OK) status = sf_tokenizer_parse(out, file.at, file.count);
    sf_bytes_release(&file);
    return status;
}

int32_t sf_tokenizer_word_id(const sf_tokenizer *tokenizer, const char *word, size_t length) {
    size_t index;
    return sf_words_find(&index, tokenizer->state, word, length) ? (int32_t)(FIRST_WORD + index) : UNKNOWN;
}

static sf_status read_words(sf_words *out, const sf_bytes *file) {
    const char *at = memchr(file->at, '\n', file->count), *end = file->at + file->count;
    for (at++; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL || stop == at)
            return sf_fail(SF_BAD_INPUT,
                           "a line of it is not one word, so it is not a tokenizer that was written whole");
        SF_TRY(sf_words_add(NULL, out, at, (size_t)(stop - at)));
        at = stop + 1;
    }
    return SF_OK;
}

static void unload_word(sf_tokenizer *tokenizer) {
    if (tokenizer->state != NULL) sf_words_release(tokenizer->state);
    sf_release(tokenizer->state);
}

static sf_status load_word(sf_tokenizer *tokenizer) {
    sf_words *words;
    SF_TRY(SF_NEW(&words, 1));
    tokenizer->state = words;
    SF_TRY(read_words(words, &tokenizer->file));
    tokenizer->vocab = FIRST_WORD + words->count;
    tokenizer->line_end = LINE_END;
    return SF_OK;
}

static sf_status encode_word(sf_ids *ids, const sf_tokenizer *tokenizer, const char *text, size_t size) {
    for (size_t at = 0, length; (length = next_word(&at, text, size)) > 0; at += length) {
        SF_TRY(sf_ids_add(ids, sf_tokenizer_word_id(tokenizer, text + at, length)));
    }
    return SF_OK;
}

/* Blanks as people write them: between words, not before marks that end something. */
static bool takes_blank(const char *word, bool line_starts) {
    return !line_starts && !(strchr(".,;:!?)]}'", word[0]) != NULL && word[1] == '\0');
}

static sf_status decode_word(sf_bytes *text, const sf_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    const sf_words *words = tokenizer->state;
    bool line_starts = text->count == 0 || text->at[text->count - 1] == '\n';
    for (size_t i = 0; i < count; i++) {
        const char *word = ids[i] == LINE_END  ? "\n"
                           : ids[i] == UNKNOWN ? "<unknown>"
                                               : sf_words_text(words, (size_t)ids[i] - FIRST_WORD);
        if (ids[i] != LINE_END && takes_blank(word, line_starts)) SF_TRY(sf_bytes_add(text, " ", 1));
        SF_TRY(sf_bytes_add(text, word, strlen(word)));
        line_starts = ids[i] == LINE_END;
    }
    return SF_OK;
}

const sf_tokenizer_kind sf_tokenizer_word = {.name = "word",
                                             .train = train_word,
                                             .load = load_word,
                                             .encode = encode_word,
                                             .decode = decode_word,
                                             .unload = unload_word};
