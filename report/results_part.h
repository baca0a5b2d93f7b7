/* What the page says about a task in words and numbers: the verdicts, and the table. Groups from..to-1 are those of the
 * task. */
#ifndef SF_REPORT_RESULTS_PART_H
#define SF_REPORT_RESULTS_PART_H

#include <stdio.h>

#include "semfocus/study.h"

/* "≥2.1×" for a significant difference in speed, in the direction in which it is more than 1. */
void sf_print_factor(FILE *out, const sf_group *group);
/* Whether the speed differs so much that it may be called a factor. */
bool sf_has_factor(const sf_group *group);
void sf_print_verdicts(FILE *out, const sf_study *study, size_t from, size_t to);
void sf_print_table(FILE *out, const sf_study *study, size_t from, size_t to);

#endif
