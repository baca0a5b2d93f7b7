/* How ranks on one machine share its cores and GPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ranks/node.h"

static cpu_set_t cores(size_t first, size_t count) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t cpu = first; cpu < first + count; cpu++) CPU_SET(cpu, &set);
    return set;
}

static void cores_are_divided(void **unused) {
    (void)unused;
    const cpu_set_t alone[] = {cores(0, 16)};
    assert_int_equal(sf_node_threads(alone, 1, 0), 16);
    const cpu_set_t bound[] = {cores(0, 4), cores(4, 12)};
    assert_int_equal(sf_node_threads(bound, 2, 0), 4);
    assert_int_equal(sf_node_threads(bound, 2, 1), 12);
    const cpu_set_t shared[] = {cores(0, 8), cores(0, 8), cores(0, 8)};
    for (size_t i = 0; i < 3; i++) assert_int_equal(sf_node_threads(shared, 3, i), 2);
    const cpu_set_t sockets[] = {cores(0, 8), cores(0, 8), cores(8, 8), cores(8, 8)};
    for (size_t i = 0; i < 4; i++) assert_int_equal(sf_node_threads(sockets, 4, i), 4);
    const cpu_set_t crowded[] = {cores(0, 2), cores(0, 2), cores(0, 2)};
    assert_int_equal(sf_node_threads(crowded, 3, 1), 1);
    const cpu_set_t unknown[] = {cores(0, 0)};
    assert_int_equal(sf_node_threads(unknown, 1, 0), 1);
}

static void expect_gpu(const char *list, size_t own, const char *expected) {
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    sf_node_take_gpu(own);
    assert_string_equal(getenv("CUDA_VISIBLE_DEVICES"), expected);
}

static void gpus_are_divided(void **unused) {
    (void)unused;
    expect_gpu("0,1,2,3", 2, "2");
    expect_gpu("4,7", 1, "7");
    expect_gpu("4,7", 2, "4");
    expect_gpu("GPU-8932f937,GPU-16a23983", 1, "GPU-16a23983");
    expect_gpu("3", 5, "3");
    expect_gpu("", 1, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cores_are_divided), cmocka_unit_test(gpus_are_divided)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
