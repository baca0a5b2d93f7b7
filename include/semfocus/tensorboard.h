/* Stored runs for TensorBoard: event files that this library writes itself.
 *
 *   FOLDER/TASK/MECHANISM/seed-S-ID/             one run: scalars per epoch, and its settings for HParams
 *   FOLDER/TASK/MECHANISM/median, quartile-25, quartile-75/     over the seeds of the mechanism
 *
 * MECHANISM also names every setting that differs from the task's recipe, so that a run has one place, whatever it is
 * exported with. Steps are epochs; times are seconds of training since the run began. */
#ifndef SEMFOCUS_TENSORBOARD_H
#define SEMFOCUS_TENSORBOARD_H

#include "semfocus/api.h"
#include "semfocus/store.h"
#include "semfocus/study.h"

SF_API_BEGIN

/* Appends the epochs that the run's event file lacks. Whenever the process ends, the file is readable up to its last
 * whole epoch, and calling this again adds what is missing, and nothing twice. The folder is created. */
sf_status sf_tensorboard_write_run(sf_store *store, const sf_stored_run *run, const char *folder);

/* Median and quartiles over the finished runs of every group of a study whose curves were read; files that exist are
 * replaced. */
sf_status sf_tensorboard_write_groups(const sf_study *study, const char *folder);

SF_API_END

#endif
