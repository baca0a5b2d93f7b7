/* Evaluators of the CUDA backend have the bits of the CPU's in f32: sums, logits, gradients, training steps and
 * everything an observer sees. Skipped where there is no GPU.
 *
 * usage: evaluators [TEST], where * stands for anything */
#include "../sample_model.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "train/evaluator.h"
#include "train/optimizer.h"

enum { SKIPPED = 77, MODELS = 3 };

static const sample_case cases[] = {
    {"full", 9, 16, 16, 1, 2, 5, SF_RELU, SF_PRE_NORM, 0.1, 1},
    {"full", 70, 12, 20, 2, 2, 3, SF_GELU, SF_POST_NORM, 0.3, 2},
    {"topk:3", 11, 20, 9, 2, 2, 9, SF_MISH, SF_PRE_NORM, 0.2, 3},
    {"bottomk:2", 67, 8, 8, 1, 1, 2, SF_RELU, SF_POST_NORM, 0.1, 4},
    {"random:4", 13, 24, 24, 3, 2, 10, SF_RELU, SF_PRE_NORM, 0.1, 5},
    {"banded:3", 20, 16, 33, 2, 3, 17, SF_GELU, SF_PRE_NORM, 0.1, 6},
    {"block:4+global:1", 12, 64, 64, 1, 2, 4, SF_RELU, SF_PRE_NORM, 0.01, 7},
    {"topk:5", 7, 64, 64, 1, 2, 3, SF_RELU, SF_PRE_NORM, 0.01, 8},
    {"full", 1, 8, 8, 1, 1, 1, SF_RELU, SF_PRE_NORM, 0.5, 9},
    {"full", 40, 64, 64, 1, 1, 4, SF_GELU, SF_POST_NORM, 0.1, 10},
    {"random:3", 21, 64, 64, 1, 2, 7, SF_RELU, SF_PRE_NORM, 0.2, 11},
    {"banded:5", 50, 64, 64, 1, 1, 3, SF_MISH, SF_PRE_NORM, 0.1, 12},
    {"causal full", 150, 12, 20, 2, 1, 3, SF_GELU, SF_PRE_NORM, 0.2, 13},
    {"causal full", 40, 64, 64, 1, 1, 4, SF_RELU, SF_POST_NORM, 0.1, 14},
    {"causal banded:5", 67, 20, 9, 2, 2, 3, SF_RELU, SF_PRE_NORM, 0.1, 15},
    {"causal block:4", 21, 64, 64, 1, 2, 7, SF_RELU, SF_PRE_NORM, 0.2, 16},
    {"causal topk:5", 70, 12, 20, 2, 2, 3, SF_RELU, SF_PRE_NORM, 0.1, 17},
    {"causal bottomk:40", 67, 20, 9, 1, 1, 3, SF_GELU, SF_POST_NORM, 0.1, 18},
    {"causal random:4", 21, 64, 64, 1, 2, 9, SF_RELU, SF_PRE_NORM, 0.2, 19},
    {"last full", 9, 64, 64, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 20},
    {"causal last topk:3", 19, 12, 20, 2, 1, 10, SF_RELU, SF_PRE_NORM, 0.1, 21},
    {"cls banded:3+global:1", 13, 20, 9, 2, 1, 9, SF_RELU, SF_POST_NORM, 0.1, 22},
    {"each full", 9, 12, 20, 2, 1, 10, SF_RELU, SF_PRE_NORM, 0.1, 23},
    {"causal each topk:3", 70, 20, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 24},
    {"tied each full", 30, 12, 9, 1, 1, 10, SF_RELU, SF_PRE_NORM, 0.1, 26},
    {"tied topk:3", 40, 72, 9, 1, 1, 9, SF_RELU, SF_PRE_NORM, 0.1, 27},
    {"narrow full", 21, 24, 9, 3, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 28},
    {"wide topk:3", 21, 12, 9, 2, 1, 5, SF_RELU, SF_POST_NORM, 0.1, 29},
    {"narrow random:3", 13, 64, 64, 1, 1, 4, SF_RELU, SF_PRE_NORM, 0.1, 30},
    {"full/softmax1", 21, 12, 9, 2, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 31},
    {"topk:3/sigmoid", 21, 12, 9, 1, 2, 5, SF_RELU, SF_PRE_NORM, 0.1, 32},
    {"causal full/sigmoid", 70, 12, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 33},
    {"banded:3/softplus:3", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 34},
    {"full/sparsemax", 21, 20, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 35},
    {"random:9/entmax15", 21, 64, 64, 1, 1, 4, SF_RELU, SF_PRE_NORM, 0.1, 36},
    {"full/entmax:1.3", 9, 12, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 37},
    {"causal full/fastmax", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 38},
    {"full/fastmax", 9, 20, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 38},
    {"full@rope", 70, 13, 9, 2, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 39},
    {"topk:3@rope@qknorm:4", 13, 64, 64, 1, 2, 3, SF_RELU, SF_POST_NORM, 0.1, 40},
    {"narrow full@qknorm:2", 21, 12, 9, 2, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 41},
    {"full@alibi", 70, 12, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 42},
    {"topk:5@softcap:3@logn", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 43},
    {"causal banded:5@alibi@softcap:2", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 44},
    {"random:4/sigmoid@logn", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 45},
    {"topk:3+sink:2+window:3+random:2", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 46},
    {"causal topk:3+sink:1", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 47},
    {"random:3+global:2", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 48},
    {"banded:3+random:4", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 49},
    {"topk:3+st", 70, 12, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 50},
    {"causal bottomk:3+st@softcap:2", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 51},
    {"topp:0.6", 70, 12, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 52},
    {"causal topp:0.8+window:3", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 53},
    {"within:0.5+sink:1@alibi", 21, 12, 9, 2, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 54},
    {"topp:0.6+global:1/sparsemax", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 55},
    {"blocktopk:4:2", 21, 12, 9, 2, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 56},
    {"blocktopk:16:2", 70, 12, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 57},
    {"causal blocktopk:3:3/sigmoid", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 58},
    {"blocktopk:4:2+global:1@rope", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 59},
    {"kmeans:3:2", 21, 12, 9, 2, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 60},
    {"kmeans:9:0+sink:1", 21, 13, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 61},
    {"lsh:4:2", 21, 12, 9, 2, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 62},
    {"causal lsh:6:3@alibi", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 63},
    {"full/fastmax", 40, 16, 9, 2, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 67},
    {"full+global:1/fastmax@rope", 40, 13, 9, 1, 2, 5, SF_RELU, SF_PRE_NORM, 0, 68},
    {"full/doubly", 21, 12, 9, 2, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 64},
    {"within:1/doubly:3@alibi", 70, 12, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 65},
    {"banded:5+global:1/doubly:2", 21, 12, 9, 1, 1, 5, SF_RELU, SF_PRE_NORM, 0.1, 66},
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct pair { /* one evaluator of each backend */
    sample s;
    float *params[MODELS]; /* [size] each */
    sf_evaluator cpu, gpu;
} pair;

static void fell_back(void *context, const char *sentence) {
    (void)context;
    fail_msg("%s", sentence);
}

static void open_pair(pair *out, const sample_case *c, sf_work work, size_t models) {
    describe_case(c);
    sample_open(&out->s, c);
    for (size_t m = 0; m < MODELS; m++) {
        assert_int_equal(SF_NEW(&out->params[m], out->s.model.size), SF_OK);
        for (size_t i = 0; i < out->s.model.size; i++)
            out->params[m][i] = (float)((1 + 0.25 * (double)m) * out->s.params[i]);
    }
    const sf_machine cpu = {.threads = 2}, gpu = {.threads = 2, .device = SF_CUDA, .on_note = fell_back};
    if (sf_evaluator_open(&out->cpu, &cpu, work, &out->s.model, SF_F32, out->s.B, models) != SF_OK ||
        sf_evaluator_open(&out->gpu, &gpu, work, &out->s.model, SF_F32, out->s.B, models) != SF_OK)
        fail_msg("%s", sf_message());
}

static void close_pair(pair *p) {
    sf_evaluator_close(&p->cpu);
    sf_evaluator_close(&p->gpu);
    for (size_t m = 0; m < MODELS; m++) sf_release(p->params[m]);
    sample_close(&p->s);
}

static void *room_for(size_t count, size_t size) {
    void *room;
    assert_int_equal(sf_allocate(&room, count, size), SF_OK);
    return room;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void assert_floats_equal(const char *what, const float *a, const float *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bits_of((double)a[i]) != bits_of((double)b[i]))
            fail_msg("%s: number %zu of %zu is %.9g on the CPU and %.9g on the GPU", what, i, count, (double)a[i],
                     (double)b[i]);
}

static void assert_losses_equal(double cpu, double gpu) {
    if (bits_of(cpu) != bits_of(gpu)) fail_msg("the loss is %.17g on the CPU and %.17g on the GPU", cpu, gpu);
}

/* ---- evaluate */

static void evaluate(sf_evaluation *out, float *logits, const sf_evaluator *evaluator, const pair *p,
                     const sf_moment *moment) {
    const sf_batch batch = sample_batch(&p->s);
    const size_t row = batch.B * sf_shape_labels(&p->s.model.shape) * p->s.model.shape.classes;
    for (size_t m = 0; m < MODELS; m += evaluator->models)
        if (sf_evaluator_evaluate(evaluator, out + m, logits + m * row, (const float *const *)p->params + m,
                                  sf_smaller(evaluator->models, MODELS - m), &batch, moment) != SF_OK)
            fail_msg("%s", sf_message());
}

static void check_evaluation(const sample_case *c, const sf_moment *moment) {
    pair p;
    open_pair(&p, c, SF_EVALUATION_WORK, MODELS);
    assert_int_equal(p.gpu.models, MODELS);
    const size_t count = MODELS * p.s.B * sf_shape_labels(&p.s.model.shape) * p.s.model.shape.classes;
    float *logits[2] = {room_for(count, sizeof(float)), room_for(count, sizeof(float))};
    sf_evaluation sums[2][MODELS];
    evaluate(sums[0], logits[0], &p.cpu, &p, moment);
    for (size_t again = 0; again < 2; again++) {
        memset(logits[1], 0, count * sizeof *logits[1]);
        evaluate(sums[1], logits[1], &p.gpu, &p, moment);
        assert_floats_equal("logits", logits[0], logits[1], count);
        for (size_t m = 0; m < MODELS; m++) {
            assert_losses_equal(sums[0][m].loss, sums[1][m].loss);
            assert_int_equal(sums[0][m].correct, sums[1][m].correct);
            assert_int_equal(sums[0][m].labelled, sums[1][m].labelled);
        }
    }
    sf_release(logits[0]);
    sf_release(logits[1]);
    close_pair(&p);
}

static void evaluations_are_equal(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++)
        check_evaluation(&cases[i], &(sf_moment){.seed = 11, .epoch = 2, .step = 1, .first_sample = 40});
    const sample_case many = {"random:2", 3, 4, 4, 1, 1, 2 * SF_EVALUATION_BATCH + 100, SF_RELU, SF_PRE_NORM, 0, 10};
    check_evaluation(&many, &(sf_moment){.seed = 3, .first_sample = 7});
}

static void fewer_weights_and_sequences_than_there_is_room_for(void **state) {
    (void)state;
    pair p;
    open_pair(&p, &cases[4], SF_EVALUATION_WORK, MODELS);
    sf_evaluation sums[2];
    const sf_moment moment = {.seed = 1, .step = 1};
    for (size_t m = 0; m < MODELS; m++)
        for (size_t B = 1; B <= p.s.B; B += 4) {
            const float *params = p.params[m];
            const sf_batch batch = {.tokens = p.s.tokens, .labels = p.s.labels, .B = B};
            assert_int_equal(sf_evaluator_evaluate(&p.cpu, &sums[0], NULL, &params, 1, &batch, &moment), SF_OK);
            assert_int_equal(sf_evaluator_evaluate(&p.gpu, &sums[1], NULL, &params, 1, &batch, &moment), SF_OK);
            assert_losses_equal(sums[0].loss, sums[1].loss);
        }
    close_pair(&p);
}

static void a_stop_ends_an_evaluation(void **state) {
    (void)state;
    pair p;
    open_pair(&p, &cases[5], SF_EVALUATION_WORK, 1);
    const float *params = p.params[0];
    const sf_batch batch = sample_batch(&p.s);
    sf_evaluation sums[2];
    const sf_moment moment = {.seed = 1};
    atomic_int stop = 1;
    sf_evaluator_obey(&p.gpu, &stop);
    assert_int_equal(sf_evaluator_evaluate(&p.gpu, &sums[1], NULL, &params, 1, &batch, &moment), SF_INTERRUPTED);
    atomic_store(&stop, 0);
    assert_int_equal(sf_evaluator_evaluate(&p.cpu, &sums[0], NULL, &params, 1, &batch, &moment), SF_OK);
    assert_int_equal(sf_evaluator_evaluate(&p.gpu, &sums[1], NULL, &params, 1, &batch, &moment), SF_OK);
    assert_losses_equal(sums[0].loss, sums[1].loss);
    close_pair(&p);
}

/* ---- gradient and step */

static void check_gradient(const sample_case *c, bool dropout) {
    pair p;
    open_pair(&p, c, SF_TRAINING_WORK, 1);
    const size_t size = p.s.model.size;
    float *gradients[2] = {room_for(size, sizeof(float)), room_for(size, sizeof(float))};
    const sf_moment moment = {.seed = 5, .epoch = 3, .step = 17, .first_sample = 2, .training = dropout};
    for (size_t B = 1; B <= p.s.B; B += sf_larger(1, p.s.B - 1)) {
        const sf_batch batch = {.tokens = p.s.tokens, .labels = p.s.labels, .B = B};
        double losses[2];
        if (sf_evaluator_gradient(&p.cpu, &losses[0], gradients[0], p.params[0], &batch, &moment) != SF_OK ||
            sf_evaluator_gradient(&p.gpu, &losses[1], gradients[1], p.params[0], &batch, &moment) != SF_OK)
            fail_msg("%s", sf_message());
        assert_losses_equal(losses[0], losses[1]);
        assert_floats_equal("gradient", gradients[0], gradients[1], size);
    }
    sf_release(gradients[0]);
    sf_release(gradients[1]);
    close_pair(&p);
}

static void gradients_are_equal(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        check_gradient(&cases[i], true);
        check_gradient(&cases[i], false);
    }
}

/* Their weights are many: not among those that are taken in parts. */
static void many_classes_are_equal(void **state) {
    (void)state;
    static const sample_case many = {"many each banded:3", 5, 72, 9, 1, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 25};
    check_gradient(&many, true);
    check_evaluation(&many, &(sf_moment){.seed = 11, .epoch = 2, .step = 1, .first_sample = 40});
}

/* The generic kernels have no room for all queries at once, and the first round ends inside of a sequence. */
static void rounds_are_equal(void **state) {
    (void)state;
    static const sample_case many[] = {{"full/sigmoid", 300, 12, 9, 2, 1, 4, SF_RELU, SF_PRE_NORM, 0.1, 60},
                                       {"topp:0.5/doubly:2", 300, 12, 9, 2, 1, 4, SF_RELU, SF_PRE_NORM, 0.1, 62},
                                       {"topk:3+st@logn", 600, 12, 9, 2, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 61}};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        check_gradient(&many[i], true);
        check_evaluation(&many[i], &(sf_moment){.seed = 11, .epoch = 2, .step = 1, .first_sample = 40});
    }
}

typedef struct trained { /* the weights and moments of one backend */
    float *blocks[SF_MOST_BLOCKS];
} trained;

static void check_steps(const sample_case *c, const sf_config *config) {
    enum { STEPS = 3 };
    pair p;
    open_pair(&p, c, SF_TRAINING_WORK, 1);
    const size_t size = p.s.model.size, blocks = 1 + sf_optimizer_moments(config);
    const sf_batch batch = sample_batch(&p.s);
    trained both[2];
    for (size_t who = 0; who < 2; who++)
        for (size_t i = 0; i < blocks; i++) {
            both[who].blocks[i] = room_for(size, sizeof(float));
            if (i == 0) memcpy(both[who].blocks[0], p.params[0], size * sizeof(float));
        }
    for (size_t step = 0; step < STEPS; step++) {
        const sf_moment moment = {.seed = 5, .epoch = 1, .step = (uint32_t)step, .training = true};
        const sf_update update = {.config = config, .lr = 0.1 / (double)(1 + step), .step = step + 1};
        double losses[2];
        if (sf_evaluator_step(&p.cpu, &losses[0], both[0].blocks, &update, &batch, &moment) != SF_OK ||
            sf_evaluator_step(&p.gpu, &losses[1], both[1].blocks, &update, &batch, &moment) != SF_OK)
            fail_msg("%s", sf_message());
        assert_losses_equal(losses[0], losses[1]);
        for (size_t i = 0; i < blocks; i++)
            assert_floats_equal(i == 0 ? "weights" : "moments", both[0].blocks[i], both[1].blocks[i], size);
    }
    for (size_t who = 0; who < 2; who++)
        for (size_t i = 0; i < blocks; i++) sf_release(both[who].blocks[i]);
    close_pair(&p);
}

static void steps_are_equal(void **state) {
    (void)state;
    static const struct {
        sf_optimizer optimizer;
        double momentum, weight_decay, clip;
    } ways[] = {{SF_SGD, 0, 0, 0},
                {SF_SGD, 0, 0, 0.01},
                {SF_SGD, 0.9, 0.01, 1},
                {SF_ADAM, 0, 0.02, 0.01},
                {SF_ADAMW, 0, 0.02, 0.01}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        sf_config config;
        sf_config_init(&config);
        config.optimizer = ways[i].optimizer;
        config.momentum = ways[i].momentum;
        config.weight_decay = ways[i].weight_decay;
        config.clip = ways[i].clip;
        check_steps(&cases[2 + i], &config);
    }
}

/* Weights that are not finite stay as they are, and the loss says so. */
static void a_step_that_diverges_changes_nothing(void **state) {
    (void)state;
    pair p;
    open_pair(&p, &cases[0], SF_TRAINING_WORK, 1);
    const size_t size = p.s.model.size;
    sf_config config;
    sf_config_init(&config);
    float *before = room_for(size, sizeof *before);
    p.params[0][sf_model_head(&p.s.model)->offset] = 1e38F * 10;
    memcpy(before, p.params[0], size * sizeof *before);
    const sf_batch batch = sample_batch(&p.s);
    const sf_update update = {.config = &config, .lr = 1, .step = 1};
    double loss;
    assert_int_equal(sf_evaluator_step(&p.gpu, &loss, &p.params[0], &update, &batch, &p.s.moment), SF_OK);
    assert_false(loss - loss == 0);
    assert_memory_equal(before, p.params[0], size * sizeof *before);
    sf_release(before);
    close_pair(&p);
}

/* Under the readout `each`: not even weight decay. */
static void a_step_without_labels_changes_nothing(void **state) {
    (void)state;
    static const sample_case unlabelled = {"each full", 9, 12, 20, 2, 1, 3, SF_RELU, SF_PRE_NORM, 0.1, 23};
    pair p;
    open_pair(&p, &unlabelled, SF_TRAINING_WORK, 1);
    const size_t size = p.s.model.size, bytes = size * sizeof(float);
    sf_config config;
    sf_config_init(&config);
    config.momentum = config.weight_decay = 0.5;
    for (size_t i = 0; i < p.s.B * p.s.model.shape.T; i++) p.s.labels[i] = SF_NO_LABEL;
    float *blocks[] = {room_for(size, sizeof(float)), room_for(size, sizeof(float))};
    memcpy(blocks[0], p.params[0], bytes);
    for (size_t i = 0; i < size; i++) blocks[1][i] = 1;
    const sf_batch batch = sample_batch(&p.s);
    const sf_update update = {.config = &config, .lr = 1, .step = 1};
    double loss = 1;
    assert_int_equal(sf_evaluator_step(&p.gpu, &loss, blocks, &update, &batch, &p.s.moment), SF_OK);
    assert_true(loss == 0);
    assert_memory_equal(blocks[0], p.params[0], bytes);
    for (size_t i = 0; i < size; i++) assert_true(blocks[1][i] == 1);
    sf_release(blocks[0]);
    sf_release(blocks[1]);
    close_pair(&p);
}

/* ---- observe */

typedef struct record { /* all that an observer saw, by block and sequence */
    const sf_shape *shape;
    size_t B;
    float *floats;     /* [L,B,row] */
    uint32_t *keys;    /* [L,B,H,T*T] */
    unsigned char *by; /* [L,B]: how often */
} record;

static size_t floats_of_view(const sf_shape *s) {
    return s->T * (sf_padded(s->C) + 4 * s->H * sf_padded(s->D) + sf_padded(s->F) + 2);
}

static void open_record(record *out, const pair *p) {
    const sf_shape *s = &p->s.model.shape;
    *out = (record){.shape = s, .B = p->s.B};
    out->floats = room_for(s->L * p->s.B * floats_of_view(s), sizeof *out->floats);
    out->keys = room_for(s->L * p->s.B * s->H * s->T * s->T, sizeof *out->keys);
    out->by = room_for(s->L * p->s.B, sizeof *out->by);
}

static void close_record(record *r) {
    sf_release(r->floats);
    sf_release(r->keys);
    sf_release(r->by);
}

static float *add_rows(float *to, const float *from, size_t stride, size_t width, size_t rows) {
    for (size_t r = 0; r < rows; r++, to += width) memcpy(to, from + r * stride, width * sizeof *to);
    return to;
}

static void see(void *context, size_t worker, const sf_attention_view *view) {
    const record *r = context;
    const sf_shape *s = r->shape;
    const size_t slot = view->block * r->B + view->sequence, T = s->T, Cp = sf_padded(s->C),
                 HDp = s->H * sf_padded(s->D);
    float *at = r->floats + slot * floats_of_view(s);
    uint32_t *keys = r->keys + slot * s->H * T * T;
    assert_true(worker < 2);
    r->by[slot]++;
    at = add_rows(at, view->input, Cp, Cp, T);
    at = add_rows(at, view->q, view->stride, HDp, T);
    at = add_rows(at, view->k, view->stride, HDp, T);
    at = add_rows(at, view->v, view->stride, HDp, T);
    at = add_rows(at, view->context, HDp, HDp, T);
    at = add_rows(at, view->hidden, sf_padded(s->F), sf_padded(s->F), T);
    at = add_rows(at, view->attention_rstd, 1, 1, T);
    add_rows(at, view->mlp_rstd, 1, 1, T);
    uint32_t *kept = room_for(2 * T, sizeof *kept);
    for (size_t h = 0; h < s->H && sf_view_has_choices(view); h++)
        for (size_t query = 0; query < T; query++) {
            size_t count;
            const uint32_t *chosen = sf_view_chosen(&count, kept, view, T, h, query);
            for (size_t i = 0; i < count; i++) keys[(h * T + query) * T + i] = chosen[i] + 1;
        }
    sf_release(kept);
}

static void check_observation(const sample_case *c, double noise) {
    pair p;
    record seen[2];
    open_pair(&p, c, SF_OBSERVATION_WORK, 1);
    assert_int_equal(sf_evaluator_workers(&p.gpu), 2);
    const sf_batch batch = sample_batch(&p.s);
    const sf_moment moment = {.seed = 8, .epoch = 1, .step = 1, .first_sample = 3, .noise = noise};
    const sf_evaluator *evaluators[] = {&p.cpu, &p.gpu};
    for (size_t who = 0; who < 2; who++) {
        open_record(&seen[who], &p);
        if (sf_evaluator_observe(evaluators[who], &(sf_observer){see, &seen[who]}, p.params[0], &batch, &moment) !=
            SF_OK)
            fail_msg("%s", sf_message());
    }
    const sf_shape *s = &p.s.model.shape;
    for (size_t i = 0; i < s->L * p.s.B; i++) assert_int_equal(seen[1].by[i], 1);
    assert_floats_equal("what is observed", seen[0].floats, seen[1].floats, s->L * p.s.B * floats_of_view(s));
    assert_memory_equal(seen[0].keys, seen[1].keys, s->L * p.s.B * s->H * s->T * s->T * sizeof *seen[0].keys);
    close_record(&seen[0]);
    close_record(&seen[1]);
    close_pair(&p);
}

static void observations_are_equal(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++) check_observation(&cases[i], i % 2 == 0 ? 0.1 : 0);
}

int main(int count, char **words) {
    if (count > 1) cmocka_set_test_filter(words[1]);
    if (sf_backend_cuda.check(SF_F32) != SF_OK) {
        printf("skipped: %s\n", sf_message());
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations_are_equal),
        cmocka_unit_test(fewer_weights_and_sequences_than_there_is_room_for),
        cmocka_unit_test(a_stop_ends_an_evaluation),
        cmocka_unit_test(gradients_are_equal),
        cmocka_unit_test(many_classes_are_equal),
        cmocka_unit_test(rounds_are_equal),
        cmocka_unit_test(steps_are_equal),
        cmocka_unit_test(a_step_that_diverges_changes_nothing),
        cmocka_unit_test(a_step_without_labels_changes_nothing),
        cmocka_unit_test(observations_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
