/* What entries of the catalogue measure at the weights of runs. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "paper/groups.h"
#include "semfocus/followup.h"
#include "semfocus/landscape.h"
#include "semfocus/theory.h"

enum { SCORED_SEQUENCES = 1000 }; /* the first of the training data, as in the published table */

void sf_finding_score(char out[64], sf_weights_at at, sf_measure measure, double percent) {
    snprintf(out, 64, "scores.%s.train%d.%s.q%g", at == SF_AT_INIT ? "init" : "last", SCORED_SEQUENCES,
             sf_measure_name(measure), percent);
}

static void score_key(char out[64], const sf_paper *paper) {
    (void)paper;
    sf_finding_score(out, SF_AT_LAST, SF_DISPERSION, 50);
}

static double scored_sequences(const sf_paper *paper, size_t all) {
    (void)paper;
    return (double)(all < SCORED_SEQUENCES ? all : SCORED_SEQUENCES);
}

static sf_status analyze(sf_analysis **out, const sf_paper *paper, sf_store *store, const sf_stored_run *run,
                         sf_weights_at at) {
    return sf_analyze(out, store, run,
                      &(sf_analysis_request){
                          .at = at, .split = SF_TRAINING, .samples = SCORED_SEQUENCES, .execution = paper->execution});
}

static void fill_findings(sf_finding *out /* [count * SF_QUANTILES] */, const sf_measured *measures,
                          const sf_measure *kept /* [count] */, size_t count, sf_weights_at at) {
    for (size_t m = 0; m < count; m++)
        for (size_t q = 0; q < SF_QUANTILES; q++, out++) {
            sf_finding_score(out->name, at, kept[m], sf_quantile_percents[q]);
            out->value = measures[kept[m]].at[q];
        }
}

static sf_status measure_scores_at(const sf_paper *paper, sf_store *store, const sf_stored_run *run, sf_weights_at at) {
    static const sf_measure kept[] = {SF_DISPERSION, SF_KEPT_DISPERSION, SF_SEPARATION, SF_IN_DEGREE};
    enum { KEPT = sizeof kept / sizeof *kept };
    sf_analysis *analysis;
    SF_TRY(analyze(&analysis, paper, store, run, at));
    sf_finding findings[KEPT * SF_QUANTILES];
    fill_findings(findings, sf_analysis_overall(analysis)->measures, kept, KEPT, at);
    sf_analysis_destroy(analysis);
    return sf_findings_keep(store, run, findings, sizeof findings / sizeof *findings);
}

static sf_status measure_scores(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                const sf_stored_run *run, const sf_paper_watch *watch) {
    (void)plan, (void)watch;
    return measure_scores_at(paper, store, run, SF_AT_LAST);
}

const sf_paper_probe sf_probe_scores = {
    .title = "attention scores", .key = score_key, .sequences = scored_sequences, .measure = measure_scores};

static void initial_score_key(char out[64], const sf_paper *paper) {
    (void)paper;
    sf_finding_score(out, SF_AT_INIT, SF_DISPERSION, 50);
}

static double twice_scored_sequences(const sf_paper *paper, size_t all) {
    return 2 * scored_sequences(paper, all);
}

/* The initial ones last: they are the key. */
static sf_status measure_both_scores(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                     const sf_stored_run *run, const sf_paper_watch *watch) {
    SF_TRY(measure_scores(paper, store, plan, run, watch));
    return measure_scores_at(paper, store, run, SF_AT_INIT);
}

const sf_paper_probe sf_probe_both_scores = {.title = "attention scores at initial and trained weights",
                                             .key = initial_score_key,
                                             .sequences = twice_scored_sequences,
                                             .measure = measure_both_scores};

void sf_finding_keys(char out[64]) {
    snprintf(out, 64, "scores.init.train%d.keys", SCORED_SEQUENCES);
}

static void sharpness_key(char out[64], const sf_paper *paper) {
    (void)paper;
    sf_finding_keys(out);
}

/* Other than measure_scores_at() it stores the effective keys, under a key of their own: runs that were measured before
 * lack them. */
static sf_status measure_sharpness(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                   const sf_stored_run *run, const sf_paper_watch *watch) {
    (void)plan, (void)watch;
    static const sf_measure kept[] = {SF_EFFECTIVE_KEYS, SF_ENTROPY, SF_KEPT_DISPERSION};
    enum { KEPT = sizeof kept / sizeof *kept };
    sf_analysis *analysis;
    SF_TRY(analyze(&analysis, paper, store, run, SF_AT_INIT));
    enum { QUANTILES = KEPT * SF_QUANTILES };
    sf_finding findings[QUANTILES + 1];
    const sf_block_measures *all = sf_analysis_overall(analysis);
    fill_findings(findings, all->measures, kept, KEPT, SF_AT_INIT);
    sf_finding_keys(findings[QUANTILES].name);
    findings[QUANTILES].value = all->sink_keys;
    sf_analysis_destroy(analysis);
    return sf_findings_keep(store, run, findings, sizeof findings / sizeof *findings);
}

const sf_paper_probe sf_probe_sharpness = {.title = "sharpness at initial weights",
                                           .key = sharpness_key,
                                           .sequences = scored_sequences,
                                           .measure = measure_sharpness};

static const double shown_radii[] = {0.1, 0.3, 0.69};
enum { SHOWN_RADII = sizeof shown_radii / sizeof *shown_radii, SHARE_95 = 2 };

void sf_finding_slope(char out[64], const sf_paper *paper, double radius) {
    snprintf(out, 64, "surface.g%zu.s%zu.r%.2f.q95", paper->plan->grid, paper->plan->samples, radius);
}

void sf_finding_rise(char out[64], const sf_paper *paper) {
    snprintf(out, 64, "surface.g%zu.s%zu.rise", paper->plan->grid, paper->plan->samples);
}

static double surface_sequences(const sf_paper *paper, size_t all) {
    const size_t samples = paper->plan->samples;
    return (double)(paper->plan->grid * paper->plan->grid) * (double)(samples == 0 || samples > all ? all : samples);
}

static sf_status surface_options(sf_options *out, const sf_paper *paper) {
    char text[32];
    sf_options_init(out);
    snprintf(text, sizeof text, "%zu", paper->plan->grid);
    SF_TRY(sf_options_set(out, "grid", text));
    snprintf(text, sizeof text, "%zu", paper->plan->samples);
    SF_TRY(sf_options_set(out, "samples", text));
    out->execution = paper->execution;
    return SF_OK;
}

static double mean_rise(const sf_surface *surface) {
    double sum = 0;
    size_t finite = 0;
    for (size_t i = 0; i < surface->grid * surface->grid; i++) {
        if (!isfinite(surface->losses[i])) continue;
        sum += surface->losses[i];
        finite++;
    }
    return sum / (double)finite - surface->centre_loss; /* NaN without any */
}

typedef struct points_shown {
    const sf_paper_watch *watch;
    const char *id;
} points_shown;

static void show_points(void *context, size_t surface, size_t done, size_t points) {
    const points_shown *shown = context;
    char what[64];
    (void)surface;
    if (shown->watch->on_progress == NULL) return;
    snprintf(what, sizeof what, "points of the loss surface of %s", shown->id);
    shown->watch->on_progress(shown->watch->context, done, points, what);
}

static sf_status measure_surface(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                 const sf_stored_run *run, const sf_paper_watch *watch) {
    (void)plan;
    sf_options options;
    sf_landscape *landscape;
    const char *id = run->id;
    SF_TRY(surface_options(&options, paper));
    SF_TRY(sf_landscape_open(&landscape, store, &id, 1, &options));
    points_shown shown = {watch, id};
    sf_status status = sf_landscape_compute(
        landscape, store, &(sf_landscape_watch){.stop = watch->stop, .on_points = show_points, .context = &shown});
    if (status == SF_OK) {
        const sf_surface *surface = sf_landscape_surface(landscape, 0);
        sf_finding findings[SHOWN_RADII + 1];
        for (size_t i = 0; i < SHOWN_RADII; i++) {
            sf_finding_slope(findings[i].name, paper, shown_radii[i]);
            const size_t at = (size_t)lround(100 * shown_radii[i]) - 1; /* radii are 0.01, 0.02, ... */
            findings[i].value = surface->lipschitz.quantiles[at][SHARE_95];
        }
        sf_finding_rise(findings[SHOWN_RADII].name, paper);
        findings[SHOWN_RADII].value = mean_rise(surface);
        status = sf_findings_keep(store, run, findings, SHOWN_RADII + 1);
    }
    sf_landscape_close(landscape);
    return status;
}

const sf_paper_probe sf_probe_surface = {
    .title = "loss surface", .key = sf_finding_rise, .sequences = surface_sequences, .measure = measure_surface};

enum { MASK_SAMPLES = 200 };
static const double mask_noise = 0.1; /* embedded tokens have deviation about 0.5 at initialization */

void sf_finding_mask(char out[64], const sf_paper *paper) {
    (void)paper;
    snprintf(out, 64, "masks.s%d.noise%g", MASK_SAMPLES, mask_noise);
}

static double mask_sequences(const sf_paper *paper, size_t all) {
    (void)paper;
    return 2.0 * (double)(all < MASK_SAMPLES ? all : MASK_SAMPLES);
}

static bool chooses_by_score(const sf_planned_run *run) {
    return sf_attention_chooses_by_score(run->attention);
}

static sf_status measure_masks(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                               const sf_stored_run *run, const sf_paper_watch *watch) {
    (void)plan, (void)watch;
    sf_theory *theory;
    const sf_mask_stability *stability;
    SF_TRY(sf_theory_open(&theory, store, run,
                          &(sf_theory_options){.at = SF_AT_LAST,
                                               .split = SF_HELDOUT,
                                               .samples = MASK_SAMPLES,
                                               .execution = paper->execution,
                                               .share = 1}));
    sf_status status = sf_theory_mask_stability(&stability, theory, &mask_noise, 1);
    if (status == SF_OK) {
        sf_finding finding;
        sf_finding_mask(finding.name, paper);
        finding.value = 0;
        for (size_t block = 0; block < stability->count; block++)
            finding.value += stability->blocks[block].all.keys_unchanged / (double)stability->count;
        status = sf_findings_keep(store, run, &finding, 1);
    }
    sf_theory_close(theory);
    return status;
}

const sf_paper_probe sf_probe_masks = {.title = "mask stability",
                                       .wants = chooses_by_score,
                                       .key = sf_finding_mask,
                                       .sequences = mask_sequences,
                                       .measure = measure_masks};

void sf_finding_length(char out[64], double factor) {
    snprintf(out, 64, "length.x%g.error", factor);
}

sf_status sf_paper_measure_lengths(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                   const sf_stored_run *run, const double *factors, size_t count) {
    sf_finding findings[SF_PAPER_MOST_LENGTHS];
    assert(count <= SF_PAPER_MOST_LENGTHS);
    for (size_t i = 0; i < count; i++) {
        sf_length_result result;
        const sf_length_request request = {.at = SF_AT_LAST,
                                           .length = (size_t)(factors[i] * (double)plan->config.length),
                                           .count = (size_t)plan->config.heldout_count,
                                           .execution = paper->execution};
        SF_TRY(sf_length_generalization(&result, store, run, &request));
        sf_finding_length(findings[i].name, factors[i]);
        findings[i].value = 100 - result.accuracy;
    }
    return sf_findings_keep(store, run, findings, count);
}

const double sf_paper_lengths[SF_PAPER_LENGTHS] = {1.5, 2.5, 5};

static void length_key(char out[64], const sf_paper *paper) {
    (void)paper;
    sf_finding_length(out, sf_paper_lengths[SF_PAPER_LENGTHS - 1]);
}

static double length_sequences(const sf_paper *paper, size_t all) {
    (void)paper;
    return 10 * (double)all; /* of the length trained at; longer ones cost more */
}

static sf_status measure_lengths(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                 const sf_stored_run *run, const sf_paper_watch *watch) {
    (void)watch;
    return sf_paper_measure_lengths(paper, store, plan, run, sf_paper_lengths, SF_PAPER_LENGTHS);
}

const sf_paper_probe sf_probe_lengths = {
    .title = "other lengths", .key = length_key, .sequences = length_sequences, .measure = measure_lengths};

void sf_finding_distance(char out[64], const sf_paper *paper) {
    (void)paper;
    snprintf(out, 64, "swapped.distance");
}

static double no_sequences(const sf_paper *paper, size_t all) {
    (void)paper, (void)all;
    return 0;
}

static bool is_swapped(const sf_planned_run *run) {
    return run->config.swap_sample >= 0;
}

static const sf_planned_run *partner_of(const sf_paper *paper, const sf_planned_run *swapped) {
    size_t count;
    const sf_planned_run *runs = sf_study_runs(paper->study, &count);
    for (const sf_planned_run *run = runs; run < runs + count; run++)
        if (!is_swapped(run) && run->config.seed == swapped->config.seed && strcmp(run->task, swapped->task) == 0 &&
            strcmp(run->attention, swapped->attention) == 0)
            return run;
    return NULL;
}

static sf_status measure_distance(const sf_paper *paper, sf_store *store, const sf_planned_run *plan,
                                  const sf_stored_run *run, const sf_paper_watch *watch) {
    (void)watch;
    const sf_planned_run *partner = partner_of(paper, plan);
    sf_stored_run *original;
    SF_TRY(SF_NEW(&original, 1));
    bool found = false;
    sf_run_distance_result result;
    sf_status status = partner != NULL ? sf_store_look_up(original, &found, store, partner->id) : SF_OK;
    if (status == SF_OK && found) {
        sf_finding finding;
        status = sf_run_distance(&result, store, original, run);
        sf_finding_distance(finding.name, paper);
        finding.value = result.relative;
        if (status == SF_OK) status = sf_findings_keep(store, run, &finding, 1);
    }
    sf_release(original);
    return status;
}

const sf_paper_probe sf_probe_distance = {.title = "distances",
                                          .wants = is_swapped,
                                          .key = sf_finding_distance,
                                          .sequences = no_sequences,
                                          .measure = measure_distance};
