/* What a backend provides: fleets of models that it trains epoch by epoch, and evaluators that compute one batch.
 *
 * The host does not intervene during an epoch: progress is reported and the stop flag is polled as often as suits the
 * device, at every step or not at all. Every call may fail. If a call for one member (add, read, write, evaluate)
 * fails, only that member fails and the others are not affected. If open, advance or remove fails, the fleet is lost:
 * it is closed, and its members continue in another fleet from what is stored. */
#ifndef SF_TRAIN_BACKEND_H
#define SF_TRAIN_BACKEND_H

#include "kernels/kernels.h"
#include "semfocus/fleet.h"
#include "train/machine.h"
#include "train/member.h"

typedef enum sf_work { SF_TRAINING_WORK, SF_EVALUATION_WORK, SF_OBSERVATION_WORK } sf_work;

typedef struct sf_demand { /* what is to be computed */
    sf_work work;
    const sf_shape *shape; /* with the mechanism */
    sf_precision precision;
    sf_optimizer optimizer;  /* of training */
    size_t moments;          /* blocks of state that the optimizer keeps */
    size_t batch, sequences; /* the largest batch; sequences of the largest dataset, if any */
    bool evaluates_part;     /* of the training set after an epoch */
} sf_demand;

typedef struct sf_epoch_seconds { /* of an epoch of a fleet, on its device */
    double training, evaluation;
} sf_epoch_seconds;

typedef struct sf_update { /* what a training step needs besides weights and batch */
    const sf_config *config;
    double lr;
    size_t step; /* updates, from 1 */
} sf_update;

enum { SF_BACKEND_VERSION = 1, SF_MOST_BLOCKS = 3 };
enum { SF_EVALUATION_BATCH = 512 }; /* sequences whose losses are summed at a time: every loss has the run's own bits */

typedef struct sf_backend {
    unsigned version; /* SF_BACKEND_VERSION of the header it was written for; members are only ever appended */
    const char *name, *summary;

    /* Whether this machine has the device, and that has what the precision needs. If not, SF_UNSUPPORTED (the CPU:
     * SF_BAD_INPUT) with a clause without a full stop: "device is ... but" may precede it and "; ..." follow it. */
    sf_status (*check)(sf_precision precision);
    /* The name of the arithmetic: backends that give the same name give the same bits. */
    const char *(*numerics)(sf_precision precision);
    /* What the speed depends on: the instruction set or the architecture. At most 15 characters. */
    const char *(*variant)(sf_precision precision);
    /* SF_OK, or SF_UNSUPPORTED with one sentence without a full stop: "; ..." follows it. */
    sf_status (*supports)(const sf_demand *demand);
    /* Whether two members that are supported may be in one fleet. */
    bool (*share_fleet)(const sf_demand *a, const sf_demand *b);
    /* How many models at a time: members of one fleet, or weights that one evaluator takes together. */
    size_t (*models)(const sf_demand *demand, size_t threads);
    /* Memory for weights, optimizer and the workspace of a single model. */
    sf_status (*bytes_per_model)(size_t *out, const sf_demand *demand);
    /* How many fleets to train at the same time, each from its own thread, if this many runs are waiting. */
    size_t (*fleets)(size_t threads, size_t runs);
    /* The peak of the device, in 10^9 multiply-adds per second, times two. */
    double (*peak_gflops)(sf_precision precision, size_t threads);

    /* An empty fleet with room for `capacity` members that share_fleet() with this demand. */
    sf_status (*fleet_open)(void **fleet, const sf_demand *demand, size_t capacity, size_t threads);
    void (*fleet_close)(void *fleet);
    /* Between epochs. A member starts from its initial weights; it stays where it is until it is removed. */
    sf_status (*fleet_add)(void *fleet, size_t s, sf_member *member);
    sf_status (*fleet_remove)(void *fleet, size_t s);
    /* Trains every running member for one epoch and evaluates it: fills result.last, or marks it diverged. A member
     * that diverged, or had not finished its epoch when watch->stop was set (then SF_INTERRUPTED is returned), is as it
     * was after its last epoch. So is one whose mechanism breaks its rules, which is not a failure of the fleet. */
    sf_status (*fleet_advance)(void *fleet, const sf_watch *watch);
    /* A member's state is 1 block of weights and sf_optimizer_moments() more; these calls copy one block out or in. */
    sf_status (*fleet_read)(void *fleet, size_t s, size_t block, float *values /* [size] */);
    sf_status (*fleet_write)(void *fleet, size_t s, size_t block, const float *values /* [size] */);
    /* Losses and accuracies of the weights as they are, without training. */
    sf_status (*fleet_evaluate)(void *fleet, size_t s, sf_epoch *out);

    /* For batches of up to demand->batch sequences and up to `models` weights at a time; the model must outlive it. All
     * of its calls end with SF_INTERRUPTED soon after *stop is set. evaluate and observe take moments without dropout.
     */
    sf_status (*evaluator_open)(void **evaluator, const sf_demand *demand, const sf_model *model, size_t models,
                                size_t threads);
    void (*evaluator_close)(void *evaluator);
    void (*evaluator_obey)(void *evaluator, const atomic_int *stop /* may be NULL */);
    /* How many workers call an observer: they are numbered from 0. */
    size_t (*evaluator_workers)(const void *evaluator);
    /* Losses are added over SF_EVALUATION_BATCH sequences at a time, and then these sums. */
    sf_status (*evaluate)(void *evaluator, sf_evaluation *out /* [S] */,
                          float *logits /* [S,B,labels,classes], may be NULL */,
                          const float *const *params /* [S][size] */, size_t S, const sf_batch *batch,
                          const sf_moment *moment);
    sf_status (*observe)(void *evaluator, const sf_observer *observer, const float *params /* [size] */,
                         const sf_batch *batch, const sf_moment *moment);
    /* Mean loss and its gradient over the batch. */
    sf_status (*gradient)(void *evaluator, double *loss, float *gradient /* [size] */, const float *params /* [size] */,
                          const sf_batch *batch, const sf_moment *moment);
    /* One step of training, in place: gradient, clipping, update. */
    sf_status (*step)(void *evaluator, double *loss, float *const *blocks /* [1 + moments][size] */,
                      const sf_update *update, const sf_batch *batch, const sf_moment *moment);

    /* How long the last epoch of a fleet took; NULL: it is not known. */
    sf_status (*fleet_seconds)(void *fleet, sf_epoch_seconds *out);

    /* The product name of the device; NULL: it is the CPU. */
    const char *(*hardware)(void);
    /* Asked after a call for one member failed: SF_OK if only that call did, a sentence if the device is lost with all
     * of its fleets. NULL: it cannot be lost. */
    sf_status (*alive)(void *fleet);
    /* The CPU does not continue what was lost with it: the command ends. */
    bool is_last;
} sf_backend;

extern const sf_backend sf_backend_cpu, sf_backend_cuda;

/* The backend of a device; SF_AUTO is the CPU until it is decided (train/automatic.h). */
const sf_backend *sf_backend_for(sf_device device);
const sf_backend *sf_machine_backend(const sf_machine *machine);

/* SF_UNSUPPORTED if the backend was written for a version that this program does not know; it is then not used at
 * all. */
sf_status sf_backend_check_version(const sf_backend *backend);

/* Whether the CPU may take the backend's place: it computes the same bits. */
bool sf_backend_may_fall_back(const sf_backend *backend, sf_precision precision);

/* The backend that computes this for the machine: its own, or the CPU if that does not support it and the CPU computes
 * the same bits; machine->on_note then says why. A device that is not there at all is refused. A backend that was
 * written for another version is not asked. */
sf_status sf_backend_choose(const sf_backend **out, const sf_machine *machine, const sf_demand *demand);

/* Notes, after the message of this thread, that the CPU takes the device's place. */
void sf_backend_note_cpu(const sf_machine *machine);

/* The precision as the setting spells it. */
const char *sf_precision_name(sf_precision precision);

/* Whether this machine has the device, and that has what the precision needs; if not, the sentence names the device. */
sf_status sf_backend_check(sf_device device, sf_precision precision);

sf_demand sf_member_demand(const sf_member *member);

/* Evaluation depends on the weights alone, not on when it happens: its random keys do not depend on the epoch. */
static inline sf_moment sf_evaluation_moment(uint32_t seed, sf_split split, size_t first_sample) {
    return (sf_moment){.seed = seed, .step = split == SF_TRAINING ? 0 : 1, .first_sample = (uint32_t)first_sample};
}

#endif
