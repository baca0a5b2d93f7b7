#include "train/data.h"

#include <string.h>

#include "base/random.h"
#include "base/status.h"
#include "base/text.h"
#include "tasks/dataset.h"
#include "train/own_data.h"

sf_status sf_run_data_recipe(sf_config *config, const char *task) {
    if (sf_run_data_is_own(task)) return sf_own_data_recipe(config, task);
    const sf_task *found;
    SF_TRY(sf_task_find(&found, task));
    return sf_config_apply_recipe(config, sf_task_describe(found).recipe);
}

uint32_t sf_run_data_seed(const sf_config *config) {
    return (uint32_t)(config->data_seed >= 0 ? config->data_seed : config->seed);
}

static sf_status refuse_given(const sf_config *config, const char *const *names, const char *why) {
    for (; *names != NULL; names++)
        if (sf_config_given(config, *names))
            return sf_fail_on(SF_BAD_INPUT, *names, "%s %s; leave it out", *names, why);
    return SF_OK;
}

static sf_status check_swap(const char *task, const sf_config *config) {
    if (config->swap_sample < 0) return SF_OK;
    if (sf_run_data_is_own(task))
        return sf_fail_on(
            SF_BAD_INPUT, "swap-sample",
            "swap-sample needs a built-in task, which can draw another sequence; for your own data leave it out "
            "and train on a second file with another row in its place");
    if (config->swap_sample >= config->train_count)
        return sf_fail_on(SF_BAD_INPUT, "swap-sample",
                          "swap-sample is %lld but the training sequences are 0..%lld; choose one of them",
                          (long long)config->swap_sample, (long long)config->train_count - 1);
    return SF_OK;
}

/* Labels and readout have to fit together. */
static sf_status check_readout(const char *task, bool labels_each, const sf_config *config) {
    if (labels_each == (config->readout == SF_READ_EACH)) return SF_OK;
    if (labels_each)
        return sf_fail_on(SF_BAD_INPUT, "readout", "'%s' has one label per token; set readout to each", task);
    return sf_fail_on(SF_BAD_INPUT, "readout",
                      "readout is each but '%s' has one label per sequence; use mean, last or cls", task);
}

/* What tied weights and a warm-up in steps need of the data. */
static sf_status check_sizes(const sf_config *config, size_t classes, size_t tokens, size_t sequences) {
    const size_t batch = (size_t)config->batch, steps = (sequences + batch - 1) / batch * (size_t)config->epochs;
    if (config->tie_weights && classes > tokens)
        return sf_fail_on(SF_BAD_INPUT, "tie-weights",
                          "tie-weights scores label i with the vector of token i, but there are %zu labels and %zu "
                          "tokens; leave it out",
                          classes, tokens);
    if (config->warmup_steps > 0 && (size_t)config->warmup_steps >= steps)
        return sf_fail_on(SF_BAD_INPUT, "warmup-steps", "warmup-steps is %lld but must be less than all steps (%zu)",
                          (long long)config->warmup_steps, steps);
    return SF_OK;
}

sf_status sf_run_data_check(const char *task, const sf_config *config) {
    static const char *const only_own[] = {"classes", "tokenizer", "context", "tokens", "label", NULL};
    static const char *const only_tasks[] = {"pairs", "noise", "writes", "group", NULL};
    static const char *const only_sampled[] = {"length", "min-length", "train-count", "heldout-count", NULL};
    SF_TRY(check_swap(task, config));
    if (sf_run_data_is_own(task)) {
        SF_TRY(sf_own_data_check(task, config));
        SF_TRY(refuse_given(config, only_tasks, "belongs to a built-in task"));
        return refuse_given(config, only_sampled, "belongs to built-in tasks; your own data has what its files hold");
    }
    const sf_task *found;
    SF_TRY(sf_task_find(&found, task));
    SF_TRY(refuse_given(config, only_own, "is known for a built-in task and set only for your own data"));
    SF_TRY(check_readout(task, sf_task_labels_each(found), config));
    const sf_task_options options = sf_task_options_of(config);
    sf_task_info info;
    SF_TRY(sf_task_describe_with(&info, found, &options));
    SF_TRY(check_sizes(config, (size_t)info.classes, (size_t)info.pad + 1, (size_t)config->train_count));
    return sf_task_check(found, config);
}

static sf_sampling sampling_of(const sf_task *task, sf_split split, const sf_config *config,
                               const sf_task_options *options) {
    return (sf_sampling){.task = task,
                         .split = split,
                         .seed = sf_run_data_seed(config),
                         .count = (size_t)(split == SF_TRAINING ? config->train_count : config->heldout_count),
                         .length = (size_t)config->length,
                         .shortest = (size_t)config->min_length,
                         .options = options};
}

static sf_status sample_both(sf_run_data *data, const char *task, const sf_config *config, const atomic_int *stop) {
    const sf_task *found;
    SF_TRY(sf_task_find(&found, task));
    const sf_task_options options = sf_task_options_of(config);
    const sf_sampling training = sampling_of(found, SF_TRAINING, config, &options);
    const sf_sampling heldout = sampling_of(found, SF_HELDOUT, config, &options);
    sf_task_info info;
    SF_TRY(sf_task_describe_with(&info, found, &options));
    data->pad = info.pad;
    data->classes = (size_t)info.classes;
    SF_TRY(sf_dataset_draw_until(&data->training, &training, stop));
    return sf_dataset_draw_until(&data->heldout, &heldout, stop);
}

/* Not longer than the longest sequence of the data, so that the padding of the others does not change. */
static sf_status swap_one(sf_run_data *data, const char *task, const sf_config *config) {
    const sf_task *found;
    SF_TRY(sf_task_find(&found, task));
    const sf_task_options options = sf_task_options_of(config);
    const sf_sampling what = sampling_of(found, SF_TRAINING, config, &options);
    return sf_dataset_redraw(&data->training, &what, (size_t)config->swap_sample, data->longest);
}

/* The same limit as for the setting `length`: the addresses of random numbers have no room for more. */
static sf_status check_longest(const sf_run_data *data, const char *task) {
    const sf_setting *length;
    SF_TRY(sf_setting_find(&length, "length", SF_GROUP_SAMPLE));
    if ((double)data->longest <= length->high) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "a sequence in '%s' has %zu tokens but at most %.0f are allowed; cut it", task,
                   data->longest, length->high);
}

static sf_status check_labels(const sf_run_data *data, const char *task, const sf_config *config) {
    const bool each = sf_dataset_labels_each(data->training);
    if (each != sf_dataset_labels_each(data->heldout))
        return sf_fail(SF_BAD_INPUT,
                       "one file of '%s' has a label at every token, the other one per row; write both "
                       "alike",
                       task);
    SF_TRY(check_readout(task, each, config));
    if (sf_dataset_label_count(data->training) == 0 || sf_dataset_label_count(data->heldout) == 0)
        return sf_fail(SF_BAD_INPUT, "the %s data of '%s' has no label at all; write one for at least one token",
                       sf_dataset_label_count(data->training) == 0 ? "training" : "held-out", task);
    return SF_OK;
}

sf_status sf_run_data_open(sf_run_data *out, const char *task, const sf_config *config, const atomic_int *stop) {
    *out = (sf_run_data){0};
    SF_TRY(sf_run_data_check(task, config));
    sf_status status =
        sf_run_data_is_own(task) ? sf_own_data_open(out, task, config, stop) : sample_both(out, task, config, stop);
    if (status == SF_OK) {
        const size_t training = sf_dataset_longest(out->training), heldout = sf_dataset_longest(out->heldout);
        out->longest = training > heldout ? training : heldout;
        status = check_longest(out, task);
        if (status == SF_OK) status = check_labels(out, task, config);
        if (status == SF_OK)
            status = check_sizes(config, out->classes, (size_t)out->pad + 1, sf_dataset_count(out->training));
        if (status == SF_OK && config->swap_sample >= 0) status = swap_one(out, task, config);
    }
    if (status != SF_OK) sf_run_data_close(out);
    return status;
}

void sf_run_data_close(sf_run_data *data) {
    sf_dataset_destroy(data->training);
    sf_dataset_destroy(data->heldout);
    sf_own_data_close(data);
    *data = (sf_run_data){0};
}

size_t sf_longest_read(const sf_config *config, size_t longest) {
    return longest + (config->readout == SF_READ_CLS ? 1 : 0);
}

size_t sf_token_ids(const sf_config *config, const sf_run_data *data, size_t globals) {
    return (size_t)data->pad + 1 + globals + (config->readout == SF_READ_CLS ? 1 : 0);
}

/* Fisher-Yates under (seed, epoch). */
void sf_epoch_order(uint32_t *order /* [count] */, size_t count, uint32_t seed, uint32_t epoch) {
    sf_draws draws = sf_draws_at((sf_index){.seed = seed, .stream = sf_stream(SF_SHUFFLE, 0, 0), .epoch = epoch});
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        const uint32_t j = sf_draw_below(&draws, (uint32_t)i), last = order[i - 1];
        order[i - 1] = order[j];
        order[j] = last;
    }
}
