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

extern const sf_task sf_task_parity, sf_task_even_pairs, sf_task_missing_duplicate, sf_task_cycle_navigation,
    sf_task_modular_arithmetic_brackets, sf_task_solve_equation, sf_task_stack_manipulation, sf_task_listops,
    sf_task_modular_arithmetic;

#endif
