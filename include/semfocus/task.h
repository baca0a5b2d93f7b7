/* Tasks: what is learned. A task samples labelled sequences and can solve any sequence independently of its sampler.
 *
 *   const sf_task *task;
 *   sf_dataset *data;
 *   sf_task_find(&task, "even-pairs");
 *   sf_dataset_sample(&data, task, SF_TRAINING, 42, 5000, 40);      seed 42, 5000 sequences of length 40
 *   sf_task_solve(&label, task, sf_dataset_tokens(data, 0, &count), count);
 *   sf_dataset_destroy(data); */
#ifndef SEMFOCUS_TASK_H
#define SEMFOCUS_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/settings.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_task sf_task;
typedef struct sf_dataset sf_dataset;
typedef enum sf_split { SF_TRAINING, SF_HELDOUT } sf_split;

typedef struct sf_task_info {
    const char *name;
    const char *summary;       /* one line */
    const char *tokens;        /* what the token ids mean */
    int32_t pad;               /* id of PAD: one past the largest token */
    int32_t classes;           /* labels are 0..classes-1 */
    size_t shortest, longest;  /* lengths it can sample */
    const char *const *recipe; /* its settings where they differ from the defaults: name, value, ..., NULL */
} sf_task_info;

/* Which variant of a task is meant; most tasks have only one. Members are only ever appended. */
typedef struct sf_task_options {
    size_t size;          /* of this structure */
    int32_t vocab, pairs; /* recall */
    double noise;         /* noisy-recall */
    double writes;        /* flip-flop */
    int32_t group;        /* word-problem: sf_finite_group */
} sf_task_options;

const sf_task *sf_task_at(size_t i); /* the i-th of the registry, NULL past the end */
sf_status sf_task_find(const sf_task **out, const char *name);
sf_task_info sf_task_describe(const sf_task *task);

/* Whether the task can sample this length. */
sf_status sf_task_check_length(const sf_task *task, size_t length);

/* The chance level: the accuracy of always giving the most frequent label on sequences of this length, in percent. */
double sf_task_chance(const sf_task *task, size_t length);

/* The part of a run's settings that says which variant of a task is meant; NULL: the defaults. */
sf_task_options sf_task_options_of(const sf_config *config);
/* Settings of other tasks must not be given. */
sf_status sf_task_check_settings(const sf_task *task, const sf_config *config);
/* Whether the task can have these settings and this length. */
sf_status sf_task_check(const sf_task *task, const sf_config *config);
/* The functions above and below for a variant; options may be NULL. sf_task_solve_with() writes one label or one per
 * position, as the task has them. */
sf_status sf_task_describe_with(sf_task_info *out, const sf_task *task, const sf_task_options *options);
double sf_task_chance_with(const sf_task *task, size_t length, const sf_task_options *options);
sf_status sf_task_solve_with(int32_t *labels /* [count] */, const sf_task *task, const int32_t *tokens /* [count] */,
                             size_t count, const sf_task_options *options);

/* Whether the task has one label per position; otherwise it has one per sequence. */
bool sf_task_labels_each(const sf_task *task);

/* The label of a sequence by an independent solver; a sequence that the task cannot produce is SF_BAD_INPUT. */
sf_status sf_task_solve(int32_t *label, const sf_task *task, const int32_t *tokens /* [count] */, size_t count);
/* The same for a task with one label per position; -1: no label there. */
sf_status sf_task_solve_each(int32_t *labels /* [count] */, const sf_task *task, const int32_t *tokens /* [count] */,
                             size_t count);

/* Sample i depends on (task, seed, split, length, i) alone. Sequences may be shorter than `length`, depending on the
 * task. */
sf_status sf_dataset_sample(sf_dataset **out, const sf_task *task, sf_split split, uint32_t seed, size_t count,
                            size_t length);

/* The same for a variant, and for lengths that are drawn. */
typedef struct sf_sampling {
    const sf_task *task;
    sf_split split;
    uint32_t seed;
    size_t count;
    size_t length, shortest;        /* uniform on shortest..length; shortest 0: all of this length */
    const sf_task_options *options; /* NULL: the defaults */
} sf_sampling;
sf_status sf_dataset_draw(sf_dataset **out, const sf_sampling *what);

/* Reads `tokens<TAB>label` (blank-separated ids; one label, or as many as tokens with "-" where there is none) or the
 * published ListOps form `Source<TAB>Target`; "-" is standard input. Errors name file and line. Token ids and labels
 * may be up to 65535. */
sf_status sf_dataset_read(sf_dataset **out, const char *path);

/* Writes `tokens<TAB>label` lines under their header: to standard output for "-", else to a file that appears whole or
 * not at all. */
sf_status sf_dataset_write(const sf_dataset *data, const char *path);

/* Splits off a random share of the rows by seed, for a user's file without a separate held-out file. */
sf_status sf_dataset_hold_out(sf_dataset **training, sf_dataset **heldout, const sf_dataset *all, uint32_t seed,
                              double share);

size_t sf_dataset_count(const sf_dataset *data);
size_t sf_dataset_longest(const sf_dataset *data); /* tokens in the longest sequence */
const int32_t *sf_dataset_tokens(const sf_dataset *data, size_t i, size_t *count);
/* Whether the sequences have one label per position; otherwise they have one each. */
bool sf_dataset_labels_each(const sf_dataset *data);
/* The labels of sequence i: *count is 1, or the number of its tokens with one label per position (-1: none there). */
const int32_t *sf_dataset_labels(const sf_dataset *data, size_t i, size_t *count);
/* The label of sequence i; -1 with one label per position. */
int32_t sf_dataset_label(const sf_dataset *data, size_t i);
size_t sf_dataset_label_count(const sf_dataset *data); /* labels in all, without those that are -1 */
int32_t sf_dataset_largest_token(const sf_dataset *data);
int32_t sf_dataset_largest_label(const sf_dataset *data);
/* Percent of the labels that are the most frequent one: the accuracy of always giving it. 0 without labels. */
sf_status sf_dataset_majority(double *out, const sf_dataset *data);
void sf_dataset_destroy(sf_dataset *data);

SF_API_END

#endif
