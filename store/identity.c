/* What makes two runs the same run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attention/attention.h"
#include "base/hash.h"
#include "base/version.h"
#include "kernels/cpu/cpu.h"
#include "store/store.h"
#include "train/data.h"

static uint64_t add_text(uint64_t hash, const char *text) {
    return sf_hash(hash, text, strlen(text) + 1);
}

static uint64_t add_number(uint64_t hash, size_t number) {
    const uint64_t wide = number;
    return sf_hash(hash, &wide, sizeof wide);
}

/* With every count, so that no two datasets run together to the same bytes. */
static uint64_t add_dataset(uint64_t hash, const sf_dataset *data) {
    hash = add_number(hash, sf_dataset_count(data));
    for (size_t i = 0; i < sf_dataset_count(data); i++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        const int32_t label = sf_dataset_label(data, i);
        hash = sf_hash(add_number(hash, count), tokens, count * sizeof *tokens);
        hash = sf_hash(hash, &label, sizeof label);
    }
    return hash;
}

/* A built-in task is its name; a user's files are what they hold, wherever they lie. */
static sf_status add_task(uint64_t *hash, size_t *longest, sf_config *resolved, const char *task) {
    *longest = (size_t)resolved->length;
    if (!sf_run_data_is_tsv(task)) {
        *hash = add_text(*hash, task);
        return SF_OK;
    }
    sf_run_data data;
    SF_TRY(sf_run_data_open(&data, task, resolved, NULL));
    *hash = add_dataset(add_dataset(add_text(*hash, "tsv"), data.training), data.heldout);
    *longest = data.longest;
    resolved->vocab = data.pad; /* given or read off the data: the same run */
    resolved->classes = (int64_t)data.classes;
    sf_run_data_close(&data);
    return SF_OK;
}

sf_status sf_run_identify(char id[SF_RUN_ID_SIZE], char attention[SF_SPELLING_SIZE], sf_config *config,
                          const char *task) {
    SF_TRY(sf_cpu_check_isa((sf_precision)config->precision));
    SF_TRY(sf_run_data_recipe(config, task));
    SF_TRY(sf_config_check(config));
    SF_TRY(sf_run_data_check(task, config));
    sf_attention parsed;
    SF_TRY(sf_attention_parse(&parsed, config->attention));
    char version[16];
    snprintf(version, sizeof version, "%d", SF_NUMERICS_VERSION);
    uint64_t hash = add_text(SF_HASH_START, version);
    size_t longest;
    sf_config resolved = *config; /* spelled one way, so that equal runs have equal text */
    SF_TRY(add_task(&hash, &longest, &resolved, task));
    parsed = sf_attention_resolve(parsed, longest);
    sf_attention_spell(attention, &parsed);

    strcpy(resolved.attention, attention);
    resolved.data_seed = sf_run_data_seed(config);
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        const bool is_device = strcmp(setting->name, "device") == 0;
        if (!is_device && !sf_setting_changes_numbers(setting, config)) continue;
        if (strcmp(setting->name, "swap-sample") == 0 && config->swap_sample < 0) continue;
        char value[SF_TEXT_SIZE] = "cpu";
        if (!is_device) sf_config_text(value, &resolved, setting);
        hash = add_text(add_text(hash, setting->name), value);
    }
    snprintf(id, SF_RUN_ID_SIZE, "%016" PRIx64, hash);
    return SF_OK;
}

sf_status sf_run_trained_config(sf_config *out, sf_store *store, const sf_stored_run *run) {
    char id[SF_RUN_ID_SIZE], attention[SF_SPELLING_SIZE];
    SF_TRY(sf_store_config(out, store, run));
    sf_config identified = *out;
    SF_TRY(sf_run_identify(id, attention, &identified, run->task));
    if (strcmp(id, run->id) == 0) return SF_OK;
    return sf_fail(SF_IO_ERROR, "run %s: its data '%s' is not what it was trained on; put back the files", run->id,
                   run->task);
}
