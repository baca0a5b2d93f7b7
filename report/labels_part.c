/* What people wrote on the runs of a study: names, tags and notes. */
#include "report/page.h"
#include "report/svg.h"
#include "semfocus/labels.h"
#include "store/store.h"

enum { MOST_ROWS = 200 }; /* names of whole studies are better seen with 'semfocus runs' */

static void print_cell(FILE *out, const char *text) {
    fputs("<td>", out);
    sf_markup_text(out, text);
    fputs("</td>", out);
}

static void print_row(FILE *out, const sf_stored_run *run, const sf_run_labels *labels) {
    char seed[24];
    snprintf(seed, sizeof seed, "%lld", (long long)run->seed);
    fputs("<tr>", out);
    print_cell(out, run->id);
    print_cell(out, run->task);
    print_cell(out, run->attention);
    print_cell(out, seed);
    print_cell(out, labels->name);
    print_cell(out, labels->tags);
    print_cell(out, labels->note);
    fputs("</tr>\n", out);
}

static bool has_labels(const sf_run_labels *labels) {
    return *labels->name != '\0' || *labels->tags != '\0' || *labels->note != '\0';
}

sf_status sf_page_labels(FILE *out, const sf_study *study, sf_store *store) {
    size_t count, shown = 0;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    for (size_t i = 0; store != NULL && i < count; i++) {
        sf_stored_run run;
        sf_run_labels labels;
        bool found;
        SF_TRY(sf_store_look_up(&run, &found, store, runs[i].id));
        if (!found) continue;
        SF_TRY(sf_store_labels(&labels, store, &run));
        if (!has_labels(&labels) || ++shown > MOST_ROWS) continue;
        if (shown == 1)
            fputs("<section id=\"labels\">\n<h2>Names and notes</h2>\n<div class=\"scroll\" tabindex=\"0\" "
                  "role=\"region\" aria-label=\"Names and notes\"><table class=\"texts\">\n<thead><tr>"
                  "<th>run</th><th>task</th><th>attention</th><th>seed</th><th>name</th><th>tags</th><th>note</th>"
                  "</tr></thead>\n<tbody>\n",
                  out);
        print_row(out, &run, &labels);
    }
    if (shown > 0) fputs("</tbody></table></div>\n", out);
    if (shown > MOST_ROWS)
        fprintf(out, "<p class=\"note\">The first %d of %zu; ‘semfocus runs’ shows all.</p>\n", (int)MOST_ROWS, shown);
    if (shown > 0) fputs("</section>\n", out);
    return SF_OK;
}
