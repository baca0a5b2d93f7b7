/* Questions beyond the paper: is it the dispersion or the sharpness, do other selectors, weightings, sinks and
 * positions change the picture? The statements are ours. What each of them would look like if it were false is said by
 * its rule in beyond_rows.c, rivals.c and measured.c.
 *
 * Runs stop at 95 % training accuracy, because only the epochs until then count, except where the trained model is
 * measured. The laptop scale is a small version of the tasks, on which full attention takes some twenty to sixty
 * epochs. */
#include "paper/plans.h"
#include "paper/rules.h"

#define SMALL                                                                                                          \
    "length", "20", "blocks", "2", "train-count", "2000", "heldout-count", "1000", "batch", "10", "epochs", "80",      \
        "seeds", "10"
#define SMALL_NOTE "length 20, 2 blocks, 2000 sequences, batch 10, at most 80 epochs"
#define STOP       "stop-at", "95"

#define SHARPENED    "full,topk:5,full/sparsemax,full/entmax15,within:1,topp:0.5"
#define TEMPERATURES "inverse-temperature", "0.5,1,2,4,8,16"
#define CAPPED       "full,topk:5,within:0.1,within:0.3,within:1,within:3,within:8"
#define WITH_SINKS   "full,topk:5,topk:4+sink:1,topk:5+sink:1,topk:5+sink:4,topk:5+global:1,topk:5+global:3"
#define TRANSFORMED  "full,full@rope,full@alibi,full@logn,topk:5,topk:5@rope,topk:5@alibi,topk:5@logn"
/* About as many keys per query as topk:5 keeps, of 20 and of 40. */
#define HITTERS_OF_20 "full,topk:5,topp:0.25,within:0.1,blocktopk:2:3,kmeans:4:2,lsh:4:1,topk:5+st"
#define HITTERS_OF_40 "full,topk:5,topp:0.125,within:0.05,blocktopk:2:3,kmeans:8:2,lsh:8:1,topk:5+st"

static const char weighted[] =
    "full,full/softmax1,full/sigmoid,full/softplus,full/sparsemax,full/entmax15,full/entmax:1.25,full/fastmax,"
    "full/doubly,topk:5,topk:5/softmax1,topk:5/sigmoid,topk:5/softplus,topk:5/sparsemax,topk:5/entmax15,"
    "topk:5/entmax:1.25,topk:5/fastmax,topk:5/doubly";

const sf_paper_entry sf_paper_beyond[] = {
    {.id = "open-sharpness",
     .title = "is it the dispersion, or just sharper attention?",
     .shows = "epochs to 95 % training accuracy against effective keys and against delta_h at initialization, over "
              "inverse temperatures",
     .ours = "beyond the paper: the paper explains the speed of top-k by a smaller dispersion; a rival explanation is "
             "that attention is nearly uniform at initialization and whatever sharpens it learns sooner, sparse or "
             "not. The dispersion predicts that full attention takes more epochs at higher inverse temperatures, that "
             "topk:5 stays ahead of full where each has its best one, and that epochs rise with delta_h; sharpness "
             "predicts that full takes fewer epochs at higher inverse temperatures, at most 1.5 times those of topk:5 "
             "where each has its best one, and that epochs rise with the effective keys. The verdict is that of the "
             "explanation by dispersion",
     .probe = &sf_probe_sharpness,
     .add_rows = sf_rows_of_rivals,
     .conclude = sf_rule_rivals,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", SHARPENED, TEMPERATURES, STOP),
               LAPTOP_PLAN(SMALL_NOTE, "task", THREE_QUICK, "attention", SHARPENED, TEMPERATURES, SMALL, STOP),
               PAPER_PLAN("task", THREE_QUICK, "attention", SHARPENED, TEMPERATURES, "seeds", "10", STOP)}},
    {.id = "open-dispersion",
     .title = "does a cap on the dispersion alone bring the speed?",
     .shows = "epochs to 95 % training accuracy of within:t, which keeps the scores at most t below the largest",
     .ours =
         "beyond the paper: within:t caps delta_h at t, whatever the number of kept keys; if the dispersion is what "
         "counts, each within:t takes fewer epochs than full, and the smaller t the fewer. topk:5 is shown beside "
         "them",
     .family = SF_FAMILY_TASK,
     .add_rows = sf_rows_of_caps,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", CAPPED, STOP),
               LAPTOP_PLAN(SMALL_NOTE, "task", TWO_QUICK, "attention", CAPPED, SMALL, STOP),
               PAPER_PLAN("task", TWO_QUICK, "attention", CAPPED, "seeds", "10", STOP)}},
    {.id = "open-heavy-hitters",
     .title = "do other ways to find the heavy hitters learn as fast as exact top-k?",
     .shows = "epochs to 95 % training accuracy at about as many kept keys",
     .ours =
         "beyond the paper, which leaves it open: top-p, a threshold, blocks, clusters, hashing and a "
         "straight-through gradient each take at most 1.5 times the epochs of topk:5, for most seeds. full is shown "
         "beside them",
     .family = SF_FAMILY_TASK,
     .probe = &sf_probe_sharpness,
     .add_rows = sf_rows_of_hitters,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", HITTERS_OF_20, STOP),
               LAPTOP_PLAN(SMALL_NOTE, "task", TWO_QUICK, "attention", HITTERS_OF_20, SMALL, STOP),
               PAPER_PLAN("task", TWO_QUICK, "attention", HITTERS_OF_40, "seeds", "10", STOP)}},
    {.id = "open-weightings",
     .title = "is top-k faster under every weighting?",
     .shows = "epochs to 95 % training accuracy of full and topk:5 with each weighting",
     .ours = "beyond the paper: with each weighting, topk:5 takes fewer epochs than full with the same one. Each "
             "weighting of full attention is also shown beside softmax",
     .family = SF_FAMILY_TASK,
     .add_rows = sf_rows_of_weightings,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", weighted, STOP),
               LAPTOP_PLAN(SMALL_NOTE, "task", TWO_QUICK, "attention", weighted, SMALL, STOP),
               PAPER_PLAN("task", TWO_QUICK, "attention", weighted, "seeds", "10", STOP)}},
    {.id = "open-sinks",
     .title = "do sinks and global tokens slow top-k down?",
     .shows = "epochs to 95 % training accuracy of topk:5 with keys that every query keeps",
     .ours =
         "beyond the paper: a key that every query keeps has the largest in-degree there is, which raises the sink "
         "ratio and with it the paper's bounds; if that counts, topk:5 with sinks or global tokens takes more epochs "
         "than without. full is shown beside them",
     .family = SF_FAMILY_TASK,
     .add_rows = sf_rows_of_sinks,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", WITH_SINKS, STOP),
               LAPTOP_PLAN(SMALL_NOTE, "task", TWO_QUICK, "attention", WITH_SINKS, SMALL, STOP),
               PAPER_PLAN("task", TWO_QUICK, "attention", WITH_SINKS, "seeds", "10", STOP)}},
    {.id = "open-positions",
     .title = "do rope, alibi and logn help at lengths other than those trained at?",
     .shows = "error at 1.5, 2.5 and 5 times the length, with and without score transforms",
     .ours =
         "beyond the paper: with rope, alibi or logn, the mean error at 1.5, 2.5 and 5 times the length is lower than "
         "without, for most seeds. The sinusoidal positions of the paper are there in all of them",
     .family = SF_FAMILY_TASK,
     .probe = &sf_probe_lengths,
     .add_rows = sf_rows_of_positions,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", TRANSFORMED),
               LAPTOP_PLAN("length 15, 2 blocks, 2000 sequences, batch 10, 30 epochs", "task", TWO_QUICK, "attention",
                           TRANSFORMED, "length", "15", "blocks", "2", "train-count", "2000", "heldout-count", "1000",
                           "batch", "10", "epochs", "30", "seeds", "10"),
               PAPER_PLAN("task", TWO_QUICK, "attention", TRANSFORMED, "seeds", "10")}},
};

const size_t sf_paper_beyond_count = sizeof sf_paper_beyond / sizeof *sf_paper_beyond;
