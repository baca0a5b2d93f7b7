#include "store/seal.h"

uint64_t sf_seal_text(uint64_t seal, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    seal = sf_seal_word(seal, count);
    for (; count > 0; at += 8) {
        unsigned char eight[8] = {0};
        uint64_t word = 0;
        memcpy(eight, at, count < 8 ? count : 8);
        for (size_t b = 0; b < 8; b++) word |= (uint64_t)eight[b] << (8 * b);
        seal = sf_seal_word(seal, word);
        count -= count < 8 ? count : 8;
    }
    return seal;
}

uint64_t sf_seal_column(uint64_t seal, sqlite3_stmt *row, int column) {
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER:
        return sf_seal_word(seal, (uint64_t)sqlite3_column_int64(row, column));
    case SQLITE_FLOAT:
        return sf_seal_real(seal, sqlite3_column_double(row, column));
    case SQLITE_NULL:
        return sf_seal_word(seal, SF_SEAL_NULL);
    default: { /* the text first: asking for it may change how many bytes there are */
        const void *bytes = sqlite3_column_text(row, column);
        return sf_seal_text(seal, bytes, (size_t)sqlite3_column_bytes(row, column));
    }
    }
}

uint64_t sf_seal_columns(sf_seal_kind kind, sqlite3_stmt *row, int count) {
    uint64_t seal = sf_seal_start(kind);
    for (int i = 0; i < count; i++) seal = sf_seal_column(seal, row, i);
    return sf_seal_end(seal);
}
