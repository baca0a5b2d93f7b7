/* A list of different byte strings, numbered in the order in which they were added, that finds one by its bytes and
 * counts how often each was added.
 *
 *   sf_words words = {0};
 *   SF_TRY(sf_words_add(&index, &words, "cat", 3));
 *   if (sf_words_find(&index, &words, "dog", 3)) ...
 *   sf_words_release(&words); */
#ifndef SF_IO_WORDS_H
#define SF_IO_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct sf_word {
    size_t start, length; /* in `text`, followed by a zero byte */
    size_t tally;
} sf_word;

typedef struct sf_words {
    char *text;
    size_t text_used, text_room;
    sf_word *at; /* [count] */
    size_t count, room;
    uint32_t *slots; /* [slot_count]: index + 1, by hash; 0: free */
    size_t slot_count;
} sf_words;

/* Adds the word if it is new, and one to its tally. `index` may be NULL. */
sf_status sf_words_add(size_t *index, sf_words *words, const char *text, size_t length);
bool sf_words_find(size_t *index, const sf_words *words, const char *text, size_t length);
const char *sf_words_text(const sf_words *words, size_t index); /* ends with a zero byte, and may contain others */

typedef enum sf_word_order {
    SF_MOST_FREQUENT_FIRST /* equally frequent ones by their bytes */,
    SF_BY_BYTES
} sf_word_order;
/* The first `most` words in this order, as a list of its own. */
sf_status sf_words_sorted(sf_words *out, const sf_words *words, sf_word_order order, size_t most);
void sf_words_release(sf_words *words);

#endif
