/* The checks of what a plug-in registers. Every refusal names the part and the rule; the caller adds the name of the
 * file. */
#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "attention/registry.h"
#include "base/text.h"
#include "plugins/plugins.h"
#include "semfocus/settings.h"
#include "tasks/task.h"

enum { LONGEST_NAME = 24, LONGEST_TASK_NAME = 40, LONGEST_SUMMARY = 200, LONGEST_LETTER = 6, MOST_PARTS = 256 };

#define BAD(...) sf_fail(SF_BAD_INPUT, __VA_ARGS__)

/* Sizes of a structure in each of its versions, from the first on. */
typedef struct versions {
    const char *kind;
    const size_t *sizes;
    size_t count;
} versions;

static const size_t plugin_sizes[] = {sizeof(sf_plugin)};
static const size_t selector_sizes[] = {offsetof(sf_selector, keeps_all), offsetof(sf_selector, failure),
                                        offsetof(sf_selector, prepare_batch), sizeof(sf_selector)};
static const size_t weighting_sizes[] = {offsetof(sf_weighting, matrix_scratch), offsetof(sf_weighting, failure),
                                         offsetof(sf_weighting, weigh_batch), sizeof(sf_weighting)};
static const size_t task_sizes[] = {offsetof(sf_task, settings), sizeof(sf_task)};
_Static_assert(sizeof plugin_sizes / sizeof(size_t) == SF_PLUGIN_VERSION, "a size for each version");
_Static_assert(sizeof selector_sizes / sizeof(size_t) == SF_SELECTOR_VERSION, "a size for each version");
_Static_assert(sizeof weighting_sizes / sizeof(size_t) == SF_WEIGHTING_VERSION, "a size for each version");
_Static_assert(sizeof task_sizes / sizeof(size_t) == SF_TASK_VERSION, "a size for each version");

static const versions of_plugins = {"table of parts", plugin_sizes, SF_PLUGIN_VERSION};
static const versions of_selectors = {"selector", selector_sizes, SF_SELECTOR_VERSION};
static const versions of_weightings = {"weighting", weighting_sizes, SF_WEIGHTING_VERSION};
static const versions of_tasks = {"task", task_sizes, SF_TASK_VERSION};

/* What every structure begins with. */
typedef struct head {
    unsigned version;
    size_t size;
} head;

/* Copies a structure of any known version; members that it does not have yet stay 0. `which` counts from 1. */
static sf_status take(void *out, const void *in, const versions *known, size_t which) {
    head is;
    memcpy(&is, in, sizeof is);
    if (is.version < 1 || is.version > known->count)
        return BAD("%s %zu has version %u but this semfocus knows versions 1 to %zu; build the plug-in against the "
                   "headers of this version, or take a newer semfocus",
                   known->kind, which, is.version, known->count);
    if (is.size != known->sizes[is.version - 1])
        return BAD(
            "%s %zu has version %u and %zu bytes but that version has %zu; build the plug-in again, with .size = "
            "sizeof",
            known->kind, which, is.version, is.size, known->sizes[is.version - 1]);
    memcpy(out, in, is.size);
    return SF_OK;
}

static sf_status count_parts(size_t *out, const void *const *list, const versions *known) {
    for (*out = 0; list != NULL && list[*out] != NULL; ++*out)
        if (*out == MOST_PARTS)
            return BAD("has a list of more than %d %ss; a list must end with NULL", MOST_PARTS, known->kind);
    return SF_OK;
}

static bool is_name(const char *name, size_t longest) {
    const size_t length = strlen(name);
    if (length == 0 || length > longest || !islower((unsigned char)*name)) return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static sf_status check_name(const char *kind, size_t which, const char *name, size_t longest) {
    char quoted[SF_QUOTE_SIZE];
    if (name == NULL) return BAD("%s %zu has no name", kind, which);
    if (is_name(name, longest)) return SF_OK;
    return BAD("%s %zu is called '%s' but a name is a lower-case letter and up to %zu more letters, digits and '-'",
               kind, which, sf_text_quote(quoted, name), longest - 1);
}

static sf_status check_summary(const char *kind, const char *name, const char *summary) {
    if (summary == NULL || *summary == '\0') return BAD("the %s %s has no summary; give it one line", kind, name);
    if (strlen(summary) > LONGEST_SUMMARY || strpbrk(summary, "\n\r\t\033") != NULL)
        return BAD("the summary of the %s %s must be one line of at most %d characters", kind, name, LONGEST_SUMMARY);
    return SF_OK;
}

/* What listings show besides the summary; may be left out. */
static sf_status check_lines(const char *kind, const char *name, const char *const lines[3]) {
    for (size_t i = 0; i < 3; i++)
        if (lines[i] != NULL && (strlen(lines[i]) > LONGEST_SUMMARY || strpbrk(lines[i], "\n\r\t\033") != NULL))
            return BAD("formula, cost and source of the %s %s must be one line of at most %d characters each", kind,
                       name, LONGEST_SUMMARY);
    return SF_OK;
}

static sf_status taken(const char *kind, const char *name, const void *by) {
    if (by == NULL) return BAD("the %s %s is registered twice; give one of them another name", kind, name);
    const sf_plugin_file *file = sf_plugin_file_of(by);
    if (file == NULL) return BAD("the %s %s is built in; give yours another name", kind, name);
    return BAD("the %s %s is already there from the plug-in %s; load one of them", kind, name, file->path);
}

static sf_status check_argument(const sf_argument *argument, const char *kind, const char *name, size_t i) {
    const size_t length = strlen(argument->letter);
    if (length < 1 || length > LONGEST_LETTER || strspn(argument->letter, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != length)
        return BAD("argument %zu of the %s %s must have a letter of 1 to %d capitals", i + 1, kind, name,
                   LONGEST_LETTER);
    if (argument->meaning == NULL || *argument->meaning == '\0')
        return BAD("argument %s of the %s %s has no meaning to name in messages", argument->letter, kind, name);
    if (!(isfinite(argument->low) && isfinite(argument->high) && argument->low <= argument->initial &&
          argument->initial <= argument->high))
        return BAD("argument %s of the %s %s has the value %g and bounds %g..%g; they must be finite, and the value "
                   "between them",
                   argument->letter, kind, name, argument->initial, argument->low, argument->high);
    if (argument->whole && argument->initial != floor(argument->initial))
        return BAD("argument %s of the %s %s has the value %g but is whole", argument->letter, kind, name,
                   argument->initial);
    return SF_OK;
}

static sf_status check_arguments(size_t *count, const sf_argument *arguments, const char *kind, const char *name) {
    for (*count = 0; *count < SF_MOST_ARGUMENTS && arguments[*count].letter != NULL; ++*count) {
        SF_TRY(check_argument(&arguments[*count], kind, name, *count));
        if (*count > 0 && arguments[*count].required && !arguments[*count - 1].required)
            return BAD("argument %s of the %s %s is required but stands behind one that is not",
                       arguments[*count].letter, kind, name);
    }
    for (size_t i = *count; i < SF_MOST_ARGUMENTS; i++)
        if (arguments[i].letter != NULL)
            return BAD("argument %zu of the %s %s stands behind one without a letter", i + 1, kind, name);
    return SF_OK;
}

static sf_status check_selector_members(const sf_selector *s) {
    if (s->keep == NULL) return BAD("the selector %s has no function keep", s->name);
    if ((s->selects_by & ~(unsigned)(SF_BY_SCORE | SF_BY_CHANCE | SF_BY_VECTORS | SF_BY_ALL_SCORES)) != 0)
        return BAD("the selector %s selects by %u, which this version of semfocus does not know", s->name,
                   s->selects_by);
    if ((s->keeps_k || s->keeps_all_from_k) && !s->takes_k)
        return BAD("the selector %s states what it keeps for a k but takes none; set takes_k", s->name);
    if (s->separates_scores && (s->selects_by & SF_BY_SCORE) == 0)
        return BAD("the selector %s separates scores but does not select by them; add SF_BY_SCORE", s->name);
    const bool prepares = s->prepare != NULL || s->prepare_batch != NULL;
    if ((s->selects_by & SF_BY_ALL_SCORES) != 0 && ((s->selects_by & SF_BY_SCORE) == 0 || !prepares))
        return BAD("the selector %s looks at all scores; it needs SF_BY_SCORE and a function prepare", s->name);
    if (s->prepare_batch != NULL &&
        (s->prepare != NULL || (s->selects_by & ~(unsigned)SF_BY_SCORE) != SF_BY_ALL_SCORES))
        return BAD("the selector %s has prepare_batch; it must select by all scores alone and have no prepare",
                   s->name);
    if ((s->scratch_size == NULL) == prepares)
        return BAD("the selector %s has one of scratch_size and prepare; it needs both or neither", s->name);
    if (prepares && s->selects_by == SF_BY_POSITION)
        return BAD("the selector %s selects by position, once per length, and has nothing to prepare", s->name);
    return SF_OK;
}

static sf_status check_selector(const sf_selector *s, sf_selector *const *before, size_t which) {
    size_t numbers;
    SF_TRY(check_name("selector", which, s->name, LONGEST_NAME));
    SF_TRY(check_summary("selector", s->name, s->summary));
    SF_TRY(check_lines("selector", s->name, (const char *const[]){s->formula, s->cost, s->source}));
    if (sf_selector_named(s->name) != NULL) return taken("selector", s->name, sf_selector_named(s->name));
    for (size_t i = 0; i + 1 < which; i++)
        if (strcmp(before[i]->name, s->name) == 0) return taken("selector", s->name, NULL);
    SF_TRY(check_arguments(&numbers, s->arguments, "selector", s->name));
    if (numbers + s->takes_k > SF_MOST_ARGUMENTS)
        return BAD("the selector %s takes k and %zu arguments; at most %d numbers may follow its name", s->name,
                   numbers, SF_MOST_ARGUMENTS);
    return check_selector_members(s);
}

static sf_status check_weighting(const sf_weighting *w, sf_weighting *const *before, size_t which) {
    size_t numbers;
    SF_TRY(check_name("weighting", which, w->name, LONGEST_NAME));
    SF_TRY(check_summary("weighting", w->name, w->summary));
    SF_TRY(check_lines("weighting", w->name, (const char *const[]){w->formula, w->cost, w->source}));
    if (sf_weighting_named(w->name) != NULL) return taken("weighting", w->name, sf_weighting_named(w->name));
    for (size_t i = 0; i + 1 < which; i++)
        if (strcmp(before[i]->name, w->name) == 0) return taken("weighting", w->name, NULL);
    SF_TRY(check_arguments(&numbers, w->arguments, "weighting", w->name));
    if ((w->weigh_matrix == NULL) != (w->weigh_matrix_backward == NULL) ||
        (w->weigh_batch == NULL) != (w->weigh_batch_backward == NULL) ||
        (w->weigh_matrix == NULL && w->weigh_batch == NULL) != (w->matrix_scratch == NULL))
        return BAD("the weighting %s weighs whole matrices; it needs weigh_matrix, weigh_matrix_backward and "
                   "matrix_scratch together",
                   w->name);
    if (w->weigh_matrix != NULL && w->weigh_batch != NULL)
        return BAD("the weighting %s has weigh_matrix and weigh_batch; give one of them", w->name);
    if (w->matrix_scratch == NULL && (w->weigh == NULL || w->weigh_backward == NULL))
        return BAD("the weighting %s has no function %s", w->name, w->weigh == NULL ? "weigh" : "weigh_backward");
    if (w->has_softmax_theory)
        return BAD("the weighting %s claims the theory of softmax, which was proven of softmax alone; leave "
                   "has_softmax_theory out",
                   w->name);
    return SF_OK;
}

static sf_status check_recipe(const sf_task *task, sf_config *config) {
    const char *const *recipe = task->info.recipe;
    sf_config_init(config);
    for (size_t i = 0; recipe != NULL && recipe[i] != NULL; i += 2) {
        const sf_setting *setting;
        if (i / 2 >= SF_MOST_SETTINGS || recipe[i + 1] == NULL)
            return BAD("the recipe of the task %s must be pairs of name and value, and NULL", task->info.name);
        sf_status status = sf_setting_find(&setting, recipe[i], SF_RUN_GROUPS);
        if (status == SF_OK) status = sf_config_set(config, recipe[i], recipe[i + 1]);
        if (status != SF_OK) return sf_fail_in(SF_BAD_INPUT, "the recipe of the task %s", task->info.name);
    }
    return SF_OK;
}

static sf_status check_chance(const sf_task *task, size_t length) {
    if ((task->chance == NULL && task->chance_with == NULL) || sf_task_check_length(task, length) != SF_OK)
        return SF_OK;
    const double chance = sf_task_chance(task, length) / 100;
    if (chance > 0 && chance <= 1) return SF_OK;
    return BAD("the task %s gives %g as the share of its most frequent label at length %zu; it must be above 0 and at "
               "most 1",
               task->info.name, chance, length);
}

static sf_status check_task_info(const sf_task_info *info) {
    if (info->tokens == NULL) return BAD("the task %s does not say what its tokens mean", info->name);
    if (info->pad < 1 || info->pad > UINT16_MAX)
        return BAD("the task %s has pad %d; it is one more than the largest token, from 1 to %d", info->name, info->pad,
                   UINT16_MAX);
    if (info->classes < 2 || info->classes > UINT16_MAX)
        return BAD("the task %s has %d classes; it needs 2 to %d", info->name, info->classes, UINT16_MAX);
    if (info->shortest < 1 || info->shortest > info->longest || info->longest > 65536)
        return BAD("the task %s has lengths %zu..%zu; they must lie in 1..65536", info->name, info->shortest,
                   info->longest);
    return SF_OK;
}

/* Of a task with variants. */
static sf_status check_variants(const sf_task *task) {
    const char *name = task->info.name;
    const sf_setting *setting;
    if (task->sample != NULL || task->solve != NULL || task->sample_each != NULL || task->solve_each != NULL)
        return BAD("the task %s has sample_with and functions without settings; keep one kind", name);
    if (task->sample_with == NULL || task->solve_with == NULL)
        return BAD("the task %s has no function %s", name, task->sample_with == NULL ? "sample_with" : "solve_with");
    for (const char *const *at = task->settings; at != NULL && *at != NULL; at++)
        SF_TRY(sf_fail_in(sf_setting_find(&setting, *at, SF_GROUP_TASK), "the settings of the task %s", name));
    return SF_OK;
}

/* One label per sequence, or one per position. */
static sf_status check_task_functions(const sf_task *task) {
    const char *name = task->info.name;
    if (task->sample_with != NULL || task->solve_with != NULL) return check_variants(task);
    if (task->settings != NULL || task->adapt != NULL || task->chance_with != NULL || task->labels_each)
        return BAD("the task %s has members for settings but no function sample_with", name);
    if (task->sample_each == NULL && task->solve_each == NULL) {
        if (task->sample != NULL && task->solve != NULL) return SF_OK;
        return BAD("the task %s has no function %s", name, task->sample == NULL ? "sample" : "solve");
    }
    if (task->sample != NULL || task->solve != NULL)
        return BAD("the task %s has functions for one label per sequence and for one per position; keep one kind",
                   name);
    if (task->sample_each != NULL && task->solve_each != NULL) return SF_OK;
    return BAD("the task %s has no function %s", name, task->sample_each == NULL ? "sample_each" : "solve_each");
}

static sf_status check_task(const sf_task *task, sf_task *const *before, size_t which) {
    const sf_task_info *info = &task->info;
    const sf_task *other;
    sf_config config;
    SF_TRY(check_name("task", which, info->name, LONGEST_TASK_NAME));
    SF_TRY(check_summary("task", info->name, info->summary));
    for (size_t i = 0; (other = sf_task_at(i)) != NULL; i++)
        if (strcmp(sf_task_describe(other).name, info->name) == 0) return taken("task", info->name, other);
    for (size_t i = 0; i + 1 < which; i++)
        if (strcmp(before[i]->info.name, info->name) == 0) return taken("task", info->name, NULL);
    SF_TRY(check_task_info(info));
    SF_TRY(check_task_functions(task));
    SF_TRY(check_recipe(task, &config));
    SF_TRY(sf_fail_in(sf_task_check(task, &config), "the recipe of the task %s", info->name));
    SF_TRY(check_chance(task, info->shortest));
    return check_chance(task, (size_t)config.length);
}

/* One list: counts it, then copies and checks its parts one after the other. */
#define TAKE_ALL(parts, counted, list, known, check)                                                                   \
    do {                                                                                                               \
        size_t listed;                                                                                                 \
        SF_TRY(count_parts(&listed, (const void *const *)(list), (known)));                                            \
        SF_TRY(SF_NEW(&(parts), listed));                                                                              \
        for (size_t i = 0; i < listed; i++) {                                                                          \
            SF_TRY(SF_NEW(&(parts)[i], 1));                                                                            \
            (counted)++;                                                                                               \
            SF_TRY(take((parts)[i], (list)[i], (known), i + 1));                                                       \
            SF_TRY(check((parts)[i], (parts), i + 1));                                                                 \
        }                                                                                                              \
    } while (0)

static sf_status take_parts(sf_plugin_parts *out, const sf_plugin *given) {
    sf_plugin plugin = {0};
    SF_TRY(take(&plugin, given, &of_plugins, 1));
    if (plugin.extras != NULL && plugin.extras[0] != NULL)
        return BAD("registers extras, which this version of semfocus cannot run");
    if (plugin.score_transforms != NULL && plugin.score_transforms[0] != NULL)
        return BAD("registers score transforms, which this version of semfocus cannot run");
    TAKE_ALL(out->selectors, out->selector_count, plugin.selectors, &of_selectors, check_selector);
    TAKE_ALL(out->weightings, out->weighting_count, plugin.weightings, &of_weightings, check_weighting);
    TAKE_ALL(out->tasks, out->task_count, plugin.tasks, &of_tasks, check_task);
    if (out->selector_count + out->weighting_count + out->task_count == 0)
        return BAD("registers nothing; its table must list a selector, a weighting or a task");
    return SF_OK;
}

sf_status sf_plugin_parts_take(sf_plugin_parts *out, const sf_plugin *plugin) {
    *out = (sf_plugin_parts){0};
    const sf_status status = take_parts(out, plugin);
    if (status != SF_OK) sf_plugin_parts_release(out);
    return status;
}

void sf_plugin_parts_release(sf_plugin_parts *parts) {
    for (size_t i = 0; i < parts->selector_count; i++) sf_release(parts->selectors[i]);
    for (size_t i = 0; i < parts->weighting_count; i++) sf_release(parts->weightings[i]);
    for (size_t i = 0; i < parts->task_count; i++) sf_release(parts->tasks[i]);
    sf_release(parts->selectors);
    sf_release(parts->weightings);
    sf_release(parts->tasks);
    *parts = (sf_plugin_parts){0};
}
