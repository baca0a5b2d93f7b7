/* What the spellings of mechanisms mean, for readers of a report. */
#ifndef SF_REPORT_MECHANISM_WORDS_H
#define SF_REPORT_MECHANISM_WORDS_H

#include <stdio.h>

#include "semfocus/study.h"

/* The mechanisms of the groups from `from` to before `to`, each once, as a list that can be opened. */
void sf_mechanism_words_print(FILE *out, const sf_study *study, size_t from, size_t to);

#endif
