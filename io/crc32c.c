#include "io/crc32c.h"

#include <pthread.h>

/* table[k][b]: the CRC of the byte b, followed by k zero bytes. Eight bytes are taken at a time. */
enum { AT_A_TIME = 8 };
static uint32_t table[AT_A_TIME][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_table(void) {
    const uint32_t polynomial = UINT32_C(0x82f63b78); /* reflected */
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
        table[0][b] = crc;
    }
    for (size_t k = 1; k < AT_A_TIME; k++)
        for (size_t b = 0; b < 256; b++) table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t sf_crc32c(const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;
    pthread_once(&made, make_table);
    for (; count >= AT_A_TIME; at += AT_A_TIME, count -= AT_A_TIME) {
        crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        crc = table[7][crc & 0xff] ^ table[6][(crc >> 8) & 0xff] ^ table[5][(crc >> 16) & 0xff] ^ table[4][crc >> 24] ^
              table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^ table[0][at[7]];
    }
    for (; count > 0; at++, count--) crc = (crc >> 8) ^ table[0][(crc ^ *at) & 0xff];
    return ~crc;
}

uint32_t sf_crc32c_masked(const void *bytes, size_t count) {
    const uint32_t crc = sf_crc32c(bytes, count);
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}
