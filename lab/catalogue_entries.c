/* The catalogue itself: every figure, table and claim of "Transformers Learn Faster with Semantic Focus" (Ram,
 * Clarkson, Klinger, Ubaru, Gray; NeurIPS 2025), and what it leaves open that fits here.
 *
 * Scales. paper: ten seeds, the paper's tasks, sizes and epochs. laptop: the tasks that two cores train in minutes to
 * hours, six seeds where a test is to decide (the fewest that can reach p < 0.05) and three in sweeps; even-pairs
 * stands in for listops. smoke: tiny models for a few epochs, to see that everything works; never evidence.
 * Settings are those of the tasks' recipes unless named. Entries share runs: equal settings are one run. */
#include "lab/catalogue.h"

static const char eight_tasks[] =
    "listops,even-pairs,missing-duplicate,stack-manipulation,parity,cycle-navigation,modular-arithmetic-brackets,"
    "solve-equation";
#define OTHER_FOUR  "parity,cycle-navigation,modular-arithmetic-brackets,solve-equation"
#define THREE_QUICK "even-pairs,missing-duplicate,stack-manipulation"
#define K5          "full,topk:5,banded:5,block:5"
static const char all_mechanisms[] =
    "full,topk:5,topk:9,banded:5,banded:9,banded:5+global:1,banded:9+global:1,banded:5+global:3,banded:9+global:3,"
    "block:5,block:9,block:5+global:1,block:9+global:1,block:5+global:3,block:9+global:3";
#define K_SWEEP "topk:1,topk:3,topk:5,topk:9,topk:15,topk:25,full"

#define SMOKE                                                                                                          \
    "length", "20", "train-count", "50", "heldout-count", "20", "blocks", "1", "width", "8", "mlp-width", "8",         \
        "epochs", "2", "seeds", "2"
#define TINY_NOTE     "models of width 8 with one block, 50 sequences of length 20, 2 epochs"
#define THREE_NOTE    "three tasks: even-pairs, missing-duplicate, stack-manipulation"
#define STAND_IN_NOTE "even-pairs stands in for listops"

enum { TEST_SEEDS = 6, FEW_SEEDS = 3, ONE_SEED = 1 };

/* A study as sf_paper_plan holds it. */
#define STUDY(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SMOKE_PLAN(...)                                                                                                \
    { .study = STUDY(SMOKE, __VA_ARGS__), .note = TINY_NOTE, .fewest = FEW_SEEDS, .grid = 21, .samples = 20 }
#define LAPTOP_PLAN(why, seeds_needed, ...)                                                                            \
    { .study = STUDY(__VA_ARGS__), .note = (why), .fewest = (seeds_needed), .grid = 21, .samples = 1000 }
/* Where only the epoch of arrival counts, a run need not go on after it. */
#define LAPTOP_CURVES(why, seeds_needed, ...)                                                                          \
    LAPTOP_PLAN(why "; runs stop at 95 % training accuracy", seeds_needed, "stop-at", "95", __VA_ARGS__)
#define PAPER_PLAN(seeds_needed, ...)                                                                                  \
    { .study = STUDY(__VA_ARGS__), .fewest = (seeds_needed), .grid = 200, .samples = 0 }

/* ListOps ablations: one setting varies. */
#define ABLATION(name, what, smoke_values, values, rest)                                                               \
    .id = (name), .title = "ListOps ablation: " what, .add_rows = sf_rows_of_curves,                                   \
    .statement = "top-5 reaches 95 % training accuracy sooner than full attention at every value",                     \
    .plans = {SMOKE_PLAN("task", "listops", "attention", "full,topk:5", smoke_values),                                 \
              LAPTOP_CURVES(STAND_IN_NOTE, FEW_SEEDS, "task", "even-pairs", "attention", "full,topk:5", "seeds", "3",  \
                            values),                                                                                   \
              PAPER_PLAN(TEST_SEEDS, "task", "listops", "attention", "full,topk:5", "seeds", "10", rest)}
#define PAIR(name, value) name, value

static const sf_paper_entry entries[] = {
    {.id = "fig-1",
     .title = "learning curves with ReLU: listops, even-pairs, missing-duplicate",
     .statement =
         "top-5 reaches 95 % training accuracy sooner than full attention on each of the three tasks (about 1.3 "
         "times on listops, 8.8 times at most); bands and blocks of 5 do not",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", "listops,even-pairs,missing-duplicate", "attention", K5),
               LAPTOP_CURVES("without listops", TEST_SEEDS, "task", "even-pairs,missing-duplicate", "attention", K5,
                             "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", "listops,even-pairs,missing-duplicate", "attention", K5, "seeds", "10")}},
    {.id = "fig-2",
     .title = "learning curves with GELU and Mish",
     .statement = "with GELU and with Mish, too, top-5 reaches 95 % training accuracy sooner than full attention on "
                  "listops, even-pairs and missing-duplicate",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", "listops,even-pairs", "attention", "full,topk:5", "activation", "gelu,mish"),
               LAPTOP_CURVES("even-pairs alone, three seeds", FEW_SEEDS, "task", "even-pairs", "attention",
                             "full,topk:5", "activation", "gelu,mish", "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", "listops,even-pairs,missing-duplicate", "attention", K5, "activation",
                          "gelu,mish", "seeds", "10")}},
    {ABLATION("fig-3a", "6, 15 and 22 blocks", PAIR("blocks", "1,2"), PAIR("blocks", "3,8"),
              PAIR("blocks", "6,15,22"))},
    {ABLATION("fig-3b", "2, 4 and 8 heads", PAIR("heads", "2,4"), PAIR("heads", "2,4"), PAIR("heads", "2,4,8"))},
    {ABLATION("fig-3c", "learning rates 0.66, 1.5 and 2.25", PAIR("lr", "0.66,1.5"), PAIR("lr", "0.066,0.15,0.225"),
              PAIR("lr", "0.66,1.5,2.25"))},
    {ABLATION("fig-3d", "learning rate decays 0.9, 0.999 and 0.9999", PAIR("gamma", "0.9,0.999"),
              PAIR("gamma", "0.99,0.999,0.9999"), PAIR("gamma", "0.9,0.999,0.9999"))},
    {.id = "fig-3e",
     .title = "ListOps ablation: Adam",
     .statement =
         "with Adam, learning rates 1e-5 to 1e-2 and decay 0.99999, top-5 reaches 95 % training accuracy sooner "
         "than full attention",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", "listops", "attention", "full,topk:5", "optimizer", "adam", "lr", "1e-3,1e-2",
                          "gamma", "0.99999"),
               LAPTOP_CURVES(STAND_IN_NOTE "; learning rates 1e-4 and 1e-3", FEW_SEEDS, "task", "even-pairs",
                             "attention", "full,topk:5", "optimizer", "adam", "lr", "1e-4,1e-3", "gamma", "0.99999",
                             "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", "listops", "attention", "full,topk:5", "optimizer", "adam", "lr",
                          "1e-5,1e-4,1e-3,1e-2", "gamma", "0.99999", "seeds", "10")}},
    {.id = "fig-5",
     .title = "loss surfaces and Lipschitz curves of trained models",
     .statement =
         "the 95 % curve of the estimated Lipschitz constants is lower for top-5 than for full attention within "
         "r = 0.1, 0.3 and 0.69",
     .probe = &sf_probe_surface,
     .add_rows = sf_rows_of_slopes,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", "full,topk:5"),
               LAPTOP_PLAN("even-pairs and missing-duplicate, one seed, 21 x 21 points on 1000 sequences", ONE_SEED,
                           "task", "even-pairs,missing-duplicate", "attention", "full,topk:5", "seed", "140439608"),
               PAPER_PLAN(ONE_SEED, "task", "listops,even-pairs,missing-duplicate", "attention", "full,topk:5", "seed",
                          "140439608")}},
    {.id = "fig-7-8",
     .title = "learning curves of all eight tasks, k = 5",
     .statement =
         "top-5 reaches 95 % training accuracy sooner than full attention on every task; bands and blocks of 5 "
         "do not",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", eight_tasks, "attention", K5),
               LAPTOP_CURVES(THREE_NOTE, TEST_SEEDS, "task", THREE_QUICK, "attention", K5, "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", K5, "seeds", "10")}},
    {.id = "fig-9-12",
     .title = "ReLU, mask sizes 5 and 9, with 0, 1 and 3 global tokens",
     .statement = "top-5 and top-9 reach 95 % training accuracy sooner than full attention; bands and blocks do not, "
                  "whatever their size and global tokens",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", all_mechanisms),
               LAPTOP_CURVES("even-pairs alone, three seeds", FEW_SEEDS, "task", "even-pairs", "attention",
                             all_mechanisms, "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", "listops,even-pairs,missing-duplicate,stack-manipulation", "attention",
                          all_mechanisms, "seeds", "10")}},
    {.id = "fig-13-14",
     .title = "the same with GELU",
     .statement = "with GELU, too, top-5 and top-9 reach 95 % training accuracy sooner than full attention, and bands "
                  "and blocks do not",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", all_mechanisms, "activation", "gelu"),
               LAPTOP_CURVES("even-pairs alone, without global tokens, three seeds", FEW_SEEDS, "task", "even-pairs",
                             "attention", "full,topk:5,topk:9,banded:5,block:5", "activation", "gelu", "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", "listops,even-pairs,missing-duplicate,stack-manipulation", "attention",
                          all_mechanisms, "activation", "gelu", "seeds", "10")}},
    {.id = "fig-15-16",
     .title = "the same with Mish",
     .statement = "with Mish, too, top-5 and top-9 reach 95 % training accuracy sooner than full attention, and bands "
                  "and blocks do not",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", all_mechanisms, "activation", "mish"),
               LAPTOP_CURVES("even-pairs alone, without global tokens, three seeds", FEW_SEEDS, "task", "even-pairs",
                             "attention", "full,topk:5,topk:9,banded:5,block:5", "activation", "mish", "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", "listops,even-pairs,missing-duplicate,stack-manipulation", "attention",
                          all_mechanisms, "activation", "mish", "seeds", "10")}},
    {.id = "fig-17-18",
     .title = "the four tasks that do not generalize",
     .statement =
         "on parity, cycle-navigation, modular-arithmetic-brackets and solve-equation, too, top-k reaches 95 % "
         "training accuracy sooner than full attention, and bands and blocks do not",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", OTHER_FOUR, "attention", K5),
               LAPTOP_CURVES("three seeds, full and top-5; these tasks take 600 to 1000 epochs", FEW_SEEDS, "task",
                             OTHER_FOUR, "attention", "full,topk:5", "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", OTHER_FOUR, "attention", all_mechanisms, "seeds", "10")}},
    {.id = "fig-19-20",
     .title = "language model (preliminary in the paper)",
     .statement = "top-k lowers the loss of a next-token model sooner than full attention",
     .unavailable = "needs a task that predicts the next token of a text: not available"},
    {.id = "fig-21",
     .title = "condition W in the plane of c1 = delta_h/delta_s and c2 = Delta_h/delta_s",
     .statement = "the left side of condition W is below 1 (top-5 has the better bound in the parameters) where the "
                  "published quantiles put it: on listops and parity, not on even-pairs, on missing-duplicate at 95 %",
     .probe = &sf_probe_scores,
     .add_rows = sf_rows_of_condition_w,
     .plans = {SMOKE_PLAN("task", "even-pairs,missing-duplicate", "attention", "full,topk:5"),
               LAPTOP_PLAN("without listops and parity", ONE_SEED, "task", "even-pairs,missing-duplicate", "attention",
                           "full,topk:5", "seed", "140439608"),
               PAPER_PLAN(ONE_SEED, "task", "listops,parity,even-pairs,missing-duplicate", "attention", "full,topk:5",
                          "seed", "140439608")}},
    {.id = "fig-22",
     .title = "condition X in the plane of c1 and c2",
     .statement =
         "the left side of condition X is below 1 (top-5 has the better bound in the input) where the published "
         "quantiles put it: on listops and parity, not on even-pairs, on missing-duplicate at 95 %",
     .probe = &sf_probe_scores,
     .add_rows = sf_rows_of_condition_x,
     .plans = {SMOKE_PLAN("task", "even-pairs,missing-duplicate", "attention", "full,topk:5"),
               LAPTOP_PLAN("without listops and parity", ONE_SEED, "task", "even-pairs,missing-duplicate", "attention",
                           "full,topk:5", "seed", "140439608"),
               PAPER_PLAN(ONE_SEED, "task", "listops,parity,even-pairs,missing-duplicate", "attention", "full,topk:5",
                          "seed", "140439608")}},
    {.id = "fig-23-26",
     .title = "loss surfaces around trained weights",
     .statement = "the training loss rises less around the weights of top-5 than around those of full attention (mean "
                  "over the square [-1, 1] x [-1, 1])",
     .probe = &sf_probe_surface,
     .add_rows = sf_rows_of_surfaces,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", "full,topk:5"),
               LAPTOP_PLAN("even-pairs and missing-duplicate, one seed, 21 x 21 points on 1000 sequences", ONE_SEED,
                           "task", "even-pairs,missing-duplicate", "attention", "full,topk:5", "seed", "140439608"),
               PAPER_PLAN(ONE_SEED, "task", "listops,parity,even-pairs,missing-duplicate", "attention", "full,topk:5",
                          "seed", "140439608")}},
    {.id = "fig-27",
     .title = "Lipschitz curves",
     .statement =
         "the 95 % curve of the estimated Lipschitz constants is lower for top-5 than for full attention within "
         "r = 0.1, 0.3 and 0.69 on every task shown",
     .probe = &sf_probe_surface,
     .add_rows = sf_rows_of_slopes,
     .plans = {SMOKE_PLAN("task", "even-pairs,missing-duplicate", "attention", "full,topk:5"),
               LAPTOP_PLAN(THREE_NOTE ", one seed, 21 x 21 points on 1000 sequences", ONE_SEED, "task", THREE_QUICK,
                           "attention", "full,topk:5", "seed", "140439608"),
               PAPER_PLAN(ONE_SEED, "task", "listops,parity,even-pairs,missing-duplicate", "attention", "full,topk:5",
                          "seed", "140439608")}},
    {.id = "table-dispersion",
     .title = "quantiles of dispersion, separation and in-degree, and the conditions from them",
     .statement = "delta_h of top-5 is below delta_s of full attention at 75, 90 and 95 %, and the quantiles and left "
                  "sides are the published ones (here: within a factor of 2.5, as trainings differ)",
     .probe = &sf_probe_scores,
     .add_rows = sf_rows_of_table,
     .plans = {SMOKE_PLAN("task", "even-pairs,missing-duplicate", "attention", "full,topk:5"),
               LAPTOP_PLAN("without listops and parity", ONE_SEED, "task", "even-pairs,missing-duplicate", "attention",
                           "full,topk:5", "seed", "140439608"),
               PAPER_PLAN(ONE_SEED, "task", "listops,parity,even-pairs,missing-duplicate", "attention", "full,topk:5",
                          "seed", "140439608")}},
    {.id = "claim-full-fits-all",
     .title = "full attention fits every task",
     .statement = "full attention reaches 100 % training accuracy (here: 99.9 % for most seeds) on all eight tasks",
     .add_rows = sf_rows_of_fits,
     .plans = {SMOKE_PLAN("task", eight_tasks, "attention", "full"),
               LAPTOP_PLAN(THREE_NOTE, FEW_SEEDS, "task", THREE_QUICK, "attention", "full", "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full", "seeds", "10")}},
    {.id = "claim-generalizes-on-four",
     .title = "full attention generalizes on four of eight tasks",
     .statement = "full attention generalizes (here: held-out accuracy ten points above the most frequent label) on "
                  "listops, even-pairs, missing-duplicate and stack-manipulation, and not on the other four tasks",
     .add_rows = sf_rows_of_generalizing,
     .plans = {SMOKE_PLAN("task", eight_tasks, "attention", "full"),
               LAPTOP_PLAN(THREE_NOTE, FEW_SEEDS, "task", THREE_QUICK, "attention", "full", "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full", "seeds", "10")}},
    {.id = "claim-parity-chance",
     .title = "parity is learned by heart",
     .statement =
         "on parity the held-out accuracy stays near 50 % (here: within 5 points) for full attention and top-5 "
         "alike",
     .add_rows = sf_rows_of_guessing,
     .plans = {SMOKE_PLAN("task", "parity", "attention", "full,topk:5"),
               LAPTOP_PLAN("three seeds, 200 of 1000 epochs", FEW_SEEDS, "task", "parity", "attention", "full,topk:5",
                           "seeds", "3", "epochs", "200"),
               PAPER_PLAN(TEST_SEEDS, "task", "parity", "attention", "full,topk:5", "seeds", "10")}},
    {.id = "claim-topk-sooner",
     .title = "top-k converges sooner",
     .statement = "top-5 reaches 95 % training accuracy sooner than full attention on every task (about 1.3 times on "
                  "listops, 8.8 times at most)",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", eight_tasks, "attention", "full,topk:5"),
               LAPTOP_CURVES(THREE_NOTE, TEST_SEEDS, "task", THREE_QUICK, "attention", "full,topk:5", "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full,topk:5", "seeds", "10")}},
    {.id = "claim-topk-generalizes",
     .title = "top-k generalizes as well or better",
     .statement =
         "the best held-out accuracy of top-5 is that of full attention or better (here: at most a point below) "
         "on every task",
     .add_rows = sf_rows_of_accuracy,
     .plans = {SMOKE_PLAN("task", eight_tasks, "attention", "full,topk:5"),
               LAPTOP_PLAN(THREE_NOTE, TEST_SEEDS, "task", THREE_QUICK, "attention", "full,topk:5", "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full,topk:5", "seeds", "10")}},
    {.id = "claim-fixed-no-better",
     .title = "input-agnostic sparsity brings nothing",
     .statement = "bands and blocks of 5 reach 95 % training accuracy no sooner than full attention on any task; some "
                  "never do",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", eight_tasks, "attention", "full,banded:5,block:5"),
               LAPTOP_CURVES(THREE_NOTE, TEST_SEEDS, "task", THREE_QUICK, "attention", "full,banded:5,block:5", "seeds",
                             "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full,banded:5,block:5", "seeds", "10")}},
    {.id = "claim-robust",
     .title = "the advantage holds across settings",
     .statement = "top-5 reaches 95 % training accuracy sooner than full attention across activations, blocks, heads, "
                  "learning rates, decays, and with Adam",
     .add_rows = sf_rows_of_curves,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", "full,topk:5", "variant", "activation", "activation",
                          "gelu,mish", "variant", "depth", "blocks", "1,2", "variant", "Adam", "optimizer", "adam",
                          "lr", "1e-3"),
               LAPTOP_CURVES(STAND_IN_NOTE, FEW_SEEDS, "task", "even-pairs", "attention", "full,topk:5", "seeds", "3",
                             "variant", "activation", "activation", "gelu,mish", "variant", "depth", "blocks", "3,8",
                             "variant", "heads", "heads", "2,4", "variant", "learning rate", "lr", "0.066,0.15,0.225",
                             "variant", "decay", "gamma", "0.99,0.999,0.9999", "variant", "Adam", "optimizer", "adam",
                             "lr", "1e-4,1e-3", "gamma", "0.99999"),
               PAPER_PLAN(TEST_SEEDS, "task", "listops", "attention", "full,topk:5", "seeds", "10", "variant",
                          "activation", "activation", "gelu,mish", "variant", "depth", "blocks", "6,15,22", "variant",
                          "heads", "heads", "2,4,8", "variant", "learning rate", "lr", "0.66,1.5,2.25", "variant",
                          "decay", "gamma", "0.9,0.999,0.9999", "variant", "Adam", "optimizer", "adam", "lr",
                          "1e-5,1e-4,1e-3,1e-2", "gamma", "0.99999")}},
    {.id = "claim-delta-smaller",
     .title = "top-k lowers the dispersion",
     .statement = "delta_h of top-5 is below delta_s of full attention at 75, 90 and 95 % for most seeds on every task",
     .probe = &sf_probe_scores,
     .add_rows = sf_rows_of_dispersion,
     .plans = {SMOKE_PLAN("task", "even-pairs,missing-duplicate", "attention", "full,topk:5"),
               LAPTOP_PLAN(THREE_NOTE, FEW_SEEDS, "task", THREE_QUICK, "attention", "full,topk:5", "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full,topk:5", "seeds", "10")}},
    {.id = "claim-lipschitz-lower",
     .title = "top-k lowers the estimated Lipschitz constants",
     .statement =
         "the 95 % curve of the estimated Lipschitz constants is lower for top-5 than for full attention within "
         "r = 0.1, 0.3 and 0.69 for most seeds on every task",
     .probe = &sf_probe_surface,
     .add_rows = sf_rows_of_slopes,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", "full,topk:5"),
               LAPTOP_PLAN("even-pairs and missing-duplicate, three seeds, 21 x 21 points on 1000 sequences", FEW_SEEDS,
                           "task", "even-pairs,missing-duplicate", "attention", "full,topk:5", "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full,topk:5", "seeds", "10")}},
    {.id = "follow-k-sweep",
     .title = "how many keys: expressivity against stability",
     .statement =
         "left open by the paper: stability favours few keys and expressivity many, so that some k between 1 and "
         "all reaches 95 % training accuracy soonest",
     .add_rows = sf_rows_of_k,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", "topk:1,topk:3,topk:5,full"),
               LAPTOP_CURVES("even-pairs and stack-manipulation, three seeds", FEW_SEEDS, "task",
                             "even-pairs,stack-manipulation", "attention", K_SWEEP, "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", K_SWEEP, "seeds", "10", "stop-at", "95")}},
    {.id = "follow-delta-speedup",
     .title = "is the lower dispersion what makes it faster?",
     .statement =
         "left open by the paper: across tasks, the more top-5 lowers the dispersion (delta_s / delta_h at 95 %), "
         "the larger its speed-up",
     .probe = &sf_probe_scores,
     .add_rows = sf_rows_of_delta_and_speed,
     .plans = {SMOKE_PLAN("task", THREE_QUICK, "attention", "full,topk:5"),
               LAPTOP_PLAN(THREE_NOTE, FEW_SEEDS, "task", THREE_QUICK, "attention", "full,topk:5", "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", "full,topk:5", "seeds", "10")}},
    {.id = "follow-mask-stability",
     .title = "do stable masks learn faster?",
     .statement =
         "left open by the paper: over k, the larger the share of kept keys that noise of 0.1 on the embeddings "
         "leaves unchanged, the larger the speed-up",
     .probe = &sf_probe_masks,
     .add_rows = sf_rows_of_masks_and_speed,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", "topk:1,topk:3,topk:5,full"),
               LAPTOP_PLAN("even-pairs, three seeds", FEW_SEEDS, "task", "even-pairs", "attention", K_SWEEP, "seeds",
                           "3"),
               PAPER_PLAN(TEST_SEEDS, "task", eight_tasks, "attention", K_SWEEP, "seeds", "10")}},
    {.id = "follow-length",
     .title = "other lengths than those trained at",
     .statement =
         "left open by the paper: on sequences 1.5, 2.5 and 5 times as long as trained at, the error of top-5 is "
         "that of full attention or lower (here: at most a point above) for most seeds",
     .probe = &sf_probe_lengths,
     .add_rows = sf_rows_of_lengths,
     .plans = {SMOKE_PLAN("task", "even-pairs,missing-duplicate", "attention", "full,topk:5"),
               LAPTOP_PLAN(THREE_NOTE, FEW_SEEDS, "task", THREE_QUICK, "attention", "full,topk:5", "seeds", "6"),
               PAPER_PLAN(TEST_SEEDS, "task", THREE_QUICK, "attention", "full,topk:5", "seeds", "10")}},
    {.id = "follow-algorithmic-stability",
     .title = "algorithmic stability (Hardt, Recht and Singer 2016)",
     .statement =
         "left open by the paper: replacing one training sequence moves the weights of top-5 less than those of "
         "full attention, all else equal, for most seeds",
     .probe = &sf_probe_distance,
     .add_rows = sf_rows_of_distances,
     .plans = {SMOKE_PLAN("task", "even-pairs", "attention", "full,topk:5", "swap-sample", "-1,0"),
               LAPTOP_PLAN("even-pairs, three seeds", FEW_SEEDS, "task", "even-pairs", "attention", "full,topk:5",
                           "swap-sample", "-1,0", "seeds", "3"),
               PAPER_PLAN(TEST_SEEDS, "task", "even-pairs,missing-duplicate,stack-manipulation", "attention",
                          "full,topk:5", "swap-sample", "-1,0", "seeds", "10")}},
};

const sf_paper_entry *sf_paper_entry_at(size_t i) {
    return i < sizeof entries / sizeof *entries ? &entries[i] : NULL;
}
