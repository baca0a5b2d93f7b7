/* The figures of a study as files: TASK-FIGURE.svg and .csv. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/atomic_file.h"
#include "report/evidence.h"
#include "report/figure.h"
#include "report/setting_figure.h"
#include "semfocus/report.h"

typedef sf_status figure_writer(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to);

static sf_status draw_alone(FILE *out, const sf_figure *figure, const sf_study *study, size_t from, size_t to) {
    return sf_figure_draw(out, figure, study, from, to, true);
}

enum { STEM_SIZE = 96 };
_Static_assert(STEM_SIZE + 24 <= SF_FILE_STEM_SIZE, "a number fits behind the name");

/* The beginning of a task's file names: what cannot be part of one becomes '-'. */
static void file_stem(char out[STEM_SIZE], const sf_study *study, size_t from) {
    snprintf(out, STEM_SIZE, "%s", sf_study_group(study, from)->task);
    for (char *at = out; *at != '\0'; at++)
        if (strchr("/:,\\ ", *at) != NULL || (unsigned char)*at < ' ') *at = '-';
}

/* Tasks whose names would give the same files are numbered. */
static void unique_stem(char out[STEM_SIZE + 24], const sf_study *study, size_t from) {
    char mine[STEM_SIZE], other[STEM_SIZE];
    size_t before = 0;
    file_stem(mine, study, from);
    for (size_t task = 0; task < from; task = sf_task_end(study, task)) {
        file_stem(other, study, task);
        before += strcmp(mine, other) == 0;
    }
    snprintf(out, STEM_SIZE + 24, before > 0 ? "%s-%zu" : "%s", mine, before + 1);
}

static sf_status write_figure(const sf_study *study, const char *folder, size_t from, size_t to,
                              const sf_figure *figure, const char *kind, figure_writer *writer) {
    char path[SF_PATH_SIZE], stem[STEM_SIZE + 24];
    unique_stem(stem, study, from);
    const int length = snprintf(path, sizeof path, "%s/%s-%s.%s", folder, stem, figure->name, kind);
    if (length < 0 || (size_t)length >= sizeof path)
        return sf_fail(SF_BAD_INPUT, "the path '%.40s...' of --figures is too long; use a shorter one", folder);
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    const sf_status status = writer(file.stream, figure, study, from, to);
    if (status == SF_OK) return sf_atomic_commit(&file);
    sf_atomic_abandon(&file);
    return status;
}

sf_status sf_figures_folder(const char *folder) {
    struct stat about;
    if (mkdir(folder, 0777) != 0 && (errno != EEXIST || stat(folder, &about) != 0 || !S_ISDIR(about.st_mode)))
        return sf_fail(SF_IO_ERROR, "cannot create the folder '%s': %s; name another with --figures", folder,
                       errno == EEXIST ? "a file has that name" : strerror(errno));
    return SF_OK;
}

static sf_status write_evidence(const sf_study *study, sf_store *store, const char *folder, size_t from, size_t to) {
    char stem[STEM_SIZE + 24];
    sf_evidence evidence;
    unique_stem(stem, study, from);
    SF_TRY(sf_evidence_open(&evidence, study, store, from, to));
    const sf_status status = sf_evidence_write(&evidence, folder, stem);
    sf_evidence_close(&evidence);
    return status;
}

sf_status sf_report_write_figures(const sf_study *study, sf_store *store, const char *folder) {
    SF_TRY(sf_figures_folder(folder));
    for (size_t from = 0, to; from < sf_study_group_count(study); from = to) {
        to = sf_task_end(study, from);
        const sf_figure *figure;
        for (size_t i = 0; (figure = sf_figure_at(i)) != NULL; i++) {
            SF_TRY(write_figure(study, folder, from, to, figure, "svg", draw_alone));
            SF_TRY(write_figure(study, folder, from, to, figure, "csv", sf_figure_write_csv));
        }
        char stem[STEM_SIZE + 24];
        unique_stem(stem, study, from);
        SF_TRY(sf_setting_figures_write(study, folder, stem, from, to));
        SF_TRY(write_evidence(study, store, folder, from, to));
    }
    return SF_OK;
}
