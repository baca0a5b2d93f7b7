/* Files: malformed safetensors, files that appear whole or not at all, lines. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "io/atomic_file.h"
#include "io/lines.h"
#include "io/safetensors.h"

static char folder[64]; /* of this run, removed at its end */

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/semfocus-io-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *write_bytes(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path_of(name);
}

static void assert_holds(const char *path, const char *text) {
    char found[256] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    assert_int_equal(size, strlen(text));
    assert_string_equal(found, text);
}

static size_t files_in_folder(void) {
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

static void reads_a_published_file(void **state) {
    (void)state;
    const size_t in_use = sf_bytes_in_use();
    sf_safetensors *file;
    if (sf_safetensors_open(&file, "tests/golden/topk5.safetensors") != SF_OK) fail_msg("%s", sf_message());
    static const struct {
        const char *name, *dtype;
        size_t rank, shape[2], size;
    } expected[] = {{"param.embedding.weight", "F32", 2, {9, 8}, 288},
                    {"param.encoder.transformer.1.ffn.0.weight", "F32", 2, {16, 8}, 512},
                    {"param.linear.bias", "F32", 1, {4, 0}, 16},
                    {"tokens", "I32", 2, {3, 12}, 144},
                    {"labels", "I32", 1, {3, 0}, 12},
                    {"logits", "F64", 2, {3, 4}, 96},
                    {"grad.encoder.transformer.0.attention.W_k.bias", "F64", 1, {8, 0}, 64},
                    {"losses", "F64", 1, {4, 0}, 32}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const sf_tensor *tensor = sf_safetensors_find(file, expected[i].name);
        assert_non_null(tensor);
        assert_string_equal(tensor->name, expected[i].name);
        assert_string_equal(tensor->dtype, expected[i].dtype);
        assert_int_equal(tensor->rank, expected[i].rank);
        for (size_t d = 0; d < tensor->rank; d++) assert_int_equal(tensor->shape[d], expected[i].shape[d]);
        assert_int_equal(tensor->count, expected[i].shape[0] * (tensor->rank == 2 ? expected[i].shape[1] : 1));
        assert_int_equal(tensor->size, expected[i].size);
    }
    size_t count = 0, bytes = 0;
    for (const sf_tensor *t; (t = sf_safetensors_at(file, count)) != NULL; count++) bytes += t->size;
    assert_int_equal(count, 2 * 27 + 5);
    assert_int_equal(bytes, 15220);
    assert_null(sf_safetensors_find(file, "__metadata__"));
    assert_null(sf_safetensors_find(file, "param.embedding"));
    assert_string_equal(sf_safetensors_metadata(file, "attention"), "topk");
    assert_string_equal(sf_safetensors_metadata(file, "d_mlp"), "16");
    assert_null(sf_safetensors_metadata(file, "author"));

    double reals[96];
    int32_t integers[96];
    assert_int_equal(sf_tensor_reals(reals, sf_safetensors_find(file, "tokens")), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "tokens"));
    assert_int_equal(sf_tensor_integers(integers, sf_safetensors_find(file, "losses")), SF_BAD_INPUT);
    assert_int_equal(sf_tensor_integers(integers, sf_safetensors_find(file, "tokens")), SF_OK);
    for (size_t i = 0; i < 36; i++) assert_in_range(integers[i], 0, 8);
    sf_safetensors_close(file);
    sf_safetensors_close(NULL);
    assert_int_equal(sf_bytes_in_use(), in_use);
}

/* Opens a file made of this header and `data_size` bytes of data: 0, 1, 2, ... */
static sf_status open_made(sf_safetensors **file, const char *header, size_t data_size) {
    unsigned char bytes[4096];
    const size_t length = strlen(header);
    for (size_t i = 0; i < 8; i++) bytes[i] = (unsigned char)(length >> 8 * i);
    memcpy(bytes + 8, header, length); /* NOLINT(bugprone-not-null-terminated-result): a file, not a string */
    for (size_t i = 0; i < data_size; i++) bytes[8 + length + i] = (unsigned char)i;
    const char *path = write_bytes("made.safetensors", bytes, 8 + length + data_size);
    const sf_status status = sf_safetensors_open(file, path);
    unlink(path);
    return status;
}

#define TENSOR(name, dtype, shape, offsets)                                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void accepts_what_is_legal(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t size;
    } legal[] = {{"{" TENSOR("a", "U8", "[4]", "[0,4]") "}  ", 4},
                 {"{" TENSOR("a", "F64", "[]", "[0,8]") "}", 8},
                 {"{" TENSOR("a", "I16", "[1,1,1,1,1,1,1,2]", "[0,4]") "}", 4},
                 {"{" TENSOR("a", "F32", "[0,5]", "[0,0]") "}", 0},
                 {"{" TENSOR("b", "BF16", "[1]", "[1,3]") "," TENSOR("a", "BOOL", "[1]", "[0,1]") "}", 3},
                 {"{" TENSOR("b", "I8", "[2]", "[1,3]") "," TENSOR("e", "I64", "[0]",
                                                                   "[1,1]") "," TENSOR("a", "U8", "[1]", "[0,1]") "}",
                  3},
                 {"{\"__metadata__\":{\"k\":\"5\"}," TENSOR("a", "U64", "[1]", "[0,8]") "}", 8}};
    for (size_t i = 0; i < sizeof legal / sizeof *legal; i++) {
        sf_safetensors *file;
        if (open_made(&file, legal[i].header, legal[i].size) != SF_OK)
            fail_msg("%s: %s", legal[i].header, sf_message());
        sf_safetensors_close(file);
    }
    sf_safetensors *file; /* data that is not aligned, as the 8-byte length and the header leave it */
    const char *header = "{" TENSOR("i", "I32", "[1]", "[1,5]") "," TENSOR("pad", "U8", "[1]", "[0,1]") "," TENSOR(
        "f", "F32", "[2]", "[5,13]") "}";
    assert_int_equal(open_made(&file, header, 13), SF_OK);
    int32_t integer;
    double reals[2];
    assert_int_equal(sf_tensor_integers(&integer, sf_safetensors_find(file, "i")), SF_OK);
    assert_int_equal(integer, 0x04030201);
    assert_int_equal(sf_tensor_reals(reals, sf_safetensors_find(file, "f")), SF_OK);
    assert_true(reals[1] == 0x1.161412p-103); /* bytes 9 10 11 12: 0x0c0b0a09 */
    assert_string_equal(sf_safetensors_at(file, 0)->name, "pad");
    assert_null(sf_safetensors_at(file, 3));
    sf_safetensors_close(file);
}

static void refuses_every_lie(void **state) {
    (void)state;
    static const struct {
        const char *why, *said, *header;
        size_t size;
    } lies[] = {
        {"empty header", "JSON object", "", 0},
        {"not JSON", "JSON object", "{\"a\":", 4},
        {"not an object", "JSON object", "[1,2]", 0},
        {"text after the object", "JSON object", "{" TENSOR("a", "U8", "[4]", "[0,4]") "}x", 4},
        {"no tensor", "no tensor", "{}", 0},
        {"metadata only", "no tensor", "{\"__metadata__\":{\"k\":\"5\"}}", 0},
        {"entry is a number", "no known dtype", "{\"a\":5}", 0},
        {"no dtype", "no known dtype", "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4},
        {"no shape", "no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4},
        {"no offsets", "data_offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4},
        {"no offsets, empty", "data_offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0},
        {"unknown dtype", "no known dtype", "{" TENSOR("a", "F31", "[1]", "[0,4]") "}", 4},
        {"lower case dtype", "no known dtype", "{" TENSOR("a", "f32", "[1]", "[0,4]") "}", 4},
        {"rank 9", "no shape", "{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1},
        {"shape is a number", "no shape", "{" TENSOR("a", "U8", "4", "[0,4]") "}", 4},
        {"negative shape", "impossible shape", "{" TENSOR("a", "U8", "[-4]", "[0,4]") "}", 4},
        {"negative and empty", "impossible shape", "{" TENSOR("a", "U8", "[-1,0]", "[0,0]") "}", 0},
        {"two negatives", "impossible shape", "{" TENSOR("a", "U8", "[-2,-2]", "[0,4]") "}", 4},
        {"broken shape", "impossible shape", "{" TENSOR("a", "U8", "[4.0]", "[0,4]") "}", 4},
        {"shape as text", "impossible shape", "{" TENSOR("a", "U8", "[\"4\"]", "[0,4]") "}", 4},
        {"2^65 elements", "impossible shape", "{" TENSOR("a", "U8", "[4611686018427387904,8]", "[0,0]") "}", 0},
        {"2^64 bytes", "impossible shape", "{" TENSOR("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0},
        {"2^64 + 8 bytes", "impossible shape", "{" TENSOR("a", "F64", "[2305843009213693953]", "[0,8]") "}", 8},
        {"beyond 64 bits", "JSON object", "{" TENSOR("a", "U8", "[99999999999999999999]", "[0,4]") "}", 4},
        {"too small a range", "data_offsets", "{" TENSOR("a", "F32", "[2]", "[0,4]") "}", 4},
        {"too large a range", "data_offsets", "{" TENSOR("a", "F32", "[2]", "[0,12]") "}", 12},
        {"beyond the file", "data_offsets", "{" TENSOR("a", "U8", "[5]", "[0,5]") "}", 4},
        {"far beyond the file", "data_offsets",
         "{" TENSOR("a", "U8", "[4]", "[9223372036854775803,9223372036854775807]") "}", 4},
        {"negative start", "data_offsets", "{" TENSOR("a", "U8", "[8]", "[-4,4]") "}", 4},
        {"end before start", "data_offsets", "{" TENSOR("a", "U8", "[4]", "[4,0]") "}", 4},
        {"three offsets", "data_offsets", "{" TENSOR("a", "U8", "[4]", "[0,4,4]") "}", 4},
        {"one offset", "data_offsets", "{" TENSOR("a", "U8", "[0]", "[0]") "}", 0},
        {"offsets as text", "data_offsets", "{" TENSOR("a", "U8", "[0]", "[\"0\",\"0\"]") "}", 0},
        {"overlap", "overlap", "{" TENSOR("a", "U8", "[3]", "[0,3]") "," TENSOR("b", "U8", "[3]", "[1,4]") "}", 4},
        {"same bytes", "overlap", "{" TENSOR("a", "U8", "[4]", "[0,4]") "," TENSOR("b", "U8", "[4]", "[0,4]") "}", 4},
        {"both", "overlap", "{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[0,2]") "}", 4},
        {"gap", "gap", "{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("b", "U8", "[2]", "[2,4]") "}", 4},
        {"gap before the first", "gap", "{" TENSOR("a", "U8", "[3]", "[1,4]") "}", 4},
        {"trailing bytes", "after the last", "{" TENSOR("a", "U8", "[4]", "[0,4]") "}", 5},
        {"duplicate", "JSON object", "{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("a", "U8", "[2]", "[2,4]") "}",
         4},
        {"duplicate key", "JSON object",
         "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1}};
    const size_t in_use = sf_bytes_in_use();
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        sf_safetensors *file;
        if (open_made(&file, lies[i].header, lies[i].size) != SF_BAD_INPUT) fail_msg("accepted: %s", lies[i].why);
        assert_null(file);
        assert_non_null(strstr(sf_message(), "made.safetensors"));
        if (strstr(sf_message(), lies[i].said) == NULL) fail_msg("%s: %s", lies[i].why, sf_message());
    }
    assert_int_equal(sf_bytes_in_use(), in_use);
}

static void refuses_cut_files(void **state) {
    (void)state;
    unsigned char whole[22000];
    FILE *published = fopen("tests/golden/topk5.safetensors", "rb");
    assert_non_null(published);
    const size_t size = fread(whole, 1, sizeof whole, published);
    fclose(published);
    const size_t lengths[] = {0, 1, 7, 8, 9, 100, 5000, size / 2, size - 1};
    const size_t in_use = sf_bytes_in_use();
    sf_safetensors *file;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(sf_safetensors_open(&file, write_bytes("cut", whole, lengths[i])), SF_BAD_INPUT);
        assert_null(file);
        assert_non_null(strstr(sf_message(), lengths[i] < 8      ? "8-byte"
                                             : lengths[i] < 6000 ? "header is longer"
                                                                 : "data"));
    }
    memset(whole, 0xff, 8); /* a header of 2^64 - 1 bytes */
    assert_int_equal(sf_safetensors_open(&file, write_bytes("cut", whole, size)), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "header is longer"));
    unlink(path_of("cut"));
    assert_int_equal(sf_safetensors_open(&file, path_of("cut")), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), strerror(ENOENT)));
    assert_int_equal(sf_safetensors_open(&file, folder), SF_BAD_INPUT);
    assert_int_equal(sf_safetensors_open(&file, "/dev/null"), SF_BAD_INPUT);
    assert_int_equal(sf_bytes_in_use(), in_use);
}

static void commit_replaces_and_abandon_does_not(void **state) {
    (void)state;
    sf_atomic_file file;
    assert_int_equal(sf_atomic_open(&file, path_of("result")), SF_OK);
    fputs("first", file.stream);
    assert_int_equal(access(path_of("result"), F_OK), -1); /* nothing there before the commit */
    assert_int_equal(sf_atomic_commit(&file), SF_OK);
    assert_holds(path_of("result"), "first");
    sf_atomic_abandon(&file); /* after a commit: nothing left to do */
    assert_holds(path_of("result"), "first");

    assert_int_equal(sf_atomic_open(&file, path_of("result")), SF_OK);
    fputs("second, longer", file.stream);
    fflush(file.stream);
    assert_holds(path_of("result"), "first");
    assert_int_equal(files_in_folder(), 2);
    sf_atomic_abandon(&file);
    sf_atomic_abandon(&file);
    assert_holds(path_of("result"), "first");
    assert_int_equal(files_in_folder(), 1);

    assert_int_equal(sf_atomic_open(&file, path_of("result")), SF_OK);
    fputs("2", file.stream);
    assert_int_equal(sf_atomic_commit(&file), SF_OK);
    assert_holds(path_of("result"), "2");
    assert_int_equal(files_in_folder(), 1);
    unlink(path_of("result"));
}

/* Opens `count` files named 0, 1, ... and writes their number into each. */
static void open_several(sf_atomic_file *files, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        assert_int_equal(sf_atomic_open(&files[i], path_of(name)), SF_OK);
        assert_int_equal(sf_atomic_append(&files[i], name, 1), SF_OK);
        assert_int_equal(sf_atomic_append(&files[i], name + 1, strlen(name) - 1), SF_OK);
    }
}

static void several_files_are_committed_together(void **state) {
    (void)state;
    enum { SEVERAL = 40 };
    static sf_atomic_file files[SEVERAL];
    open_several(files, SEVERAL);
    assert_int_equal(access(path_of("0"), F_OK), -1);
    assert_int_equal(sf_atomic_commit_all(files, SEVERAL), SF_OK);
    assert_int_equal(files_in_folder(), SEVERAL);
    for (size_t i = 0; i < SEVERAL; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        assert_null(files[i].stream);
        assert_holds(path_of(name), name);
        unlink(path_of(name));
    }
    assert_int_equal(sf_atomic_commit_all(files, 0), SF_OK);
    /* one of them cannot be put in its place: the others are there, or not at all, and nothing is half-written */
    open_several(files, SEVERAL);
    assert_int_equal(mkdir(path_of("7"), 0700), 0);
    assert_int_equal(sf_atomic_commit_all(files, SEVERAL), SF_IO_ERROR);
    assert_non_null(strstr(sf_message(), "/7"));
    assert_int_equal(rmdir(path_of("7")), 0);
    for (size_t i = 0; i < SEVERAL; i++) {
        char name[8];
        snprintf(name, sizeof name, "%zu", i);
        assert_null(files[i].stream);
        if (access(path_of(name), F_OK) != 0) continue;
        assert_holds(path_of(name), name);
        unlink(path_of(name));
    }
    assert_int_equal(files_in_folder(), 0);
}

static void unwritable_places(void **state) {
    (void)state;
    sf_atomic_file file;
    assert_int_equal(sf_atomic_open(&file, path_of("missing/result")), SF_IO_ERROR);
    assert_non_null(strstr(sf_message(), "missing/result"));
    assert_non_null(strstr(sf_message(), strerror(ENOENT)));
    sf_atomic_abandon(&file); /* legal after a failed open */
    assert_int_equal(sf_atomic_open(&file, folder), SF_BAD_INPUT);
    assert_int_equal(sf_atomic_open(&file, "/dev/full"), SF_BAD_INPUT);
    char endless[5000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_int_equal(sf_atomic_open(&file, endless), SF_BAD_INPUT);
    endless[4096] = '\0';
    assert_int_equal(sf_atomic_open(&file, endless), SF_BAD_INPUT);
    endless[4095] = '\0';
    assert_int_equal(sf_atomic_open(&file, endless), SF_IO_ERROR);
    /* its place turns into a folder before the commit */
    assert_int_equal(sf_atomic_open(&file, path_of("result")), SF_OK);
    fputs("lost", file.stream);
    assert_int_equal(mkdir(path_of("result"), 0700), 0);
    assert_int_equal(sf_atomic_commit(&file), SF_IO_ERROR);
    assert_int_equal(rmdir(path_of("result")), 0);
    assert_int_equal(files_in_folder(), 0);
}

/* A limit on file sizes stands for a full disk: the old file stays, no scratch remains. */
static void full_disks(void **state) {
    (void)state;
    write_bytes("result", "old", 3);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    static const char block[100000];
    static const size_t sizes[] = {4097, 5000, 8192, sizeof block}; /* noticed when flushed, or already while writing */
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const size_t size = sizes[i / 2];
        sf_atomic_file file;
        assert_int_equal(sf_atomic_open(&file, path_of("result")), SF_OK);
        setrlimit(RLIMIT_FSIZE, &small);
        if (i % 2 == 0)
            fwrite(block, 1, size, file.stream);
        else
            for (size_t j = 0; j < size; j++) putc('n', file.stream);
        const sf_status status = sf_atomic_commit(&file);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, SF_IO_ERROR);
        assert_null(file.stream);
        assert_non_null(strstr(sf_message(), "result"));
        assert_non_null(strstr(sf_message(), strerror(EFBIG)));
        assert_holds(path_of("result"), "old");
        assert_int_equal(files_in_folder(), 1);
    }
    signal(SIGXFSZ, handler);
    unlink(path_of("result"));
}

static void check_lines(const char *text, size_t size, const char *const *expected) {
    const char *path = write_bytes("lines", text, size);
    sf_lines lines;
    if (sf_lines_read(&lines, path) != SF_OK) fail_msg("%s", sf_message());
    assert_string_equal(lines.name, path);
    assert_int_equal(lines.number, 0);
    for (size_t i = 0; expected[i] != NULL; i++) {
        const char *line = sf_lines_next(&lines);
        assert_non_null(line);
        assert_string_equal(line, expected[i]);
        assert_int_equal(lines.number, i + 1);
    }
    assert_null(sf_lines_next(&lines));
    assert_null(sf_lines_next(&lines));
    sf_lines_release(&lines);
    unlink(path);
}

static void lines_end_in_many_ways(void **state) {
    (void)state;
    const size_t in_use = sf_bytes_in_use();
    check_lines("", 0, (const char *const[]){NULL});
    check_lines("\n", 1, (const char *const[]){"", NULL});
    check_lines("a\nbc\n", 5, (const char *const[]){"a", "bc", NULL});
    check_lines("a\nbc", 4, (const char *const[]){"a", "bc", NULL});
    check_lines("a\r\nbc\r\n", 7, (const char *const[]){"a", "bc", NULL});
    check_lines("\r\n\r\n\n", 5, (const char *const[]){"", "", "", NULL});
    check_lines("a\rb\n\tc \n", 8, (const char *const[]){"a\rb", "\tc ", NULL});
    assert_int_equal(sf_bytes_in_use(), in_use);
}

/* Sizes around the room that is read at once, and one that makes it grow several times. */
static void long_files(void **state) {
    (void)state;
    static const size_t sizes[] = {65534, 65535, 65536, 65537, 131071, 131072, 1000001};
    const size_t in_use = sf_bytes_in_use();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *text;
        assert_int_equal(SF_NEW(&text, sizes[i] + 1), SF_OK);
        for (size_t j = 0; j < sizes[i]; j++) text[j] = (char)('a' + j % 23);
        check_lines(text, sizes[i], (const char *const[]){text, NULL});
        sf_release(text);
    }
    assert_int_equal(sf_bytes_in_use(), in_use);
}

/* The longest line that is read, with and without a line end, and one more byte, which is refused in its line. */
static void refuses_endless_lines(void **state) {
    (void)state;
    enum { LONGEST = 16 << 20 };
    const size_t in_use = sf_bytes_in_use();
    sf_lines lines;
    char *text;
    assert_int_equal(SF_NEW(&text, LONGEST + 4), SF_OK);
    memset(text, 'b', LONGEST + 3);
    check_lines(text, LONGEST, (const char *const[]){text + 3, NULL});
    text[0] = 'a';
    text[1] = '\n';
    assert_int_equal(sf_lines_read(&lines, write_bytes("lines", text, LONGEST + 3)), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "lines:2: is a line of more than 16777216 bytes"));
    text[LONGEST + 2] = '\n';
    assert_int_equal(sf_lines_read(&lines, write_bytes("lines", text, LONGEST + 3)), SF_OK);
    sf_lines_release(&lines);
    unlink(path_of("lines"));
    sf_release(text);
    assert_int_equal(sf_bytes_in_use(), in_use);
}

static void refuses_what_is_no_text(void **state) {
    (void)state;
    const size_t in_use = sf_bytes_in_use();
    sf_lines lines;
    assert_int_equal(sf_lines_read(&lines, write_bytes("lines", "a\nb\nc\0d\n", 8)), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), "lines:3:"));
    assert_int_equal(sf_lines_read(&lines, write_bytes("lines", "a\n\0", 3)), SF_BAD_INPUT);
    assert_int_equal(sf_lines_read(&lines, write_bytes("lines", "\0", 1)), SF_BAD_INPUT);
    unlink(path_of("lines"));
    assert_int_equal(sf_lines_read(&lines, folder), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), strerror(EISDIR)));
    assert_int_equal(sf_lines_read(&lines, path_of("lines")), SF_BAD_INPUT);
    assert_non_null(strstr(sf_message(), strerror(ENOENT)));
    assert_int_equal(sf_bytes_in_use(), in_use);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_a_published_file),
                                       cmocka_unit_test(accepts_what_is_legal),
                                       cmocka_unit_test(refuses_every_lie),
                                       cmocka_unit_test(refuses_cut_files),
                                       cmocka_unit_test(commit_replaces_and_abandon_does_not),
                                       cmocka_unit_test(several_files_are_committed_together),
                                       cmocka_unit_test(unwritable_places),
                                       cmocka_unit_test(full_disks),
                                       cmocka_unit_test(lines_end_in_many_ways),
                                       cmocka_unit_test(long_files),
                                       cmocka_unit_test(refuses_endless_lines),
                                       cmocka_unit_test(refuses_what_is_no_text)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
