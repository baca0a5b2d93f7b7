/* How the tables of the catalogue write their studies.
 *
 * Scales. paper: ten seeds, the paper's tasks, sizes and epochs. laptop: the tasks that two cores train in hours,
 * even-pairs in place of listops. smoke: tiny models for a few epochs, to see that everything works; never evidence.
 * Settings are those of the tasks' recipes unless named. Entries share runs: equal settings are one run, and every run
 * trains to its last epoch.
 *
 * Seeds of the laptop scale. An exact test of n seeds cannot give less than p = 2 / 2^n, and Holm multiplies the
 * smallest of m tests by m: 2 m / 2^n must be below 0.05. That is 6 seeds for one comparison, 7 for 2 or 3, 8 for up to
 * 6, 9 for up to 12, 10 for up to 25. */
#ifndef SF_PAPER_PLANS_H
#define SF_PAPER_PLANS_H

#include "paper/catalogue.h"

#define THREE_TASKS "listops,even-pairs,missing-duplicate"
#define FIRST_FOUR  "listops,parity,even-pairs,missing-duplicate"
#define OTHER_FOUR  "stack-manipulation,modular-arithmetic-brackets,solve-equation,cycle-navigation"
#define TWO_QUICK   "even-pairs,missing-duplicate"
#define THREE_QUICK "even-pairs,missing-duplicate,stack-manipulation"

#define FULL_AND_TOP_5 "full,topk:5"
#define MASKS_OF_5     "full,topk:5,banded:5,banded:5+global:1,block:5,block:5+global:1"
#define NO_GLOBALS     "full,topk:5,topk:9,banded:5,banded:9,block:5,block:9"
#define K_SWEEP        "topk:1,topk:3,topk:5,topk:9,topk:15,topk:25,full"
#define PUBLISHED_SEED "140439608"

#define THREE_NOTE    "three tasks: even-pairs, missing-duplicate, stack-manipulation"
#define STAND_IN_NOTE "even-pairs stands in for listops"
#define SURFACE_NOTE  "even-pairs and missing-duplicate, 21 x 21 points on 1000 sequences"

/* A study as sf_paper_plan holds it. */
#define STUDY(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SMOKE_PLAN(...)                                                                                                \
    {                                                                                                                  \
        .study = STUDY("length", "20", "train-count", "50", "heldout-count", "20", "blocks", "1", "width", "8",        \
                       "mlp-width", "8", "epochs", "2", "seeds", "2", __VA_ARGS__),                                    \
        .note = "models of width 8 with one block, 50 sequences of length 20, 2 epochs", .grid = 21, .samples = 20     \
    }
#define LAPTOP_PLAN(why, ...)                                                                                          \
    { .study = STUDY(__VA_ARGS__), .note = (why), .grid = 21, .samples = 1000 }
#define PAPER_PLAN(...)                                                                                                \
    { .study = STUDY(__VA_ARGS__), .grid = 200, .samples = 0 }

#endif
