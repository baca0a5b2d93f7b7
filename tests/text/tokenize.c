/* tokenize train KIND VOCAB TEXT MODEL: learns a tokenizer from a text file and writes it.
 * tokenize apply MODEL TEXT: prints the ids of every line, and "lossy" after those that do not come back when decoded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/tokenizer.h"

static void need(sf_status status) {
    if (status == SF_OK) return;
    fprintf(stderr, "%s\n", sf_message());
    exit(1);
}

static sf_bytes whole(const char *path) {
    sf_bytes bytes = {0};
    char block[4096];
    FILE *file = fopen(path, "rb");
    if (file == NULL) exit(3);
    for (size_t count; (count = fread(block, 1, sizeof block, file)) > 0;) need(sf_bytes_add(&bytes, block, count));
    fclose(file);
    return bytes;
}

static void train(const char *kind, size_t vocab, const char *path, const char *model) {
    sf_tokenizer *tokenizer;
    sf_bytes text = whole(path);
    need(sf_tokenizer_train(&tokenizer, kind, vocab, text.at, text.count));
    FILE *file = fopen(model, "wb");
    if (file == NULL || fwrite(tokenizer->file.at, 1, tokenizer->file.count, file) != tokenizer->file.count) exit(3);
    fclose(file);
    sf_tokenizer_destroy(tokenizer);
    sf_bytes_release(&text);
}

static void apply_to_line(const sf_tokenizer *tokenizer, const char *line, size_t length) {
    sf_ids ids = {0};
    sf_bytes back = {0};
    need(sf_tokenizer_encode(&ids, tokenizer, line, length));
    need(sf_tokenizer_decode(&back, tokenizer, ids.at, ids.count));
    for (size_t i = 0; i < ids.count; i++) printf(i > 0 ? " %d" : "%d", ids.at[i]);
    puts(back.count == length && (length == 0 || memcmp(back.at, line, length) == 0) ? "" : " lossy");
    sf_ids_release(&ids);
    sf_bytes_release(&back);
}

static void apply(const char *model, const char *path) {
    sf_tokenizer *tokenizer;
    sf_bytes text = whole(path);
    need(sf_tokenizer_read(&tokenizer, model));
    for (size_t at = 0; at < text.count;) {
        const char *newline = memchr(text.at + at, '\n', text.count - at);
        const size_t end = newline != NULL ? (size_t)(newline - text.at) : text.count;
        apply_to_line(tokenizer, text.at + at, end - at);
        at = end + 1;
    }
    sf_tokenizer_destroy(tokenizer);
    sf_bytes_release(&text);
}

int main(int count, char **words) {
    if (count == 6 && strcmp(words[1], "train") == 0)
        train(words[2], strtoul(words[3], NULL, 10), words[4], words[5]);
    else if (count == 4 && strcmp(words[1], "apply") == 0)
        apply(words[2], words[3]);
    else
        return 2;
    return 0;
}
