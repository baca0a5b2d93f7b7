/* A training step allocates nothing: neither through base/memory.h nor inside the C library, whose qsort, for one,
 * takes memory for more than 1024 bytes. This program's own malloc and its relatives count, and pass on to glibc's. */
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "kernels/cpu/cpu.h"
#include "semfocus/semfocus.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_OTHER_MALLOC
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_OTHER_MALLOC
#endif
#endif

static atomic_size_t taken;          /* blocks, by all code in this process but that runtime */
static uintptr_t omp_begin, omp_end; /* where clang's OpenMP runtime lies; 0: it is not here */

static int find_omp(struct dl_phdr_info *library, size_t size, void *context) {
    (void)size;
    (void)context;
    if (strstr(library->dlpi_name, "libomp") == NULL) return 0;
    omp_begin = library->dlpi_addr;
    for (size_t i = 0; i < library->dlpi_phnum; i++) {
        const uintptr_t end = library->dlpi_addr + library->dlpi_phdr[i].p_vaddr + library->dlpi_phdr[i].p_memsz;
        if (library->dlpi_phdr[i].p_type == PT_LOAD && end > omp_end) omp_end = end;
    }
    return 1;
}

#if defined(__GLIBC__) && !defined(HAS_OTHER_MALLOC)
#define COUNTS_MALLOC 1
#pragma GCC visibility push(default) /* so that the shared libraries take these, too */
/* The names are glibc's own for its allocator. */
void *__libc_malloc(size_t size);                     // NOLINT
void *__libc_calloc(size_t members, size_t size);     // NOLINT
void *__libc_realloc(void *block, size_t size);       // NOLINT
void *__libc_memalign(size_t alignment, size_t size); // NOLINT

static void count(uintptr_t caller) {
    if (caller < omp_begin || caller >= omp_end) atomic_fetch_add(&taken, 1);
}

void *malloc(size_t size) {
    count((uintptr_t)__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t members, size_t size) {
    count((uintptr_t)__builtin_return_address(0));
    return __libc_calloc(members, size);
}

void *realloc(void *block, size_t size) {
    count((uintptr_t)__builtin_return_address(0));
    return __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count((uintptr_t)__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    count((uintptr_t)__builtin_return_address(0));
    *out = __libc_memalign(alignment, size);
    return *out != NULL ? 0 : ENOMEM;
}
#pragma GCC visibility pop
#else
#define COUNTS_MALLOC 0
#endif

enum { KEPT = 300 }; /* 1200 bytes of positions per query */

static sf_config config_of(const char *mechanism, const char *precision) {
    static const char *const settings[][2] = {
        {"length", "320"}, {"train-count", "6"}, {"heldout-count", "3"}, {"batch", "2"},     {"blocks", "1"},
        {"width", "8"},    {"mlp-width", "8"},   {"heads", "2"},         {"dropout", "0.1"}, {"epochs", "3"}};
    sf_config config;
    sf_config_init(&config);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_int_equal(sf_config_set(&config, settings[i][0], settings[i][1]), SF_OK);
    assert_int_equal(sf_config_set(&config, "attention", mechanism), SF_OK);
    assert_int_equal(sf_config_set(&config, "precision", precision), SF_OK);
    return config;
}

/* The first epoch starts the threads, and OpenMP and the C library take what they keep; the second takes nothing. */
static void check(const char *mechanism, const char *precision) {
    const sf_config config = config_of(mechanism, precision);
    sf_fleet *fleet;
    if (sf_fleet_create(&fleet, "even-pairs", &config, 1, &(sf_execution){.threads = 2}) != SF_OK)
        fail_msg("%s: %s", mechanism, sf_message());
    const size_t ours = sf_allocation_count();
    assert_int_equal(sf_fleet_advance(fleet), SF_OK);
    if (sf_allocation_count() != ours) fail_msg("%s in %s allocates in its first epoch", mechanism, precision);
    const size_t before = atomic_load(&taken);
    assert_int_equal(sf_fleet_advance(fleet), SF_OK);
    const size_t blocks = atomic_load(&taken) - before;
    if (blocks != 0) fail_msg("%s in %s allocates %zu blocks in an epoch of 3 steps", mechanism, precision, blocks);
    sf_fleet_destroy(fleet);
}

/* What follows the name of a selector that takes no k. */
static const char *numbers_of(const char *selector) {
    static const char *const numbers[][2] = {{"topp", ":0.9"},   {"within", ":1"}, {"blocktopk", ":20:3"},
                                             {"kmeans", ":4:2"}, {"lsh", ":8:2"},  {"full", ""}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i][0], selector) == 0) return numbers[i][1];
    fail_msg("%s: which numbers does it take?", selector);
    return "";
}

static void no_mechanism_allocates_in_a_step(void **state) {
    (void)state;
    sf_part_info selector, weighting;
    const bool has_bf16 = sf_cpu_check_isa(SF_BF16) == SF_OK;
    if (!has_bf16) print_message("skipped: %s\n", sf_message());
    for (size_t i = 0; sf_selector_describe(&selector, i); i++)
        for (size_t j = 0; sf_weighting_describe(&weighting, j); j++) {
            char mechanism[SF_SPELLING_SIZE], numbers[32];
            if (j > 0 && i != j) continue; /* every selector, and every weighting with one of them */
            snprintf(numbers, sizeof numbers, strcmp(selector.spelling, ":K") == 0 ? ":%d" : "%.0d", KEPT);
            if (strcmp(selector.spelling, ":K") != 0)
                snprintf(numbers, sizeof numbers, "%s", numbers_of(selector.name));
            snprintf(mechanism, sizeof mechanism, "%s%s/%s%s", selector.name, numbers, weighting.name,
                     strcmp(weighting.name, "entmax") == 0 ? ":1.3" : "");
            check(mechanism, "f32");
            if (has_bf16) check(mechanism, "bf16");
        }
    check("topk:20+global:1+random:3+sink:2+st+window:5@rope@qknorm:4@alibi@softcap:5@logn", "f32");
    assert_int_equal(sf_bytes_in_use(), 0);
}

static int by_size(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void the_count_sees_what_the_c_library_takes(void **state) {
    (void)state;
    if (!COUNTS_MALLOC) skip();
    static int numbers[1 << 16];
    const size_t before = atomic_load(&taken);
    qsort(numbers, sizeof numbers / sizeof *numbers, sizeof *numbers, by_size);
    char *copy = strdup("one block");
    assert_true(atomic_load(&taken) - before >= 1);
    free(copy);
}

int main(void) {
    dl_iterate_phdr(find_omp, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_sees_what_the_c_library_takes),
        cmocka_unit_test(no_mechanism_allocates_in_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
