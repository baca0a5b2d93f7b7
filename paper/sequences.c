/* Questions about sequences: how many pairs can a mechanism recall at which width, and how far does what was learned on
 * short sequences carry? The statements are ours.
 *
 * recall and flip-flop have a causal model. The laptop scale is small enough for two cores; the paper scale is what we
 * would run on a GPU. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "paper/groups.h"
#include "paper/plans.h"
#include "paper/rules.h"
#include "semfocus/followup.h"
#include "study/study.h"

#define RECALLING "full,topk:5,within:1,banded:9"
#define CARRYING  "full,topk:5,within:1,full/entmax15@logn"

#define TINY                                                                                                           \
    "train-count", "50", "heldout-count", "20", "blocks", "1", "mlp-width", "8", "epochs", "2", "batch", "25",         \
        "seeds", "2"
#define TINY_NOTE "models with one block, 50 sequences, 2 epochs"

/* Held-out accuracy after the last epoch; NaN: the run is not finished. */
static double last_heldout(const sf_paper *paper, size_t run) {
    size_t rows;
    bool finished;
    sf_study_curve(paper->study, run, &rows, &finished);
    return finished ? sf_study_outcome(paper->study, run).last_heldout : NAN;
}

/* A window against full attention, paired by seed. */
static sf_status judge_window(sf_paper *paper, size_t group) {
    const sf_group *window = sf_study_group(paper->study, group);
    double *ours;
    size_t count = 0;
    sf_paper_row *row;
    SF_TRY(sf_paper_add_group_row(&row, paper, group, "held-out accuracy (%), below full's"));
    SF_TRY(SF_NEW(&ours, 2 * window->runs));
    double *theirs = ours + window->runs;
    for (size_t m = 0; m < window->runs; m++) {
        size_t partner;
        const int64_t seed = sf_paper_run_of(paper, group, m)->config.seed;
        if (!sf_paper_find_seed(&partner, paper, window->baseline, seed)) continue;
        ours[count] = last_heldout(paper, sf_study_member(paper->study, group, m));
        theirs[count] = last_heldout(paper, partner);
        count += !isnan(ours[count]) && !isnan(theirs[count]);
    }
    sf_rule_lower(row, ours, theirs, count, 1, 0, window->runs);
    sf_release(ours);
    return SF_OK;
}

/* One figure per width: accuracy against pairs. */
static sf_status draw_recall(sf_paper *paper, size_t from, size_t to) {
    for (size_t first = from; first < to; first++) {
        const int64_t width = sf_paper_run_of(paper, first, 0)->config.width;
        bool drawn = false;
        for (size_t g = from; g < first; g++) drawn |= sf_paper_run_of(paper, g, 0)->config.width == width;
        if (drawn) continue;
        char name[64];
        snprintf(name, sizeof name, "width-%lld", (long long)width);
        SF_TRY(sf_paper_begin_scatter(paper, name, "pairs of a key and a value", "median held-out accuracy (%)"));
        for (size_t g = first; g < to; g++) {
            const sf_config *config = &sf_paper_run_of(paper, g, 0)->config;
            const sf_group *group = sf_study_group(paper->study, g);
            if (config->width != width || group->finished == 0) continue;
            sf_paper_point point = {
                .series = sf_paper_attention_of(paper, g), .x = (double)config->pairs, .y = group->last_heldout};
            snprintf(point.name, sizeof point.name, "%lld pairs", (long long)config->pairs);
            SF_TRY(sf_paper_add_point(paper, &point));
        }
    }
    return SF_OK;
}

static sf_status rows_of_recall(sf_paper *paper, sf_store *store) {
    (void)store;
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        if (!sf_paper_is_compared(paper, g)) continue;
        SF_TRY(sf_paper_chooses_by_score(paper, g) ? sf_paper_judge_accuracy(paper, g) : judge_window(paper, g));
    }
    return draw_recall(paper, 0, sf_study_group_count(paper->study));
}

static const double length_factors[] = {2, 4, 8, 16};
enum { FACTORS = sizeof length_factors / sizeof *length_factors };

static void last_error(char out[64], const sf_paper *paper) {
    (void)paper;
    sf_finding_length(out, length_factors[FACTORS - 1]);
}

static double sequences_evaluated(const sf_paper *paper, size_t all) {
    (void)paper;
    return (2 + 4 + 8 + 16) * (double)all; /* of the length trained at; longer ones cost more */
}

static sf_status measure_errors(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                const sf_stored_run *run, const sf_paper_watch *watch) {
    (void)watch;
    return sf_paper_measure_lengths(paper, store, plan, run, length_factors, FACTORS);
}

static const sf_paper_probe probe_errors = {
    .title = "longer sequences", .key = last_error, .sequences = sequences_evaluated, .measure = measure_errors};

static sf_status mean_error(double *out, sf_store *store, const sf_stored_run *run) {
    *out = 0;
    for (size_t i = 0; i < FACTORS; i++) {
        char name[64];
        bool found;
        double error;
        sf_finding_length(name, length_factors[i]);
        SF_TRY(sf_findings_read(&error, &found, store, run, name));
        *out += error / FACTORS;
    }
    return SF_OK;
}

static sf_status judge_errors(sf_paper *paper, sf_store *store, size_t group) {
    sf_run_pair *pairs = NULL;
    size_t count;
    double *errors = NULL;
    sf_paper_row *row;
    SF_TRY(
        sf_paper_add_group_row(&row, paper, group, "mean error (%) at 2, 4, 8 and 16 times the length, against full"));
    sf_status status = sf_paper_pairs_of(&pairs, &count, paper, store, group);
    if (status == SF_OK) status = SF_NEW(&errors, 2 * count);
    for (size_t i = 0; status == SF_OK && i < count; i++) {
        status = mean_error(&errors[i], store, &pairs[i].ours);
        if (status == SF_OK) status = mean_error(&errors[count + i], store, &pairs[i].full);
    }
    if (status == SF_OK)
        sf_rule_lower(row, errors, errors + count, count, 1, 0, sf_study_group(paper->study, group)->runs);
    sf_release(errors);
    sf_release(pairs);
    return status;
}

/* One figure per task: error against length. */
static sf_status draw_errors(sf_paper *paper, sf_store *store, size_t from, size_t to) {
    char figure[64];
    snprintf(figure, sizeof figure, "length-%s", sf_study_group(paper->study, from)->task);
    SF_TRY(sf_paper_begin_scatter(paper, figure, "times the length trained at", "median held-out error (%)"));
    for (size_t g = from; g < to; g++) {
        for (size_t i = 0; i < FACTORS; i++) {
            char name[64];
            sf_paper_point point = {.series = sf_paper_attention_of(paper, g), .x = length_factors[i]};
            sf_finding_length(name, length_factors[i]);
            SF_TRY(sf_paper_median_finding(&point.y, paper, store, g, name));
            snprintf(point.name, sizeof point.name, "x%g", length_factors[i]);
            SF_TRY(sf_paper_add_point(paper, &point));
        }
    }
    return SF_OK;
}

static sf_status rows_of_errors(sf_paper *paper, sf_store *store) {
    for (size_t from = 0, to; from < sf_study_group_count(paper->study); from = to) {
        to = sf_paper_task_end(paper, from);
        for (size_t g = from; g < to; g++)
            if (sf_paper_is_compared(paper, g)) SF_TRY(judge_errors(paper, store, g));
        SF_TRY(draw_errors(paper, store, from, to));
    }
    return SF_OK;
}

const sf_paper_entry sf_paper_sequences[] = {
    {.id = "open-recall",
     .title = "how many pairs can a mechanism recall, at which width?",
     .shows = "held-out accuracy on recall over numbers of pairs and widths",
     .ours = "beyond the paper: whatever the number of pairs and the width, a mechanism that chooses its keys by score "
             "recalls as accurately as full attention, held out; a window that does not reach the pairs is less "
             "accurate than full, for most seeds",
     .family = SF_FAMILY_TASK,
     .add_rows = rows_of_recall,
     .plans = {{.study = STUDY("task", "recall", "attention", RECALLING, "length", "32", "vocab", "16", "pairs", "2,4",
                               "width", "4,8", TINY),
                .note = TINY_NOTE ", 16 tokens, 2 and 4 pairs, widths 4 and 8",
                .samples = 20},
               LAPTOP_PLAN("4, 8 and 16 pairs, widths 16 and 64, 6 epochs", "task", "recall", "attention", RECALLING,
                           "pairs", "4,8,16", "width", "16,64", "epochs", "6", "heldout-count", "1000", "seeds", "10"),
               PAPER_PLAN("task", "recall", "attention", RECALLING, "length", "256", "vocab", "8192", "pairs",
                          "4,16,64", "width", "64,256", "train-count", "100000", "epochs", "16", "seeds", "10")}},
    {.id = "open-length",
     .title = "how far does what was learned on short sequences carry?",
     .shows = "held-out error at 2, 4, 8 and 16 times the length trained at",
     .ours = "beyond the paper: full attention spreads its weights over more and more keys as sequences grow; topk:5 "
             "keeps as many as before, within:1 those near the largest score, and entmax15 with logn drops low scores "
             "and sharpens the others. If that spread is what fails, each of them has a lower mean error than full "
             "at 2, 4, 8 and 16 times the length, for most seeds",
     .family = SF_FAMILY_TASK,
     .probe = &probe_errors,
     .add_rows = rows_of_errors,
     .plans = {{.study = STUDY("task", "flip-flop,recall", "attention", CARRYING, "length", "33", "width", "8", TINY),
                .note = TINY_NOTE ", width 8",
                .samples = 20},
               LAPTOP_PLAN("length 33, 8 pairs, 500 held-out sequences, 8 epochs", "task", "flip-flop,recall",
                           "attention", CARRYING, "length", "33", "epochs", "8", "heldout-count", "500", "seeds", "8"),
               PAPER_PLAN("task", "flip-flop,recall", "attention", CARRYING, "length", "65", "train-count", "50000",
                          "epochs", "20", "seeds", "10")}},
};

const size_t sf_paper_sequence_count = sizeof sf_paper_sequences / sizeof *sf_paper_sequences;
