/* The one-look summary of a page: a matrix of mechanisms and tasks. A cell compares a group with its baseline, first in
 * speed and then in held-out accuracy, in words and with a mark: colour is never the only sign. */
#include <math.h>
#include <string.h>

#include "report/page.h"
#include "report/results_part.h"
#include "report/series.h"
#include "report/svg.h"

enum { MOST_ROWS = 60 };

typedef struct look { /* how a conclusion is shown */
    const char *class_name, *mark;
} look;

static look look_of(sf_conclusion conclusion) {
    static const look looks[SF_CONCLUSIONS] = {
        [SF_UNTOLD] = {"open", "–"},        [SF_TOO_FEW_SEEDS] = {"open", "?"}, [SF_NO_DIFFERENCE] = {"open", "○"},
        [SF_EQUAL] = {"same", "="},         [SF_BETTER] = {"better", "▲"},      [SF_WORSE] = {"worse", "▼"},
        [SF_BOTH_AT_CHANCE] = {"open", "–"}};
    return looks[conclusion];
}

static void open_line(FILE *out, sf_conclusion conclusion) {
    const look shown = look_of(conclusion);
    fprintf(out, "<span class=\"%s\"><i aria-hidden=\"true\">%s</i> ", shown.class_name, shown.mark);
}

static void print_p(FILE *out, double p) {
    if (isfinite(p)) fprintf(out, " <small>p&nbsp;=&nbsp;%.2g</small>", p);
}

static void print_speed(FILE *out, const sf_group *g) {
    open_line(out, g->speed);
    switch (g->speed) {
    case SF_BETTER:
    case SF_WORSE:
        if (g->converged == 0) {
            fputs("does not converge", out);
        } else {
            if (sf_has_factor(g)) sf_print_factor(out, g);
            fputs(g->speed == SF_BETTER ? " faster" : " slower", out);
        }
        print_p(out, g->corrected_p_speed);
        break;
    case SF_EQUAL:
        fputs("equally fast", out);
        break;
    case SF_TOO_FEW_SEEDS:
        fputs("too few seeds", out);
        break;
    case SF_NO_DIFFERENCE:
        fputs("no difference in speed found", out);
        print_p(out, g->corrected_p_speed);
        break;
    default:
        fputs(g->converged == 0 ? "neither converges" : "speed not comparable", out);
        break;
    }
    fputs("</span>", out);
}

static void print_accuracy(FILE *out, const sf_group *g) {
    open_line(out, g->accuracy);
    switch (g->accuracy) {
    case SF_BETTER:
    case SF_WORSE:
        fprintf(out, "%.3g points %s accurate", fabs(g->accuracy_difference),
                g->accuracy == SF_BETTER ? "more" : "less");
        print_p(out, g->corrected_p_accuracy);
        break;
    case SF_EQUAL:
        fputs("equally accurate", out);
        break;
    case SF_TOO_FEW_SEEDS:
        fprintf(out, "%.3g&nbsp;%% accurate", g->last_heldout);
        break;
    case SF_NO_DIFFERENCE:
        fputs("no difference in accuracy found", out);
        print_p(out, g->corrected_p_accuracy);
        break;
    case SF_BOTH_AT_CHANCE:
        fputs("both at chance", out);
        break;
    default:
        fputs("accuracy not comparable", out);
        break;
    }
    if (g->at_chance && g->accuracy != SF_BOTH_AT_CHANCE) fputs(", at chance", out);
    fputs("</span>", out);
}

static void print_baseline(FILE *out, const sf_group *g) {
    fputs("<td class=\"baseline\"><span>baseline</span><span>", out);
    if (isfinite(g->quartiles[1]))
        fprintf(out, "%.4g epochs", g->quartiles[1]);
    else
        fputs(isinf(g->quartiles[1]) ? "does not converge" : "ended too early to tell", out);
    if (isfinite(g->last_heldout)) fprintf(out, ", %.3g&nbsp;%%", g->last_heldout);
    fputs("</span></td>", out);
}

static void print_cell(FILE *out, const sf_study *study, size_t from, size_t to, const char *name) {
    size_t i = from;
    while (i < to && strcmp(sf_study_group(study, i)->name, name) != 0) i++;
    if (i == to) {
        fputs("<td><span>not in this task</span></td>", out);
        return;
    }
    const sf_group *g = sf_study_group(study, i);
    if (g->finished == 0) {
        fprintf(out, "<td><span>%s</span></td>", g->begun > 0 ? "not finished" : "not run");
    } else if (g->baseline == i) {
        print_baseline(out, g);
    } else {
        fputs("<td>", out);
        print_speed(out, g);
        print_accuracy(out, g);
        fputs("</td>", out);
    }
}

static bool is_named_before(const sf_study *study, size_t i) {
    for (size_t before = 0; before < i; before++)
        if (strcmp(sf_study_group(study, before)->name, sf_study_group(study, i)->name) == 0) return true;
    return false;
}

static void print_row(FILE *out, const sf_study *study, const char *name) {
    fputs("<tr><th scope=\"row\">", out);
    sf_markup_name(out, name);
    fputs("</th>", out);
    for (size_t from = 0, to; from < sf_study_group_count(study); from = to) {
        to = sf_task_end(study, from);
        print_cell(out, study, from, to, name);
    }
    fputs("</tr>\n", out);
}

static void print_head(FILE *out, const sf_study *study) {
    char goal[SF_CRITERION_SIZE];
    fputs("<section id=\"summary\">\n<h2>Summary</h2>\n<p class=\"note\">How soon does each mechanism reach ", out);
    sf_markup_text(out, sf_criterion_name(goal, sf_study_criterion(study)));
    fputs(", and how accurate is it on held-out data, compared with the baseline of its task? "
          "▲ significantly better, ▼ significantly worse (p after correction); = equal; ○ no difference found; ? too "
          "few seeds for a test.</p>\n"
          "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Mechanisms by task\">"
          "<table class=\"matrix\">\n<thead><tr><th scope=\"col\">mechanism</th>",
          out);
    for (size_t from = 0; from < sf_study_group_count(study); from = sf_task_end(study, from)) {
        fprintf(out, "<th scope=\"col\"><a href=\"#task-%zu\">", from);
        sf_markup_text(out, sf_study_group(study, from)->task);
        fputs("</a></th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
}

void sf_page_summary(FILE *out, const sf_study *study) {
    size_t rows = 0, left_out = 0;
    print_head(out, study);
    for (size_t i = 0; i < sf_study_group_count(study); i++) {
        if (is_named_before(study, i)) continue;
        if (rows++ < MOST_ROWS)
            print_row(out, study, sf_study_group(study, i)->name);
        else
            left_out++;
    }
    fputs("</tbody></table></div>\n", out);
    if (left_out > 0) fprintf(out, "<p class=\"note\">Another %zu are in the tables of the tasks.</p>\n", left_out);
    fputs("</section>\n", out);
}
