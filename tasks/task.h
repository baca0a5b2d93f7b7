/* The built-in tasks. semfocus/plugin.h defines what the file of a task provides; CONTRIBUTING.md walks through adding
 * one. */
#ifndef SF_TASKS_TASK_H
#define SF_TASKS_TASK_H

#include "base/random.h"
#include "base/status.h"
#include "semfocus/plugin.h"
#include "semfocus/task.h"

/* Adds a task of a plug-in, which must stay valid. Its name must not be taken, and its members must have been
 * checked. */
sf_status sf_task_register(const sf_task *task);

/* Whether a setting of single tasks is one of this task. */
bool sf_task_takes(const sf_task *task, const char *setting);

/* sf_task_check_length() for a variant that has been described. */
sf_status sf_task_check_length_of(const sf_task_info *info, size_t length);

/* The share of the most frequent label, from sequences that the task samples: for tasks without a formula. */
double sf_task_sampled_chance(const sf_task *task, size_t length);

extern const sf_task sf_task_parity, sf_task_even_pairs, sf_task_missing_duplicate, sf_task_cycle_navigation,
    sf_task_modular_arithmetic_brackets, sf_task_solve_equation, sf_task_stack_manipulation, sf_task_listops,
    sf_task_modular_arithmetic, sf_task_recall, sf_task_noisy_recall, sf_task_flip_flop, sf_task_word_problem,
    sf_task_reverse_string, sf_task_duplicate_string, sf_task_odds_first, sf_task_bucket_sort, sf_task_binary_addition,
    sf_task_binary_multiplication, sf_task_compute_sqrt;

#endif
