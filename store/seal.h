/* Seals: checksums of the store's rows, so that a changed bit is noticed when a row is read.
 *
 * A row is hashed word by word (64 bits), its key first. Every step is a bijection of the word and of the value before,
 * so a change within one word always changes the seal of its row. The rows of a run are sealed together by the sum of
 * their seals modulo 2^64: rows are added and removed in any order without reading the others. The run's own row holds
 * these sums and is sealed itself; the list of runs is sealed by the sum over their numbers and ids.
 *
 * tests/seal.py computes the same in Python. Seals detect damage; they do not defend against forgery. */
#ifndef SF_STORE_SEAL_H
#define SF_STORE_SEAL_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The initial value of a seal depends on the kind of row. */
typedef enum sf_seal_kind {
    SF_SEAL_EPOCH = 1,
    SF_SEAL_MEASURE,
    SF_SEAL_FINDING,
    SF_SEAL_POINT,
    SF_SEAL_RUN,
    SF_SEAL_SURFACE,
    SF_SEAL_LISTED,
    SF_SEAL_SCHEMA,
    SF_SEAL_LABEL
} sf_seal_kind;

#define SF_SEAL_NULL UINT64_C(0x6e756c6c6e756c6c)

static inline uint64_t sf_seal_word(uint64_t seal, uint64_t word) {
    seal = (seal ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return seal ^ (seal >> 32);
}

static inline uint64_t sf_seal_start(sf_seal_kind kind) {
    return sf_seal_word(0, (uint64_t)kind);
}

/* The last word is spread over all bits before seals are added up. */
static inline uint64_t sf_seal_end(uint64_t seal) {
    return sf_seal_word(seal ^ (seal >> 29), 0);
}

/* SQLite may store -0 as 0. */
static inline uint64_t sf_seal_real(uint64_t seal, double value) {
    const double stored = value + 0.0;
    uint64_t word;
    memcpy(&word, &stored, sizeof word);
    return sf_seal_word(seal, word);
}

/* The length, then the bytes as little-endian words, the last one filled up with zeros. */
uint64_t sf_seal_text(uint64_t seal, const void *bytes, size_t count);

/* The values of a row as SQLite stores them: integers, reals and texts as above, SF_SEAL_NULL for NULL. */
uint64_t sf_seal_column(uint64_t seal, sqlite3_stmt *row, int column);
uint64_t sf_seal_columns(sf_seal_kind kind, sqlite3_stmt *row, int count);

#endif
