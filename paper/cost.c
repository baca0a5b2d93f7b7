/* How long an entry of the catalogue takes on this machine: a few batches are timed for each kind of attention, and the
 * rest follows from how much more there is to compute. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "base/threads.h"
#include "paper/catalogue.h"

enum { FULL, TOPK, BANDED, BLOCK, OTHERS }; /* kinds of attention */
enum { LONG_FROM = 128 }; /* positions; beyond it attention outweighs the rest, and fewer sequences are timed */

/* The selector, where the mechanism is one of the paper's; the others are timed together, by the first of them. */
static size_t kind_of(const sf_planned_run *run) {
    static const char *const kinds[] = {"full", "topk", "banded", "block"};
    const bool has_more = strpbrk(run->attention, "/@") != NULL;
    size_t kind = 0;
    while (kind < OTHERS && (has_more || strncmp(run->attention, kinds[kind], strcspn(run->attention, ":+")) != 0 ||
                             strcspn(run->attention, ":+") != strlen(kinds[kind])))
        kind++;
    return 2 * kind + (run->config.length > LONG_FROM);
}

/* Multiplications of a sequence, but for a factor. */
static double work_of(const sf_planned_run *run) {
    const sf_config *c = &run->config;
    const double T = (double)c->length, d = (double)c->width, m = (double)c->mlp_width, H = (double)c->heads;
    const size_t kind = kind_of(run) / 2;
    const bool by_position = kind == BANDED || kind == BLOCK;
    const double keys = by_position ? 9 : T;
    return (double)c->blocks * T * (4 * d * d * H + 2 * d * m + 2 * keys * d * H);
}

static double sequences_of(const sf_config *config) {
    return (double)config->train_count + 0.25 * (double)config->heldout_count; /* as sf_study_epoch_seconds() counts */
}

static double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* As on an idle machine: time that other processes take meanwhile does not count. */
static sf_status time_epoch(double *out, const sf_planned_run *run) {
    const double start = clock_seconds(CLOCK_MONOTONIC), busy = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    SF_TRY(sf_study_epoch_seconds(out, run));
    const double share = (clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - busy) / (clock_seconds(CLOCK_MONOTONIC) - start);
    if (share < 1) *out *= share;
    return SF_OK;
}

static sf_status rate_of(double *out, sf_paper_rates *rates, const sf_planned_run *run) {
    double *rate = &rates->seconds[kind_of(run)];
    if (*rate == 0) {
        sf_planned_run part = *run;
        if (part.config.length > LONG_FROM) {
            part.config.train_count = part.config.batch = 4;
            part.config.heldout_count = 1;
        }
        SF_TRY(time_epoch(rate, &part));
        *rate /= sequences_of(&part.config) * work_of(run);
    }
    *out = *rate * work_of(run);
    return SF_OK;
}

sf_status sf_paper_cost(double *seconds, const sf_paper *paper, sf_paper_rates *rates) {
    *seconds = 0;
    if (paper->study == NULL) return SF_OK;
    size_t count, rows, measurable = 0;
    const sf_planned_run *runs = sf_study_runs(paper->study, &count);
    double measuring = 0;
    if (paper->plan->text != NULL && paper->result.finished < count) *seconds = NAN;
    if (paper->plan->text != NULL) return SF_OK;
    for (size_t i = 0; i < count; i++) {
        bool finished;
        double sequence;
        sf_study_curve(paper->study, i, &rows, &finished);
        SF_TRY(rate_of(&sequence, rates, &runs[i]));
        if (!finished)
            *seconds += sequence * sequences_of(&runs[i].config) * (double)((size_t)runs[i].config.epochs - rows);
        const sf_paper_probe *probe = paper->entry->probe;
        if (probe == NULL || (probe->wants != NULL && !probe->wants(&runs[i]))) continue;
        measurable++;
        measuring += 0.25 * sequence * probe->sequences(paper, (size_t)runs[i].config.train_count);
    }
    if (measurable > 0) *seconds += measuring * (double)paper->to_measure / (double)measurable;
    *seconds /= (double)sf_threads_for((size_t)paper->execution.threads);
    return SF_OK;
}
