/* Inside of fleets and evaluators: models in device memory as the host sees them, and what is launched for them. */
#ifndef SF_KERNELS_CUDA_MEMBERS_H
#define SF_KERNELS_CUDA_MEMBERS_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/launch.h"

enum { MOST_MOMENTS = 2 };                                      /* blocks of optimizer state, at most */
enum { EVALUATED_AT_ONCE = 64, EVALUATED_WHOLE_AT_ONCE = 192 }; /* sequences */

typedef struct member_memory { /* one member's */
    sf_cuda_member device;     /* as it lies in device memory, with device pointers */
    void *memory;              /* NULL: the place is free */
    sf_cuda_role role;
    sf_precision precision;
    sf_cuda_trace *traces; /* [L], host copy */
    uint32_t *order;       /* device pointers that the host fills */
    sf_cuda_rates *rates;
    float *before[1 + MOST_MOMENTS]; /* weights and moments as they were before the epoch under way */
    size_t moments;
    size_t labelled[2]; /* labels of each split */
    bool prepared;
} member_memory;

struct sf_cuda_fleet {
    member_memory *members; /* [capacity] */
    size_t capacity;
    sf_cuda_launch launch;
    cudaStream_t stopping; /* a stop overtakes what is under way */
    uint32_t *stopped;     /* in device memory; not 0: kernels end at once */
    uint32_t *one;         /* in pinned memory */
    bool changed;          /* members came or left since the graphs were recorded */
    cudaGraphExec_t step, evaluation;
    cudaEvent_t marks[3]; /* in the last epoch: its beginning, the end of training, its end */
};

sf_status sf_cuda_ok(cudaError_t error, const char *what);
sf_status sf_cuda_copy_in(void *to, const void *from, size_t bytes);

/* How many labels a sequence of the member has, of which some may be SF_NO_LABEL. */
static inline size_t sf_cuda_labels(const sf_cuda_member *m) {
    return m->readout == SF_CUDA_EACH ? m->T : 1;
}
/* Whether keys are chosen by score or by chance among those up to the query: K of each, or all of them. */
static inline bool sf_cuda_lists_causally(const sf_cuda_member *m) {
    return m->causal && m->selection > SF_CUDA_BY_PATTERN;
}

/* How many keys the queries of a head keep together, where they are listed; else 0. */
sf_status sf_cuda_count_kept(size_t *out, const sf_shape *shape);
sf_status sf_cuda_member_fill(member_memory *memory, const sf_cuda_model *model);
void sf_cuda_member_close(member_memory *memory);
/* How many groups of whole sequences an evaluation takes at once. */
size_t sf_cuda_groups(const sf_cuda_member *m);

/* Sizes the launches by the members, and reserves shared memory. */
sf_status sf_cuda_fleet_measure(sf_cuda_fleet *fleet);

/* Passes that the host awaits with sf_cuda_fleet_finish(). */
void sf_cuda_forward(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_backward(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
void sf_cuda_backward_and_update(const sf_cuda_launch *launch, const sf_cuda_pass *pass);
/* Tells the kernels, once *stop is not 0; *told: whether they were told. */
bool sf_cuda_fleet_stop_asked(const sf_cuda_fleet *fleet, const atomic_int *stop, bool *told);
sf_status sf_cuda_fleet_finish(const sf_cuda_fleet *fleet, const atomic_int *stop, bool *told);

/* Shared memory that the device gives a block of threads, at most. */
size_t sf_cuda_shared_most(void);

void sf_cuda_describe_optimizer(sf_cuda_member *m, const sf_cuda_model *model);

/* ---- parts.c */

uint32_t sf_cuda_selection_of(const sf_attention *attention);
sf_status sf_cuda_no_kernel_for(const char *kind, const char *name);
/* Whether the generic kernels know all parts of a mechanism that is theirs. */
sf_status sf_cuda_check_parts(const sf_shape *shape);
void sf_cuda_describe_parts(sf_cuda_parts *out, const sf_shape *shape);
/* How many units their memory holds, and so how many rounds there are; blocks of threads of the keys of a round. */
void sf_cuda_size_parts(sf_cuda_member *m);
size_t sf_cuda_potentials(const sf_cuda_member *m);
uint32_t sf_cuda_rounds(const sf_cuda_member *m);
uint32_t sf_cuda_key_tiles(const sf_cuda_member *m);
/* The mechanism whose pattern is listed: without extras by chance, and those beside them. */
sf_attention sf_cuda_patterned(const sf_attention *attention);
bool sf_cuda_has_pattern(const sf_attention *attention);
static inline bool sf_cuda_is_patterned(const sf_cuda_member *m) {
    return m->selection == SF_CUDA_BY_PATTERN ||
           (m->selection == SF_CUDA_BY_PARTS && m->parts.selector == SF_CUDA_PATTERN);
}
/* ---- factored.c: fastmax in time linear in T */

bool sf_cuda_is_linear(const sf_shape *shape);
void sf_cuda_size_factored(sf_cuda_member *m, const sf_shape *shape);
size_t sf_cuda_factored_floats(const sf_cuda_member *m);
uint32_t sf_cuda_factored_rounds(const sf_cuda_member *m);
sf_status sf_cuda_copy_features(const sf_cuda_member *m);

/* @rope and @qknorm. */
bool sf_cuda_rotates(const sf_shape *shape);
void sf_cuda_describe_turns(sf_cuda_member *m, const sf_shape *shape);
sf_status sf_cuda_copy_angles(const sf_cuda_member *m);

#endif
