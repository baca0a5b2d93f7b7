#include "cli/theory.h"

#include <math.h>
#include <stdio.h>

enum { BOUND_SAMPLES = 500, LIPSCHITZ_SAMPLES = 50, STABILITY_SAMPLES = 200 }; /* where --samples is not given */

static const double noises[] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1};
enum { NOISES = sizeof noises / sizeof *noises };

bool wants_theory(const sf_options *options) {
    return options->bounds || options->lipschitz || options->mask_stability;
}

json_t *json_number(double value) {
    if (isnan(value)) return json_null();
    return isinf(value) ? json_string(value > 0 ? "infinity" : "-infinity") : json_real(value);
}

static void set(json_t *object, const char *name, double value) {
    json_object_set_new(object, name, json_number(value));
}

static void set_kinds(json_t *object, const char *name, const double values[SF_BOUND_KINDS]) {
    json_t *kinds = json_object();
    for (int kind = 0; kind < SF_BOUND_KINDS; kind++) set(kinds, sf_bound_kind_name((sf_bound_kind)kind), values[kind]);
    json_object_set_new(object, name, kinds);
}

/* Else which keys are kept does not depend on the scores. */
static bool has_separation(const sf_bound_domain *domain) {
    return !isinf(domain->separation);
}

static json_t *json_domain(const sf_bound_domain *domain) {
    json_t *row = json_object();
    set(row, "dispersion", domain->dispersion);
    set(row, "separation", has_separation(domain) ? domain->separation : NAN);
    set(row, "in_degree", domain->in_degree);
    set(row, "fewest_kept", domain->fewest_kept);
    set(row, "most_kept", domain->most_kept);
    set(row, "token_norm", domain->token_norm);
    set(row, "attention_deviation", domain->attention_deviation);
    set(row, "mlp_deviation", domain->mlp_deviation);
    return row;
}

static json_t *json_block_bounds(const sf_block_bounds *block) {
    json_t *row = json_object();
    json_object_set_new(row, "domain", json_domain(&block->domain));
    set(row, "gamma", block->gamma);
    set(row, "upsilon", block->upsilon);
    set(row, "wo", block->wo);
    set(row, "w1", block->w1);
    set(row, "w2", block->w2);
    set(row, "sink_ratio", block->sink_ratio);
    set_kinds(row, "softmax", block->softmax);
    set_kinds(row, "attention_input", block->attention_input);
    set_kinds(row, "attention_weights", block->attention_weights);
    set(row, "attention_norm", block->attention_norm);
    set(row, "mlp_norm", block->mlp_norm);
    set(row, "mlp_input", block->mlp_input);
    set(row, "mlp_weights", block->mlp_weights);
    set_kinds(row, "block_input", block->block_input);
    set_kinds(row, "block_weights", block->block_weights);
    set(row, "length_law", block->length_law);
    return row;
}

static json_t *json_bounds(const sf_bounds *bounds) {
    json_t *row =
        json_pack("{s:I, s:I}", "samples", (json_int_t)bounds->samples, "positions", (json_int_t)bounds->positions);
    json_t *blocks = json_array();
    for (size_t l = 0; l < bounds->count; l++) json_array_append_new(blocks, json_block_bounds(&bounds->blocks[l]));
    json_object_set_new(row, "blocks", blocks);
    set_kinds(row, "log10_loss_embedding", bounds->log10_loss_embedding);
    set_kinds(row, "log10_loss_weights", bounds->log10_loss_weights);
    return row;
}

static void print_kinds(const char *left, size_t block, const double values[SF_BOUND_KINDS]) {
    printf("  %-24s %4zu", left, block);
    for (int kind = 0; kind < SF_BOUND_KINDS; kind++) printf(" %11.4g", values[kind]);
    putchar('\n');
}

static void print_powers(const char *left, const double values[SF_BOUND_KINDS]) {
    printf("  %-29s", left);
    for (int kind = 0; kind < SF_BOUND_KINDS; kind++) {
        char power[32] = "infinite";
        if (isfinite(values[kind])) snprintf(power, sizeof power, "10^%.2f", values[kind]);
        printf(" %11s", isnan(values[kind]) ? "nan" : power);
    }
    putchar('\n');
}

static void print_domains(const sf_bounds *bounds) {
    printf("  %-24s %4s %11s %11s %12s %11s %13s %11s   deviations are those of the rows that a norm reads\n", "domain",
           "", "delta <=", "Delta >=", "in-degree <=", "Xi <=", "deviation >=", "before MLP");
    for (size_t l = 0; l < bounds->count; l++) {
        const sf_bound_domain *d = &bounds->blocks[l].domain;
        char separation[24] = "none";
        if (has_separation(d)) snprintf(separation, sizeof separation, "%.4g", d->separation);
        printf("  %-24s %4zu %11.4g %11s %12.4g %11.4g %13.4g %11.4g\n", "block", l, d->dispersion, separation,
               d->in_degree, d->token_norm, d->attention_deviation, d->mlp_deviation);
    }
}

enum { PARTS = 5 };

static const double *part_of(const sf_block_bounds *block, size_t part) {
    const double *const values[PARTS] = {block->softmax, block->attention_input, block->attention_weights,
                                         block->block_input, block->block_weights};
    return values[part];
}

static void print_bounds(const sf_bounds *bounds) {
    static const char *const names[PARTS] = {"softmax", "attention, input", "attention, weights", "block, input",
                                             "block, weights"};
    printf("  Lipschitz bounds from the weights, for all inputs in the domain measured on %zu sequence%s\n",
           bounds->samples, plural(bounds->samples));
    print_domains(bounds);
    printf("  %-24s %4s %11s %11s %11s\n", "bound", "", "published", "proven", "local");
    for (size_t part = 0; part < PARTS; part++)
        for (size_t l = 0; l < bounds->count; l++) print_kinds(names[part], l, part_of(&bounds->blocks[l], part));
    print_powers("loss, embedded tokens", bounds->log10_loss_embedding);
    print_powers("loss, all parameters", bounds->log10_loss_weights);
}

static json_t *json_lipschitz(const sf_local_lipschitz *found) {
    json_t *row = json_pack("{s:I, s:I, s:o}", "samples", (json_int_t)found->samples, "positions",
                            (json_int_t)found->positions, "tolerance", json_number(found->tolerance));
    json_t *blocks = json_array();
    for (size_t l = 0; l < found->count; l++) {
        const sf_block_lipschitz *block = &found->blocks[l];
        json_t *entry = json_object();
        set(entry, "least", block->least);
        set(entry, "lower_quartile", block->lower_quartile);
        set(entry, "median", block->median);
        set(entry, "upper_quartile", block->upper_quartile);
        set(entry, "largest", block->largest);
        set(entry, "largest_over_root", block->largest_over_root);
        set(entry, "largest_over_law", block->largest_over_law);
        set(entry, "largest_over_bound", block->largest_over_bound);
        set(entry, "mean_iterations", block->mean_iterations);
        json_object_set_new(entry, "most_iterations", json_integer((json_int_t)block->most_iterations));
        json_object_set_new(entry, "unconverged", json_integer((json_int_t)block->unconverged));
        json_array_append_new(blocks, entry);
    }
    json_object_set_new(row, "blocks", blocks);
    return row;
}

static void print_lipschitz(const sf_local_lipschitz *found) {
    size_t unconverged = 0;
    printf("  local Lipschitz constants of the attention layers at %zu sequence%s of %zu position%s, kept keys "
           "held fixed\n",
           found->samples, plural(found->samples), found->positions, plural(found->positions));
    printf("  %-10s %9s %9s %9s %9s %9s %12s %12s %12s\n", "", "least", "25 %", "median", "75 %", "largest",
           "over sqrt(T)", "over its law", "over bound");
    for (size_t l = 0; l < found->count; l++) {
        const sf_block_lipschitz *b = &found->blocks[l];
        printf("  block %4zu %9.4g %9.4g %9.4g %9.4g %9.4g %12.4g %12.4g %12.4g\n", l, b->least, b->lower_quartile,
               b->median, b->upper_quartile, b->largest, b->largest_over_root, b->largest_over_law,
               b->largest_over_bound);
        unconverged += b->unconverged;
    }
    if (found->count > 0 && isnan(found->blocks[0].largest_over_bound) && isfinite(found->blocks[0].largest))
        puts("  nan: law and bound are not defined for this mechanism");
    if (unconverged > 0)
        printf("  %zu iteration%s ended before they grew by less than %g: the constants are lower bounds\n",
               unconverged, plural(unconverged), found->tolerance);
}

static json_t *json_shares(const sf_kept_shares *shares) {
    json_t *row = json_pack("{s:I}", "queries", (json_int_t)shares->queries);
    set(row, "keys_unchanged", shares->keys_unchanged);
    set(row, "masks_unchanged", shares->masks_unchanged);
    return row;
}

static json_t *json_scale(const sf_block_stability *at) {
    json_t *row = json_shares(&at->all), *bins = json_array();
    for (size_t bin = 0; bin < SF_SEPARATION_BINS; bin++) {
        json_t *entry = json_shares(&at->by_separation[bin]);
        set(entry, "separation_from", sf_separation_bin_start(bin));
        json_array_append_new(bins, entry);
    }
    set(row, "noise", at->noise);
    json_object_set_new(row, "by_separation", bins);
    return row;
}

static json_t *json_stability(const sf_mask_stability *found) {
    json_t *row = json_pack("{s:I, s:I, s:b}", "samples", (json_int_t)found->samples, "k", (json_int_t)found->k,
                            "fixed", (int)found->fixed);
    json_t *blocks = json_array();
    for (size_t l = 0; l < found->count; l++) {
        json_t *scales = json_array();
        for (size_t i = 0; i < found->scales; i++)
            json_array_append_new(scales, json_scale(&found->blocks[l * found->scales + i]));
        json_array_append_new(blocks, scales);
    }
    json_object_set_new(row, "blocks", blocks);
    return row;
}

static double percent_of(const sf_kept_shares *shares, bool whole) {
    return 100 * (whole ? shares->masks_unchanged : shares->keys_unchanged);
}

static void print_shares(const sf_mask_stability *found, bool whole) {
    for (size_t l = 0; l < found->count; l++) {
        printf("  %-12s %4zu", whole ? "all the same" : "kept keys", l);
        for (size_t i = 0; i < found->scales; i++)
            printf(" %9.2f", percent_of(&found->blocks[l * found->scales + i].all, whole));
        putchar('\n');
    }
}

/* Over all blocks, by the separation that the query had without noise. */
static void print_bins(const sf_mask_stability *found) {
    for (size_t bin = 0; bin < SF_SEPARATION_BINS; bin++) {
        size_t queries = 0;
        for (size_t l = 0; l < found->count; l++)
            queries += found->blocks[l * found->scales].by_separation[bin].queries;
        if (queries == 0) continue;
        printf("  Delta_h from %4g", sf_separation_bin_start(bin));
        for (size_t i = 0; i < found->scales; i++) {
            double unchanged = 0;
            for (size_t l = 0; l < found->count; l++) {
                const sf_kept_shares *shares = &found->blocks[l * found->scales + i].by_separation[bin];
                if (shares->queries > 0) unchanged += shares->keys_unchanged * (double)shares->queries;
            }
            printf(" %9.2f", 100 * unchanged / (double)queries);
        }
        printf("   %zu quer%s\n", queries, queries == 1 ? "y" : "ies");
    }
}

static void print_stability(const sf_mask_stability *found) {
    if (found->fixed) {
        puts("  mask stability: the kept keys do not depend on the tokens, so noise does not change them");
        return;
    }
    printf("  mask stability, %%: kept keys that stay kept under noise on the embedded tokens, and queries that keep "
           "all of their keys (k = %zu); %zu sequence%s\n",
           found->k, found->samples, plural(found->samples));
    printf("  %-17s", "noise");
    for (size_t i = 0; i < found->scales; i++) printf(" %9g", found->blocks[i].noise);
    putchar('\n');
    print_shares(found, false);
    print_shares(found, true);
    print_bins(found);
}

static size_t samples_for(const sf_options *options, size_t preset) {
    if (!sf_options_given(options, "samples")) return preset;
    return options->samples > 0 ? (size_t)options->samples : SIZE_MAX;
}

static sf_status open_theory(sf_theory **out, sf_store *store, const sf_stored_run *stored, const sf_options *options,
                             size_t preset) {
    return sf_theory_open(out, store, stored,
                          &(sf_theory_options){.at = (sf_weights_at)options->at,
                                               .split = (sf_split)options->split,
                                               .samples = samples_for(options, preset),
                                               .execution = options->execution,
                                               .perturbed = options->perturbed,
                                               .direction_seed = (uint32_t)options->direction_seed,
                                               .share = 1});
}

static sf_status tell_not_defined(json_t *run, const char *what) {
    if (run != NULL)
        json_object_set_new(run, what, json_pack("{s:s}", "not_defined", sf_message()));
    else
        printf("  %s\n", sf_message());
    return SF_OK;
}

static sf_status tell_bounds(json_t *run, sf_theory *theory) {
    const sf_bounds *bounds;
    const sf_status status = sf_theory_bounds(&bounds, theory);
    if (status == SF_UNSUPPORTED) return tell_not_defined(run, "bounds");
    if (status != SF_OK) return status;
    if (run != NULL)
        json_object_set_new(run, "bounds", json_bounds(bounds));
    else
        print_bounds(bounds);
    return SF_OK;
}

static sf_status tell_lipschitz(json_t *run, sf_theory *theory) {
    const sf_local_lipschitz *found;
    const sf_status status = sf_theory_local_lipschitz(&found, theory);
    if (status == SF_UNSUPPORTED) return tell_not_defined(run, "lipschitz");
    if (status != SF_OK) return status;
    if (run != NULL)
        json_object_set_new(run, "lipschitz", json_lipschitz(found));
    else
        print_lipschitz(found);
    return SF_OK;
}

static sf_status tell_stability(json_t *run, sf_theory *theory) {
    const sf_mask_stability *found;
    const sf_status status = sf_theory_mask_stability(&found, theory, noises, NOISES);
    if (status == SF_UNSUPPORTED) return tell_not_defined(run, "mask_stability");
    if (status != SF_OK) return status;
    if (run != NULL)
        json_object_set_new(run, "mask_stability", json_stability(found));
    else
        print_stability(found);
    return SF_OK;
}

sf_status tell_theory(json_t *run, sf_store *store, const sf_stored_run *stored, const sf_options *options) {
    const struct {
        bool asked;
        size_t samples;
        sf_status (*tell)(json_t *run, sf_theory *theory);
    } parts[] = {{options->bounds != 0, BOUND_SAMPLES, tell_bounds},
                 {options->lipschitz != 0, LIPSCHITZ_SAMPLES, tell_lipschitz},
                 {options->mask_stability != 0, STABILITY_SAMPLES, tell_stability}};
    sf_status status = SF_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == SF_OK; i++) {
        sf_theory *theory;
        if (!parts[i].asked) continue;
        status = open_theory(&theory, store, stored, options, parts[i].samples);
        if (status == SF_OK) status = parts[i].tell(run, theory);
        sf_theory_close(theory);
    }
    return status;
}
