/* Attention alone on the device has the bits of the CPU: output and gradients, through the public calls. Skipped where
 * there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "semfocus/semfocus.h"

enum { SKIPPED = 77, ARRAYS = 4 /* q, k, v, dout */, RESULTS = 4 /* out, dq, dk, dv */ };

static float number(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(*state >> 40) * 0x1p-23F - 1.0F;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void *allocated(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0xff, bytes); /* NaN: what is not written is seen */
    return memory;
}

static void *on_device(const void *from, size_t bytes) {
    void *memory;
    assert_int_equal(cudaMalloc(&memory, bytes + 64), cudaSuccess);
    assert_int_equal(cudaMemset(memory, 0xff, bytes + 64), cudaSuccess);
    if (from != NULL) assert_int_equal(cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return memory;
}

static size_t trace_bytes(const sf_raw_request *request) {
    size_t bytes;
    if (sf_raw_attention_trace(&bytes, request) != SF_OK) fail_msg("%s", sf_message());
    assert_int_equal(bytes % 64, 0);
    return bytes * request->N;
}

static void run(float *const *results, void *trace, float *const *in, const sf_raw_request *request) {
    if (sf_raw_attention_forward(results[0], trace, in[0], in[1], in[2], request) != SF_OK)
        fail_msg("%s: %s", request->attention, sf_message());
    if (sf_raw_attention_backward(results[1], results[2], results[3], in[3], results[0], trace, in[0], in[1], in[2],
                                  request) != SF_OK)
        fail_msg("%s: %s", request->attention, sf_message());
}

static void run_on_device(float *const *results, float *const *in, size_t bytes, const sf_raw_request *request) {
    float *there[ARRAYS], *got[RESULTS];
    sf_raw_request gpu = *request;
    cudaStream_t stream;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    gpu.on_gpu = true;
    gpu.stream = stream;
    for (size_t i = 0; i < ARRAYS; i++) there[i] = on_device(in[i], bytes);
    for (size_t i = 0; i < RESULTS; i++) got[i] = on_device(NULL, bytes);
    void *trace = on_device(NULL, trace_bytes(&gpu));
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    run(got, trace, there, &gpu);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    for (size_t i = 0; i < RESULTS; i++)
        assert_int_equal(cudaMemcpy(results[i], got[i], bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < ARRAYS; i++) cudaFree(there[i]);
    for (size_t i = 0; i < RESULTS; i++) cudaFree(got[i]);
    cudaFree(trace);
    cudaStreamDestroy(stream);
}

static bool same_bits(const sf_raw_request *request) {
    static const char *const names[RESULTS] = {"out", "dq", "dk", "dv"};
    const size_t count = request->N * request->H * request->T * request->D, bytes = count * sizeof(float);
    float *in[ARRAYS], *cpu[RESULTS], *gpu[RESULTS];
    uint64_t state = 1 + request->T * 31 + request->D;
    bool same = true;
    for (size_t i = 0; i < ARRAYS; i++) {
        in[i] = allocated(bytes);
        cpu[i] = allocated(bytes);
        gpu[i] = allocated(bytes);
        for (size_t n = 0; n < count; n++) in[i][n] = 2 * number(&state);
    }
    void *trace = allocated(trace_bytes(request));
    memset(trace, 0, trace_bytes(request));
    run(cpu, trace, in, request);
    run_on_device(gpu, in, bytes, request);
    for (size_t i = 0; i < RESULTS; i++) {
        size_t wrong = 0;
        for (size_t n = 0; n < count; n++) wrong += bits_of(cpu[i][n]) != bits_of(gpu[i][n]);
        if (wrong > 0)
            printf("%s%s N %zu H %zu T %zu D %zu: %s: %zu of %zu differ\n", request->attention,
                   request->causal ? " causal" : "", request->N, request->H, request->T, request->D, names[i], wrong,
                   count);
        same &= wrong == 0;
    }
    for (size_t i = 0; i < ARRAYS; i++) {
        free(in[i]);
        free(cpu[i]);
        free(gpu[i]);
    }
    free(trace);
    return same;
}

static const struct {
    const char *attention;
    bool causal;
} mechanisms[] = {{"full", false},
                  {"full", true},
                  {"topk:5", false},
                  {"topk:3", true},
                  {"topk:40", false},
                  {"bottomk:4", false},
                  {"banded:5", false},
                  {"banded:5", true},
                  {"block:4", false},
                  {"random:3", false},
                  {"random:3", true},
                  {"topp:0.7", false},
                  {"within:1", false},
                  {"blocktopk:4:2", false},
                  {"lsh:4:2", false},
                  {"topk:3+sink:1/entmax15@rope", false},
                  {"topk:3+global:1", false},
                  {"full/sigmoid", false},
                  {"full/fastmax", false},
                  {"full/doubly", false},
                  {"full@qknorm:3", false},
                  {"full@alibi", true},
                  {"topk:3@softcap:2", false},
                  {"topk:3@logn", true},
                  {"kmeans:3:2", false},
                  {"topk:3+window:3", true},
                  {"banded:3+random:2", false},
                  {"topk:3/softmax1", false},
                  {"topk:3/softplus", true},
                  {"full/sparsemax", false},
                  {"within:0.8/entmax:1.3", false},
                  {"topk:3+st", false}};

static const struct {
    size_t N, H, T, D;
} shapes[] = {{1, 1, 1, 8},  {2, 3, 7, 20}, {2, 1, 70, 8},  {1, 3, 70, 64},
              {2, 3, 1, 64}, {1, 1, 7, 64}, {2, 3, 70, 20}, {1, 2, 9, 7}};

static void bits_are_those_of_the_cpu(void **state) {
    size_t wrong = 0;
    (void)state;
    for (size_t m = 0; m < sizeof mechanisms / sizeof *mechanisms; m++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const bool has_globals = strstr(mechanisms[m].attention, "global") != NULL;
            if (shapes[i].T == 1 && has_globals) continue; /* no position would be left */
            wrong += !same_bits(&(sf_raw_request){.attention = mechanisms[m].attention,
                                                  .N = shapes[i].N,
                                                  .H = shapes[i].H,
                                                  .T = shapes[i].T,
                                                  .D = shapes[i].D,
                                                  .threads = 1,
                                                  .seed = 5,
                                                  .causal = mechanisms[m].causal});
        }
    assert_int_equal(wrong, 0);
}

static void seed_and_scale_matter(void **state) {
    (void)state;
    assert_true(same_bits(&(sf_raw_request){
        .attention = "random:3", .scale = 0.3, .N = 5, .H = 2, .T = 9, .D = 6, .threads = 1, .seed = 77}));
}

/* More keys than one block of threads lists. */
static void long_sequences(void **state) {
    static const char *const some[] = {"full", "topk:5", "banded:5"};
    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        assert_true(
            same_bits(&(sf_raw_request){.attention = some[i], .N = 1, .H = 1, .T = 1100, .D = 8, .threads = 1}));
}

/* With little memory (SEMFOCUS_EMULATE_MEMORY), not all at once. */
static void sequences_are_taken_in_groups(void **state) {
    static const char *const some[] = {"full", "topk:5", "banded:5", "random:3", "topp:0.7@rope", "full/fastmax"};
    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        assert_true(same_bits(&(sf_raw_request){
            .attention = some[i], .N = 13, .H = 2, .T = 20, .D = 16, .threads = 1, .seed = (uint32_t)i}));
}

/* Calls on two streams use the same memory of the library: the second waits for the first. */
static void streams_do_not_meet(void **state) {
    enum { STREAMS = 2, COUNT = 4 * 2 * 130 * 16 };
    static float in[STREAMS][COUNT], expected[STREAMS][COUNT], got[COUNT];
    const size_t bytes = sizeof got;
    sf_raw_request request = {.attention = "topk:5", .N = 4, .H = 2, .T = 130, .D = 16, .threads = 1};
    float *there[STREAMS], *out[STREAMS];
    void *traces[STREAMS], *trace = allocated(trace_bytes(&request));
    cudaStream_t streams[STREAMS];
    uint64_t numbers = 9;
    (void)state;
    for (size_t i = 0; i < STREAMS; i++) {
        for (size_t n = 0; n < COUNT; n++) in[i][n] = number(&numbers);
        assert_int_equal(sf_raw_attention_forward(expected[i], trace, in[i], in[i], in[i], &request), SF_OK);
    }
    request.on_gpu = true;
    for (size_t i = 0; i < STREAMS; i++) {
        assert_int_equal(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), cudaSuccess);
        there[i] = on_device(in[i], bytes);
        out[i] = on_device(NULL, bytes);
        traces[i] = on_device(NULL, trace_bytes(&request));
    }
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    for (size_t round = 0; round < 10; round++) {
        for (size_t call = 0; call < (size_t)3 * STREAMS; call++) { /* both are busy when the next comes */
            const size_t i = call % STREAMS;
            request.stream = streams[i];
            assert_int_equal(sf_raw_attention_forward(out[i], traces[i], there[i], there[i], there[i], &request),
                             SF_OK);
        }
        for (size_t i = 0; i < STREAMS; i++) {
            assert_int_equal(cudaStreamSynchronize(streams[i]), cudaSuccess);
            assert_int_equal(cudaMemcpy(got, out[i], bytes, cudaMemcpyDeviceToHost), cudaSuccess);
            assert_memory_equal(got, expected[i], bytes);
        }
    }
    for (size_t i = 0; i < STREAMS; i++) {
        cudaFree(there[i]);
        cudaFree(out[i]);
        cudaFree(traces[i]);
        cudaStreamDestroy(streams[i]);
    }
    free(trace);
}

static void what_is_refused(void **state) {
    size_t bytes;
    double unused[4] = {0};
    sf_raw_request request = {.attention = "full", .N = 1, .H = 1, .T = 2, .D = 2, .on_gpu = true};
    (void)state;
    assert_int_equal(sf_raw_attention_forward_double(unused, unused, unused, unused, &request), SF_UNSUPPORTED);
    assert_non_null(strstr(sf_message(), "double is computed on the CPU alone"));
    request.attention = "nonsense";
    assert_int_equal(sf_raw_attention_trace(&bytes, &request), SF_BAD_INPUT);
    request.attention = "full";
    request.N = 0;
    assert_int_equal(sf_raw_attention_forward(NULL, NULL, NULL, NULL, NULL, &request), SF_OK);
}

int main(int count, char **arguments) {
    int devices = 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_those_of_the_cpu),
                                       cmocka_unit_test(seed_and_scale_matter),
                                       cmocka_unit_test(long_sequences),
                                       cmocka_unit_test(sequences_are_taken_in_groups),
                                       cmocka_unit_test(streams_do_not_meet),
                                       cmocka_unit_test(what_is_refused)};
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        puts("no GPU was found: skipped");
        return SKIPPED;
    }
    if (count > 1) cmocka_set_test_filter(arguments[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
