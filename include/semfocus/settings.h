/* The one table of settings: it feeds the command line, study files, --help and everything else that names a setting.
 *
 * What a run is (its data, model, training and precision) is an sf_config; everything else that a command needs (where
 * the store is, how many threads, what is printed) is an sf_options. Each setting says which of the two it is a member
 * of.
 *
 *   sf_config config;
 *   sf_config_init(&config);                       every default
 *   sf_config_set(&config, "attention", "topk:5");  checked against the table
 *   sf_config_apply_recipe(&config, info.recipe);  the task's own values for what was not set
 *   sf_options options;
 *   sf_options_init(&options);
 *   sf_options_set(&options, "threads", "2"); */
#ifndef SEMFOCUS_SETTINGS_H
#define SEMFOCUS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

enum { SF_TEXT_SIZE = 128, SF_PATH_SIZE = 4096 };

/* Which settings were given: one bit per row of the table, whose length is checked at compile time. */
enum { SF_MOST_SETTINGS = 256 };
typedef struct sf_given {
    uint64_t bits[SF_MOST_SETTINGS / 64];
} sf_given;

typedef enum sf_activation { SF_RELU, SF_GELU, SF_MISH } sf_activation;
typedef enum sf_norm { SF_PRE_NORM, SF_POST_NORM } sf_norm;
typedef enum sf_optimizer { SF_SGD, SF_ADAM, SF_ADAMW } sf_optimizer;
typedef enum sf_schedule { SF_DECAY, SF_CONSTANT, SF_COSINE } sf_schedule;
typedef enum sf_pad { SF_PAD_NONE, SF_PAD_MASK } sf_pad;
typedef enum sf_readout { SF_READ_MEAN, SF_READ_LAST, SF_READ_CLS, SF_READ_EACH } sf_readout;
typedef enum sf_finite_group { SF_S5, SF_A5, SF_Z60 } sf_finite_group;
typedef enum sf_device { SF_CPU, SF_CUDA, SF_AUTO } sf_device;
typedef enum sf_precision { SF_F32, SF_BF16, SF_TF32 } sf_precision;
typedef enum sf_export_format { SF_SAFETENSORS, SF_CSV, SF_JSONL, SF_TENSORBOARD } sf_export_format;
typedef enum sf_weights_at { SF_AT_LAST, SF_AT_BEST, SF_AT_INIT } sf_weights_at;
typedef enum sf_paper_scale { SF_SMOKE, SF_LAPTOP, SF_PAPER, SF_SCALES } sf_paper_scale;

/* What defines a run. */
typedef struct sf_config {
    /* data */
    int64_t seed, data_seed, length, min_length, train_count, heldout_count, vocab, classes, swap_sample;
    int64_t pad; /* sf_pad */
    /* text and tables; empty and 0: as suits the data */
    char tokenizer[SF_TEXT_SIZE], tokens_column[SF_TEXT_SIZE], label_column[SF_TEXT_SIZE];
    int64_t context;
    /* of single tasks */
    int64_t pairs, group; /* group: sf_finite_group */
    double noise, writes;
    /* model */
    char attention[SF_TEXT_SIZE];
    int64_t width, mlp_width, heads, head_width, blocks; /* head_width 0: the width */
    int64_t activation, norm;                            /* sf_activation, sf_norm */
    int64_t causal, readout;                             /* readout: sf_readout */
    int64_t tie_weights;
    double dropout, inverse_temperature;
    /* training */
    int64_t optimizer, schedule; /* sf_optimizer, sf_schedule */
    double lr, gamma, momentum, weight_decay, beta1, beta2, epsilon, clip, stop_at;
    int64_t batch, epochs, warmup, warmup_steps;
    int64_t evaluate_count; /* 0: all training sequences */
    int64_t precision;      /* sf_precision */
    char architecture[16];  /* of the GPU whose tensor cores compute bf16 or tf32: sm_90; empty: none */
    sf_given given;
} sf_config;

/* How runs are computed and saved; does not change their numbers. */
typedef struct sf_execution {
    int64_t threads; /* 0: one per core */
    int64_t device;  /* sf_device */
    int64_t checkpoint_seconds, measure_every, rank_timeout;
    int64_t data_parallel; /* a session trains one run at a time, on all ranks (semfocus/ranks.h) */
    /* Passes on a sentence for the user: that the GPU was chosen, or what the CPU computes instead of it, and why. May
     * be NULL. A session has events for this. */
    void (*on_note)(void *context, const char *sentence);
    void *note_context;
} sf_execution;

void sf_execution_init(sf_execution *execution); /* every default */

/* What a command needs besides the settings of its runs. */
typedef struct sf_options {
    sf_execution execution;
    int64_t json, quiet;
    int64_t count;
    char out[SF_PATH_SIZE], store[SF_PATH_SIZE], figures[SF_PATH_SIZE], where[1024];
    char converged_at[SF_TEXT_SIZE]; /* sf_criterion_parse() reads it */
    int64_t format;                  /* sf_export_format */
    int64_t best, seeds, dry_run, keep_going, fail_fast, plot;
    int64_t at;    /* sf_weights_at */
    int64_t split; /* sf_split */
    int64_t samples, curves;
    char lengths[1024];
    int64_t grid, direction_seed;
    double extent;
    int64_t bounds, lipschitz, mask_stability;
    double perturbed;
    char plugin[SF_PATH_SIZE];
    char text[SF_PATH_SIZE];
    int64_t scale; /* sf_paper_scale */
    int64_t models;
    char shard[SF_TEXT_SIZE]; /* sf_shard_parse() reads it */
    char into[SF_PATH_SIZE], tensorboard[SF_PATH_SIZE], against[SF_PATH_SIZE];
    char name[SF_TEXT_SIZE]; /* of the runs that are trained */
    int64_t archived, add_seeds, port;
    char prompt[SF_PATH_SIZE];
    int64_t new_tokens, top;
    double temperature;
    int64_t describe;
    sf_given given;
} sf_options;

typedef enum sf_setting_kind { SF_INTEGER, SF_REAL, SF_CHOICE, SF_TEXT, SF_FLAG } sf_setting_kind;

typedef enum sf_setting_group {
    SF_GROUP_SAMPLE = 1,         /* what a sampled sequence depends on */
    SF_GROUP_DATA = 2,           /* the data of a run */
    SF_GROUP_MODEL = 4,          /* mechanism and transformer */
    SF_GROUP_TRAINING = 8,       /* optimizer, schedule, stopping */
    SF_GROUP_MACHINE = 16,       /* where and how it is computed */
    SF_GROUP_OUTPUT = 32,        /* what is printed */
    SF_GROUP_FILE = 64,          /* how much is sampled */
    SF_GROUP_OUT = 128,          /* where it is written */
    SF_GROUP_STORE = 256,        /* the run store */
    SF_GROUP_QUERY = 512,        /* which runs */
    SF_GROUP_EXPORT = 1024,      /* what is exported from a run */
    SF_GROUP_STUDY = 2048,       /* how a study is done */
    SF_GROUP_SAVING = 4096,      /* how runs are shared among processes, and saved */
    SF_GROUP_REPORT = 8192,      /* figures and plots of the results */
    SF_GROUP_WEIGHTS = 16384,    /* which weights of a run are examined */
    SF_GROUP_ANALYSIS = 32768,   /* on which data, and what is reported */
    SF_GROUP_SURFACE = 65536,    /* the plane of the loss surface */
    SF_GROUP_SAMPLES = 131072,   /* how many sequences are evaluated */
    SF_GROUP_LENGTHS = 262144,   /* at which lengths */
    SF_GROUP_GOAL = 524288,      /* when a run counts as converged */
    SF_GROUP_PLUGIN = 1048576,   /* which plug-ins are loaded */
    SF_GROUP_PAPER = 2097152,    /* at which scale the paper is repeated */
    SF_GROUP_BENCH = 4194304,    /* what is timed */
    SF_GROUP_SHARD = 8388608,    /* which of the planned runs are trained */
    SF_GROUP_MERGE = 16777216,   /* where stores are joined */
    SF_GROUP_COMPARE = 33554432, /* which stores are compared */
    SF_GROUP_SERVE = 67108864,   /* where the live page is */
    SF_GROUP_TASK = 134217728,   /* of single tasks: which variant of them */
    SF_GROUP_GENERATE = 1 << 28, /* what a model of text writes */
    SF_GROUP_DESCRIBE = 1 << 29  /* what is said about data */
} sf_setting_group;

/* What a run depends on, and what a study takes: on the command line and in a file. */
enum {
    SF_RUN_GROUPS = SF_GROUP_SAMPLE | SF_GROUP_DATA | SF_GROUP_TASK | SF_GROUP_MODEL | SF_GROUP_TRAINING,
    SF_STUDY_GROUPS = SF_RUN_GROUPS | SF_GROUP_STUDY | SF_GROUP_SAVING | SF_GROUP_REPORT | SF_GROUP_GOAL |
                      SF_GROUP_OUT | SF_GROUP_MACHINE | SF_GROUP_STORE | SF_GROUP_OUTPUT | SF_GROUP_SHARD
};

typedef enum sf_setting_home { SF_IN_CONFIG, SF_IN_OPTIONS } sf_setting_home; /* sf_config or sf_options */

typedef struct sf_setting {
    const char *name;
    sf_setting_kind kind;
    sf_setting_group group;
    sf_setting_home home;
    size_t offset;       /* of the member of its struct */
    const char *initial; /* the default, as a user would write it */
    double low, high;    /* bounds, both included; SF_TEXT: high is the room in the struct */
    const char *choices; /* SF_CHOICE: "relu|gelu|mish", in the order of the enum */
    const char *value;   /* what --help shows for the value: N, S, ... */
    const char *help;
} sf_setting;

const sf_setting *sf_setting_at(size_t i); /* NULL past the end */
/* Unknown names are SF_BAD_INPUT and name the nearest one among `groups` (a mask of sf_setting_group). */
sf_status sf_setting_find(const sf_setting **out, const char *name, unsigned groups);

/* Whether a run's numbers depend on the setting: where it is not at its default, it is then part of the run's id. */
bool sf_setting_changes_numbers(const sf_setting *setting, const sf_config *config);

void sf_config_init(sf_config *config);
/* A setting of sf_options is SF_BAD_INPUT here, and one of sf_config below. */
sf_status sf_config_set(sf_config *config, const char *name, const char *value);
bool sf_config_given(const sf_config *config, const char *name);
/* The value of a setting of sf_config as the user would write it, for listings. */
void sf_config_text(char out[SF_TEXT_SIZE], const sf_config *config, const sf_setting *setting);
/* Rules between settings, once a recipe is applied. */
sf_status sf_config_check(const sf_config *config);
/* Fills what was not given from a recipe: name, value, ..., NULL. */
sf_status sf_config_apply_recipe(sf_config *config, const char *const *recipe);

void sf_options_init(sf_options *options);
sf_status sf_options_set(sf_options *options, const char *name, const char *value);
bool sf_options_given(const sf_options *options, const char *name);
void sf_options_text(char out[SF_TEXT_SIZE], const sf_options *options, const sf_setting *setting);

SF_API_END

#endif
