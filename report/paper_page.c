/* The catalogue as Markdown: claim, command, what we got. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "io/atomic_file.h"
#include "semfocus/paper.h"

static const char marker[] = "<!-- made by semfocus paper status -->";

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

static void print_scale(FILE *out, const sf_paper_info *info, sf_paper_scale scale, const sf_paper_result *result) {
    fprintf(out, "\n**%s at scale %s** (%zu of %zu runs%s%s): %s.\n", sf_paper_word_text(result->word),
            sf_paper_scale_name(scale), result->finished, result->runs, *info->note != '\0' ? "; " : "", info->note,
            result->sentence);
    print_rows(out, result);
}

static sf_status open_and_judge(sf_paper **out, size_t entry, sf_paper_scale scale, sf_store *store,
                                const sf_config *config) {
    SF_TRY(sf_paper_open(out, entry, scale, config));
    const sf_status status = sf_paper_judge(*out, store);
    if (status == SF_OK) return SF_OK;
    sf_paper_close(*out);
    *out = NULL;
    return status;
}

static sf_status print_entry(FILE *out, size_t entry, sf_store *store, const sf_config *config) {
    const sf_paper_info about = sf_paper_describe(entry, SF_LAPTOP);
    fprintf(out, "\n## %s: %s\n\n%s: %s.\n", about.id, about.title,
            strncmp(about.id, "follow", 6) == 0 ? "Statement" : "The paper says", about.statement);
    if (about.unavailable != NULL) {
        fprintf(out, "\n**%s**: %s.\n", sf_paper_word_text(SF_NOT_ENOUGH_RUNS), about.unavailable);
        return SF_OK;
    }
    fprintf(out, "\nCommand: `semfocus paper run %s --scale laptop` (or `--scale paper`)\n", about.id);
    size_t reached = 0;
    for (int scale = SF_LAPTOP; scale < SF_SCALES; scale++) {
        sf_paper *paper;
        SF_TRY(open_and_judge(&paper, entry, (sf_paper_scale)scale, store, config));
        const sf_paper_info info = sf_paper_describe(entry, (sf_paper_scale)scale);
        const sf_paper_result *result = sf_paper_result_of(paper);
        /* a part of the whole paper says nothing beside the smaller scale that it completes */
        const bool shown = scale == SF_LAPTOP ? result->finished > 0 : result->finished == result->runs;
        if (shown) print_scale(out, &info, (sf_paper_scale)scale, result);
        reached += shown;
        sf_paper_close(paper);
    }
    if (reached == 0) fprintf(out, "\n**%s**: none was trained yet.\n", sf_paper_word_text(SF_NOT_ENOUGH_RUNS));
    return SF_OK;
}

static sf_status print_summary(FILE *out, sf_store *store, const sf_config *config) {
    fputs("\n| entry | laptop | paper |\n|---|---|---|\n", out);
    for (size_t entry = 0; entry < sf_paper_count(); entry++) {
        const sf_paper_info info = sf_paper_describe(entry, SF_LAPTOP);
        fprintf(out, "| %s |", info.id);
        for (int scale = SF_LAPTOP; scale < SF_SCALES; scale++) {
            sf_paper *paper;
            SF_TRY(open_and_judge(&paper, entry, (sf_paper_scale)scale, store, config));
            const sf_paper_result *result = sf_paper_result_of(paper);
            fprintf(out, " %s", sf_paper_word_text(result->word));
            if (result->finished < result->runs) fprintf(out, " (%zu of %zu)", result->finished, result->runs);
            fputs(" |", out);
            sf_paper_close(paper);
        }
        fputc('\n', out);
    }
    return SF_OK;
}

static sf_status print_all(FILE *out, sf_store *store, const sf_config *config) {
    fprintf(
        out,
        "%s\n# The paper, entry by entry\n\n"
        "\"Transformers Learn Faster with Semantic Focus\" (Ram, Clarkson, Klinger, Ubaru, Gray; NeurIPS 2025): what "
        "it says, the command\nthat checks it, and what our runs give. An entry disagrees if one of its comparisons "
        "does. Made by\n`semfocus paper status --out FILE.md` from the store alone; `semfocus paper list` tells what "
        "entries cost.\n",
        marker);
    SF_TRY(print_summary(out, store, config));
    for (size_t entry = 0; entry < sf_paper_count(); entry++) SF_TRY(print_entry(out, entry, store, config));
    return SF_OK;
}

/* A file that is there must be one of ours. */
static sf_status check_replaceable(const char *path) {
    if (sf_text_ends_with(path, ".html") || sf_text_ends_with(path, ".htm"))
        return sf_fail(SF_BAD_INPUT, "out is '%s' but the page is Markdown, not HTML; give it a name that ends in .md",
                       path);
    struct stat about;
    char line[sizeof marker] = "";
    if (stat(path, &about) != 0) return SF_OK;
    if (S_ISDIR(about.st_mode)) return sf_fail(SF_BAD_INPUT, "'%s' is a folder; name a file with --out", path);
    if (!S_ISREG(about.st_mode)) return SF_OK;
    FILE *file = fopen(path, "r");
    const bool ours =
        file != NULL && fread(line, 1, sizeof marker - 1, file) == sizeof marker - 1 && strcmp(line, marker) == 0;
    if (file != NULL) fclose(file);
    if (ours || about.st_size == 0) return SF_OK;
    return sf_fail(SF_BAD_INPUT, "'%s' is there and was not made by 'semfocus paper status'; name another file", path);
}

sf_status sf_paper_write(const char *path, sf_store *store, const sf_config *config) {
    if (strcmp(path, "-") == 0) return print_all(stdout, store, config);
    SF_TRY(check_replaceable(path));
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    const sf_status status = print_all(file.stream, store, config);
    if (status == SF_OK) return sf_atomic_commit(&file);
    sf_atomic_abandon(&file);
    return status;
}
