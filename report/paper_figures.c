/* The figures of an entry of the paper as files: learning curves and other data that the store has on its runs, the
 * formulas of figures 21 and 22, scatter figures. */
#include <stdio.h>

#include "io/atomic_file.h"
#include "report/condition_figure.h"
#include "report/figure.h"
#include "report/scatter_figure.h"
#include "semfocus/report.h"

typedef struct drawn { /* what a writer needs */
    sf_measure condition;
    const sf_paper_scatter *scatter;
} drawn;

static void draw_condition(FILE *out, const drawn *what) {
    sf_condition_draw(out, what->condition);
}

static void list_condition(FILE *out, const drawn *what) {
    sf_condition_write_csv(out, what->condition);
}

static void draw_scatter(FILE *out, const drawn *what) {
    sf_scatter_draw(out, what->scatter);
}

static void list_scatter(FILE *out, const drawn *what) {
    sf_scatter_write_csv(out, what->scatter);
}

static sf_status write_file(const char *folder, const char *name, const drawn *what,
                            void (*writer)(FILE *out, const drawn *what)) {
    char path[SF_PATH_SIZE];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return sf_fail(SF_BAD_INPUT, "the path '%.40s...' of --figures is too long; use a shorter one", folder);
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    writer(file.stream, what);
    return sf_atomic_commit(&file);
}

static sf_status write_into(const char *folder, const sf_paper *paper, sf_store *store) {
    const sf_paper_result *result = sf_paper_result_of(paper);
    drawn what = {.condition = sf_paper_condition(paper)};
    if (what.condition != SF_MEASURES) {
        const bool is_w = what.condition == SF_CONDITION_W;
        SF_TRY(write_file(folder, is_w ? "condition-w.svg" : "condition-x.svg", &what, draw_condition));
        SF_TRY(write_file(folder, is_w ? "condition-w.csv" : "condition-x.csv", &what, list_condition));
    }
    for (size_t i = 0; i < result->scatter_count; i++) {
        char name[sizeof result->scatters[i].name + 4];
        what.scatter = &result->scatters[i];
        snprintf(name, sizeof name, "%s.svg", what.scatter->name);
        SF_TRY(write_file(folder, name, &what, draw_scatter));
        snprintf(name, sizeof name, "%s.csv", what.scatter->name);
        SF_TRY(write_file(folder, name, &what, list_scatter));
    }
    return sf_paper_study(paper) != NULL ? sf_report_write_figures(sf_paper_study(paper), store, folder) : SF_OK;
}

/* One folder per entry: entries share tasks, and so file names. */
sf_status sf_paper_write_figures(const sf_paper *paper, const char *id, sf_store *store, const char *folder) {
    char own[SF_PATH_SIZE];
    const int length = snprintf(own, sizeof own, "%s/%s", folder, id);
    if (length < 0 || (size_t)length >= sizeof own)
        return sf_fail(SF_BAD_INPUT, "the path '%.40s...' of --figures is too long; use a shorter one", folder);
    SF_TRY(sf_figures_folder(folder));
    SF_TRY(sf_figures_folder(own));
    return write_into(own, paper, store);
}
