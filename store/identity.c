#include "store/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "base/hash.h"
#include "base/version.h"
#include "store/run_plugins.h"
#include "train/numerics.h"
#include "train/own_data.h"

static uint64_t add_text(uint64_t hash, const char *text) {
    return sf_hash(hash, text, strlen(text) + 1);
}

static uint64_t add_number(uint64_t hash, size_t number) {
    const uint64_t wide = number;
    return sf_hash(hash, &wide, sizeof wide);
}

/* Includes every count, so that different datasets never give the same bytes. */
static uint64_t add_dataset(uint64_t hash, const sf_dataset *data) {
    hash = add_number(hash, sf_dataset_count(data));
    for (size_t i = 0; i < sf_dataset_count(data); i++) {
        size_t count, label_count;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        const int32_t *labels = sf_dataset_labels(data, i, &label_count);
        hash = sf_hash(add_number(hash, count), tokens, count * sizeof *tokens);
        hash = sf_hash(hash, labels, label_count * sizeof *labels);
    }
    return hash;
}

typedef struct described { /* a run spelled one way, so that equal runs have equal text */
    sf_config config;
    uint64_t data; /* hash of the numerics version, of what is learned and of the plug-ins that are used */
    char attention[SF_SPELLING_SIZE];
} described;

/* A text by its hash, since its tokens may be many; a table by its sequences and, if they have any, its names. */
static uint64_t add_own_data(uint64_t hash, const sf_run_data *data) {
    const uint64_t own = data->own->hash;
    if (data->own->corpus != NULL) return sf_hash(add_text(hash, "text"), &own, sizeof own);
    hash = add_dataset(add_dataset(add_text(hash, "tsv"), data->training), data->heldout);
    return own != 0 ? sf_hash(hash, &own, sizeof own) : hash;
}

/* How the data was found does not matter once it is known: given or read from the data, it is the same run. */
static void forget_how(sf_config *resolved, const sf_run_data *data) {
    resolved->vocab = data->pad;
    resolved->classes = (int64_t)data->classes;
    resolved->context = (int64_t)data->own->context;
    *resolved->tokenizer = *resolved->tokens_column = *resolved->label_column = '\0';
}

/* A built-in task is identified by its name, a user's files by their contents. */
static sf_status add_task(uint64_t *hash, size_t *longest, sf_config *resolved, const char *task) {
    *longest = (size_t)resolved->length;
    if (!sf_run_data_is_own(task)) {
        *hash = add_text(*hash, task);
        return SF_OK;
    }
    sf_run_data data;
    SF_TRY(sf_run_data_open(&data, task, resolved, NULL));
    *hash = add_own_data(*hash, &data);
    *longest = data.longest;
    forget_how(resolved, &data);
    sf_run_data_close(&data);
    return SF_OK;
}

static sf_status describe(described *out, const sf_config *config, const char *task) {
    sf_attention attention;
    SF_TRY(sf_fail_about(sf_attention_parse(&attention, config->attention), "attention"));
    char version[16];
    snprintf(version, sizeof version, "%d", SF_NUMERICS_VERSION);
    *out = (described){.config = *config, .data = add_text(SF_HASH_START, version)};
    size_t longest;
    SF_TRY(add_task(&out->data, &longest, &out->config, task));
    attention = sf_attention_resolve(attention, sf_longest_read(config, longest));
    SF_TRY(sf_attention_set_causal(&attention, config->causal != 0));
    sf_attention_spell(out->attention, &attention);
    out->data = sf_run_plugins_hash(out->data, &attention, task);
    sf_attention_spell_in_ids(out->config.attention, &attention);
    out->config.data_seed = sf_run_data_seed(config);
    if (config->min_length == config->length) out->config.min_length = 0;
    if (config->head_width == config->width) out->config.head_width = 0; /* as by default */
    return SF_OK;
}

static uint64_t add_setting(uint64_t hash, const sf_config *config, const sf_setting *setting) {
    char value[SF_TEXT_SIZE];
    sf_config_text(value, config, setting);
    return add_text(add_text(hash, setting->name), value);
}

static bool is_usual(const sf_config *config, const sf_config *usual, const sf_setting *setting) {
    char value[SF_TEXT_SIZE], default_value[SF_TEXT_SIZE];
    sf_config_text(value, config, setting);
    sf_config_text(default_value, usual, setting);
    return strcmp(value, default_value) == 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const sf_setting *const *)a)->name, (*(const sf_setting *const *)b)->name);
}

/* Hashes the settings that differ from the table's defaults, by name: adding or moving a setting changes no id. */
static uint64_t hash_of(const described *run) {
    const sf_setting *unusual[SF_MOST_SETTINGS] = {NULL}, *setting;
    size_t count = 0;
    sf_config usual;
    sf_config_init(&usual);
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++)
        if (sf_setting_changes_numbers(setting, &run->config) && !is_usual(&run->config, &usual, setting))
            unusual[count++] = setting;
    qsort(unusual, count, sizeof *unusual, by_name);
    uint64_t hash = run->data;
    for (size_t i = 0; i < count; i++) hash = add_setting(hash, &run->config, unusual[i]);
    return hash;
}

/* The table as it was up to schema 5: every row that changes numbers was hashed, in this order. */
static uint64_t earlier_hash_of(const described *run) {
    static const char *const names[] = {
        "length",       "seed",   "data-seed",   "train-count", "heldout-count", "vocab",
        "classes",      "pad",    "swap-sample", "attention",   "width",         "mlp-width",
        "heads",        "blocks", "activation",  "norm",        "dropout",       "inverse-temperature",
        "optimizer",    "lr",     "schedule",    "gamma",       "warmup",        "momentum",
        "weight-decay", "beta1",  "beta2",       "epsilon",     "clip",          "batch",
        "epochs"};
    uint64_t hash = run->data;
    const sf_setting *setting;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (sf_setting_find(&setting, names[i], ~0U) != SF_OK) continue;
        if (strcmp(setting->name, "swap-sample") == 0 && run->config.swap_sample < 0) continue;
        if (sf_setting_changes_numbers(setting, &run->config)) hash = add_setting(hash, &run->config, setting);
    }
    hash = add_text(add_text(hash, "device"), "cpu");
    if (sf_setting_find(&setting, "precision", ~0U) != SF_OK) return hash;
    return add_setting(hash, &run->config, setting);
}

static void write_id(char out[SF_RUN_ID_SIZE], uint64_t hash) {
    snprintf(out, SF_RUN_ID_SIZE, "%016" PRIx64, hash);
}

sf_status sf_run_identify(char id[SF_RUN_ID_SIZE], char attention[SF_SPELLING_SIZE], sf_config *config,
                          const char *task) {
    described run;
    SF_TRY(sf_numerics_check(config));
    SF_TRY(sf_run_data_recipe(config, task));
    SF_TRY(sf_config_check(config));
    SF_TRY(sf_run_data_check(task, config));
    SF_TRY(describe(&run, config, task));
    strcpy(attention, run.attention);
    write_id(id, hash_of(&run));
    return SF_OK;
}

sf_status sf_run_identify_both(sf_run_ids *out, const sf_config *config, const char *task) {
    described run;
    SF_TRY(describe(&run, config, task));
    write_id(out->id, hash_of(&run));
    write_id(out->earlier, earlier_hash_of(&run));
    return SF_OK;
}

sf_status sf_run_trained_config(sf_config *out, sf_store *store, const sf_stored_run *run) {
    sf_run_ids ids;
    SF_TRY(sf_store_config(out, store, run));
    SF_TRY(sf_run_identify_both(&ids, out, run->task));
    if (strcmp(ids.id, run->id) == 0 || strcmp(ids.earlier, run->id) == 0) return SF_OK;
    return sf_fail(SF_IO_ERROR, "run %s: its data '%s' is not what it was trained on; restore the files", run->id,
                   run->task);
}
