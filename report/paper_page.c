/* The catalogue as Markdown: what each entry shows and says, its command, our results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/atomic_file.h"
#include "semfocus/paper.h"

static const char marker[] = "<!-- made by semfocus paper status -->";
static const char end_marker[] = "<!-- end of what semfocus paper status makes; what follows is kept -->\n";

typedef struct page {
    FILE *out;
    sf_paper_scale first, last; /* that are shown */
    const size_t *entries;      /* [count] */
    size_t count;               /* 0: every entry */
    sf_store *store;
    const sf_paper_machine *machine;
} page;

static void print_cell(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '|') fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_rows(FILE *out, const sf_paper_result *result) {
    if (result->row_count == 0) return;
    fputs("\n| comparison | verdict | numbers |\n|---|---|---|\n", out);
    for (size_t i = 0; i < result->row_count; i++) {
        fputs("| ", out);
        print_cell(out, result->rows[i].what);
        fprintf(out, " | %s | ", sf_paper_word_text(result->rows[i].word));
        print_cell(out, result->rows[i].numbers);
        fputs(" |\n", out);
    }
}

static void print_points(FILE *out, const sf_paper_scatter *scatter) {
    fprintf(out,
            "\nThe points of %s (`--figures DIR` draws them):\n\n| series | point | %s | %s |\n|---|---|---|---|\n",
            scatter->name, scatter->x_title, scatter->y_title);
    for (size_t i = 0; i < scatter->count; i++) {
        const sf_paper_point *point = &scatter->points[i];
        fprintf(out, "| %s | %s | %.3g | %s%.3g |\n", point->series, point->name, point->x,
                point->censored ? "more than " : "", point->y);
    }
}

static void print_scale(FILE *out, const sf_paper_info *info, sf_paper_scale scale, const sf_paper_result *result) {
    if (result->word == SF_NEEDS_TEXT) {
        fprintf(out, "\n**%s at scale %s**%s%s%s: %s.\n", sf_paper_word_text(result->word), sf_paper_scale_name(scale),
                *info->note != '\0' ? " (" : "", info->note, *info->note != '\0' ? ")" : "", result->sentence);
        return;
    }
    fprintf(out, "\n**%s at scale %s** (%zu of %zu runs%s%s): %s.\n", sf_paper_word_text(result->word),
            sf_paper_scale_name(scale), result->finished, result->runs, *info->note != '\0' ? "; " : "", info->note,
            result->sentence);
    if (result->finished == 0) return;
    print_rows(out, result);
    for (size_t i = 0; i < result->scatter_count; i++) print_points(out, &result->scatters[i]);
}

static sf_status open_and_judge(sf_paper **out, const page *p, size_t entry, sf_paper_scale scale) {
    SF_TRY(sf_paper_open(out, entry, scale, p->machine));
    const sf_status status = sf_paper_judge(*out, p->store);
    if (status == SF_OK) return SF_OK;
    sf_paper_close(*out);
    *out = NULL;
    return status;
}

static void print_about(const page *p, const sf_paper_info *about) {
    fprintf(p->out, "\n## %s: %s\n\nShows: %s.\n", about->id, about->title, about->shows);
    if (*about->statement != '\0')
        fprintf(p->out, "\nThe paper says: %s.\n", about->statement);
    else if (strncmp(about->id, "follow-", 7) != 0 && strncmp(about->id, "open-", 5) != 0)
        fputs("\nThe paper makes no claim here.\n", p->out);
    if (*about->ours != '\0') fprintf(p->out, "\nOur comparison: %s.\n", about->ours);
}

/* Formulas are the same at every scale. */
static sf_status print_formulas(const page *p, size_t entry, const sf_paper_info *about) {
    sf_paper *paper;
    SF_TRY(open_and_judge(&paper, p, entry, p->first));
    const sf_paper_result *result = sf_paper_result_of(paper);
    fprintf(p->out, "\nCommand: `semfocus paper run %s --figures figures`, which also draws it\n\n**%s**: %s.\n",
            about->id, sf_paper_word_text(result->word), result->sentence);
    print_rows(p->out, result);
    sf_paper_close(paper);
    return SF_OK;
}

static sf_status print_entry(const page *p, size_t entry) {
    const sf_paper_info about = sf_paper_describe(entry, p->first);
    print_about(p, &about);
    if (about.is_formula) return print_formulas(p, entry, &about);
    fprintf(p->out, "\nCommand: `semfocus paper run %s --scale %s`%s\n", about.id, sf_paper_scale_name(p->first),
            p->first < p->last ? " (or `--scale paper`)" : "");
    for (int scale = (int)p->first; scale <= (int)p->last; scale++) {
        const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)scale);
        sf_paper *paper;
        SF_TRY(open_and_judge(&paper, p, entry, (sf_paper_scale)scale));
        const sf_paper_result *result = sf_paper_result_of(paper);
        /* an unfinished larger scale adds nothing to the smaller one */
        if (scale == (int)p->first || (result->finished == result->runs && result->runs > 0))
            print_scale(p->out, &info, (sf_paper_scale)scale, result);
        sf_paper_close(paper);
    }
    return SF_OK;
}

/* What the entry chooses beyond mechanism, activation and seed: "; blocks 6, 10, 15, 22". */
static void print_chosen(FILE *out, const sf_paper *paper) {
    static const char *const named[] = {"attention", "activation", "seed"};
    const sf_setting *setting;
    char values[SF_PAPER_VALUES_SIZE];
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        bool is_named = false;
        for (size_t n = 0; n < sizeof named / sizeof *named; n++) is_named |= strcmp(setting->name, named[n]) == 0;
        if (is_named || !sf_paper_chooses(paper, setting)) continue;
        sf_paper_values(values, paper, NULL, setting->name);
        fprintf(out, "; %s %s", setting->name, values);
    }
}

static void print_contents(FILE *out, const sf_paper *paper, const sf_paper_info *info) {
    char values[SF_PAPER_VALUES_SIZE];
    if (sf_paper_study(paper) == NULL) {
        fprintf(out, " %s | %s |", info->reads_text ? "text" : "none", info->title);
        return;
    }
    sf_paper_values(values, paper, NULL, "task");
    fprintf(out, " %s | ", values);
    sf_paper_values(values, paper, NULL, "activation");
    fprintf(out, "%s; ", values);
    const size_t masks = sf_paper_values(values, paper, NULL, "attention");
    if (masks == 15)
        fputs("all 15 masks", out);
    else
        fputs(values, out);
    print_chosen(out, paper);
    const size_t seeds = sf_paper_values(values, paper, NULL, "seed");
    if (seeds > 1)
        fprintf(out, "; %zu seeds |", seeds);
    else
        fprintf(out, "; seed %s |", values);
}

static size_t entry_count(const page *p) {
    return p->count > 0 ? p->count : sf_paper_count();
}

static size_t entry_at(const page *p, size_t i) {
    return p->count > 0 ? p->entries[i] : i;
}

static sf_status print_summary(const page *p) {
    fputs("\n## What does each figure, table and claim show, and what do our runs say?\n\n"
          "Tasks and settings are those of the scale `paper`.\n\n| entry | tasks | settings | shows |",
          p->out);
    for (int scale = (int)p->first; scale <= (int)p->last; scale++)
        fprintf(p->out, " %s |", sf_paper_scale_name((sf_paper_scale)scale));
    fputs("\n|---|---|---|---|", p->out);
    for (int scale = (int)p->first; scale <= (int)p->last; scale++) fputs("---|", p->out);
    fputc('\n', p->out);
    for (size_t i = 0; i < entry_count(p); i++) {
        const size_t entry = entry_at(p, i);
        const sf_paper_info info = sf_paper_describe(entry, SF_PAPER);
        sf_paper *paper;
        SF_TRY(sf_paper_open(&paper, entry, SF_PAPER, p->machine));
        fprintf(p->out, "| %s |", info.id);
        print_contents(p->out, paper, &info);
        fprintf(p->out, " %s |", info.shows);
        sf_paper_close(paper);
        for (int scale = (int)p->first; scale <= (int)p->last; scale++) {
            SF_TRY(open_and_judge(&paper, p, entry, (sf_paper_scale)scale));
            const sf_paper_result *result = sf_paper_result_of(paper);
            fprintf(p->out, " %s", sf_paper_word_text(result->word));
            if (result->finished > 0 && result->finished < result->runs)
                fprintf(p->out, " (%zu of %zu)", result->finished, result->runs);
            fputs(" |", p->out);
            sf_paper_close(paper);
        }
        fputc('\n', p->out);
    }
    return SF_OK;
}

/* Whether all entries are questions that the paper does not ask. */
static bool is_beyond(const page *p) {
    for (size_t i = 0; i < entry_count(p); i++)
        if (strncmp(sf_paper_describe(entry_at(p, i), p->first).id, "open-", 5) != 0) return false;
    return true;
}

static sf_status print_all(const page *p) {
    fprintf(
        p->out,
        "%s\n# %s, entry by entry\n\n"
        "\"Transformers Learn Faster with Semantic Focus\" (Ram, Clarkson, Klinger, Ubaru, Gray; NeurIPS 2025): what "
        "each figure shows, what\nthe text says, the command that checks it, and what our runs show. This part is "
        "written "
        "by `semfocus paper status --out FILE.md`\nfrom a store alone; what follows its last line in the file is kept "
        "by hand.\n\n"
        "\"The paper says\" quotes what is stated. \"Our comparison\" is ours: how we read it, what we measure (95 %% "
        "training accuracy as\nconvergence, for one), and on which tasks. A comparison **agrees** or **disagrees** "
        "only if its difference is significant\nin an exact test over seeds: p < 0.05 after Holm's correction over the "
        "comparisons of each task of a figure, or over all those of\na claim; each row says over how many. Otherwise "
        "there is **no difference found**, or **not enough runs** for a test. An entry\nagrees if most of its "
        "comparisons agree and none disagrees, and is **mixed** if some agree and some disagree. **Shown** means\n"
        "numbers without a judgement. **Never reached** is said of runs that trained all their epochs, **not run** of "
        "runs that are not\nthere. `semfocus paper list` shows how long each entry's missing runs would take.\n",
        marker, is_beyond(p) ? "Beyond the paper" : "The paper");
    SF_TRY(print_summary(p));
    for (size_t i = 0; i < entry_count(p); i++) SF_TRY(print_entry(p, entry_at(p, i)));
    fprintf(p->out, "\n%s", end_marker);
    return SF_OK;
}

/* A file that is there must be one of ours. *kept is where what follows our part begins; 0: nothing does. */
static sf_status check_replaceable(const char *path, long *kept) {
    *kept = 0;
    if (sf_text_ends_with(path, ".html") || sf_text_ends_with(path, ".htm"))
        return sf_fail(SF_BAD_INPUT, "out is '%s' but the page is Markdown, not HTML; give it a name that ends in .md",
                       path);
    struct stat about;
    char line[sizeof marker] = "", *read = NULL;
    size_t room = 0;
    if (stat(path, &about) != 0) return SF_OK;
    if (S_ISDIR(about.st_mode)) return sf_fail(SF_BAD_INPUT, "'%s' is a folder; name a file with --out", path);
    if (!S_ISREG(about.st_mode)) return SF_OK;
    FILE *file = fopen(path, "r");
    const bool ours =
        file != NULL && fread(line, 1, sizeof marker - 1, file) == sizeof marker - 1 && strcmp(line, marker) == 0;
    while (ours && *kept == 0 && getline(&read, &room, file) >= 0)
        if (strcmp(read, end_marker) == 0) *kept = ftell(file);
    free(read);
    if (file != NULL) fclose(file);
    if (ours || about.st_size == 0) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "'%s' already exists and was not made by 'semfocus paper status'; name another file",
                   path);
}

static sf_status copy_kept(FILE *out, const char *path, long from) {
    if (from == 0) return SF_OK;
    FILE *file = fopen(path, "r");
    if (file == NULL || fseek(file, from, SEEK_SET) != 0) {
        if (file != NULL) fclose(file);
        return sf_fail(SF_IO_ERROR, "cannot read '%s' again to keep its last part", path);
    }
    char block[4096];
    size_t count;
    while ((count = fread(block, 1, sizeof block, file)) > 0) fwrite(block, 1, count, out);
    const bool failed = ferror(file) != 0;
    fclose(file);
    return failed ? sf_fail(SF_IO_ERROR, "cannot read '%s' to keep its last part", path) : SF_OK;
}

sf_status sf_paper_write(const char *path, const sf_paper_page *what, sf_store *store,
                         const sf_paper_machine *machine) {
    page p = {.out = stdout,
              .first = what->scale,
              .last = what->scale,
              .entries = what->entries,
              .count = what->count,
              .store = store,
              .machine = machine};
    if (what->scale == SF_SCALES) {
        p.first = SF_LAPTOP;
        p.last = SF_PAPER;
    }
    if (strcmp(path, "-") == 0) return print_all(&p);
    long kept;
    sf_atomic_file file;
    SF_TRY(check_replaceable(path, &kept));
    SF_TRY(sf_atomic_open(&file, path));
    p.out = file.stream;
    sf_status status = print_all(&p);
    if (status == SF_OK) status = copy_kept(file.stream, path, kept);
    if (status == SF_OK) return sf_atomic_commit(&file);
    sf_atomic_abandon(&file);
    return status;
}
