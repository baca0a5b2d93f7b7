#include "report/results_part.h"

#include <math.h>

#include "base/elementary.h"
#include "report/svg.h"
#include "study/verdict.h"

/* The sign before a speed-up that is only a bound. */
static const char *bound_of(const sf_group *group, bool inverse) {
    if (group->at_least && group->at_most) return "≈";
    if (!group->at_least && !group->at_most) return "";
    return group->at_least != inverse ? "≥" : "≤";
}

void sf_print_factor(FILE *out, const sf_group *group) {
    const bool faster = group->speedup >= 1;
    const double factor = faster ? group->speedup : 1 / group->speedup;
    fprintf(out, "%s%.*g×", bound_of(group, !faster), factor < 1.05 ? 3 : 2, factor);
}

bool sf_has_factor(const sf_group *group) {
    return isfinite(group->speedup) && fabs(sf_log(group->speedup)) >= sf_log(1.005);
}

/* Only what is significant gets a large number beside its sentence. */
static void print_verdict(FILE *out, const sf_group *group, const char *goal) {
    const bool found =
        (group->speed == SF_BETTER || group->speed == SF_WORSE) && (group->converged == 0 || sf_has_factor(group));
    fputs(found ? "<li class=\"found\">" : "<li>", out);
    if (found && group->converged == 0) {
        fprintf(out, "<span class=\"factor\">0 of %zu</span><span class=\"direction\">reach %s</span>", group->finished,
                goal);
    } else if (found) {
        fputs("<span class=\"factor\">", out);
        sf_print_factor(out, group);
        fprintf(out, "</span><span class=\"direction\">%s</span>", group->speed == SF_BETTER ? "faster" : "slower");
    }
    fputs("<p>", out);
    sf_markup_text(out, group->sentence);
    fputs(".</p></li>\n", out);
}

static void print_unfinished(FILE *out, const sf_study *study, size_t from, size_t to) {
    size_t unfinished = 0, not_run = 0;
    for (size_t g = from; g < to; g++) {
        const sf_group *group = sf_study_group(study, g);
        unfinished += group->begun - (group->finished < group->begun ? group->finished : group->begun);
        not_run += group->runs - group->begun;
    }
    if (unfinished + not_run == 0) return;
    fputs("<p class=\"warning\">", out);
    if (unfinished > 0) fprintf(out, "%zu run%s not finished", unfinished, unfinished == 1 ? "" : "s");
    if (unfinished > 0 && not_run > 0) fputs(", ", out);
    if (not_run > 0) fprintf(out, "%zu not run", not_run);
    fputs(": the results below are about the other runs.</p>\n", out);
}

/* How many tests there were, and what is called equal or at chance. */
static void print_rules(FILE *out, const sf_study *study, size_t from, size_t to) {
    size_t tests = 0;
    double chance = NAN;
    for (size_t g = from; g < to; g++) {
        const sf_group *group = sf_study_group(study, g);
        if (group->speed_tests > tests) tests = group->speed_tests;
        if (isnan(chance)) chance = group->chance;
    }
    fputs("<p class=\"note\">", out);
    if (tests > 1)
        fprintf(out,
                "The p-values of the %zu comparisons on this task are corrected together (Holm), separately for speed "
                "and accuracy. ",
                tests);
    else
        fputs("There is one comparison on this task, so its p-values need no correction. ", out);
    fprintf(out,
            "<b>Equal</b> means that the 95 %% interval of the difference is within %g point of accuracy, or %g %% "
            "of the epochs.",
            SF_EQUAL_ACCURACY, 100 * (SF_EQUAL_SPEED - 1));
    if (!isnan(chance))
        fprintf(out, " <b>Chance</b> is %.3g %%: the accuracy of always giving the most frequent label.", chance);
    fputs("</p>\n", out);
}

static void print_best_settings(FILE *out, const sf_study *study, size_t from, size_t to, const char *goal) {
    bool headed = false;
    for (size_t g = from; g < to; g++) {
        const sf_group *group = sf_study_group(study, g);
        if (*group->best_sentence == '\0') continue;
        if (!headed) {
            fputs(
                "<h3>Each mechanism at its best setting</h3>\n<p class=\"note\">The setting with the fewest epochs to ",
                out);
            sf_markup_text(out, goal);
            fputs(" (median). It was chosen on the same seeds that it is judged on. This favours every mechanism, and "
                  "more so the more settings were tried.</p>\n<ul class=\"best\">\n",
                  out);
        }
        headed = true;
        fputs("<li><p>", out);
        sf_markup_text(out, group->best_sentence);
        fputs(".</p></li>\n", out);
    }
    if (headed) fputs("</ul>\n", out);
}

void sf_print_verdicts(FILE *out, const sf_study *study, size_t from, size_t to) {
    size_t judged = 0;
    char goal[SF_CRITERION_SIZE], brief[SF_CRITERION_SIZE];
    sf_criterion_name(goal, sf_study_criterion(study));
    sf_criterion_short(brief, sf_study_criterion(study));
    for (size_t g = from; g < to; g++) judged += *sf_study_group(study, g)->sentence != '\0';
    print_unfinished(out, study, from, to);
    if (judged == 0) {
        fputs("<p class=\"none\">There is nothing to compare yet: a comparison needs two mechanisms with finished "
              "runs.</p>\n",
              out);
        return;
    }
    fputs("<ul class=\"verdicts\">\n", out);
    for (size_t g = from; g < to; g++)
        if (*sf_study_group(study, g)->sentence != '\0') print_verdict(out, sf_study_group(study, g), brief);
    fputs("</ul>\n", out);
    print_best_settings(out, study, from, to, goal);
    print_rules(out, study, from, to);
}

static void print_epochs(FILE *out, double epochs) {
    if (isfinite(epochs))
        fprintf(out, "<td>%.4g</td>", epochs);
    else
        fputs(isnan(epochs) ? "<td>–</td>" : "<td class=\"words\">not reached</td>", out);
}

/* What depends on the machine is in an element of its own: it may differ between pages with equal results. */
static void print_seconds(FILE *out, double seconds) {
    if (isfinite(seconds))
        fprintf(out, "<td><span class=\"time\">%.3g</span></td>", seconds);
    else
        fputs("<td><span class=\"time\">–</span></td>", out);
}

static void print_accuracies(FILE *out, const sf_group *g) {
    if (isnan(g->last_heldout))
        fputs("<td>–</td><td>–</td><td>–</td>", out);
    else
        fprintf(out, "<td>%.2f</td><td>%.2f</td><td>%.1f</td>", g->last_heldout, g->best_heldout, g->gap);
}

static void print_speedup(FILE *out, const sf_group *g, bool is_baseline) {
    if (!isfinite(g->speedup)) {
        fprintf(out, "<td>%s</td><td>–</td>", is_baseline ? "baseline" : "–");
        return;
    }
    fprintf(out, "<td>%s%.3g", bound_of(g, false), g->speedup);
    if (isfinite(g->low) && !g->at_least && !g->at_most)
        fprintf(out, " <small>(%.2g–%.2g)</small>", g->low, g->high);
    else if (isfinite(g->low) && !(g->at_least && g->at_most)) /* the other end is only a bound */
        fprintf(out, " <small>(%s %.2g)</small>", g->at_least ? "from" : "up to", g->at_least ? g->low : g->high);
    fprintf(out, "</td><td>%.2g</td>", g->corrected_p_speed);
}

static void print_remarks(FILE *out, const sf_group *g) {
    fputs("<td>", out);
    if (g->at_chance) fputs("at chance", out);
    if (g->diverged > 0) fprintf(out, "%s%zu diverged", g->at_chance ? ", " : "", g->diverged);
    if (g->is_best) fprintf(out, "%sbest setting", g->at_chance || g->diverged > 0 ? ", " : "");
    fputs("</td></tr>\n", out);
}

static void print_row(FILE *out, const sf_study *study, size_t i) {
    const sf_group *g = sf_study_group(study, i);
    fprintf(out, "<tr%s><th scope=\"row\">", g->baseline == i ? " class=\"baseline\"" : "");
    sf_markup_name(out, g->name);
    fprintf(out, "</th><td>%zu/%zu</td><td>%zu</td>", g->finished, g->runs, g->converged);
    if (g->finished == 0) {
        fprintf(out, "<td colspan=\"12\">%s</td></tr>\n", g->begun > 0 ? "not finished" : "not run");
        return;
    }
    for (int q = 0; q < 3; q++) print_epochs(out, g->quartiles[q]);
    print_epochs(out, g->heldout_median);
    print_speedup(out, g, g->baseline == i);
    print_accuracies(out, g);
    print_seconds(out, g->epoch_seconds);
    if (isfinite(g->quartiles[1]))
        print_seconds(out, g->quartiles[1] * g->epoch_seconds);
    else
        print_epochs(out, g->quartiles[1]);
    print_remarks(out, g);
}

static void print_head(FILE *out, const sf_criterion *criterion) {
    char goal[SF_CRITERION_SIZE], brief[SF_CRITERION_SIZE];
    sf_criterion_name(goal, criterion);
    sf_criterion_short(brief, criterion);
    fprintf(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results of all "
        "mechanisms\"><table>\n<thead><tr><th rowspan=\"2\" scope=\"col\">mechanism</th>"
        "<th rowspan=\"2\" scope=\"col\">runs finished</th><th rowspan=\"2\" scope=\"col\">runs that reach %s</th>"
        "<th colspan=\"3\" scope=\"colgroup\">epochs to %s</th>"
        "<th scope=\"colgroup\">to %s held-out</th><th colspan=\"2\" scope=\"colgroup\">speed-up per seed</th>"
        "<th colspan=\"3\" scope=\"colgroup\">held-out accuracy, %%</th>"
        "<th colspan=\"2\" scope=\"colgroup\">seconds</th><th rowspan=\"2\"></th></tr>\n"
        "<tr><th scope=\"col\">25 %%</th><th scope=\"col\">median</th><th scope=\"col\">75 %%</th>"
        "<th scope=\"col\">median</th><th scope=\"col\">median (95 %% interval)</th>"
        "<th scope=\"col\">corrected p</th><th scope=\"col\">last epoch</th>"
        "<th scope=\"col\">best epoch*</th><th scope=\"col\">points below training</th><th scope=\"col\">per epoch</th>"
        "<th scope=\"col\">to %s</th></tr></thead>\n<tbody>\n",
        brief, goal, brief, brief);
}

void sf_print_table(FILE *out, const sf_study *study, size_t from, size_t to) {
    bool lacks_seconds = false;
    print_head(out, sf_study_criterion(study));
    for (size_t g = from; g < to; g++) {
        const sf_group *group = sf_study_group(study, g);
        print_row(out, study, g);
        lacks_seconds |= group->finished > 0 && isnan(group->epoch_seconds) && !isnan(group->last_heldout);
    }
    fputs("</tbody></table></div>\n", out);
    fprintf(out,
            "<p class=\"note\">* Best epoch: chosen on the held-out data, so it is too optimistic.<span "
            "class=\"time\">%s</span></p>\n",
            lacks_seconds
                ? " Seconds are not shown for runs under different conditions (CPU, threads, number of runs at "
                  "a time)."
                : "");
    for (size_t g = from; g < to; g++) {
        if (*sf_study_group(study, g)->note == '\0') continue;
        fputs("<p class=\"note\"><b>", out);
        sf_markup_text(out, sf_study_group(study, g)->name);
        fputs(":</b> ", out);
        sf_markup_text(out, sf_study_group(study, g)->note);
        fputs(".</p>\n", out);
    }
}
