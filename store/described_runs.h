/* What a user's condition is about: the columns of runs, every setting, and labels. */
#ifndef SF_STORE_DESCRIBED_RUNS_H
#define SF_STORE_DESCRIBED_RUNS_H

/* A SELECT in parentheses, named runs; made once. NULL without memory. Settings have their names with _ for -. A
 * setting that a run was made without is at its default. Settings of the same name as a column of runs are left out:
 * attention, seed and epochs, which there is the number of rows. */
const char *sf_described_runs(void);

#endif
