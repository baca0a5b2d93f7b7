/* What a task file provides, and the registry's view of it. Adding a task: one file with its sf_task, one line in
 * tasks/registry.c; CONTRIBUTING.md walks through it. */
#ifndef SF_TASKS_TASK_H
#define SF_TASKS_TASK_H

#include "base/random.h"
#include "base/status.h"
#include "semfocus/task.h"

struct sf_task {
    unsigned version; /* 1; members are only ever appended */
    sf_task_info info;
    /* Writes one sequence (room for `length` tokens) and its label. Length lies in info.shortest..longest. */
    void (*sample)(int32_t *tokens /* [length] */, size_t *count, int32_t *label, size_t length, sf_draws *draws);
    /* Shares no code with sample. Fails with SF_BAD_INPUT and a sentence on a sequence the task cannot produce. */
    sf_status (*solve)(int32_t *label, const int32_t *tokens /* [count] */, size_t count);
    /* Share, in 0..1, of the most frequent label among sequences of this length; NULL: all labels are equally
     * frequent. */
    double (*chance)(size_t length);
};

extern const sf_task sf_task_parity, sf_task_even_pairs, sf_task_missing_duplicate, sf_task_cycle_navigation,
    sf_task_modular_arithmetic_brackets, sf_task_solve_equation, sf_task_stack_manipulation, sf_task_listops,
    sf_task_modular_arithmetic;

#endif
