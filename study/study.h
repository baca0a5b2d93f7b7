/* Internals of a study, for the files that fill it. */
#ifndef SF_STUDY_STUDY_H
#define SF_STUDY_STUDY_H

#include "semfocus/store.h"
#include "semfocus/study.h"
#include "study/layers.h"
#include "study/verdict.h"

typedef struct sf_curve {
    size_t first, count; /* of the study's rows */
    bool finished, diverged;
    bool stopped; /* before the epochs asked for; in a study of stored runs, perhaps */
    bool done;    /* a session has nothing left to train */
} sf_curve;

typedef struct sf_planned { /* a run as a member of a group */
    size_t run, group;
    char asked[SF_SPELLING_SIZE]; /* the mechanism that was asked for, where the run's is another one; or empty */
} sf_planned;

struct sf_study {
    const char *path; /* of the study file; NULL: none */
    sf_criterion criterion;
    bool stored;      /* planned from what a store holds, not from settings */
    sf_layer *layers; /* [layer_count] */
    size_t layer_count, layer_room;
    size_t current;       /* what is set goes into this layer */
    sf_planned_run *runs; /* [run_count], each id once */
    size_t run_count;
    sf_run_code *codes;  /* [run_count]: of plug-ins, where the runs came from a store; NULL: as loaded */
    char *tasks;         /* names of tasks that came from a store */
    sf_planned *members; /* [member_count], group by group */
    size_t member_count;
    size_t *first_members; /* [group_count] */
    sf_group *groups;      /* [group_count] */
    size_t group_count;
    sf_curve *curves; /* [run_count] */
    sf_epoch *rows;
    size_t row_count, row_room;
};

/* Layers by place: built in, defaults, overrides, then the variants. */
enum { SF_LAYER_BUILT_IN, SF_LAYER_DEFAULTS, SF_LAYER_OVERRIDES, SF_LAYER_VARIANTS };

/* As before planning; settings stay. */
void sf_study_forget_plan(sf_study *study);
/* What a stored run lacks because a plug-in is not loaded; NULL: nothing. */
const sf_run_code *sf_study_missing_code(const sf_study *study, size_t run);
/* " (hash 1a2b3c4d)" where the store also has runs of the same task and mechanism with other code, else "". */
enum { SF_CODE_SUFFIX_SIZE = 24 };
void sf_study_code_suffix(char out[SF_CODE_SUFFIX_SIZE], const sf_study *study, size_t run);
/* How a run whose curve was read ended. */
sf_outcome sf_study_outcome(const sf_study *study, size_t run);

/* Replaces a sentence of a group, which is empty at first, and releases the old one. */
sf_status sf_sentence_keep(const char **sentence, const char *text);
void sf_sentence_forget(const char **sentence);

sf_status sf_study_begin_variant(sf_study *study, const char *name, size_t line);

/* Groups study->runs by everything but the seed; labels[i] is the variant of membership i, "" for none. */
sf_status sf_study_group_runs(sf_study *study, const char *const *labels);

#endif
