/* Event files of TensorBoard: checksums against published vectors, records byte by byte, files that were cut off.
 * tests/cli/test_cli_tensorboard.py reads them with TensorBoard itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/crc32c.h"
#include "io/tensorboard.h"

static char path[64];

static int make_path(void **state) {
    (void)state;
    strcpy(path, "/tmp/semfocus-events-XXXXXX");
    const int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

/* RFC 3720, appendix B.4, and the check value of the catalogue of CRCs. */
static void test_crc32c_of_published_vectors(void **state) {
    (void)state;
    unsigned char bytes[48];
    assert_int_equal(sf_crc32c("", 0), 0);
    assert_int_equal(sf_crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, 32);
    assert_int_equal(sf_crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(sf_crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(sf_crc32c(bytes, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(sf_crc32c(bytes, 32), 0x113fdb5c);
    static const unsigned char read_command[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, 0x28, [40] = 0x02};
    assert_int_equal(sf_crc32c(read_command, 48), 0xd9963a56);
}

/* Bit by bit, for every length and alignment. */
static uint32_t crc_by_definition(const unsigned char *bytes, size_t count) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < 8 * count; i++) {
        const uint32_t bit = (crc ^ (bytes[i / 8] >> (i % 8))) & 1;
        crc = (crc >> 1) ^ (bit != 0 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

static void test_crc32c_of_every_length(void **state) {
    (void)state;
    unsigned char bytes[80];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * i * 37 + 11);
    for (size_t from = 0; from < 8; from++)
        for (size_t count = 0; from + count <= sizeof bytes; count++)
            assert_int_equal(sf_crc32c(bytes + from, count), crc_by_definition(bytes + from, count));
}

static void test_record_of_the_version(void **state) {
    (void)state;
    sf_event_log log = {0};
    sf_event_version(&log, 0);
    /* The payload as protoc encodes Event{wall_time: 0, file_version: "brain.Event:2"}, the time being explicit. The
     * header is that of every event file whose first record has 24 bytes. */
    static const unsigned char expected[] = "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22" /* the length and its masked CRC */
                                            "\x09\0\0\0\0\0\0\0\0\x1a\x0d"
                                            "brain.Event:2";
    assert_int_equal(log.status, SF_OK);
    assert_int_equal(log.count, 8 + 4 + 24 + 4);
    assert_memory_equal(log.bytes, expected, sizeof expected - 1);
    sf_event_log_close(&log);
}

static void test_record_of_scalars(void **state) {
    (void)state;
    sf_event_log log = {0};
    const sf_scalar scalars[] = {{"a", 1.0}, {"bc", -2.0}};
    sf_event_scalars(&log, 1.0, 300, scalars, 2);
    static const unsigned char payload[] = "\x09\0\0\0\0\0\0\xf0\x3f" /* wall_time 1 */
                                           "\x10\xac\x02"             /* step 300 */
                                           "\x2a\x15"                 /* summary */
                                           "\x0a\x08\x0a\x01"
                                           "a\x15\0\0\x80\x3f"
                                           "\x0a\x09\x0a\x02"
                                           "bc\x15\0\0\0\xc0";
    const size_t length = sizeof payload - 1;
    assert_int_equal(log.count, 12 + length + 4);
    assert_int_equal(log.bytes[0], length);
    assert_memory_equal(log.bytes + 12, payload, length);
    uint32_t crc = 0;
    for (size_t i = 0; i < 4; i++) crc |= (uint32_t)log.bytes[12 + length + i] << (8 * i);
    const uint32_t plain = crc_by_definition(payload, length);
    assert_int_equal(crc, ((plain >> 15) | (plain << 17)) + UINT32_C(0xa282ead8));
    sf_event_log_close(&log);
}

static size_t size_of_file(void) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (size_t)about.st_size;
}

static void append(const sf_event_log *log) {
    sf_event_file file;
    assert_int_equal(sf_event_file_open(&file, path), SF_OK);
    assert_int_equal(sf_event_file_append(&file, log, path), SF_OK);
    sf_event_file_close(&file);
}

/* Whatever is cut off or overwritten at the end, whole records stay and are known. */
static void test_torn_ends_are_cut_off(void **state) {
    (void)state;
    sf_event_log log = {0};
    size_t ends[5];
    sf_event_session_start(&log, 0, "group", &(sf_hparam){"lr", NULL, 0.1, true}, 1);
    ends[0] = log.count;
    for (int64_t step = 0; step < 3; step++) {
        sf_event_scalars(&log, 0, step, &(sf_scalar){"loss", 0.5}, 1);
        ends[1 + step] = log.count;
    }
    sf_event_session_end(&log, 0, SF_SESSION_SUCCESS);
    ends[4] = log.count;
    for (size_t size = 0; size <= log.count; size++) {
        assert_int_equal(truncate(path, 0), 0);
        append(&(sf_event_log){.bytes = log.bytes, .count = size});
        assert_int_equal(truncate(path, (off_t)size + (off_t)(size % 3) * 100), 0); /* zeros, as after a power cut */
        size_t whole = 0;
        while (whole < 5 && ends[whole] <= size) whole++;
        sf_event_file file;
        assert_int_equal(sf_event_file_open(&file, path), SF_OK);
        assert_int_equal(file.size, whole > 0 ? ends[whole - 1] : 0);
        assert_int_equal(file.last_step, whole < 2 ? -1 : whole > 4 ? 2 : (int64_t)whole - 2);
        assert_int_equal(file.has_start, whole > 0);
        assert_int_equal(file.has_end, whole == 5);
        sf_event_file_close(&file);
        assert_int_equal(size_of_file(), whole > 0 ? ends[whole - 1] : 0);
    }
    sf_event_log_close(&log);
}

static void test_a_flipped_bit_ends_the_file(void **state) {
    (void)state;
    sf_event_log log = {0};
    sf_event_version(&log, 0);
    const size_t first = log.count;
    sf_event_scalars(&log, 0, 1, &(sf_scalar){"loss", 0.5}, 1);
    for (size_t i = first; i < log.count; i++) {
        assert_int_equal(truncate(path, 0), 0);
        log.bytes[i] ^= 4;
        append(&log);
        log.bytes[i] ^= 4;
        sf_event_file file;
        assert_int_equal(sf_event_file_open(&file, path), SF_OK);
        assert_int_equal(file.size, first);
        sf_event_file_close(&file);
    }
    sf_event_log_close(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_of_published_vectors),
        cmocka_unit_test(test_crc32c_of_every_length),
        cmocka_unit_test(test_record_of_the_version),
        cmocka_unit_test(test_record_of_scalars),
        cmocka_unit_test_setup_teardown(test_torn_ends_are_cut_off, make_path, remove_path),
        cmocka_unit_test_setup_teardown(test_a_flipped_bit_ends_the_file, make_path, remove_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
