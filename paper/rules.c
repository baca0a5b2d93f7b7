#include "paper/rules.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "base/random.h"

static const double significant = 0.05;
static const double near_all = 99;      /* percent of training accuracy */
static const double above_guess = 10;   /* points that count as having learned something */
static const double near_guess = 5;     /* points around guessing */
static const double equal_accuracy = 1; /* points below that are as good */

const char *sf_paper_word_text(sf_paper_word word) {
    static const char *const words[SF_PAPER_WORDS] = {[SF_NOT_RUN] = "not run",
                                                      [SF_NOT_ENOUGH_RUNS] = "not enough runs",
                                                      [SF_NO_DIFFERENCE_FOUND] = "no difference found",
                                                      [SF_AGREES] = "agrees",
                                                      [SF_DISAGREES] = "disagrees",
                                                      [SF_MIXED] = "mixed",
                                                      [SF_SHOWN] = "shown",
                                                      [SF_NEEDS_TEXT] = "needs a text"};
    return words[word];
}

__attribute__((format(printf, 2, 3))) static void add_numbers(sf_paper_row *row, const char *format, ...) {
    const size_t used = strlen(row->numbers);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->numbers + used, sizeof row->numbers - used, format, arguments);
    va_end(arguments);
}

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

static void test_over_seeds(sf_paper_row *row, size_t seeds, double p, bool favours) {
    row->judged = true;
    row->unit = "seed";
    row->seeds = seeds;
    row->least_p = sf_smallest_p(seeds);
    row->p = seeds > 0 ? p : NAN;
    row->favours = favours;
}

static void add_median_epochs(sf_paper_row *row, const char *name, const sf_summary *of) {
    const double median = of->quartiles[1];
    if (of->runs == 0)
        add_numbers(row, "%s not run", name);
    else if (isfinite(median))
        add_numbers(row, "%s in %.4g epochs", name, median);
    else
        add_numbers(row, isnan(median) ? "%s ended too early to tell" : "%s never reached", name);
}

static const char *bound_of(const sf_verdict *v) {
    return v->at_least ? "at least " : v->at_most ? "at most " : "";
}

void sf_rule_epochs(sf_paper_row *row, const sf_verdict *v, const sf_summary *us, const sf_summary *them,
                    bool sooner_is_stated) {
    sf_rule_sooner(row, v, (sf_rule_side){"this", us}, (sf_rule_side){"full", them}, sooner_is_stated);
}

void sf_rule_sooner(sf_paper_row *row, const sf_verdict *v, sf_rule_side us, sf_rule_side them, bool sooner_is_stated) {
    add_numbers(row, "medians: ");
    add_median_epochs(row, us.name, us.summary);
    add_numbers(row, ", ");
    add_median_epochs(row, them.name, them.summary);
    if (isfinite(v->speedup))
        add_numbers(row, "; paired by seed (median ratio) %s%.3g times as fast", bound_of(v), v->speedup);
    test_over_seeds(row, v->pairs, v->p_speed, sooner_is_stated ? v->sooner > v->later : v->sooner < v->later);
}

/* 1: at most `factor` times as many; -1: more; 0: censoring hides it. */
static int within_factor(const sf_arrival *ours, const sf_arrival *theirs, double factor) {
    if (ours->reached) return !theirs->reached || ours->epochs <= factor * theirs->epochs ? 1 : -1;
    return theirs->reached && ours->epochs >= factor * theirs->epochs ? -1 : 0;
}

void sf_rule_not_later(sf_paper_row *row, const sf_arrival *ours /* [count] */, const sf_arrival *theirs, size_t count,
                       double factor) {
    size_t holding = 0, decided = 0;
    for (size_t i = 0; i < count; i++) {
        const int holds = within_factor(&ours[i], &theirs[i], factor);
        holding += holds > 0;
        decided += holds != 0;
    }
    if (count > 0 && decided == 0) {
        sf_rule_untestable(row, "; for no seed both were trained long enough to compare them");
        return;
    }
    if (count > 0)
        add_numbers(row, "; at most %.3g times the epochs for %zu of %zu seed%s", factor, holding, decided,
                    plural(decided));
    sf_rule_most(row, holding, decided);
}

/* Pairs of values of which the larger one takes more epochs, less those of which it takes fewer. */
static int direction_of(const sf_arrival *epochs /* [steps] */, size_t steps) {
    int sum = 0;
    for (size_t i = 0; i < steps; i++)
        for (size_t j = 0; j < i; j++) {
            const sf_order order = sf_arrival_compare(&epochs[i], &epochs[j]);
            sum += order == SF_LATER ? 1 : order == SF_SOONER ? -1 : 0;
        }
    return sum;
}

void sf_rule_direction(sf_paper_row *row, const sf_arrival *epochs /* [seeds,steps] */, size_t seeds, size_t steps,
                       bool more_is_stated) {
    size_t more = 0, fewer = 0;
    for (size_t s = 0; s < seeds; s++) {
        const int direction = direction_of(epochs + s * steps, steps);
        more += direction > 0;
        fewer += direction < 0;
    }
    if (seeds > 0)
        add_numbers(row, "at larger values more epochs for %zu and fewer for %zu of %zu seed%s", more, fewer, seeds,
                    plural(seeds));
    if (seeds > 0 && more + fewer == 0)
        sf_rule_untestable(row, "; nothing to test");
    else
        sf_rule_most(row, more_is_stated ? more : fewer, more + fewer);
}

void sf_rule_loss(sf_paper_row *row, double *our_epochs /* [count] */, const double *their_epochs, size_t count,
                  bool sooner_is_stated) {
    double *logs = our_epochs;
    for (size_t i = 0; i < count; i++) logs[i] = sf_log(their_epochs[i] / our_epochs[i]);
    const double times = sf_exp(sf_quantile(logs, count, 0.5)), p = sf_wilcoxon_test(logs, count);
    if (count > 0)
        add_numbers(row, "to the lowest loss that both reach, paired by seed (median ratio): %.3g times as fast",
                    times);
    test_over_seeds(row, count, p, sooner_is_stated ? times > 1 : times < 1);
}

/* Above the margin the question is whether it is surely not worse than that, below it whether it is surely worse. */
void sf_rule_as_accurate(sf_paper_row *row, const sf_rule_accuracies *a) {
    if (a->count == 0) {
        test_over_seeds(row, 0, NAN, false);
        return;
    }
    for (size_t i = 0; i < a->count; i++) a->differences[i] = a->ours[i] - a->theirs[i];
    const sf_interval interval = sf_bootstrap_median(a->differences, a->count, 1, a->counters);
    const double median = sf_quantile(a->differences, a->count, 0.5);
    add_numbers(row, "after the last epoch, medians: this %.1f %%, full %.1f %%", sf_quantile(a->ours, a->count, 0.5),
                sf_quantile(a->theirs, a->count, 0.5));
    if (!isnan(a->guess)) add_numbers(row, ", guessing %.3g %%", a->guess);
    add_numbers(row, "; paired by seed %+.1f points", median);
    if (a->count > 1) add_numbers(row, " (95 %% interval %+.1f to %+.1f)", interval.low, interval.high);
    const bool favours = median >= -equal_accuracy;
    for (size_t i = 0; i < a->count && favours; i++) a->differences[i] += equal_accuracy;
    test_over_seeds(row, a->count, sf_wilcoxon_test(a->differences, a->count), favours);
}

void sf_rule_most(sf_paper_row *row, size_t holding, size_t count) {
    test_over_seeds(row, count, sf_sign_test(holding, count - holding), 2 * holding > count);
}

size_t sf_count_fitting(const double *accuracies /* [count] */, size_t count) {
    size_t fitting = 0;
    for (size_t i = 0; i < count; i++) fitting += accuracies[i] >= near_all;
    return fitting;
}

void sf_rule_fits(sf_paper_row *row, const double *accuracies /* [count] */, size_t count) {
    const size_t fitting = sf_count_fitting(accuracies, count);
    double best = 0;
    for (size_t i = 0; i < count; i++) best = fmax(best, accuracies[i]);
    if (count > 0)
        add_numbers(row, "%zu of %zu seeds reach %.4g %% training accuracy, the best %.2f %%", fitting, count, near_all,
                    best);
    sf_rule_most(row, fitting, count);
}

/* Without the runs that diverged before they were evaluated. */
static size_t count_known(const double *values, size_t count) {
    size_t known = 0;
    for (size_t i = 0; i < count; i++) known += isnan(values[i]) ? 0 : 1;
    return known;
}

void sf_rule_generalizes(sf_paper_row *row, const double *heldout /* [count] */, size_t count, double guess,
                         bool is_stated) {
    size_t above = 0;
    const size_t known = count_known(heldout, count);
    for (size_t i = 0; i < count; i++) above += heldout[i] >= guess + above_guess;
    if (known > 0)
        add_numbers(row,
                    "held-out accuracy at least %.3g points above guessing (%.3g %%) for %zu of %zu seed%s; said to %s",
                    above_guess, guess, above, known, plural(known), is_stated ? "generalize" : "stay near guessing");
    sf_rule_most(row, is_stated ? above : known - above, known);
}

void sf_rule_near_guess(sf_paper_row *row, const double *heldout /* [count] */, size_t count, double guess) {
    size_t near = 0;
    double farthest = 0;
    const size_t known = count_known(heldout, count);
    for (size_t i = 0; i < count; i++) {
        near += fabs(heldout[i] - guess) <= near_guess;
        if (fabs(heldout[i] - guess) > fabs(farthest)) farthest = heldout[i] - guess;
    }
    if (known > 0)
        add_numbers(row,
                    "held-out accuracy within %.3g points of guessing (%.3g %%) for %zu of %zu seed%s, at most %+.1f "
                    "points away",
                    near_guess, guess, near, known, plural(known), farthest);
    sf_rule_most(row, near, known);
}

static bool all_numbers(const double *values, size_t count) {
    return count_known(values, count) == count;
}

void sf_rule_lower(sf_paper_row *row, const double *ours /* [count,width] */, const double *theirs, size_t count,
                   size_t width, double slack, size_t planned) {
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
        add_numbers(row, "%s; ", planned > 1 ? " for the first seed" : "");
    }
    if (seeds > 0 && slack > 0)
        add_numbers(row, "at most %g above for %zu of %zu seed%s", slack, lower, seeds, plural(seeds));
    else if (seeds > 0)
        add_numbers(row, "lower%s for %zu of %zu seed%s", width > 1 ? " in all" : "", lower, seeds, plural(seeds));
    row->word = seeds > 0 ? SF_SHOWN : SF_NOT_RUN;
    if (planned > 1) sf_rule_most(row, lower, seeds);
}

/* Pairs of points that rise together, less those that do not; `order` permutes the y. */
static int concordance(const double *x, const double *y, const size_t *order, size_t count) {
    int sum = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) {
            const double dx = x[i] - x[j], dy = y[order[i]] - y[order[j]];
            sum += dx * dy > 0 ? 1 : dx * dy < 0 ? -1 : 0;
        }
    return sum;
}

/* The next order of the lexicographic ones; false after the last. */
static bool next_order(size_t *order, size_t count) {
    size_t from = count - 1; /* what follows it falls: it has no next order */
    while (from > 0 && order[from - 1] > order[from]) from--;
    if (from == 0) return false;
    const size_t pivot = order[from - 1];
    size_t above = from; /* the smallest of them that is above the pivot */
    while (above + 1 < count && order[above + 1] > pivot) above++;
    order[from - 1] = order[above];
    order[above] = pivot;
    for (size_t low = from, high = count - 1; low < high; low++, high--) {
        const size_t moved = order[low];
        order[low] = order[high];
        order[high] = moved;
    }
    return true;
}

void sf_rule_untestable(sf_paper_row *row, const char *why) {
    test_over_seeds(row, 0, NAN, false);
    row->p = row->least_p = 1;
    add_numbers(row, "%s", why);
}

/* How many of the orders are at least as far from no trend as what was observed, and of how many. */
typedef struct orders_seen {
    size_t extreme, all;
} orders_seen;

static orders_seen try_all_orders(const double *x, const double *y, size_t *order, size_t count, int observed) {
    orders_seen seen = {0};
    do {
        seen.extreme += abs(concordance(x, y, order, count)) >= abs(observed);
        seen.all++;
    } while (next_order(order, count));
    return seen;
}

/* The observed order is one of them. */
static orders_seen try_random_orders(const double *x, const double *y, size_t *order, size_t count, int observed) {
    orders_seen seen = {1, 1};
    sf_draws draws = sf_draws_at((sf_index){.seed = 1, .stream = sf_stream(SF_BOOTSTRAP, 0, 0)});
    for (; seen.all <= SF_RANDOM_ORDERS; seen.all++) {
        for (size_t i = count; i-- > 1;) {
            const size_t j = sf_draw_below(&draws, (uint32_t)(i + 1)), moved = order[i];
            order[i] = order[j];
            order[j] = moved;
        }
        seen.extreme += abs(concordance(x, y, order, count)) >= abs(observed);
    }
    return seen;
}

static void judge_trend(sf_paper_row *row, const double *x, const double *y, size_t *order, size_t points) {
    row->judged = true;
    row->unit = "point";
    row->seeds = points;
    row->p = NAN;
    for (size_t i = 0; i < points; i++) order[i] = i;
    if (points < 2) return;
    const int observed = concordance(x, y, order, points);
    const bool few = points <= SF_FEW_POINTS;
    const orders_seen seen = (few ? try_all_orders : try_random_orders)(x, y, order, points, observed);
    row->least_p = (few ? 2 : 1) / (double)seen.all;
    row->p = (double)seen.extreme / (double)seen.all;
    row->favours = observed > 0;
    add_numbers(row, "%sKendall's tau %+.2g over %zu points", few ? "; " : "",
                2.0 * observed / (double)(points * (points - 1)), points);
}

sf_status sf_rule_rises(sf_paper_row *row, const double *x, const double *y /* [count] */, size_t count) {
    double *xs;
    size_t points = 0, *order;
    SF_TRY(SF_NEW(&xs, 2 * count));
    const sf_status status = SF_NEW(&order, count);
    double *ys = xs + count;
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        if (isnan(x[i]) || isnan(y[i])) continue;
        xs[points] = x[i];
        ys[points++] = y[i];
    }
    for (size_t i = 0; i < points && points <= SF_FEW_POINTS; i++) /* more would not fit */
        add_numbers(row, isfinite(ys[i]) ? "%s(%.3g, %.3g)" : "%s(%.3g, never)", i == 0 ? "" : " ", xs[i], ys[i]);
    if (status == SF_OK) judge_trend(row, xs, ys, order, points);
    sf_release(order);
    sf_release(xs);
    return status;
}

void sf_rule_published(sf_paper_row *row, const double *ours /* [count] */, const double *published, size_t count,
                       size_t judged, double factor) {
    double worst = 1;
    for (size_t i = 0; i < count; i++) {
        const double ratio = ours[i] / published[i];
        add_numbers(row, "%s%#.3g (published %.3g)", i == 0 ? "" : ", ", ours[i], published[i]);
        if (i < judged) worst = ratio > 0 ? fmax(worst, fmax(ratio, 1 / ratio)) : INFINITY; /* NaN: as far as can be */
    }
    const bool near = worst <= factor;
    row->word = near && all_numbers(ours, judged) ? SF_AGREES : SF_NOT_ENOUGH_RUNS;
    if (isfinite(worst))
        add_numbers(row, "; at most a factor of %.3g apart, %s %.2g", worst,
                    near ? "allowed" : "one run on either side cannot decide beyond", factor);
    else
        add_numbers(row, "; one of them is 0 or not known");
}

void sf_rule_some_never(sf_paper_row *row, const char *names, size_t count, size_t of) {
    row->word = of == 0 ? SF_NOT_RUN : count > 0 ? SF_AGREES : SF_NO_DIFFERENCE_FOUND;
    if (of > 0)
        add_numbers(row, "%zu of %zu never reach %.4g %% with any seed%s%.300s", count, of, near_all,
                    count > 0 ? ": " : "", names);
}

/* The judged rows of one family, corrected together. What is not tested yet counts as 1. */
static sf_status correct_family(sf_paper_row *rows, size_t count, size_t family) {
    double *p;
    size_t together = 0, next = 0;
    SF_TRY(SF_NEW(&p, count));
    for (size_t i = 0; i < count; i++)
        if (rows[i].judged && rows[i].family == family) p[together++] = isnan(rows[i].p) ? 1 : rows[i].p;
    const sf_status status = sf_holm(p, together);
    for (size_t i = 0; i < count; i++)
        if (rows[i].judged && rows[i].family == family) {
            rows[i].together = together;
            rows[i].corrected = isnan(rows[i].p) ? NAN : p[next];
            next++;
        }
    sf_release(p);
    return status;
}

static void say_word(sf_paper_row *row) {
    if (isnan(row->p)) {
        row->word = row->seeds == 0 ? SF_NOT_RUN : SF_NOT_ENOUGH_RUNS;
        return;
    }
    char over[48] = "";
    if (row->together > 1) snprintf(over, sizeof over, " of %zu comparisons", row->together);
    if ((double)row->together * row->least_p >= significant) {
        if (row->seeds > 0)
            add_numbers(row, "; %zu %s%s: too few for a test%s", row->seeds, row->unit, plural(row->seeds), over);
        row->word = SF_NOT_ENOUGH_RUNS;
        return;
    }
    add_numbers(row, "; p = %.2g", row->corrected);
    if (row->together > 1) add_numbers(row, " after Holm's correction over %zu comparisons", row->together);
    add_numbers(row, ", %zu %s%s", row->seeds, row->unit, plural(row->seeds));
    row->word = row->corrected >= significant ? SF_NO_DIFFERENCE_FOUND : row->favours ? SF_AGREES : SF_DISAGREES;
}

sf_status sf_rules_correct(sf_paper_row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        rows[i].together = 0;
        rows[i].corrected = NAN;
    }
    for (size_t i = 0; i < count; i++)
        if (rows[i].judged && rows[i].together == 0) SF_TRY(correct_family(rows, count, rows[i].family));
    for (size_t i = 0; i < count; i++)
        if (rows[i].judged) say_word(&rows[i]);
    return SF_OK;
}

sf_paper_word sf_rule_overall(char sentence[2 * SF_PAPER_TEXT_SIZE], const sf_paper_row *rows, size_t count) {
    size_t words[SF_PAPER_WORDS] = {0};
    const char *against = "";
    for (size_t i = 0; i < count; i++) {
        words[rows[i].word]++;
        if (rows[i].word == SF_DISAGREES && *against == '\0') against = rows[i].what;
    }
    const size_t judged = count - words[SF_SHOWN], open = words[SF_NOT_RUN] + words[SF_NOT_ENOUGH_RUNS];
    if (judged == 0) {
        snprintf(sentence, (size_t)2 * SF_PAPER_TEXT_SIZE, "%s", "the numbers are shown; there is nothing to judge");
        return SF_SHOWN;
    }
    snprintf(sentence, (size_t)2 * SF_PAPER_TEXT_SIZE,
             "of %zu comparison%s %zu agree, %zu disagree%s%s%s, %zu show no difference, %zu cannot be decided", judged,
             plural(judged), words[SF_AGREES], words[SF_DISAGREES], *against != '\0' ? " (first: " : "", against,
             *against != '\0' ? ")" : "", words[SF_NO_DIFFERENCE_FOUND], open);
    if (words[SF_DISAGREES] > 0) return words[SF_AGREES] > 0 ? SF_MIXED : SF_DISAGREES;
    if (open > 0) return SF_NOT_ENOUGH_RUNS;
    return 2 * words[SF_AGREES] > judged ? SF_AGREES : SF_NO_DIFFERENCE_FOUND;
}

/* The rows that this explanation predicts, as sf_rule_overall() counts them. */
static sf_paper_word tally(size_t words[SF_PAPER_WORDS], const char *of, const sf_paper_row *rows, size_t count) {
    memset(words, 0, SF_PAPER_WORDS * sizeof *words);
    size_t predicted = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].of == NULL || strcmp(rows[i].of, of) != 0) continue;
        words[rows[i].word]++;
        predicted++;
    }
    if (words[SF_DISAGREES] > 0) return words[SF_AGREES] > 0 ? SF_MIXED : SF_DISAGREES;
    if (words[SF_NOT_RUN] + words[SF_NOT_ENOUGH_RUNS] > 0) return SF_NOT_ENOUGH_RUNS;
    return 2 * words[SF_AGREES] > predicted ? SF_AGREES : SF_NO_DIFFERENCE_FOUND;
}

static const char *verb_of(sf_paper_word word) {
    return word == SF_AGREES      ? "fit"
           : word == SF_DISAGREES ? "contradict"
           : word == SF_MIXED     ? "partly fit and partly contradict"
                                  : "do not decide about";
}

sf_paper_word sf_rule_rivals(char sentence[2 * SF_PAPER_TEXT_SIZE], const sf_paper_row *rows, size_t count) {
    const size_t size = (size_t)2 * SF_PAPER_TEXT_SIZE;
    sf_paper_word first = SF_SHOWN;
    size_t used = 0, explanations = 0;
    *sentence = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        bool is_new = rows[i].of != NULL;
        for (size_t j = 0; j < i && is_new; j++) is_new = rows[j].of == NULL || strcmp(rows[j].of, rows[i].of) != 0;
        if (!is_new) continue;
        size_t words[SF_PAPER_WORDS];
        const sf_paper_word word = tally(words, rows[i].of, rows, count);
        if (explanations == 0) first = word;
        used += (size_t)snprintf(
            sentence + used, size - used,
            "%s %s the explanation by %s (of its predictions %zu agree, %zu disagree, %zu show no difference, %zu "
            "cannot be decided)",
            explanations++ == 0 ? "the runs" : ", and", verb_of(word), rows[i].of, words[SF_AGREES],
            words[SF_DISAGREES], words[SF_NO_DIFFERENCE_FOUND], words[SF_NOT_RUN] + words[SF_NOT_ENOUGH_RUNS]);
    }
    return first;
}
