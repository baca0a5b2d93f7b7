/* What a comparison found, and the sentence about it. A result that is not significant is stated without a factor that
 * could be taken for a finding; every number says what it is. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "study/verdict.h"

typedef struct words { /* a sentence that is being written */
    char *text;
    size_t used, room;
} words;

__attribute__((format(printf, 2, 3))) static void add(words *w, const char *format, ...) {
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(w->text + w->used, w->room - w->used, format, values);
    va_end(values);
    w->used += length > 0 ? (size_t)length : 0;
    if (w->used >= w->room) w->used = w->room - 1; /* cut */
}

static const char *plural(double count) {
    return count == 1 ? "" : "s";
}

/* Whether more seeds are needed before any outcome could be significant together with the other tests. */
static bool are_too_few(size_t pairs, size_t tests) {
    return sf_smallest_p(pairs) * (double)tests > SF_SIGNIFICANT;
}

static sf_conclusion find_speed(const sf_verdict *v, const sf_summary *us, const sf_summary *them) {
    const bool bounded = v->at_least || v->at_most;
    const double low = v->interval.low, high = v->interval.high;
    if (us->converged == 0 && them->converged == 0) return SF_UNTOLD;
    if (!bounded && low >= 1 / SF_EQUAL_SPEED && high <= SF_EQUAL_SPEED) return SF_EQUAL;
    if (v->corrected_p_speed > SF_SIGNIFICANT)
        return are_too_few(v->pairs, v->speed_tests) ? SF_TOO_FEW_SEEDS : SF_NO_DIFFERENCE;
    /* a ratio of 1 may be a bound: one got there in the last epoch, the other did not */
    if (v->sooner > v->later && v->speedup >= 1 && !(low < 1)) return SF_BETTER;
    if (v->sooner < v->later && v->speedup <= 1 && !(high > 1)) return SF_WORSE;
    return SF_NO_DIFFERENCE; /* test and interval do not agree */
}

static sf_conclusion find_accuracy(const sf_verdict *v, bool both_at_chance) {
    const double low = v->accuracy_interval.low, high = v->accuracy_interval.high;
    if (v->measured == 0) return SF_UNTOLD;
    if (both_at_chance) return SF_BOTH_AT_CHANCE;
    if (low >= -SF_EQUAL_ACCURACY && high <= SF_EQUAL_ACCURACY) return SF_EQUAL;
    if (v->corrected_p_accuracy > SF_SIGNIFICANT)
        return are_too_few(v->measured, v->accuracy_tests) ? SF_TOO_FEW_SEEDS : SF_NO_DIFFERENCE;
    if (v->accuracy_difference > 0 && !(low < 0)) return SF_BETTER;
    if (v->accuracy_difference < 0 && !(high > 0)) return SF_WORSE;
    return SF_NO_DIFFERENCE;
}

/* "p = 0.004", and for how many comparisons it was corrected. */
static void add_p(words *w, double corrected, double alone, size_t tests) {
    add(w, "p = %.2g", corrected);
    if (tests < 2) return;
    add(w, " after correction for %zu comparisons", tests);
    if (corrected > SF_SIGNIFICANT && alone <= SF_SIGNIFICANT) add(w, ", %.2g before", alone);
}

static void add_too_few(words *w, size_t pairs, size_t tests, const char *question) {
    add(w, "%zu seed%s too few to test %s (at least %zu are needed", pairs, pairs == 1 ? " is" : "s are", question,
        sf_fewest_pairs(tests, SF_SIGNIFICANT));
    if (tests > 1) add(w, " for %zu comparisons", tests);
    add(w, ")");
}

/* "6 seeds of 40 epochs", of which none got there: no more than was tried. */
static void add_tried(words *w, const sf_summary *of) {
    const size_t rest = of->diverged == of->runs ? of->runs : of->runs - of->diverged;
    add(w, "%zu seed%s", rest, plural((double)rest));
    if (of->fewest < of->most)
        add(w, " of %.0f to %.0f epochs", of->fewest, of->most);
    else if (!isnan(of->most))
        add(w, " of %.0f epoch%s", of->most, plural(of->most));
    if (of->diverged == of->runs)
        add(w, of->runs == 1 ? ", diverged" : ", all diverged");
    else if (of->diverged > 0)
        add(w, " and %zu that diverged", of->diverged);
}

/* "6 epochs (median of 10 seeds)", or "3 of 10 seeds" where the median is not known. */
static void add_time(words *w, const sf_summary *of) {
    const double epochs = of->quartiles[1];
    if (!isfinite(epochs))
        add(w, "%zu of %zu seeds", of->converged, of->runs);
    else if (of->runs == 1)
        add(w, "%.4g epoch%s (1 seed)", epochs, plural(epochs));
    else
        add(w, "%.4g epoch%s (median of %zu seeds)", epochs, plural(epochs), of->runs);
}

/* Where both get there: the shortest form that says what each number is. */
static void add_times(words *w, const sf_summary *us, const char *base, const sf_summary *them) {
    const double ours = us->quartiles[1], theirs = them->quartiles[1];
    if (isfinite(ours) && isfinite(theirs) && us->runs == them->runs) {
        add(w, "%.4g epoch%s, %s in %.4g (%s%zu seed%s)", ours, plural(ours), base, theirs,
            us->runs > 1 ? "medians of " : "", us->runs, plural((double)us->runs));
        return;
    }
    add_time(w, us);
    add(w, ", %s in ", base);
    add_time(w, them);
}

/* Whether the medians of the epochs point the same way as the paired ratios that the finding is about. */
static bool medians_agree(const sf_verdict *v, const sf_summary *us, const sf_summary *them) {
    if (v->speed != SF_BETTER && v->speed != SF_WORSE) return true;
    const double ours = us->quartiles[1], theirs = them->quartiles[1];
    if (isnan(ours) || isnan(theirs) || us->converged == 0 || them->converged == 0) return true; /* no two numbers */
    return v->speed == SF_BETTER ? ours < theirs : ours > theirs;
}

/* The interval of a ratio; nothing where there are too few seeds for one. */
static void add_ratio_interval(words *w, sf_interval interval, int digits) {
    if (!isnan(interval.low)) add(w, ", 95 %% interval %.*g to %.*g", digits, interval.low, digits, interval.high);
}

/* Not -0.0 where it is shown. */
static double shown(double difference) {
    return fabs(difference) < 0.05 ? 0 : difference;
}

/* "5.3 times faster (median of the paired ratios, ...)"; a bound on the ratio is one on the factor, the other way round
 * where it is the inverse. */
static void add_factor(words *w, const sf_verdict *v) {
    const bool faster = v->speed == SF_BETTER;
    const double factor = faster ? v->speedup : 1 / v->speedup;
    const bool larger = faster ? v->at_least : v->at_most, smaller = faster ? v->at_most : v->at_least;
    add(w, "%s%.*g times %s (median of the per-seed ratios",
        larger && smaller ? "about "
        : larger          ? "at least "
        : smaller         ? "at most "
                          : "",
        factor < 1.05 ? 3 : 2, factor, faster ? "faster" : "slower");
    const sf_interval interval = faster ? v->interval : (sf_interval){1 / v->interval.high, 1 / v->interval.low};
    if (isnan(interval.low) || (larger && smaller))
        ;                       /* no interval is known */
    else if (larger || smaller) /* one end of it is as little known */
        add(w, ", 95 %% interval %s %.2g", larger ? "from" : "up to", larger ? interval.low : interval.high);
    else
        add_ratio_interval(w, interval, 2);
    add(w, ", ");
    add_p(w, v->corrected_p_speed, v->p_speed, v->speed_tests);
    add(w, ")");
}

/* A factor says something where both got there, or where the other one had much longer. */
static bool has_factor(const sf_verdict *v, bool we_never) {
    const double factor = v->speed == SF_BETTER ? v->speedup : 1 / v->speedup;
    return factor >= 1.005 && !(we_never && v->speed == SF_WORSE);
}

static void add_speed_finding(words *w, const sf_verdict *v, bool we_never) {
    switch (v->speed) {
    case SF_BETTER:
    case SF_WORSE:
        add(w, ": ");
        if (has_factor(v, we_never)) {
            add_factor(w, v);
            return;
        }
        add(w, v->speed == SF_BETTER ? "faster (" : "slower (");
        add_p(w, v->corrected_p_speed, v->p_speed, v->speed_tests);
        add(w, ")");
        return;
    case SF_EQUAL:
        add(w, ": equally fast within %.0f %% (median per-seed ratio %.3g", 100 * (SF_EQUAL_SPEED - 1), v->speedup);
        add_ratio_interval(w, v->interval, 3);
        add(w, ")");
        return;
    case SF_TOO_FEW_SEEDS:
        add(w, "; ");
        add_too_few(w, v->pairs, v->speed_tests, "which is faster");
        return;
    default:
        if (v->sooner + v->later == 0) {
            add(w, "; no seed shows which is faster");
            return;
        }
        add(w, "; no difference in speed found (");
        if (!isnan(v->interval.low) && !v->at_least && !v->at_most)
            add(w, "95 %% interval of the median per-seed ratio %.2f to %.2f, ", v->interval.low, v->interval.high);
        else if (!isnan(v->interval.low) && !(v->at_least && v->at_most)) /* one end is only a bound */
            add(w, "95 %% interval of the median per-seed ratio %s %.2f, ", v->at_least ? "from" : "up to",
                v->at_least ? v->interval.low : v->interval.high);
        add_p(w, v->corrected_p_speed, v->p_speed, v->speed_tests);
        add(w, ")");
    }
}

static void add_speed(words *w, const sf_verdict *v, const char *name, const sf_summary *us, const char *base,
                      const sf_summary *them, const char *goal) {
    if (us->converged == 0 && them->converged == 0) {
        char ours[160] = "", theirs[160] = "";
        words o = {.text = ours, .room = sizeof ours}, t = {.text = theirs, .room = sizeof theirs};
        add_tried(&o, us);
        add_tried(&t, them);
        if (strcmp(ours, theirs) == 0)
            add(w, "Neither %s nor %s reaches %s (both: %s)", name, base, goal, ours);
        else
            add(w, "Neither %s nor %s reaches %s (%s; %s)", name, base, goal, ours, theirs);
        return;
    }
    if (!medians_agree(v, us, them)) {
        add(w, "%s reaches %s sooner than %s in %zu of %zu seeds and later in %zu", name, goal, base, v->sooner,
            v->pairs, v->later);
    } else if (us->converged == 0) {
        add(w, "%s does not reach %s (", name, goal);
        add_tried(w, us);
        add(w, "), %s does in ", base);
        add_time(w, them);
    } else {
        add(w, "%s reaches %s in ", name, goal);
        if (them->converged == 0) {
            add_time(w, us);
            add(w, ", %s does not (", base);
            add_tried(w, them);
            add(w, ")");
        } else {
            add_times(w, us, base, them);
        }
    }
    add_speed_finding(w, v, us->converged == 0);
}

static void add_level(words *w, double accuracy, const sf_side *side) {
    add(w, "%.1f %%", accuracy);
    if (sf_is_at_chance(accuracy, side->chance, side->heldout_size)) add(w, " (at chance, %.3g %%)", side->chance);
}

static void add_levels(words *w, const sf_side *ours, double our_level, const char *joint, const sf_side *theirs,
                       double their_level) {
    add_level(w, our_level, ours);
    add(w, " %s ", joint);
    add_level(w, their_level, theirs);
}

static void add_accuracy(words *w, const sf_verdict *v, const sf_side *ours, const sf_summary *us,
                         const sf_side *theirs, const sf_summary *them) {
    const double our_level = us->last_heldout, their_level = them->last_heldout;
    switch (v->accuracy) {
    case SF_UNTOLD: /* a side without a single held-out accuracy has diverged before its first evaluation */
        if (isnan(our_level) && isnan(their_level))
            add(w, "Both diverged before their first evaluation");
        else if (isnan(our_level) || isnan(their_level))
            add(w, "%s diverged before its first evaluation", isnan(our_level) ? ours->name : theirs->name);
        else
            add(w, "No seed was measured with both");
        return;
    case SF_BOTH_AT_CHANCE:
        add(w, "Both are at chance, %.3g %% (held-out accuracy after the last epoch %.1f and %.1f %%)", ours->chance,
            our_level, their_level);
        return;
    case SF_EQUAL:
        add(w, "Held-out accuracy after the last epoch is equal within %.3g point%s: ", SF_EQUAL_ACCURACY,
            plural(SF_EQUAL_ACCURACY));
        add_levels(w, ours, our_level, "and", theirs, their_level);
        add(w, " (95 %% interval of the difference %.1f to %.1f)", shown(v->accuracy_interval.low),
            shown(v->accuracy_interval.high));
        break;
    case SF_TOO_FEW_SEEDS:
        add(w, "Held-out accuracy after the last epoch is ");
        add_levels(w, ours, our_level, "and", theirs, their_level);
        add(w, "; too few seeds to test");
        break;
    case SF_NO_DIFFERENCE:
        add(w, "No difference found in held-out accuracy after the last epoch: ");
        add_levels(w, ours, our_level, "and", theirs, their_level);
        add(w, " (95 %% interval of the difference %.1f to %.1f, ", shown(v->accuracy_interval.low),
            shown(v->accuracy_interval.high));
        add_p(w, v->corrected_p_accuracy, v->p_accuracy, v->accuracy_tests);
        add(w, ")");
        break;
    default: {
        const bool higher = v->accuracy == SF_BETTER;
        add(w, "Held-out accuracy after the last epoch is %s: ", higher ? "higher" : "lower");
        if (higher ? our_level > their_level : our_level < their_level) {
            add_levels(w, ours, our_level, "against", theirs, their_level);
            add(w, " (");
        } else {
            add(w, "(");
        }
        add(w, "median per-seed difference %.1f", shown(v->accuracy_difference));
        if (!isnan(v->accuracy_interval.low))
            add(w, ", 95 %% interval %.1f to %.1f", shown(v->accuracy_interval.low), shown(v->accuracy_interval.high));
        add(w, ", ");
        add_p(w, v->corrected_p_accuracy, v->p_accuracy, v->accuracy_tests);
        add(w, ")");
    }
    }
    if (v->measured < v->pairs) add(w, ", measured in %zu of %zu pairs", v->measured, v->pairs);
}

sf_status sf_conclude(sf_verdict *v, const sf_side *ours, const sf_side *baseline, const sf_criterion *criterion) {
    sf_summary us, them;
    SF_TRY(sf_summarize(&us, ours->outcomes, ours->count));
    SF_TRY(sf_summarize(&them, baseline->outcomes, baseline->count));
    const bool both_at_chance = ours->chance == baseline->chance &&
                                sf_is_at_chance(us.last_heldout, ours->chance, ours->heldout_size) &&
                                sf_is_at_chance(them.last_heldout, baseline->chance, baseline->heldout_size);
    v->speed = find_speed(v, &us, &them);
    v->accuracy = find_accuracy(v, both_at_chance);
    char goal[SF_CRITERION_SIZE];
    words w = {.text = v->sentence, .room = sizeof v->sentence};
    add_speed(&w, v, ours->name, &us, baseline->name, &them, sf_criterion_name(goal, criterion));
    add(&w, ". ");
    add_accuracy(&w, v, ours, &us, baseline, &them);
    return SF_OK;
}
