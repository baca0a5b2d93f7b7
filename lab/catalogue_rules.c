#include "lab/catalogue_rules.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double significant = 0.05;
static const double fitted = 99.9;       /* percent: all but a handful of 5000 */
static const double above_guess = 10;    /* points that count as having learned something */
static const double near_guess = 5;      /* points around guessing */
static const double equal_accuracy = 1;  /* points below that are as good */
static const double near_the_edge = 0.1; /* of the conditions */

const char *sf_paper_word_text(sf_paper_word word) {
    static const char *const words[] = {"not enough runs", "agrees", "disagrees"};
    return words[word];
}

static bool can_test(size_t pairs) {
    return sf_smallest_p(pairs) < significant;
}

__attribute__((format(printf, 2, 3))) static void add_numbers(sf_paper_row *row, const char *format, ...) {
    const size_t used = strlen(row->numbers);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->numbers + used, sizeof row->numbers - used, format, arguments);
    va_end(arguments);
}

static void add_epochs(sf_paper_row *row, const char *name, double epochs) {
    if (isfinite(epochs))
        add_numbers(row, "%s in %.4g epochs", name, epochs);
    else
        add_numbers(row, isnan(epochs) ? "%s not known" : "%s never", name);
}

static void add_seeds(sf_paper_row *row, size_t pairs, double p) {
    if (can_test(pairs))
        add_numbers(row, ", p = %.2g, %zu seeds", p, pairs);
    else
        add_numbers(row, ", %zu seed%s: too few for a test", pairs, pairs == 1 ? "" : "s");
}

static void add_median(sf_paper_row *row, const char *name, const sf_summary *of) {
    if (of->runs > 0)
        add_epochs(row, name, of->quartiles[1]);
    else
        add_numbers(row, "%s not run yet", name);
}

static void say_speed(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them) {
    add_numbers(row, "95 %% training accuracy: ");
    add_median(row, "this", us);
    add_median(row, ", full", them);
    if (isfinite(v->speedup))
        add_numbers(row, ", %s%.3g times as fast",
                    v->at_least  ? "at least "
                    : v->at_most ? "at most "
                                 : "",
                    v->speedup);
    add_seeds(row, v->pairs, v->p_speed);
}

void sf_rule_sooner(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                    size_t fewest) {
    say_speed(row, v, us, them);
    row->word = SF_NOT_ENOUGH_RUNS;
    if (v->pairs < fewest || (us->converged == 0 && them->converged == 0)) return;
    if (v->sooner <= v->later)
        row->word = SF_DISAGREES;
    else if (!can_test(v->pairs) || v->p_speed < significant)
        row->word = SF_AGREES;
}

void sf_rule_not_sooner(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                        size_t fewest) {
    say_speed(row, v, us, them);
    row->word = SF_NOT_ENOUGH_RUNS;
    if (v->pairs < fewest || (us->converged == 0 && them->converged == 0)) return;
    if (v->sooner <= v->later)
        row->word = SF_AGREES;
    else if (can_test(v->pairs) ? v->p_speed < significant : v->sooner == v->pairs)
        row->word = SF_DISAGREES;
}

void sf_rule_as_accurate(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                         size_t fewest) {
    row->word = SF_NOT_ENOUGH_RUNS;
    if (v->measured == 0) {
        add_numbers(row, v->pairs == 0 ? "no seeds in common yet" : "diverged before the first evaluation");
        return;
    }
    add_numbers(row, "best held-out accuracy: this %.1f %%, full %.1f %%", us->best_heldout, them->best_heldout);
    add_seeds(row, v->measured, v->p_accuracy);
    if (v->measured < fewest) return;
    if (v->accuracy_difference >= -equal_accuracy)
        row->word = SF_AGREES;
    else if (!can_test(v->measured) || v->p_accuracy < significant)
        row->word = SF_DISAGREES;
}

void sf_rule_fits(sf_paper_row *row, const double *accuracies /* [count] */, size_t count, size_t fewest) {
    size_t fitting = 0;
    double best = 0;
    for (size_t i = 0; i < count; i++) {
        fitting += accuracies[i] >= fitted;
        best = fmax(best, accuracies[i]);
    }
    row->word = count < fewest || count == 0 ? SF_NOT_ENOUGH_RUNS : 2 * fitting > count ? SF_AGREES : SF_DISAGREES;
    add_numbers(row, "%zu of %zu seeds reach %.4g %% training accuracy, the best %.2f %%", fitting, count, fitted,
                best);
}

/* Runs that diverged before their first evaluation say nothing about accuracy. */
static bool is_unmeasured(sf_paper_row *row, double heldout, size_t count) {
    if (count == 0 || !isnan(heldout)) return false;
    row->word = SF_NOT_ENOUGH_RUNS;
    add_numbers(row, "diverged before the first evaluation, %zu seed%s", count, count == 1 ? "" : "s");
    return true;
}

void sf_rule_generalizes(sf_paper_row *row, double heldout, double guess, bool should, size_t count, size_t fewest) {
    if (is_unmeasured(row, heldout, count)) return;
    const bool does = heldout >= guess + above_guess;
    row->word = count < fewest || count == 0 ? SF_NOT_ENOUGH_RUNS : does == should ? SF_AGREES : SF_DISAGREES;
    add_numbers(row, "held-out accuracy %.1f %%, guessing %.3g %%, %zu seed%s; said to %s", count > 0 ? heldout : 0,
                guess, count, count == 1 ? "" : "s", should ? "generalize" : "stay near guessing");
}

void sf_rule_near_guess(sf_paper_row *row, double heldout, double guess, size_t count, size_t fewest) {
    if (is_unmeasured(row, heldout, count)) return;
    const bool near = fabs(heldout - guess) <= near_guess;
    row->word = count < fewest || count == 0 ? SF_NOT_ENOUGH_RUNS : near ? SF_AGREES : SF_DISAGREES;
    add_numbers(row, "held-out accuracy %.1f %%, guessing %.3g %%, %zu seed%s", count > 0 ? heldout : 0, guess, count,
                count == 1 ? "" : "s");
}

static bool all_numbers(const double *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i])) return false;
    return true;
}

void sf_rule_lower(sf_paper_row *row, const double *ours /* [count,width] */, const double *theirs, size_t count,
                   size_t width, double slack, size_t fewest) {
    size_t seeds = 0, lower = 0;
    for (size_t i = 0; i < count; i++) {
        const double *a = ours + i * width, *b = theirs + i * width;
        if (!all_numbers(a, width) || !all_numbers(b, width)) continue;
        size_t below = 0;
        for (size_t j = 0; j < width; j++) below += slack > 0 ? a[j] <= b[j] + slack : a[j] < b[j];
        seeds++;
        lower += below == width;
        if (seeds > 1) continue; /* one seed as an example */
        for (size_t j = 0; j < width; j++) add_numbers(row, "%s%.3g against %.3g", j == 0 ? "" : ", ", a[j], b[j]);
        add_numbers(row, "%s; ", count > 1 ? " for the first seed" : "");
    }
    row->word = seeds < fewest || seeds == 0 ? SF_NOT_ENOUGH_RUNS : 2 * lower > seeds ? SF_AGREES : SF_DISAGREES;
    if (slack > 0)
        add_numbers(row, "at most %g above for ", slack);
    else
        add_numbers(row, "lower%s for ", width > 1 ? " in all" : "");
    add_numbers(row, "%zu of %zu seed%s", lower, seeds, seeds == 1 ? "" : "s");
}

void sf_rule_published(sf_paper_row *row, const double *ours /* [count] */, const double *published, size_t count,
                       double factor) {
    double worst = 1;
    for (size_t i = 0; i < count; i++) {
        const double ratio = ours[i] / published[i];
        add_numbers(row, "%s%.3g (published %.3g)", i == 0 ? "" : ", ", ours[i], published[i]);
        worst = ratio > 0 ? fmax(worst, fmax(ratio, 1 / ratio)) : INFINITY; /* a NaN is as far as can be */
    }
    row->word = !all_numbers(ours, count) ? SF_NOT_ENOUGH_RUNS : worst <= factor ? SF_AGREES : SF_DISAGREES;
    add_numbers(row, "; at most a factor of %.3g apart, allowed %.2g", worst, factor);
}

void sf_rule_same_side(sf_paper_row *row, const double *ours /* [count] */, const double *published, size_t count) {
    size_t other = 0;
    for (size_t i = 0; i < count; i++) {
        add_numbers(row, "%s%#.3g (published %.2f)", i == 0 ? "" : ", ", ours[i], published[i]);
        other += fabs(published[i] - 1) > near_the_edge && (ours[i] < 1) != (published[i] < 1);
    }
    row->word = !all_numbers(ours, count) ? SF_NOT_ENOUGH_RUNS : other == 0 ? SF_AGREES : SF_DISAGREES;
    if (other > 0) add_numbers(row, "; %zu on the other side of 1", other);
}

void sf_rule_middle_best(sf_paper_row *row, const char *const *names, const double *medians /* [count] */, size_t count,
                         size_t seeds, size_t fewest) {
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0) add_numbers(row, ", ");
        add_epochs(row, names[i], medians[i]);
        if (medians[i] < medians[best]) best = i;
    }
    add_numbers(row, "; %zu seed%s", seeds, seeds == 1 ? "" : "s");
    row->word = SF_NOT_ENOUGH_RUNS;
    if (seeds < fewest || seeds == 0 || count < 3 || !isfinite(medians[best])) return;
    const bool tied = medians[best] == medians[0] || medians[best] == medians[count - 1];
    row->word = tied ? SF_DISAGREES : SF_AGREES;
}

void sf_rule_rises(sf_paper_row *row, const double *x, const double *y /* [count] */, size_t count) {
    size_t points = 0, with = 0, against = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(x[i]) || isnan(y[i])) continue;
        add_numbers(row, "%s(%.3g, %.3g)", points == 0 ? "" : " ", x[i], y[i]);
        points++;
        for (size_t j = 0; j < i; j++) {
            if (isnan(x[j]) || isnan(y[j]) || x[i] == x[j] || y[i] == y[j]) continue;
            (x[i] > x[j]) == (y[i] > y[j]) ? with++ : against++;
        }
    }
    row->word = points < 3 || with + against == 0 ? SF_NOT_ENOUGH_RUNS : with > against ? SF_AGREES : SF_DISAGREES;
    add_numbers(row, "%s%zu pairs rise together, %zu do not", points > 0 ? "; " : "", with, against);
}

sf_paper_word sf_rule_overall(char sentence[2 * SF_PAPER_TEXT_SIZE], const sf_paper_row *rows, size_t count) {
    size_t words[3] = {0};
    const char *against = "";
    for (size_t i = 0; i < count; i++) {
        words[rows[i].word]++;
        if (rows[i].word == SF_DISAGREES && *against == '\0') against = rows[i].what;
    }
    snprintf(sentence, (size_t)2 * SF_PAPER_TEXT_SIZE,
             "%zu of %zu comparisons agree, %zu disagree%s%s%s, %zu cannot be told", words[SF_AGREES], count,
             words[SF_DISAGREES], *against != '\0' ? " (first: " : "", against, *against != '\0' ? ")" : "",
             words[SF_NOT_ENOUGH_RUNS]);
    if (words[SF_DISAGREES] > 0) return SF_DISAGREES;
    return count > 0 && words[SF_AGREES] == count ? SF_AGREES : SF_NOT_ENOUGH_RUNS;
}
