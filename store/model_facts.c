#include "store/model_facts.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "model/model.h"
#include "train/data.h"

void sf_model_facts_add(sf_model_facts *facts, const char *name, const char *format, ...) {
    va_list arguments;
    assert(facts->count < SF_MOST_FACTS);
    char *value = facts->values[facts->count];
    va_start(arguments, format);
    vsnprintf(value, SF_FACT_SIZE, format, arguments);
    va_end(arguments);
    facts->pairs[2 * facts->count] = name;
    facts->pairs[2 * facts->count + 1] = value;
    facts->count++;
    facts->pairs[2 * facts->count] = NULL;
}

static void add_setting(sf_model_facts *facts, const char *name, const sf_config *config) {
    const sf_setting *setting;
    char value[SF_TEXT_SIZE];
    if (sf_setting_find(&setting, name, SF_RUN_GROUPS) != SF_OK) return;
    sf_config_text(value, config, setting);
    sf_model_facts_add(facts, setting->name, "%s", value);
}

void sf_model_facts_fill(sf_model_facts *facts, const sf_config *config, const sf_attention *attention,
                         const sf_model_sizes *sizes) {
    static const char *const settings[] = {"width", "heads",   "blocks", "mlp-width",           "activation",
                                           "norm",  "readout", "causal", "inverse-temperature", "tie-weights"};
    char spelling[SF_SPELLING_SIZE];
    const int64_t head_width = config->head_width > 0 ? config->head_width : config->width;
    sf_attention_spell(spelling, attention);
    sf_model_facts_add(facts, "model", "semfocus 1");
    sf_model_facts_add(facts, "attention", "%s", spelling);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) add_setting(facts, settings[i], config);
    sf_model_facts_add(facts, "head-width", "%" PRId64, head_width);
    sf_model_facts_add(facts, "tokens", "%zu", sizes->tokens);
    sf_model_facts_add(facts, "classes", "%zu", sizes->classes);
    sf_model_facts_add(facts, "globals", "%zu", attention->globals);
    const size_t cls = config->readout == SF_READ_CLS ? 1 : 0; /* its token comes after the global ones */
    sf_model_facts_add(facts, "pad", "%zu", sizes->tokens - attention->globals - cls - 1);
    if (sizes->positions > 0) sf_model_facts_add(facts, "positions", "%zu", sizes->positions);
    sf_model_facts_add(facts, "position-encoding", "sinusoidal");
    sf_model_facts_add(facts, "position-base", "10000");
    sf_model_facts_add(facts, "embedding-scale", "%.17g", sqrt((double)config->width));
    sf_model_facts_add(facts, "score-scale", "%.17g", config->inverse_temperature / sqrt((double)head_width));
    sf_model_facts_add(facts, "norm-affine", "no");
    sf_model_facts_add(facts, "epsilon-first-attention-norm", "%g", sf_norm_epsilon(0, 1));
    sf_model_facts_add(facts, "epsilon", "%g", sf_norm_epsilon(0, 0));
}

/* Sequences of the data may all be shorter than the length that was asked for. */
static size_t longest_of(const sf_stored_run *run, const sf_config *config) {
    sf_run_data data;
    if (sf_run_data_open(&data, run->task, config, NULL) != SF_OK) return 0;
    const size_t longest = data.longest;
    sf_run_data_close(&data);
    return longest;
}

sf_status sf_model_facts_of_run(sf_model_facts *facts, sf_store *store, const sf_stored_run *run, size_t tokens,
                                size_t classes) {
    sf_config config;
    sf_attention attention;
    SF_TRY(sf_store_list_config(&config, store, run));
    if (sf_attention_parse(&attention, run->attention) != SF_OK) return SF_OK; /* of a plug-in that is not loaded */
    const size_t longest = longest_of(run, &config);
    const sf_model_sizes sizes = {.tokens = tokens,
                                  .classes = classes,
                                  .positions = longest > 0 ? sf_attention_positions(&attention,
                                                                                    sf_longest_read(&config, longest),
                                                                                    config.pad == SF_PAD_MASK)
                                                           : 0};
    sf_model_facts_add(facts, "task", "%.*s", SF_FACT_SIZE - 1, run->task);
    sf_model_facts_add(facts, "seed", "%" PRId64, run->seed);
    sf_model_facts_fill(facts, &config, &attention, &sizes);
    return SF_OK;
}
