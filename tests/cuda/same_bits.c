/* usage: same_bits [--precision P] [--tiny] [--wrong-bit] [CASE...]
 *        same_bits --list | --time
 *
 * Trains short runs on the CPU and on the GPU and compares every bit of losses, weights and moments after each epoch. A
 * CASE is a number or a name of the list; without any, all are run, or with --tiny those that the emulator is fast
 * enough for. Other precisions than f32 are not those of the CPU: there the GPU is compared with itself. --wrong-bit
 * changes one weight on the GPU before the comparison, which must find it. Exit 1 where something differs, 77
 * where no GPU can be used. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "train/fleet.h"
#include "train/optimizer.h"

enum { MOST_MEMBERS = 8, SETTINGS_SIZE = 512, SKIPPED = 77 };

typedef struct test_case {
    const char *name, *task;
    const char *attention; /* one model for each of them, all in one fleet */
    const char *settings;
    size_t epochs;
    bool tiny;
} test_case;

#define PAPER  "train-count=130 heldout-count=70 "
#define LONGER "train-count=20 heldout-count=30 batch=5 blocks=2 "
#define TINY   "train-count=7 heldout-count=3 batch=4 blocks=2 "

static const test_case cases[] = {
    {"one-step", "even-pairs", "full", "train-count=25 heldout-count=10 blocks=1 dropout=0", 2, false},
    {"full", "even-pairs", "full", PAPER, 2, false},
    {"topk", "even-pairs", "topk:5", PAPER, 2, false},
    {"bottomk", "even-pairs", "bottomk:3", PAPER, 2, false},
    {"random", "even-pairs", "random:5", PAPER, 2, false},
    {"banded", "even-pairs", "banded:5", PAPER, 2, false},
    {"block", "even-pairs", "block:5", PAPER, 2, false},
    {"banded-global", "even-pairs", "banded:5+global:1", PAPER, 2, false},
    {"mixed", "even-pairs", "full,topk:5,banded:5,random:5,block:5+global:1", PAPER, 2, false},
    {"gelu", "even-pairs", "full", PAPER "activation=gelu", 2, false},
    {"mish", "even-pairs", "topk:5", PAPER "activation=mish", 2, false},
    {"post-norm", "even-pairs", "full", PAPER "norm=post", 2, false},
    {"adam", "even-pairs", "topk:7", PAPER "optimizer=adam lr=0.001", 2, false},
    {"adamw", "even-pairs", "full", PAPER "optimizer=adamw lr=0.001 weight-decay=0.01", 2, false},
    {"momentum", "even-pairs", "full", PAPER "momentum=0.9 weight-decay=0.001", 2, false},
    {"odd-widths", "even-pairs", "full",
     "width=20 mlp-width=37 heads=3 length=17 train-count=60 heldout-count=30 blocks=5", 2, false},
    {"wide", "even-pairs", "topk:4",
     "width=80 mlp-width=100 heads=2 length=150 train-count=30 heldout-count=30 blocks=2", 2, false},
    {"long-full", "even-pairs", "full", LONGER "width=24 length=300", 2, false},
    {"long-topk", "even-pairs", "topk:40", LONGER "width=24 length=300", 2, false},
    {"long-random", "even-pairs", "random:5", LONGER "length=300", 2, false},
    {"length-1", "even-pairs", "full", LONGER "length=1 batch=3", 2, false},
    {"listops-full", "listops", "full", "train-count=25 heldout-count=10 blocks=2", 1, false},
    {"listops-topk", "listops", "topk:5", "train-count=25 heldout-count=10 blocks=2", 1, false},
    {"listops-banded", "listops", "banded:5", "train-count=25 heldout-count=10 blocks=2", 1, false},

    {"tiny-full", "even-pairs", "full", TINY, 2, true},
    {"tiny-no-dropout", "even-pairs", "full", TINY "dropout=0 length=64", 1, true},
    {"tiny-topk", "even-pairs", "topk:5", TINY, 2, true},
    {"tiny-bottomk", "even-pairs", "bottomk:3", TINY "length=11", 1, true},
    {"tiny-random", "even-pairs", "random:5", TINY, 1, true},
    {"tiny-banded", "even-pairs", "banded:5", TINY "dropout=0.3", 1, true},
    {"tiny-block-global", "even-pairs", "block:5+global:2", TINY "length=23", 1, true},
    {"tiny-mixed", "even-pairs", "full,topk:3,banded:5+global:1", TINY "length=17", 2, true},
    {"tiny-gelu", "even-pairs", "full", TINY "activation=gelu length=13", 1, true},
    {"tiny-mish", "even-pairs", "topk:5", TINY "activation=mish norm=post length=13", 1, true},
    {"tiny-adam", "even-pairs", "topk:5", TINY "optimizer=adam lr=0.001 length=13", 2, true},
    {"tiny-adamw", "even-pairs", "full", TINY "optimizer=adamw lr=0.001 weight-decay=0.01 length=13", 2, true},
    {"tiny-momentum", "even-pairs", "full", TINY "momentum=0.9 weight-decay=0.001 length=13", 2, true},
    {"tiny-odd-widths", "even-pairs", "full,topk:3", TINY "width=20 mlp-width=37 heads=3 length=17", 1, true},
    {"tiny-wide", "even-pairs", "topk:4", TINY "width=80 mlp-width=100 heads=2 length=19", 1, true},
    {"tiny-length-70", "even-pairs", "full,topk:5,random:7", TINY "width=24 blocks=1 length=70", 1, true},
    {"tiny-length-140", "even-pairs", "full,topk:40,banded:5", TINY "width=24 blocks=1 length=140", 1, true},
    {"tiny-causal", "even-pairs", "full,banded:5,block:5", TINY "causal=yes length=17", 2, true},
    {"tiny-causal-140", "even-pairs", "full,banded:5", TINY "causal=yes width=24 blocks=1 length=140", 1, true},
    {"tiny-causal-chosen", "even-pairs", "topk:3,bottomk:9,random:4", TINY "causal=yes length=17", 2, true},
    {"tiny-last", "even-pairs", "full,topk:3", TINY "readout=last causal=yes length=17 min-length=5", 2, true},
    {"tiny-cls", "even-pairs", "full,banded:3", TINY "readout=cls length=17 min-length=9", 1, true},
    {"tiny-each", "flip-flop", "full,topk:3", TINY "causal=yes length=20", 2, true},
    {"tiny-each-batches", "recall", "full", TINY "causal=yes batch=1 length=12 pairs=2", 1, true},
    {"tiny-tied", "flip-flop", "full", TINY "tie-weights=yes causal=yes length=20", 2, true},
    {"tiny-tied-mean", "even-pairs", "full,topk:3", TINY "tie-weights=yes length=40", 2, true},
    {"tiny-head-width", "even-pairs", "full,topk:3,banded:3", TINY "width=20 head-width=9 heads=2 length=17", 1, true},
    {"tiny-wide-heads", "even-pairs", "full,random:3", TINY "head-width=80 length=17", 1, true},
    {"tiny-cosine", "even-pairs", "full",
     TINY "optimizer=adamw lr=0.001 weight-decay=0.1 schedule=cosine warmup-steps=1 length=13", 2, true},
    {"tiny-parts", "even-pairs", "full/sigmoid,topk:3/softmax1,topp:0.8,banded:3,full", TINY "width=24 length=17", 2,
     true},
    {"tiny-transforms", "even-pairs", "full@rope,topk:3@qknorm:4,full@alibi,random:3@logn", TINY "length=17", 2, true},
    {"tiny-extras", "even-pairs", "topk:3+sink:1,topk:3+st,within:1+global:1", TINY "length=17", 2, true},
    {"tiny-parts-each", "flip-flop", "topk:3/entmax15@alibi,full", TINY "causal=yes length=20", 2, true},
    {"tiny-vectors", "even-pairs", "blocktopk:4:2,kmeans:3:1,lsh:4:2,topk:3", TINY "width=24 length=17", 2, true},
    {"tiny-matrix", "even-pairs", "full/doubly:2,topk:5/doubly,topk:5+sink:1", TINY "length=17", 2, true},
    {"tiny-linear", "even-pairs", "full/fastmax,full/sparsemax", TINY "width=12 length=40", 1, true},
    {"tiny-linear-no-dropout", "even-pairs", "full/fastmax", TINY "width=12 heads=2 length=40 dropout=0", 2, true},
    {"tiny-length-1", "even-pairs", "full", TINY "length=1", 1, true},
    {"tiny-batch-1", "even-pairs", "full", "train-count=2 heldout-count=1 batch=1 blocks=1 length=5", 1, true},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check(sf_status status, const char *what) {
    if (status == SF_OK) return;
    printf("%s: %s\n", what, sf_message());
    exit(1);
}

static void set(sf_config *config, const char *name, const char *value) {
    check(sf_config_set(config, name, value), name);
}

static void set_number(sf_config *config, const char *name, size_t value) {
    char text[32];
    snprintf(text, sizeof text, "%zu", value);
    set(config, name, text);
}

static void set_all(sf_config *config, const char *settings) {
    char text[SETTINGS_SIZE], *rest = text;
    snprintf(text, sizeof text, "%s", settings);
    for (char *name; (name = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(name, '=');
        if (value == NULL) continue; /* more than one space */
        *value++ = '\0';
        set(config, name, value);
    }
}

static size_t configure(sf_config *configs /* [MOST_MEMBERS] */, const test_case *tested, const char *precision) {
    char text[SETTINGS_SIZE], *rest = text;
    size_t count = 0;
    snprintf(text, sizeof text, "%s", tested->attention);
    for (char *attention; (attention = strsep(&rest, ",")) != NULL && count < MOST_MEMBERS; count++) {
        sf_config_init(&configs[count]);
        set(&configs[count], "attention", attention);
        set_number(&configs[count], "seed", 1 + count);
        set(&configs[count], "precision", precision);
        set_all(&configs[count], tested->settings);
        set_number(&configs[count], "epochs", tested->epochs);
    }
    return count;
}

/* NULL where the device has no kernel for them. */
static sf_fleet *open_fleet(const char *task, const sf_config *configs, size_t count, sf_device device) {
    sf_execution execution;
    sf_fleet *fleet;
    sf_execution_init(&execution);
    execution.device = device;
    if (sf_fleet_create(&fleet, task, configs, count, &execution) != SF_OK) return NULL;
    if (strcmp(sf_fleet_backend(fleet), sf_backend_for(device)->name) == 0) return fleet;
    sf_fleet_destroy(fleet);
    sf_fail(SF_UNSUPPORTED, "it would be trained on the CPU");
    return NULL;
}

static float *read_block(const sf_fleet *fleet, size_t s, size_t block, size_t size) {
    float *values;
    check(SF_NEW(&values, size), "memory");
    check(sf_fleet_read(fleet, s, block, values), "reading weights");
    return values;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static size_t count_different(const float *a, const float *b, size_t size) {
    size_t different = 0;
    for (size_t i = 0; i < size; i++) different += bits_of(a[i]) != bits_of(b[i]);
    return different;
}

static void print_params(const sf_model *model, const float *a, const float *b) {
    for (size_t p = 0; p < model->param_count; p++) {
        const sf_param *param = &model->params[p];
        size_t different = 0;
        double most = 0;
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++) {
                const size_t i = sf_param_index(param, r, c);
                different += bits_of(a[i]) != bits_of(b[i]);
                most = fmax(most, fabs((double)a[i] - (double)b[i]));
            }
        if (different > 0)
            printf("\n    %-50s %zu of %zu, by at most %g", param->name, different, param->rows * param->columns, most);
    }
}

static bool same_losses(const sf_result *a, const sf_result *b) {
    const sf_epoch *x = &a->last, *y = &b->last;
    if (a->status == b->status && x->epoch == y->epoch && x->train_loss == y->train_loss &&
        x->heldout_loss == y->heldout_loss && x->train_accuracy == y->train_accuracy &&
        x->heldout_accuracy == y->heldout_accuracy)
        return true;
    printf("\n    epoch %zu and %zu, loss %.17g and %.17g, held-out %.17g and %.17g", x->epoch, y->epoch, x->train_loss,
           y->train_loss, x->heldout_loss, y->heldout_loss);
    return false;
}

/* Whether member s has the same bits in both; prints what has not. */
static bool same_member(sf_fleet *expected, sf_fleet *found, size_t s) {
    const sf_member *member = sf_fleet_member(expected, s);
    const size_t size = member->model.size, blocks = 1 + sf_optimizer_moments(&member->config);
    bool same = same_losses(&member->result, &sf_fleet_member(found, s)->result);
    for (size_t block = 0; block < blocks; block++) {
        float *a = read_block(expected, s, block, size), *b = read_block(found, s, block, size);
        const size_t different = count_different(a, b, size);
        if (different > 0) {
            printf("\n    %s: %zu of %zu differ", block == 0 ? "weights" : "moments", different, size);
            print_params(&member->model, a, b);
            same = false;
        }
        sf_release(a);
        sf_release(b);
    }
    return same;
}

/* The lowest bit of one weight of the last member. */
static void flip_bit(sf_fleet *fleet) {
    const size_t s = sf_fleet_count(fleet) - 1;
    const sf_member *member = sf_fleet_member(fleet, s);
    const size_t blocks = 1 + sf_optimizer_moments(&member->config);
    float *values[SF_MOST_BLOCKS] = {read_block(fleet, s, 0, member->model.size)};
    for (size_t block = 1; block < blocks; block++) values[block] = read_block(fleet, s, block, member->model.size);
    float *weight = &values[0][sf_param_index(sf_model_head(&member->model), 0, 0)];
    const uint32_t bits = bits_of(*weight) ^ 1;
    memcpy(weight, &bits, sizeof bits);
    check(sf_fleet_resume(fleet, s, &member->result.last, member->result.converged_epoch, values), "writing weights");
    for (size_t block = 0; block < blocks; block++) sf_release(values[block]);
}

static bool run_case(const test_case *tested, const char *precision, bool wrong_bit) {
    sf_config configs[MOST_MEMBERS];
    const size_t count = configure(configs, tested, precision);
    const sf_device reference = strcmp(precision, "f32") == 0 ? SF_CPU : SF_CUDA;
    printf("%-20s ", tested->name);
    fflush(stdout);
    sf_fleet *expected = open_fleet(tested->task, configs, count, reference);
    sf_fleet *found = expected != NULL ? open_fleet(tested->task, configs, count, SF_CUDA) : NULL;
    if (found == NULL) {
        printf("FAILED %s\n", sf_message());
        sf_fleet_destroy(expected);
        return false;
    }
    bool same = true;
    for (size_t epoch = 0; epoch < tested->epochs && same; epoch++) {
        check(sf_fleet_advance(found), tested->name);
        check(sf_fleet_advance(expected), tested->name);
        if (wrong_bit) flip_bit(found);
        for (size_t s = 0; s < count; s++) same &= same_member(expected, found, s);
    }
    printf("%s, loss %.9f\n", same ? "same" : "\n    DIFFERS", sf_fleet_result(found, 0).last.train_loss);
    sf_fleet_destroy(found);
    sf_fleet_destroy(expected);
    return same;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Milliseconds per model and step of a fleet of models that take the mechanisms in turn. */
static void time_fleet(const char *task, const char *precision, const char *const *mechanisms, size_t kinds,
                       size_t count, size_t sequences) {
    enum { EPOCHS = 3, HELDOUT = 64 };
    sf_config *configs;
    check(SF_NEW(&configs, count), "memory");
    for (size_t s = 0; s < count; s++) {
        sf_config_init(&configs[s]);
        set(&configs[s], "attention", mechanisms[s % kinds]);
        set(&configs[s], "precision", precision);
        set_number(&configs[s], "train-count", sequences);
        set_number(&configs[s], "heldout-count", HELDOUT);
        set_number(&configs[s], "epochs", EPOCHS);
    }
    sf_fleet *fleet = open_fleet(task, configs, count, SF_CUDA);
    if (fleet == NULL) check(SF_UNSUPPORTED, task);
    double best = INFINITY;
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        const double start = now();
        check(sf_fleet_advance(fleet), task);
        best = fmin(best, now() - start);
    }
    const double batch = (double)sf_fleet_config(fleet, 0)->batch, steps = ceil((double)sequences / batch);
    printf("%s, %zu models (%s%s): %.4f ms per model and step, evaluation of %zu sequences included\n", task, count,
           mechanisms[0], kinds > 1 ? ", ..." : "", 1e3 * best / steps / (double)count, sequences + HELDOUT);
    fflush(stdout);
    sf_fleet_destroy(fleet);
    sf_release(configs);
}

static void time_all(const char *precision) {
    static const char *const mixed[] = {"full", "banded:5", "block:5", "topk:5"};
    enum { KINDS = sizeof mixed / sizeof *mixed };
    time_fleet("even-pairs", precision, mixed, KINDS, 132, 500);
    time_fleet("even-pairs", precision, mixed, KINDS, 264, 500);
    for (size_t i = 0; i < KINDS; i++) time_fleet("even-pairs", precision, mixed + i, 1, 132, 500);
    for (size_t i = 0; i < KINDS; i++) time_fleet("listops", precision, mixed + i, 1, 8, 50);
}

static void list(void) {
    for (size_t i = 0; i < CASES; i++)
        printf("%2zu %-20s %s --attention %s, %s\n", i + 1, cases[i].name, cases[i].task, cases[i].attention,
               cases[i].settings);
}

static const test_case *find_case(const char *text) {
    for (size_t i = 0; i < CASES; i++)
        if (strcmp(text, cases[i].name) == 0 || strtoul(text, NULL, 10) == i + 1) return &cases[i];
    printf("there is no case '%s'; --list shows them\n", text);
    exit(2);
}

typedef struct request {
    const char *precision;
    bool tiny, wrong_bit, timed, listed;
    int first_case; /* in argv */
} request;

static request parse(int argc, char **argv) {
    request asked = {.precision = "f32", .first_case = argc};
    const struct {
        const char *name;
        bool *value;
    } options[] = {{"--tiny", &asked.tiny},
                   {"--wrong-bit", &asked.wrong_bit},
                   {"--time", &asked.timed},
                   {"--list", &asked.listed}};
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            asked.first_case = i;
            return asked;
        }
        if (strcmp(argv[i], "--precision") == 0 && i + 1 < argc) {
            asked.precision = argv[++i];
            continue;
        }
        size_t o = 0;
        while (o < sizeof options / sizeof *options && strcmp(argv[i], options[o].name) != 0) o++;
        if (o == sizeof options / sizeof *options) {
            printf("there is no option '%s'\n", argv[i]);
            exit(2);
        }
        *options[o].value = true;
    }
    return asked;
}

int main(int argc, char **argv) {
    const request asked = parse(argc, argv);
    if (asked.listed) {
        list();
        return 0;
    }
    if (sf_backend_cuda.check(SF_F32) != SF_OK) {
        printf("%s\n", sf_message());
        return SKIPPED;
    }
    if (asked.timed) {
        time_all(asked.precision);
        return 0;
    }
    size_t run = 0, different = 0;
    for (int i = asked.first_case; i < argc; i++, run++)
        different += !run_case(find_case(argv[i]), asked.precision, asked.wrong_bit);
    for (size_t i = 0; i < CASES && asked.first_case == argc; i++)
        if (!asked.tiny || cases[i].tiny) {
            different += !run_case(&cases[i], asked.precision, asked.wrong_bit);
            run++;
        }
    printf("%zu of %zu differ\n", different, run);
    return different > 0;
}
