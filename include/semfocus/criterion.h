/* When a run counts as converged: at the first epoch with at least this training accuracy, or at most this training
 * loss.
 *
 *   sf_criterion criterion;
 *   sf_criterion_parse(&criterion, "95");           or "loss:0.1"
 *   sf_criterion_met(&criterion, &row, SF_TRAINING) */
#ifndef SEMFOCUS_CRITERION_H
#define SEMFOCUS_CRITERION_H

#include "semfocus/api.h"
#include "semfocus/fleet.h"
#include "semfocus/task.h"

SF_API_BEGIN

typedef struct sf_criterion {
    bool is_loss; /* else an accuracy */
    double value; /* of the loss, or percent */
} sf_criterion;

sf_status sf_criterion_parse(sf_criterion *out, const char *text);
/* Whether the row of an epoch meets it: on the training set, or the same value on the held-out set. */
bool sf_criterion_met(const sf_criterion *criterion, const sf_epoch *row, sf_split set);

enum { SF_CRITERION_SIZE = 64 };
/* "95 % training accuracy", "a training loss of 0.1": what a run reaches. */
const char *sf_criterion_name(char out[SF_CRITERION_SIZE], const sf_criterion *criterion);
/* "95 %", "loss 0.1": the short form. */
const char *sf_criterion_short(char out[SF_CRITERION_SIZE], const sf_criterion *criterion);

SF_API_END

#endif
