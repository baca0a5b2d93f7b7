/* Tasks and their variants: which settings they take, what these make of them, and their solvers. */
#include <math.h>
#include <string.h>

#include "tasks/task.h"

sf_task_options sf_task_options_of(const sf_config *config) {
    sf_config usual;
    sf_config_init(&usual);
    const sf_config *from = config != NULL ? config : &usual;
    return (sf_task_options){.size = sizeof(sf_task_options),
                             .vocab = (int32_t)from->vocab,
                             .pairs = (int32_t)from->pairs,
                             .noise = from->noise,
                             .writes = from->writes,
                             .group = (int32_t)from->group};
}

bool sf_task_takes(const sf_task *task, const char *setting) {
    for (const char *const *name = task->settings; name != NULL && *name != NULL; name++)
        if (strcmp(*name, setting) == 0) return true;
    return false;
}

sf_status sf_task_check_settings(const sf_task *task, const sf_config *config) {
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++)
        if ((setting->group & SF_GROUP_TASK) != 0 && sf_config_given(config, setting->name) &&
            !sf_task_takes(task, setting->name))
            return sf_fail_on(SF_BAD_INPUT, setting->name, "%s is not a setting of the task %s; leave it out",
                              setting->name, task->info.name);
    return SF_OK;
}

sf_status sf_task_describe_with(sf_task_info *out, const sf_task *task, const sf_task_options *options) {
    const sf_task_options usual = sf_task_options_of(NULL);
    *out = task->info;
    return task->adapt != NULL ? task->adapt(out, options != NULL ? options : &usual) : SF_OK;
}

sf_status sf_task_check_length_of(const sf_task_info *info, size_t length) {
    if (length >= info->shortest && length <= info->longest) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "length", "length %zu is out of range; %s has lengths %zu..%zu", length, info->name,
                      info->shortest, info->longest);
}

sf_status sf_task_check_length(const sf_task *task, size_t length) {
    sf_task_info info;
    SF_TRY(sf_task_describe_with(&info, task, NULL));
    return sf_task_check_length_of(&info, length);
}

sf_status sf_task_check(const sf_task *task, const sf_config *config) {
    const sf_task_options options = sf_task_options_of(config);
    sf_task_info info;
    SF_TRY(sf_task_check_settings(task, config));
    SF_TRY(sf_task_describe_with(&info, task, &options));
    SF_TRY(sf_task_check_length_of(&info, (size_t)config->length));
    if (config->min_length == 0 || (size_t)config->min_length >= info.shortest) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "min-length", "min-length is %lld but %s has lengths %zu..%zu; raise it",
                      (long long)config->min_length, info.name, info.shortest, info.longest);
}

double sf_task_chance(const sf_task *task, size_t length) {
    return sf_task_chance_with(task, length, NULL);
}

double sf_task_chance_with(const sf_task *task, size_t length, const sf_task_options *options) {
    const sf_task_options usual = sf_task_options_of(NULL);
    sf_task_info info;
    if (options == NULL) options = &usual;
    if (task->chance_with != NULL) return 100 * task->chance_with(length, options);
    if (task->chance != NULL) return 100 * task->chance(length);
    return sf_task_describe_with(&info, task, options) == SF_OK ? 100 / (double)info.classes : 0;
}

bool sf_task_labels_each(const sf_task *task) {
    return task->labels_each || task->sample_each != NULL;
}

sf_status sf_task_solve_with(int32_t *labels, const sf_task *task, const int32_t *tokens, size_t count,
                             const sf_task_options *options) {
    const sf_task_options usual = sf_task_options_of(NULL);
    if (count == 0)
        return sf_fail(SF_BAD_INPUT, "an empty sequence has no label; %s needs at least one token", task->info.name);
    if (task->solve_with != NULL) return task->solve_with(labels, tokens, count, options != NULL ? options : &usual);
    return task->solve_each != NULL ? task->solve_each(labels, tokens, count) : task->solve(labels, tokens, count);
}

sf_status sf_task_solve(int32_t *label, const sf_task *task, const int32_t *tokens, size_t count) {
    if (sf_task_labels_each(task))
        return sf_fail(SF_BAD_INPUT, "%s has one label per position; solve all of them at once", task->info.name);
    return sf_task_solve_with(label, task, tokens, count, NULL);
}

sf_status sf_task_solve_each(int32_t *labels, const sf_task *task, const int32_t *tokens, size_t count) {
    if (!sf_task_labels_each(task))
        return sf_fail(SF_BAD_INPUT, "%s has one label per sequence, not one per position", task->info.name);
    return sf_task_solve_with(labels, task, tokens, count, NULL);
}

double sf_task_sampled_chance(const sf_task *task, size_t length) {
    enum { MOST = 4000, FEWEST = 16, TOKENS = 1 << 20 };
    const size_t fitting = TOKENS / length, count = fitting > MOST ? MOST : fitting < FEWEST ? FEWEST : fitting;
    sf_dataset *data;
    double percent = NAN;
    if (sf_dataset_sample(&data, task, SF_TRAINING, 0, count, length) != SF_OK) return NAN;
    if (sf_dataset_majority(&percent, data) != SF_OK) percent = NAN;
    sf_dataset_destroy(data);
    return percent / 100;
}
