#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "semfocus/suggest.h"
#include "tasks/task.h"

static const sf_task *const built_in[] = {
    &sf_task_parity,
    &sf_task_even_pairs,
    &sf_task_missing_duplicate,
    &sf_task_cycle_navigation,
    &sf_task_modular_arithmetic_brackets,
    &sf_task_solve_equation,
    &sf_task_stack_manipulation,
    &sf_task_listops,
    &sf_task_modular_arithmetic,
    &sf_task_recall,
    &sf_task_noisy_recall,
    &sf_task_flip_flop,
    &sf_task_word_problem,
    &sf_task_reverse_string,
    &sf_task_duplicate_string,
    &sf_task_odds_first,
    &sf_task_bucket_sort,
    &sf_task_binary_addition,
    &sf_task_binary_multiplication,
    &sf_task_compute_sqrt,
};

enum { BUILT_IN = sizeof built_in / sizeof *built_in };

static const sf_task **added; /* [added_count]: of plug-ins */
static size_t added_count;

const sf_task *sf_task_at(size_t i) {
    if (i < BUILT_IN) return built_in[i];
    return i - BUILT_IN < added_count ? added[i - BUILT_IN] : NULL;
}

sf_status sf_task_register(const sf_task *task) {
    SF_TRY(SF_GROW(&added, added_count, added_count + 1));
    added[added_count++] = task;
    return SF_OK;
}

static const char *name_at(const void *unused, size_t i) {
    (void)unused;
    const sf_task *task = sf_task_at(i);
    return task == NULL ? NULL : task->info.name;
}

sf_status sf_task_find(const sf_task **out, const char *name) {
    *out = NULL;
    for (size_t i = 0; sf_task_at(i) != NULL; i++) {
        if (strcmp(sf_task_at(i)->info.name, name) != 0) continue;
        *out = sf_task_at(i);
        return SF_OK;
    }
    char quoted[SF_QUOTE_SIZE];
    sf_text_quote(quoted, name);
    const char *nearest = sf_suggest(SF_NAMES_TASKS, name, name_at, NULL);
    if (nearest == NULL)
        return sf_fail(
            SF_BAD_INPUT,
            "no task is called '%s'; 'semfocus list tasks' shows them all, and data of your own is text:, csv:, tsv: "
            "or jsonl:FILE",
            quoted);
    return sf_fail(SF_BAD_INPUT, "no task is called '%s'; did you mean '%s'? ('semfocus list tasks' shows them all)",
                   quoted, nearest);
}

sf_task_info sf_task_describe(const sf_task *task) {
    return task->info;
}
