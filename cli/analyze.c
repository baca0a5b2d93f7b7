/* Describes the attention of stored runs in the quantities of the theory. */
#include "cli/theory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t shown[] = {0, 2, 4, 5, 6, 7, 8, 10}; /* of the quantiles, in tables */
enum { SHOWN = sizeof shown / sizeof *shown };

static json_t *json_quantiles(const double at[SF_QUANTILES]) {
    json_t *row = json_object();
    for (size_t i = 0; i < SF_QUANTILES; i++) {
        char percent[16];
        snprintf(percent, sizeof percent, "%g", sf_quantile_percents[i]);
        json_object_set_new(row, percent, json_number(at[i]));
    }
    return row;
}

typedef struct derived { /* a row that follows from another one */
    double at[SF_QUANTILES];
} derived;

static derived divided(const sf_measured *measured, double by) {
    derived row;
    for (size_t i = 0; i < SF_QUANTILES; i++) row.at[i] = measured->at[i] / by;
    return row;
}

static derived less(const sf_measured *measured, double what) {
    derived row;
    for (size_t i = 0; i < SF_QUANTILES; i++) row.at[i] = measured->at[i] - what;
    return row;
}

static derived sink_ratio(const sf_block_measures *block) {
    return divided(&block->measures[SF_IN_DEGREE], block->sink_keys);
}

/* For full attention over the same scores: e^delta_s / T. */
static derived ln_stability_of_full(const sf_block_measures *block, const sf_analysis_info *info) {
    return less(&block->measures[SF_DISPERSION], info->ln_positions);
}

static json_t *share(uint64_t part, uint64_t whole) {
    return whole > 0 ? json_real((double)part / (double)whole) : json_null();
}

static json_t *json_block(const sf_block_measures *block, const sf_analysis_info *info) {
    json_t *row = json_object(), *measures = json_object();
    for (int m = 0; m < SF_MEASURES; m++) {
        const sf_measured *measured = &block->measures[m];
        if (measured->count + measured->not_numbers == 0) continue;
        json_object_set_new(measures, sf_measure_name((sf_measure)m),
                            json_pack("{s:I, s:I, s:o}", "count", (json_int_t)measured->count, "not_numbers",
                                      (json_int_t)measured->not_numbers, "quantiles", json_quantiles(measured->at)));
    }
    json_object_set_new(measures, "sink_ratio", json_pack("{s:o}", "quantiles", json_quantiles(sink_ratio(block).at)));
    if (info->has_theory)
        json_object_set_new(measures, "ln_xi_s",
                            json_pack("{s:o}", "quantiles", json_quantiles(ln_stability_of_full(block, info).at)));
    json_object_set_new(row, "measures", measures);
    json_object_set_new(row, "holds_w", share(block->holds_w, block->queries));
    json_object_set_new(row, "holds_x", share(block->holds_x, block->queries));
    json_object_set_new(row, "norms",
                        json_pack("{s:o, s:o, s:o, s:o}", "gamma", json_number(block->gamma), "upsilon",
                                  json_number(block->upsilon), "w1", json_number(block->w1), "w2",
                                  json_number(block->w2)));
    json_object_set_new(row, "xi_token", json_number(block->largest_token));
    return row;
}

static json_t *json_heads(const sf_analysis *analysis, size_t block, size_t heads) {
    json_t *rows = json_array();
    for (size_t h = 0; h < heads; h++) {
        double gamma, upsilon;
        sf_analysis_head_norms(&gamma, &upsilon, analysis, block, h);
        json_array_append_new(rows,
                              json_pack("{s:o, s:o}", "gamma", json_number(gamma), "upsilon", json_number(upsilon)));
    }
    return rows;
}

static const char *const moments[] = {[SF_AT_LAST] = "last", [SF_AT_BEST] = "best", [SF_AT_INIT] = "init"};
static const char *const splits[] = {[SF_TRAINING] = "train", [SF_HELDOUT] = "heldout"};

static const char *name_of_gap(const char *kind) {
    return strcmp(kind, "weighting") == 0  ? "for_the_weighting"
           : strcmp(kind, "selector") == 0 ? "for_the_selector"
           : strcmp(kind, "extra") == 0    ? "for_the_extra"
           : strcmp(kind, "setting") == 0  ? "for_the_setting"
                                           : "for_the_score_transform";
}

static json_t *json_analysis(const sf_analysis *analysis) {
    const sf_analysis_info info = sf_analysis_describe(analysis);
    const sf_stored_run *run = info.run;
    json_t *row = json_pack("{s:s, s:o, s:s, s:I, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I}", "id", run->id, "task",
                            json_text(run->task), "attention", run->attention, "seed", (json_int_t)run->seed, "status",
                            run->status, "at", moments[info.request.at], "epoch", (json_int_t)info.epoch, "split",
                            splits[info.request.split], "samples", (json_int_t)info.samples, "positions",
                            (json_int_t)info.positions, "heads", (json_int_t)info.heads, "k", (json_int_t)info.k);
    json_t *blocks = json_array();
    for (size_t l = 0; l < info.blocks; l++) {
        json_t *block = json_block(sf_analysis_block(analysis, l), &info);
        json_object_set_new(block, "heads", json_heads(analysis, l, info.heads));
        json_array_append_new(blocks, block);
    }
    if (info.request.perturbed != 0) {
        json_object_set_new(row, "perturbed", json_real(info.request.perturbed));
        json_object_set_new(row, "direction_seed", json_integer((json_int_t)info.request.direction_seed));
    }
    if (!info.has_theory)
        json_object_set_new(row, "not_defined",
                            json_pack("{s:[s, s, s, s], s:s}", "measures", "ln_xi", "ln_xi_s", "w", "x",
                                      name_of_gap(info.lacks_kind), info.lacks_name));
    json_object_set_new(row, "overall", json_block(sf_analysis_overall(analysis), &info));
    json_object_set_new(row, "blocks", blocks);
    return row;
}

static json_t *json_comparison(const sf_analysis *full, const sf_analysis *sparse) {
    sf_comparison rows[SF_QUANTILES];
    json_t *places = json_array();
    sf_analysis_compare(rows, full, sparse);
    for (size_t i = 0; i < SF_QUANTILES; i++)
        json_array_append_new(places,
                              json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "percent", rows[i].percent, "delta_s",
                                        json_number(rows[i].dispersion), "delta_h",
                                        json_number(rows[i].kept_dispersion), "separation",
                                        json_number(rows[i].separation), "in_degree", json_number(rows[i].in_degree),
                                        "w", json_number(rows[i].w), "x", json_number(rows[i].x)));
    const sf_analysis_info theirs = sf_analysis_describe(full), ours = sf_analysis_describe(sparse);
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:o}", "full", theirs.run->id, "sparse", ours.run->id,
                     "full_epoch", (json_int_t)theirs.epoch, "sparse_epoch", (json_int_t)ours.epoch, "full_status",
                     theirs.run->status, "sparse_status", ours.run->status, "quantiles", places);
}

static void print_percents(const char *left) {
    printf("  %-18s", left);
    for (size_t i = 0; i < SHOWN; i++) printf(" %7g %%", sf_quantile_percents[shown[i]]);
    putchar('\n');
}

static void print_values(const char *left, const double at[SF_QUANTILES]) {
    printf("  %-18s", left);
    for (size_t i = 0; i < SHOWN; i++) printf(" %9.4g", at[shown[i]]);
    putchar('\n');
}

static const char *const labels[SF_MEASURES] = {
    [SF_DISPERSION] = "delta_s",       [SF_KEPT_DISPERSION] = "delta_h",
    [SF_SEPARATION] = "Delta_h",       [SF_IN_DEGREE] = "in-degree",
    [SF_LN_STABILITY] = "ln xi",       [SF_CONDITION_W] = "W, per query",
    [SF_CONDITION_X] = "X, per query", [SF_EFFECTIVE_KEYS] = "effective keys",
    [SF_ENTROPY] = "entropy"};

static void print_measure(const sf_block_measures *block, sf_measure measure, const char *left) {
    const sf_measured *measured = &block->measures[measure];
    if (measured->count > 0) print_values(left, measured->at);
    if (measured->not_numbers > 0)
        printf("  %-18s %llu values are not numbers\n", left, (unsigned long long)measured->not_numbers);
}

static void print_overall(const sf_analysis *analysis, const sf_analysis_info *info) {
    const sf_block_measures *all = sf_analysis_overall(analysis);
    print_percents("all blocks");
    for (int m = SF_DISPERSION; m <= SF_ENTROPY; m++) print_measure(all, (sf_measure)m, labels[m]);
    print_values("beta = in-degree/k", sink_ratio(all).at);
    if (!info->has_theory) {
        printf("  %-18s not defined for the %s %s\n", "ln xi, W, X", info->lacks_kind, info->lacks_name);
        return;
    }
    print_values("ln xi_s", ln_stability_of_full(all, info).at);
    for (int m = SF_LN_STABILITY; m < SF_MEASURES; m++) print_measure(all, (sf_measure)m, labels[m]);
    if (all->queries > 0)
        printf("  W < 1 for %.2f %% and X < 1 for %.2f %% of %llu queries\n",
               100 * (double)all->holds_w / (double)all->queries, 100 * (double)all->holds_x / (double)all->queries,
               (unsigned long long)all->queries);
}

static void print_blocks(const sf_analysis *analysis, const sf_analysis_info *info) {
    print_percents("block by block");
    for (int m = SF_DISPERSION; m <= SF_ENTROPY; m++)
        for (size_t l = 0; l < info->blocks; l++) {
            char left[48];
            snprintf(left, sizeof left, "%-14s %3zu", labels[m], l);
            print_measure(sf_analysis_block(analysis, l), (sf_measure)m, left);
        }
}

static void print_norms(const sf_analysis *analysis, const sf_analysis_info *info) {
    printf("  %-18s %9s %9s %9s %9s %9s%s\n", "spectral norms", "Gamma", "Upsilon", "|W1|", "|W2|", "Xi",
           info->has_separation && info->has_theory ? "   W < 1 %   X < 1 %" : "");
    for (size_t l = 0; l <= info->blocks; l++) {
        const sf_block_measures *block =
            l < info->blocks ? sf_analysis_block(analysis, l) : sf_analysis_overall(analysis);
        char left[48] = "all blocks";
        if (l < info->blocks) snprintf(left, sizeof left, "%-14s %3zu", "block", l);
        printf("  %-18s %9.4g %9.4g %9.4g %9.4g %9.4g", left, block->gamma, block->upsilon, block->w1, block->w2,
               block->largest_token);
        if (block->queries > 0)
            printf(" %9.2f %9.2f", 100 * (double)block->holds_w / (double)block->queries,
                   100 * (double)block->holds_x / (double)block->queries);
        putchar('\n');
    }
}

static bool has_diverged(const sf_analysis_info *info) {
    return strcmp(info->run->status, "diverged") == 0;
}

static void print_heading(const sf_analysis_info *info) {
    const sf_stored_run *run = info->run;
    printf("%s  %s, %s, seed %lld: ", run->id, on_one_line(run->task), on_one_line(run->attention),
           (long long)run->seed);
    if (info->request.at == SF_AT_INIT)
        printf("initial weights");
    else
        printf("weights after epoch %zu%s", info->epoch, info->request.at == SF_AT_BEST ? " (the best)" : "");
    if (info->request.perturbed != 0)
        printf(" moved by %g along the first direction of seed %lu", info->request.perturbed,
               (unsigned long)info->request.direction_seed);
    printf(", %zu %s sequence%s of %zu position%s, %zu head%s\n", info->samples,
           info->request.split == SF_TRAINING ? "training" : "held-out", plural(info->samples), info->positions,
           plural(info->positions), info->heads, plural(info->heads));
    if (has_diverged(info) && info->request.at == SF_AT_LAST)
        printf("  the run diverged in epoch %zu; these are its last finite weights\n", run->diverged_epoch);
}

static void print_analysis(const sf_analysis *analysis) {
    const sf_analysis_info info = sf_analysis_describe(analysis);
    print_heading(&info);
    print_overall(analysis, &info);
    print_blocks(analysis, &info);
    print_norms(analysis, &info);
}

/* The run of a comparison; also the moment of its weights, where the other's is not the same or the run diverged. */
static void print_compared(const sf_analysis_info *info, const sf_analysis_info *other) {
    const bool diverged = has_diverged(info) && info->epoch > 0;
    printf("%s (%s", info->run->attention, info->run->id);
    if (info->epoch != other->epoch || diverged) printf(", after epoch %zu", info->epoch);
    if (diverged) printf(", diverged in epoch %zu", info->run->diverged_epoch);
    putchar(')');
}

static void print_comparison(const sf_analysis *full, const sf_analysis *sparse) {
    const sf_analysis_info theirs = sf_analysis_describe(full), ours = sf_analysis_describe(sparse);
    const sf_stored_run *run = ours.run;
    sf_comparison rows[SF_QUANTILES];
    sf_analysis_compare(rows, full, sparse);
    printf("%s, seed %lld: delta_s of ", on_one_line(run->task), (long long)run->seed);
    print_compared(&theirs, &ours);
    printf(", the rest of ");
    print_compared(&ours, &theirs);
    printf(", quantile by quantile\n");
    printf("  %9s %9s %9s %9s %9s %9s %9s   Delta_h at 100 - q, at least 1e-9\n", "q", "delta_s", "delta_h", "Delta_h",
           "in-degree", "W", "X");
    for (size_t i = 0; i < SF_QUANTILES; i++)
        printf("  %7g %% %9.4g %9.4g %9.4g %9.4g %9.4g %9.4g\n", rows[i].percent, rows[i].dispersion,
               rows[i].kept_dispersion, rows[i].separation, rows[i].in_degree, rows[i].w, rows[i].x);
    static const size_t published[] = {6, 7, 8, 10};
    size_t w = 0, x = 0;
    for (size_t i = 0; i < 4; i++) {
        w += rows[published[i]].w < 1;
        x += rows[published[i]].x < 1;
    }
    printf("  below 1, %s has the better bound: W at %zu, X at %zu of the published 75, 90, 95 and 100 %%\n\n",
           run->attention, w, x);
}

typedef struct analyses {
    sf_analysis **all; /* [count] */
    size_t count;
    json_t *rows; /* one per run; NULL: tables */
} analyses;

/* The full run that a sparse one is compared with, or NULL. */
static const sf_analysis *partner_of(const analyses *a, const sf_analysis *sparse) {
    for (size_t i = 0; i < a->count; i++)
        if (sf_analysis_comparable(a->all[i], sparse)) return a->all[i];
    return NULL;
}

static int tell_comparisons(const analyses *a, const char *figures /* folder; "": none */) {
    const bool json = a->rows != NULL;
    json_t *comparisons = json ? json_array() : NULL;
    for (size_t i = 0; i < a->count; i++) {
        const sf_analysis *full = partner_of(a, a->all[i]);
        if (full == NULL) continue;
        if (json)
            json_array_append_new(comparisons, json_comparison(full, a->all[i]));
        else
            print_comparison(full, a->all[i]);
    }
    if (json) return print_json(json_pack("{s:O, s:o}", "runs", a->rows, "comparisons", comparisons));
    if (*figures != '\0') printf("figures: %s\n", on_one_line(figures));
    return finish_output();
}

static size_t name_point(sf_region_point *point, const sf_region_point *before, size_t count, const sf_stored_run *run,
                         bool several_tasks) {
    snprintf(point->name, sizeof point->name, "%.*s%s%s", several_tasks ? 96 : 0, run->task, several_tasks ? " " : "",
             run->attention);
    size_t names = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(before[i].name, point->name) == 0) return before[i].series;
        if (before[i].series >= names) names = before[i].series + 1;
    }
    return names;
}

static bool has_several_tasks(const analyses *a) {
    const char *first = sf_analysis_describe(a->all[0]).run->task;
    for (size_t i = 1; i < a->count; i++)
        if (strcmp(sf_analysis_describe(a->all[i]).run->task, first) != 0) return true;
    return false;
}

static size_t collect_points(sf_region_point *points, const analyses *a) {
    const bool several_tasks = has_several_tasks(a);
    size_t count = 0;
    for (size_t i = 0; i < a->count; i++) {
        const sf_analysis *full = partner_of(a, a->all[i]);
        const sf_stored_run *run = sf_analysis_describe(a->all[i]).run;
        sf_comparison rows[SF_QUANTILES];
        if (full == NULL) continue;
        sf_analysis_compare(rows, full, a->all[i]);
        sf_region_point point = {.seed = run->seed};
        point.series = name_point(&point, points, count, run, several_tasks);
        point.style = point.series + 1; /* 0 is that of full attention */
        for (size_t q = 0; q < SF_QUANTILES; q++) {
            point.at = rows[q];
            points[count++] = point;
        }
    }
    return count;
}

static int draw_regions(const analyses *a, const char *folder) {
    sf_region_point *points = calloc(a->count * SF_QUANTILES, sizeof *points);
    int code = EXIT_FAILED;
    if (points == NULL) {
        fail_usage("no memory left for the figures of %zu runs", a->count);
        return code;
    }
    const size_t count = collect_points(points, a);
    if (count == 0) {
        code = fail_usage("--figures compares a run with full attention and a run of the same settings and seed that "
                          "chooses keys by score; name both");
    } else {
        const sf_status status = sf_regions_write_figures(points, count, folder);
        code = status == SF_OK ? EXIT_DONE : fail(status);
    }
    free(points);
    return code;
}

static sf_status analyze_one(analyses *a, sf_store *store, const sf_stored_run *run, const sf_options *options) {
    const sf_analysis_request how = {.at = (sf_weights_at)options->at,
                                     .split = (sf_split)options->split,
                                     .samples = (size_t)options->samples,
                                     .execution = options->execution,
                                     .perturbed = options->perturbed,
                                     .direction_seed = (uint32_t)options->direction_seed};
    const sf_status status = sf_analyze(&a->all[a->count], store, run, &how);
    if (status == SF_OK) a->count++;
    return status;
}

static sf_status tell_one(const analyses *a, size_t i, sf_store *store, const sf_stored_run *run,
                          const sf_options *options) {
    json_t *row = a->rows != NULL ? json_analysis(a->all[i]) : NULL;
    if (row == NULL) print_analysis(a->all[i]);
    const sf_status status = tell_theory(row, store, run, options);
    if (row != NULL)
        json_array_append_new(a->rows, row);
    else
        putchar('\n');
    return status;
}

static int analyze_and_tell(analyses *a, sf_store *store, const sf_stored_run *runs, const cli_request *request) {
    const sf_options *options = &request->options;
    sf_status status = SF_OK;
    for (size_t i = 0; i < request->word_count && status == SF_OK; i++)
        status = analyze_one(a, store, &runs[i], options);
    if (status == SF_OK && *options->figures != '\0') {
        const int code = draw_regions(a, options->figures);
        if (code != EXIT_DONE) return code;
    }
    for (size_t i = 0; i < a->count && status == SF_OK; i++) status = tell_one(a, i, store, &runs[i], options);
    return status == SF_OK ? tell_comparisons(a, options->figures) : fail(status);
}

static int analyze_all(sf_store *store, const sf_stored_run *runs, const cli_request *request) {
    analyses a = {.all = calloc(request->word_count, sizeof *a.all)};
    if (a.all == NULL) {
        fail_usage("no memory left for %zu runs", request->word_count);
        return EXIT_FAILED;
    }
    if (request->options.json) a.rows = json_array();
    const int code = analyze_and_tell(&a, store, runs, request);
    json_decref(a.rows);
    for (size_t i = 0; i < a.count; i++) sf_analysis_destroy(a.all[i]);
    free(a.all);
    return code;
}

typedef struct curve_output {
    const char *run;
    json_t *rows; /* NULL: CSV */
    size_t count;
} curve_output;

static void tell_point(void *context, const sf_curve_point *point) {
    curve_output *out = context;
    out->count++;
    if (out->rows != NULL) {
        json_array_append_new(
            out->rows, json_pack("{s:s, s:I, s:o, s:s, s:o}", "run", out->run, "epoch", (json_int_t)point->epoch,
                                 "block", point->block < 0 ? json_null() : json_integer((json_int_t)point->block),
                                 "measure", point->measure, "quantiles", json_quantiles(point->at)));
        return;
    }
    print_csv_text(out->run);
    printf(",%zu,", point->epoch);
    if (point->block < 0)
        printf("all");
    else
        printf("%lld", (long long)point->block);
    putchar(',');
    print_csv_text(point->measure);
    for (size_t i = 0; i < SF_QUANTILES; i++) {
        putchar(',');
        if (!isnan(point->at[i])) printf("%.9g", point->at[i]);
    }
    putchar('\n');
}

static void count_point(void *context, const sf_curve_point *point) {
    (void)point;
    ++*(size_t *)context;
}

/* Before anything is printed, so that an error is the only output. */
static int check_recorded(sf_store *store, const sf_stored_run *runs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t points = 0;
        const sf_status status = sf_store_each_measure(store, &runs[i], count_point, &points);
        if (status != SF_OK) return fail(status);
        if (points == 0)
            return fail_usage(
                "run %s has no recorded measures: --every N records them while a run trains, and a trained run is not "
                "measured again; train it with --every N into another --store, or leave out --curves",
                runs[i].id);
    }
    return EXIT_DONE;
}

static int print_curves(sf_store *store, const sf_stored_run *runs, const cli_request *request) {
    curve_output out = {.rows = request->options.json ? json_array() : NULL};
    const int recorded = check_recorded(store, runs, request->word_count);
    if (recorded != EXIT_DONE) {
        json_decref(out.rows);
        return recorded;
    }
    if (out.rows == NULL) {
        printf("run,epoch,block,measure");
        for (size_t i = 0; i < SF_QUANTILES; i++) printf(",q%g", sf_quantile_percents[i]);
        putchar('\n');
    }
    sf_status status = SF_OK;
    for (size_t i = 0; i < request->word_count && status == SF_OK; i++) {
        out.run = runs[i].id;
        status = sf_store_each_measure(store, &runs[i], tell_point, &out);
    }
    if (status == SF_OK && out.rows != NULL) return print_json(out.rows);
    json_decref(out.rows);
    return status == SF_OK ? finish_output() : fail(status);
}

static int look_up_and_tell(sf_store *store, const cli_request *request) {
    sf_stored_run *runs = calloc(request->word_count, sizeof *runs);
    if (runs == NULL) {
        fail_usage("no memory left for %zu runs", request->word_count);
        return EXIT_FAILED;
    }
    int code = EXIT_DONE;
    for (size_t i = 0; i < request->word_count && code == EXIT_DONE; i++) {
        const sf_status status = sf_store_find(&runs[i], store, request->words[i]);
        if (status != SF_OK) code = fail(status);
    }
    if (code == EXIT_DONE) code = (request->options.curves ? print_curves : analyze_all)(store, runs, request);
    free(runs);
    return code;
}

static int run(const cli_request *request) {
    static const char *const without_curves[] = {"at",        "split",          "samples", "bounds",
                                                 "lipschitz", "mask-stability", "figures", "perturbed"};
    for (size_t i = 0; i < sizeof without_curves / sizeof *without_curves && request->options.curves; i++)
        if (sf_options_given(&request->options, without_curves[i]))
            return fail_usage("--%s has no effect with --curves, which prints what training recorded; leave it out",
                              without_curves[i]);
    const char *arithmetic = given_arithmetic(request);
    if (arithmetic != NULL)
        return fail_usage("--%s has no effect on analyze, which computes measures in f32; leave it out", arithmetic);
    if (sf_options_given(&request->options, "direction-seed") && request->options.perturbed == 0)
        return fail_usage("--direction-seed has no effect without --perturbed R; leave it out, or add --perturbed R");
    int code = check_figures(&request->options);
    if (code != EXIT_DONE) return code;
    sf_store *store;
    const sf_status status = open_to_read(&store, request->options.store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    code = look_up_and_tell(store, request);
    sf_store_close(store);
    return code;
}

const cli_verb verb_analyze = {
    .name = "analyze",
    .usage = "RUN... [--at last|best|init] [--samples N] [--bounds] [--lipschitz] [--mask-stability] [--figures DIR]",
    .summary = "measure the attention of runs: dispersion, separation, sinks, norms, stability",
    .details =
        "RUN is an id from 'semfocus runs' or an unambiguous beginning of one. analyze measures over every block, "
        "head,\n"
        "sequence and query, with D the scores before softmax:\n"
        "  delta_s    max D - min D over all keys          delta_h  the same over the kept keys\n"
        "  Delta_h    gap between kept and other scores    in-degree  queries that keep a key; beta = in-degree / k\n"
        "  effective keys  1 / sum of w^2, with w the weights divided by their sum; entropy  - sum of w ln w\n"
        "  ln xi      stability of the softmax: delta_h - ln k [+ ln(1 + 1/Delta_h) where keys are chosen by score];\n"
        "             ln xi_s = delta_s - ln T is that of full attention\n"
        "  Gamma, Upsilon, |W1|, |W2|   spectral norms with the bias as a column; Xi  the largest row that attention "
        "reads\n"
        "  W, X       below 1: keeping k keys by score has the better bound, in the parameters and in the input\n"
        "If one run has full attention and another of the same task, seed and settings chooses keys by score, the two\n"
        "are also compared at each quantile; --figures draws them into the regions where W and X hold. A diverged\n"
        "run is analyzed at its last finite weights. A store of another numerics version is refused.\n"
        "Measures are computed in f32, also for a run trained in bf16 or tf32: --precision is refused.\n"
        "Further measures of every block (docs/theory.md derives each constant; without --samples they are taken on\n"
        "500, 50 and 200 sequences):\n"
        "  --bounds   Lipschitz constants for all inputs in the domain that the sequences span: published (with\n"
        "             e^delta), proven (the sharpest we prove), local (of the derivative, kept keys held fixed);\n"
        "             softmax: scores to weights, attention and block: rows (input) or parameters (weights) to rows,\n"
        "             composed: embedded tokens or all parameters to the loss, as a power of ten\n"
        "  --lipschitz  largest singular value of each attention layer's Jacobian at each sequence, divided by\n"
        "             sqrt(T), by the sqrt(T) law of Castin et al. 2024 and by the local bound\n"
        "  --mask-stability  kept keys unchanged under Gaussian noise of deviation 0.001 to 1 on the embedded tokens,\n"
        "             also by the query's Delta_h\n"
        "  --perturbed R  all of it at the weights moved by R along the first direction of 'semfocus landscape'\n"
        "In JSON, infinite values are \"infinity\" or \"-infinity\", and values that are undefined or missing are "
        "null.\n"
        "examples: semfocus analyze 3f2a 91bc          semfocus analyze 3f2a --at init --samples 100 --json\n"
        "          semfocus analyze 3f2a 91bc --bounds --lipschitz --mask-stability --figures figures\n"
        "          semfocus train even-pairs --attention topk:5 --every 5, then semfocus analyze RUN --curves\n",
    .groups = SF_GROUP_WEIGHTS | SF_GROUP_ANALYSIS | SF_GROUP_SAMPLES | COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "RUN",
    .next_words = "RUN",
    .run = run,
};
