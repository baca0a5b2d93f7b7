/* Two surfaces beside each other: one plain sentence that claims no more than they carry. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/landscape.h"
#include "lab/statistics.h"

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

/* Full attention on the same task, of the same seed if it is there; else the task's first. */
static size_t baseline_of(const sf_landscape *landscape, size_t i) {
    const sf_surface *own = &landscape->surfaces[i];
    size_t first = landscape->count, full = landscape->count;
    if (strcmp(own->run.attention, "full") == 0) {
        for (size_t j = 0; j < i; j++) /* two of full: the later one is compared with the first */
            if (same_name(own, &landscape->surfaces[j])) return j;
        return i;
    }
    for (size_t j = 0; j < landscape->count; j++) {
        const sf_surface *other = &landscape->surfaces[j];
        if (!same_task(own, other)) continue;
        if (first == landscape->count) first = j;
        if (strcmp(other->run.attention, "full") != 0) continue;
        if (other->run.seed == own->run.seed) return j;
        if (full == landscape->count) full = j;
    }
    return full < landscape->count ? full : first;
}

/* The median over radii of ours / theirs at one quantile; NaN where there is none. */
static double ratio_of(size_t *radii, const sf_lipschitz_curves *ours, const sf_lipschitz_curves *theirs, size_t q) {
    double ratios[SF_LIPSCHITZ_RADII];
    *radii = 0;
    for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++) {
        const double ratio = ours->quantiles[r][q] / theirs->quantiles[r][q];
        if (isfinite(ratio)) ratios[(*radii)++] = ratio;
    }
    return sf_quantile(ratios, *radii, 0.5);
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

static void write_sentence(sf_surface *surface, const sf_surface *baseline, const char *name, const char *base) {
    double *ratios = surface->ratios;
    size_t radii = 0, fewest = SF_LIPSCHITZ_RADII;
    for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
        ratios[q] = ratio_of(&radii, &surface->lipschitz, &baseline->lipschitz, q);
        if (radii < fewest) fewest = radii;
    }
    if (fewest == 0)
        snprintf(surface->sentence, sizeof surface->sentence,
                 "%s and %s cannot be compared: no square of the grid holds neighbouring points with finite losses in "
                 "both; a finer grid has more",
                 name, base);
    else
        snprintf(surface->sentence, sizeof surface->sentence,
                 "%s has %s %s: %.2f, %.2f, %.2f and %.2f times as large at 50, 75, 95 and 99 %% (medians over %zu "
                 "radii)",
                 name, word_for(ratios), base, ratios[0], ratios[1], ratios[2], ratios[3], fewest);
}

/* 0 for the first baseline, then the others in their order. */
static void number_styles(sf_landscape *landscape) {
    size_t first = 0;
    while (first < landscape->count && landscape->surfaces[first].baseline != first) first++;
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
