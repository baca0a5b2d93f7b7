/* Two surfaces compared: one plain sentence that claims no more than they show. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/comparison.h"
#include "study/landscape.h"

static bool same_task(const sf_surface *a, const sf_surface *b) {
    return strcmp(a->run.task, b->run.task) == 0;
}

static bool same_name(const sf_surface *a, const sf_surface *b) {
    return same_task(a, b) && strcmp(a->run.attention, b->run.attention) == 0;
}

void sf_surface_name(char out[SF_SURFACE_NAME_SIZE], const sf_landscape *landscape, size_t i) {
    const sf_surface *own = &landscape->surfaces[i];
    bool several_tasks = false, shared = false, seed_shared = false;
    for (size_t j = 0; j < landscape->count; j++) {
        const sf_surface *other = &landscape->surfaces[j];
        several_tasks |= !same_task(own, other);
        if (j == i || !same_name(own, other)) continue;
        shared = true;
        seed_shared |= own->run.seed == other->run.seed;
    }
    int used = snprintf(out, SF_SURFACE_NAME_SIZE, "%.*s%s%s", several_tasks ? 96 : 0, own->run.task,
                        several_tasks ? " " : "", own->run.attention);
    if (shared)
        used += snprintf(out + used, SF_SURFACE_NAME_SIZE - (size_t)used, " seed %lld", (long long)own->run.seed);
    if (seed_shared) snprintf(out + used, SF_SURFACE_NAME_SIZE - (size_t)used, " %.8s", own->run.id);
}

static bool is_full(const sf_surface *surface) {
    return strcmp(surface->run.attention, "full") == 0;
}

static bool has_diverged(const sf_surface *surface) {
    return strcmp(surface->run.status, "diverged") == 0;
}

static bool are_comparable(const sf_landscape *landscape, size_t i, size_t j) {
    const sf_surface *a = &landscape->surfaces[i], *b = &landscape->surfaces[j];
    return same_task(a, b) && !has_diverged(a) && !has_diverged(b) &&
           sf_same_but_for_the_mechanism(&landscape->configs[i], &landscape->configs[j]);
}

/* Among the runs that differ from this one only in the mechanism, this one included: full attention, else the first. */
static size_t baseline_of(const sf_landscape *landscape, size_t i) {
    size_t first = i;
    if (is_full(&landscape->surfaces[i])) return i;
    for (size_t j = 0; j < landscape->count; j++) {
        if (!are_comparable(landscape, i, j)) continue;
        if (is_full(&landscape->surfaces[j])) return j;
        if (j < first) first = j;
    }
    return first;
}

static const char *word_for(const double ratios[SF_LIPSCHITZ_QUANTILES]) {
    size_t lower = 0, higher = 0;
    for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
        lower += ratios[q] < 1;
        higher += ratios[q] > 1;
    }
    if (lower == SF_LIPSCHITZ_QUANTILES) return "lower estimated Lipschitz constants than";
    if (higher == SF_LIPSCHITZ_QUANTILES) return "higher estimated Lipschitz constants than";
    return lower + higher == 0 ? "the same estimated Lipschitz constants as"
                               : "estimated Lipschitz constants neither all lower nor all higher than";
}

/* In the largest square, whose constants are in the table next to the sentence: one measure for both. */
static void write_sentence(sf_surface *surface, const sf_surface *baseline, const char *name, const char *base) {
    enum { LARGEST = SF_LIPSCHITZ_RADII - 1 };
    const double *ours = surface->lipschitz.quantiles[LARGEST], *theirs = baseline->lipschitz.quantiles[LARGEST];
    double *ratios = surface->ratios;
    bool comparable = true;
    for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
        const double ratio = ours[q] / theirs[q];
        ratios[q] = isfinite(ratio) ? ratio : NAN;
        comparable = comparable && isfinite(ratio);
    }
    if (!comparable)
        snprintf(surface->sentence, sizeof surface->sentence,
                 "%s and %s cannot be compared: the largest square has too few neighbouring points with finite and "
                 "different losses; use a finer grid",
                 name, base);
    else
        snprintf(
            surface->sentence, sizeof surface->sentence,
            "%s has %s %s in the largest square (|x|, |y| <= %.3g): %.3g, %.3g, %.3g and %.3g times as large at 50, "
            "75, 95 and 99 %%",
            name, word_for(ratios), base, surface->lipschitz.radii[LARGEST], ratios[0], ratios[1], ratios[2],
            ratios[3]);
}

static bool is_baseline(const sf_landscape *landscape, size_t i) {
    for (size_t j = 0; j < landscape->count; j++)
        if (j != i && landscape->surfaces[j].baseline == i) return true;
    return false;
}

/* 0 for the first that others are compared with, then the rest in their order. */
static void number_styles(sf_landscape *landscape) {
    size_t first = 0;
    while (first < landscape->count && !is_baseline(landscape, first)) first++;
    if (first == landscape->count) first = 0;
    for (size_t i = 0; i < landscape->count; i++) {
        landscape->surfaces[i].series = i;
        landscape->surfaces[i].style = i == first ? 0 : i < first ? i + 1 : i;
    }
}

void sf_landscape_compare(sf_landscape *landscape) {
    for (size_t i = 0; i < landscape->count; i++) {
        sf_surface *surface = &landscape->surfaces[i];
        char name[SF_SURFACE_NAME_SIZE], base[SF_SURFACE_NAME_SIZE];
        for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) surface->ratios[q] = NAN;
        surface->baseline = baseline_of(landscape, i);
        if (surface->baseline == i) continue;
        sf_surface_name(name, landscape, i);
        sf_surface_name(base, landscape, surface->baseline);
        write_sentence(surface, &landscape->surfaces[surface->baseline], name, base);
    }
    number_styles(landscape);
}
