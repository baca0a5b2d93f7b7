/* usage: tensor [CASE...]
 * Without arguments: gradients of one step in tf32 and bf16 against those in f32, at odd shapes; the same fleet twice;
 * a model alone and in a fleet. Exit 1 where an error is too large, or numbers that must be equal differ; 77 without a
 * GPU. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/cuda.h"
#include "train/batch.h"
#include "train/fleet.h"
#include "train/optimizer.h"

enum { SKIPPED = 77 };

static const char *const precision_names[] = {[SF_F32] = "f32", [SF_BF16] = "bf16", [SF_TF32] = "tf32"};

static void die(const char *what) {
    printf("%s: %s\n", what, sf_message());
    exit(1);
}

static sf_cuda_set lay_out(sf_batch_room *room, const sf_member *member, const sf_dataset *set) {
    const size_t count = sf_dataset_count(set);
    if (sf_batch_room_open(room, count, member->model.shape.T) != SF_OK) die("memory");
    for (size_t i = 0; i < count; i++) sf_batch_room_place(room, i, member->data, set, i, &member->model.shape);
    return (sf_cuda_set){room->tokens, room->labels, count, NULL};
}

typedef struct subject { /* a model to be trained */
    sf_fleet *host;
    sf_member *member;
    sf_batch_room training, heldout;
    sf_cuda_model model;
} subject;

static subject create(const char *task, const char *settings) {
    char text[512], *rest = text;
    sf_config config;
    subject s;
    sf_config_init(&config);
    snprintf(text, sizeof text, "%s", settings);
    for (char *name; (name = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(name, '=');
        *value++ = '\0';
        if (sf_config_set(&config, name, value) != SF_OK) die(settings);
    }
    if (sf_fleet_create(&s.host, task, &config, 1, NULL) != SF_OK) die(settings);
    s.member = sf_fleet_member(s.host, 0);
    const sf_config *c = &s.member->config;
    s.model = (sf_cuda_model){.model = &s.member->model,
                              .training = lay_out(&s.training, s.member, s.member->data->training),
                              .heldout = lay_out(&s.heldout, s.member, s.member->data->heldout),
                              .seed = (uint32_t)c->seed,
                              .batch = (size_t)c->batch,
                              .optimizer = SF_SGD};
    return s;
}

static void destroy(subject *s) {
    sf_batch_room_close(&s->training);
    sf_batch_room_close(&s->heldout);
    sf_fleet_destroy(s->host);
}

static void prepare(sf_cuda_fleet *fleet, size_t place, const subject *s, float lr) {
    const size_t count = s->model.training.count, steps = (count + s->model.batch - 1) / s->model.batch;
    assert(count > 0 && steps > 0);
    uint32_t *order = malloc(count * sizeof *order);
    sf_cuda_step *rates = malloc(steps * sizeof *rates);
    sf_epoch_order(order, count, s->model.seed, 1);
    for (size_t i = 0; i < steps; i++) rates[i] = (sf_cuda_step){.lr = lr, .keep = 1.0F};
    if (sf_cuda_fleet_prepare(fleet, place, 1, order, rates) != SF_OK) die("prepare");
    free(order);
    free(rates);
}

/* The gradient of the first step, as the change of the weights under plain descent; `place` of a fleet of `models`. */
static float *gradient_of(const subject *s, sf_precision precision, size_t models, size_t place, double *loss) {
    const size_t size = s->member->model.size;
    float *before = malloc(size * sizeof *before), *after = malloc(size * sizeof *after);
    sf_cuda_fleet *fleet;
    sf_cuda_result result;
    if (sf_cuda_fleet_open(&fleet, models, precision) != SF_OK) die("open");
    for (size_t i = 0; i < models; i++) {
        if (sf_cuda_fleet_add(fleet, i, &s->model) != SF_OK) die("add");
        if (i == place || i % 2 == 0) prepare(fleet, i, s, 1.0F);
    }
    if (sf_cuda_fleet_read(fleet, place, 0, before) != SF_OK) die("read");
    if (sf_cuda_fleet_advance(fleet, NULL) != SF_OK) die("advance");
    if (sf_cuda_fleet_read(fleet, place, 0, after) != SF_OK) die("read");
    if (sf_cuda_fleet_result(&result, fleet, place) != SF_OK) die("result");
    for (size_t i = 0; i < size; i++) after[i] = before[i] - after[i];
    *loss = result.diverged_step != 0 ? NAN : result.train_loss;
    sf_cuda_fleet_close(fleet);
    free(before);
    return after;
}

static double distance(const float *a, const float *b, size_t count) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference / norm);
}

/* The parameter whose gradient is farthest off. Those of the keys' biases are sums that vanish, but for rounding. */
static const char *worst_of(double *worst, const sf_model *model, const float *a, const float *b) {
    const char *name = "";
    double all = 0;
    for (size_t i = 0; i < model->size; i++) all += (double)b[i] * b[i];
    *worst = 0;
    for (size_t p = 0; p < model->param_count; p++) {
        const sf_param *param = &model->params[p];
        double difference = 0, norm = 0;
        for (size_t r = 0; r < param->rows; r++)
            for (size_t c = 0; c < param->columns; c++) {
                const size_t i = sf_param_index(param, r, c);
                difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
                norm += (double)b[i] * b[i];
            }
        if (norm > 1e-12 * all && !(sqrt(difference / norm) <= *worst)) {
            *worst = sqrt(difference / norm);
            name = param->name;
        }
    }
    return name;
}

static int check(const char *task, const char *settings) {
    static const double most[] = {[SF_BF16] = 3e-2, [SF_TF32] = 2e-3};
    subject s = create(task, settings);
    const size_t size = s.member->model.size;
    double loss, exact_loss, worst;
    int failures = 0;
    float *exact = gradient_of(&s, SF_F32, 1, 0, &exact_loss);
    for (int precision = SF_BF16; precision <= SF_TF32; precision++) {
        float *alone = gradient_of(&s, (sf_precision)precision, 1, 0, &loss), *again;
        const double error = distance(alone, exact, size);
        const char *name = worst_of(&worst, &s.member->model, alone, exact);
        double other_loss;
        again = gradient_of(&s, (sf_precision)precision, 3, 1, &other_loss);
        const bool same = memcmp(alone, again, size * sizeof *alone) == 0 && loss == other_loss;
        const bool near = error <= most[precision];
        printf("%-4s %-9s%s %s: error %.2e, worst %.2e (%s), loss %.6f and %.6f%s\n", precision_names[precision],
               near && same ? "ok" : "FAILS", task, settings, error, worst, name, loss, exact_loss,
               same ? "" : "; differs in a fleet");
        fflush(stdout);
        failures += !near || !same;
        free(alone);
        free(again);
    }
    free(exact);
    destroy(&s);
    return failures;
}

int main(int argc, char **argv) {
    static const char *const cases[] = {
        "attention=full dropout=0 length=70 blocks=1 train-count=3 heldout-count=1 batch=3 activation=gelu",
        "attention=full length=70 blocks=2 train-count=3 heldout-count=1 batch=3 activation=gelu",
        "attention=full length=200 blocks=1 train-count=2 heldout-count=1 batch=2 activation=gelu",
        "attention=full length=130 blocks=2 train-count=2 heldout-count=1 batch=2 norm=post activation=mish",
        ("attention=full width=20 mlp-width=37 heads=3 length=67 blocks=2 train-count=3 heldout-count=1 batch=3 "
         "activation=gelu"),
        "attention=topk:5 length=140 blocks=2 train-count=3 heldout-count=1 batch=3 activation=gelu",
        "attention=topk:7 length=70 blocks=1 train-count=3 heldout-count=1 batch=3 activation=gelu",
        "attention=topk:40 length=150 width=24 heads=2 blocks=1 train-count=2 heldout-count=1 batch=2 activation=gelu",
        "attention=topk:12 length=130 blocks=1 train-count=2 heldout-count=1 batch=2 activation=gelu",
        "attention=bottomk:3 length=90 blocks=1 train-count=2 heldout-count=1 batch=2 activation=gelu",
        "attention=random:5 length=90 blocks=2 train-count=2 heldout-count=1 batch=2 activation=gelu",
        "attention=random:11 length=90 blocks=1 train-count=2 heldout-count=1 batch=2 activation=gelu",
        "attention=banded:5 length=100 blocks=2 train-count=11 heldout-count=1 batch=11 activation=gelu",
        "attention=block:5 length=83 blocks=2 train-count=3 heldout-count=1 batch=3 norm=post activation=gelu",
        "attention=banded:5+global:1 length=200 blocks=2 train-count=2 heldout-count=1 batch=2 activation=gelu",
        ("attention=banded:5+global:1 dropout=0 length=70 blocks=1 train-count=2 heldout-count=1 batch=2 "
         "activation=gelu"),
        "attention=full length=1 blocks=1 train-count=3 heldout-count=1 batch=3 activation=gelu",
        ("attention=topk:5 length=1100 blocks=1 train-count=1 heldout-count=1 batch=1 width=16 mlp-width=16 "
         "activation=gelu"),
    };
    int failures = 0;
    if (sf_cuda_check() != SF_OK) {
        printf("skipped: %s\n", sf_message());
        return SKIPPED;
    }
    if (argc > 1) {
        for (int i = 1; i < argc; i++) failures += check("even-pairs", argv[i]);
    } else {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) failures += check("even-pairs", cases[i]);
    }
    printf("%d fail\n", failures);
    return failures != 0;
}
