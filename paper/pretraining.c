/* Does it carry over to pre-training? Causal models of text at three sizes: loss against tokens, with full attention
 * and top-k. The statement is ours.
 *
 * The laptop scale reads Genesis by characters, which two cores do in minutes; the paper scale is what we would run on
 * a GPU. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "paper/groups.h"
#include "paper/plans.h"
#include "paper/rules.h"
#include "paper/text_source.h"
#include "semfocus/describe.h"
#include "study/statistics.h"
#include "study/study.h"

/* Held-out loss after an epoch; NaN: the run is not finished, or diverged before. */
static double heldout_loss(const sf_paper *paper, size_t run, size_t epoch) {
    size_t rows;
    bool finished;
    const sf_epoch *curve = sf_study_curve(paper->study, run, &rows, &finished);
    return finished && epoch >= 1 && epoch <= rows ? curve[epoch - 1].heldout_loss : NAN;
}

static size_t epochs_of(const sf_paper *paper, size_t group) {
    return (size_t)sf_paper_run_of(paper, group, 0)->config.epochs;
}

/* After the last epoch, paired by seed. */
static sf_status judge_heldout_loss(sf_paper *paper, size_t group) {
    const sf_group *g = sf_study_group(paper->study, group);
    const size_t last = epochs_of(paper, group);
    double *ours;
    size_t count = 0;
    sf_paper_row *row;
    SF_TRY(sf_paper_add_group_row(&row, paper, group, "held-out loss after the last epoch, against full"));
    SF_TRY(SF_NEW(&ours, 2 * g->runs));
    double *theirs = ours + g->runs;
    for (size_t m = 0; m < g->runs; m++) {
        size_t partner;
        if (!sf_paper_find_seed(&partner, paper, g->baseline, sf_paper_run_of(paper, group, m)->config.seed)) continue;
        ours[count] = heldout_loss(paper, sf_study_member(paper->study, group, m), last);
        theirs[count] = heldout_loss(paper, partner, last);
        count += !isnan(ours[count]) && !isnan(theirs[count]);
    }
    sf_rule_lower(row, ours, theirs, count, 1, 0, g->runs);
    sf_release(ours);
    return SF_OK;
}

static sf_status median_loss(double *out, const sf_paper *paper, size_t group, size_t epoch) {
    const size_t runs = sf_study_group(paper->study, group)->runs;
    double *losses;
    size_t count = 0;
    SF_TRY(SF_NEW(&losses, runs));
    for (size_t m = 0; m < runs; m++) {
        losses[count] = heldout_loss(paper, sf_study_member(paper->study, group, m), epoch);
        count += isnan(losses[count]) ? 0 : 1;
    }
    *out = sf_quantile(losses, count, 0.5);
    sf_release(losses);
    return SF_OK;
}

static sf_status draw_losses(sf_paper *paper, size_t group, double tokens_per_epoch) {
    for (size_t epoch = 1; epoch <= epochs_of(paper, group); epoch++) {
        sf_paper_point point = {.series = sf_paper_attention_of(paper, group),
                                .x = (double)epoch * tokens_per_epoch * 1e-6};
        SF_TRY(median_loss(&point.y, paper, group, epoch));
        snprintf(point.name, sizeof point.name, "epoch %zu", epoch);
        SF_TRY(sf_paper_add_point(paper, &point));
    }
    return SF_OK;
}

/* One figure per size: a mechanism and the one that it is compared with. */
static sf_status draw_size(sf_paper *paper, size_t group) {
    const sf_group *g = sf_study_group(paper->study, group);
    const sf_planned_run *run = sf_paper_run_of(paper, group, 0);
    if (g->finished == 0 && sf_study_group(paper->study, g->baseline)->finished == 0) return SF_OK;
    sf_data_description *about;
    SF_TRY(sf_data_describe(&about, run->task, &run->config));
    const double tokens = (double)about->training_labels;
    sf_data_description_release(about);
    char name[64];
    snprintf(name, sizeof name, "width-%lld-blocks-%lld", (long long)run->config.width, (long long)run->config.blocks);
    SF_TRY(sf_paper_begin_scatter(paper, name, "tokens trained on (millions)", "median held-out loss"));
    SF_TRY(draw_losses(paper, g->baseline, tokens));
    return draw_losses(paper, group, tokens);
}

static sf_status rows_of_pretraining(sf_paper *paper, sf_store *store) {
    SF_TRY(sf_rows_of_losses(paper, store));
    for (size_t g = 0; g < sf_study_group_count(paper->study); g++) {
        if (!sf_paper_is_compared(paper, g)) continue;
        SF_TRY(judge_heldout_loss(paper, g));
        SF_TRY(draw_size(paper, g));
    }
    return SF_OK;
}

#define CAUSAL "task", "text:", "attention", FULL_AND_TOP_5, "readout", "each", "causal", "yes"
#define SIZE(name, width, mlp, heads, blocks)                                                                          \
    "variant", name, "width", width, "mlp-width", mlp, "heads", heads, "blocks", blocks

const sf_paper_entry sf_paper_pretraining = {
    .id = "open-pretraining",
    .title = "does top-k also learn faster in pre-training on text?",
    .shows = "training and held-out loss of causal models against tokens, at three sizes",
    .ours = "beyond the paper: the training loss of topk:5 falls sooner than that of full attention, and its held-out "
            "loss after the same tokens is lower for most seeds, at each of three sizes",
    .family = SF_FAMILY_TASK,
    .add_rows = rows_of_pretraining,
    .plans = {{.study = STUDY(CAUSAL, "context", "16", "epochs", "2", "seeds", "2", SIZE("small", "4", "8", "1", "1"),
                              SIZE("medium", "8", "8", "2", "1"), SIZE("large", "8", "16", "2", "2")),
               .note = "characters of a made-up text, pieces of 16, widths 4 and 8, 1 and 2 blocks, 2 epochs",
               .text = SF_MADE_UP_TEXT},
              {.study = STUDY(CAUSAL, "context", "64", "head-width", "16", "epochs", "6", "seeds", "8",
                              SIZE("small", "32", "128", "2", "1"), SIZE("medium", "64", "256", "4", "2"),
                              SIZE("large", "96", "384", "6", "3")),
               .note =
                   "characters, pieces of 64; widths 32, 64 and 96 with 1, 2 and 3 blocks; 6 epochs; Genesis unless "
                   "another text is named",
               .text = "gen1:1-gen50:26"},
              {.study = STUDY(CAUSAL, "tokenizer", "bpe", "vocab", "4096", "context", "256", "head-width", "64",
                              "epochs", "10", "seeds", "10", SIZE("small", "128", "512", "2", "4"),
                              SIZE("medium", "256", "1024", "4", "6"), SIZE("large", "512", "2048", "8", "8")),
               .note = "the King James Bible unless another text is named",
               .text = "gen1:1-rev22:21"}}};
