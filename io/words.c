#include "io/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* The slot of the word, or the free one where it would be. Slots are never more than half full. */
static size_t slot_of(const sf_words *words, const char *text, size_t length) {
    size_t slot = (size_t)sf_hash(SF_HASH_START, text, length) & (words->slot_count - 1);
    for (; words->slots[slot] != 0; slot = (slot + 1) & (words->slot_count - 1)) {
        const sf_word *word = &words->at[words->slots[slot] - 1];
        if (word->length == length && memcmp(words->text + word->start, text, length) == 0) break;
    }
    return slot;
}

static sf_status grow_slots(sf_words *words) {
    if (2 * (words->count + 1) <= words->slot_count) return SF_OK;
    sf_words larger = *words;
    larger.slot_count = words->slot_count > 0 ? 2 * words->slot_count : 64;
    SF_TRY(SF_NEW(&larger.slots, larger.slot_count));
    for (size_t i = 0; i < words->count; i++)
        larger.slots[slot_of(&larger, words->text + words->at[i].start, words->at[i].length)] = (uint32_t)(i + 1);
    sf_release(words->slots);
    *words = larger;
    return SF_OK;
}

static sf_status append(sf_words *words, const char *text, size_t length) {
    if (words->count == UINT32_MAX - 1)
        return sf_fail(SF_BAD_INPUT, "there are more than %u different words", UINT32_MAX - 1);
    if (words->count == words->room) {
        SF_TRY(SF_GROW(&words->at, words->count, 2 * words->room + 64));
        words->room = 2 * words->room + 64;
    }
    if (words->text_room - words->text_used <= length) {
        SF_TRY(SF_GROW(&words->text, words->text_used, 2 * words->text_room + length + 1));
        words->text_room = 2 * words->text_room + length + 1;
    }
    words->at[words->count++] = (sf_word){.start = words->text_used, .length = length};
    memcpy(words->text + words->text_used, text, length);
    words->text[words->text_used + length] = '\0';
    words->text_used += length + 1;
    return SF_OK;
}

sf_status sf_words_add(size_t *index, sf_words *words, const char *text, size_t length) {
    SF_TRY(grow_slots(words));
    const size_t slot = slot_of(words, text, length);
    if (words->slots[slot] == 0) {
        SF_TRY(append(words, text, length));
        words->slots[slot] = (uint32_t)words->count;
    }
    words->at[words->slots[slot] - 1].tally++;
    if (index != NULL) *index = words->slots[slot] - 1;
    return SF_OK;
}

bool sf_words_find(size_t *index, const sf_words *words, const char *text, size_t length) {
    if (words->slot_count == 0) return false;
    const uint32_t found = words->slots[slot_of(words, text, length)];
    if (found != 0) *index = found - 1;
    return found != 0;
}

const char *sf_words_text(const sf_words *words, size_t index) {
    return words->text + words->at[index].start;
}

typedef struct entry {
    const char *text;
    size_t length, tally;
} entry;

static int by_bytes(const void *a, const void *b) {
    const entry *left = a, *right = b;
    const size_t common = left->length < right->length ? left->length : right->length;
    const int order = memcmp(left->text, right->text, common);
    return order != 0 ? order : (left->length > right->length) - (left->length < right->length);
}

static int by_tally(const void *a, const void *b) {
    const entry *left = a, *right = b;
    if (left->tally != right->tally) return left->tally > right->tally ? -1 : 1;
    return by_bytes(a, b);
}

sf_status sf_words_sorted(sf_words *out, const sf_words *words, sf_word_order order, size_t most) {
    *out = (sf_words){0};
    entry *entries;
    SF_TRY(SF_NEW(&entries, words->count));
    for (size_t i = 0; i < words->count; i++)
        entries[i] = (entry){sf_words_text(words, i), words->at[i].length, words->at[i].tally};
    qsort(entries, words->count, sizeof *entries, order == SF_BY_BYTES ? by_bytes : by_tally);
    sf_status status = SF_OK;
    for (size_t i = 0; i < words->count && i < most && status == SF_OK; i++) {
        status = sf_words_add(NULL, out, entries[i].text, entries[i].length);
        if (status == SF_OK) out->at[i].tally = entries[i].tally;
    }
    sf_release(entries);
    if (status != SF_OK) sf_words_release(out);
    return status;
}

void sf_words_release(sf_words *words) {
    sf_release(words->text);
    sf_release(words->at);
    sf_release(words->slots);
    *words = (sf_words){0};
}
