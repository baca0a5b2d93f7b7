/* What works on this machine, and how to get the rest: CPU, GPU, MPI, optional parts, the store's folder, limits. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/cli.h"

typedef enum state { WORKS, ABSENT, PROBLEM } state; /* a problem: runs cannot be trained or stored as it is */

typedef struct diagnosis {
    json_t *rows;
    size_t problems;
} diagnosis;

static void add(diagnosis *d, state is, const char *name, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void add(diagnosis *d, state is, const char *name, const char *remedy, const char *format, ...) {
    static const char *const words[] = {"works", "absent", "problem"};
    char text[SF_PATH_SIZE + 512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    d->problems += is == PROBLEM;
    json_array_append_new(d->rows, json_pack("{s:s, s:s, s:o, s:o}", "name", name, "state", words[is], "finding",
                                             json_text(text), "remedy", is != WORKS ? json_text(remedy) : json_null()));
}

static void look_at_cpu(diagnosis *d) {
    char line[256], name[128] = "unknown";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file != NULL) fclose(file);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    add(d, WORKS, "cpu", "", "%s, %ld core%s, instruction set %s", name, cores, plural((size_t)cores),
        sf_instruction_set());
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    add(d, WORKS, "memory", "", "%.1f GiB", memory / (1 << 30));
}

static void look_at_gpu(diagnosis *d, bool built) {
    if (!built) return;
    if (sf_device_check(SF_CUDA) == SF_OK)
        add(d, WORKS, "gpu", "", "an NVIDIA GPU can be used: --device cuda, or auto where it is faster");
    else
        add(d, ABSENT, "gpu", "runs are computed on the CPU, with the same results in f32", "%s", sf_message());
}

/* The library is loaded when it is needed. */
static void look_at_nccl(diagnosis *d, bool built) {
    if (!built) return;
    if (sf_nccl_check() == SF_OK)
        add(d, WORKS, "libnccl", "", "it was found; ranks that share a GPU use MPI instead");
    else
        add(d, ABSENT, "libnccl", "gradients go over MPI, with the same results; to go over NCCL, install libnccl2",
            "%s", sf_message());
}

static void look_at_parts(diagnosis *d) {
    sf_build_part part;
    for (size_t i = 0; sf_build_part_describe(&part, i); i++) {
        add(d, part.built ? WORKS : ABSENT, part.name, part.remedy, "%s: %s", part.does,
            part.built ? "built in" : "not in this build");
        if (strcmp(part.name, "cuda") == 0) look_at_gpu(d, part.built);
        if (strcmp(part.name, "nccl") == 0) look_at_nccl(d, part.built);
    }
}

/* The store's folder, or the folder in which it would be made. */
static void name_folder(char out[SF_PATH_SIZE], const char *store) {
    struct stat about;
    snprintf(out, SF_PATH_SIZE, "%s", store);
    if (stat(store, &about) == 0) return;
    char *slash = strrchr(out, '/');
    if (slash == NULL)
        strcpy(out, ".");
    else
        slash[slash == out] = '\0';
}

/* What is there may be something else; nothing more can be said of it then. */
static bool is_folder_or_nothing(diagnosis *d, const char *folder) {
    struct stat about;
    if (stat(folder, &about) != 0 || S_ISDIR(about.st_mode)) return true;
    add(d, PROBLEM, "store", "name another store with --store", "'%s' is not a folder, which a store needs", folder);
    return false;
}

static void look_at_disk(diagnosis *d, const char *folder) {
    static const double least = 1 << 28; /* bytes: below that, a study soon ends with a full disk */
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0) {
        add(d, PROBLEM, "disk", "create the folder, or name another store with --store", "'%s': %s", folder,
            strerror(errno));
        return;
    }
    const double left = (double)disk.f_bavail * (double)disk.f_frsize;
    add(d, left >= least ? WORKS : PROBLEM, "disk", "free some space, or name another store with --store",
        "%.1f GiB free in '%s'", left / (1 << 30), folder);
    if ((disk.f_flag & ST_RDONLY) != 0 || access(folder, W_OK | X_OK) != 0)
        add(d, PROBLEM, "permissions", "change its permissions, or name another store with --store",
            "'%s' cannot be written", folder);
    else
        add(d, WORKS, "permissions", "", "'%s' can be written", folder);
}

static void count_run(void *count, const sf_stored_run *run) {
    (void)run;
    ++*(size_t *)count;
}

static void look_at_store(diagnosis *d, const char *folder) {
    sf_store *store;
    size_t runs = 0;
    const bool is_new = access(folder, F_OK) != 0 && errno == ENOENT;
    if (is_new) {
        add(d, WORKS, "store", "", "'%s' does not exist yet; training creates it", folder);
        return;
    }
    sf_status status = sf_store_open(&store, folder, SF_STORE_READ);
    if (status == SF_OK) {
        sf_store_show_archived(store);
        status = sf_store_each_run(store, NULL, count_run, &runs);
        sf_store_close(store);
    }
    if (status == SF_OK)
        add(d, WORKS, "store", "", "'%s' has %zu run%s; 'semfocus check' verifies their files", folder, runs,
            plural(runs));
    else if (status == SF_BAD_INPUT)
        add(d, WORKS, "store", "", "%s", sf_message());
    else
        add(d, PROBLEM, "store", "the sentence says what to do", "%s", sf_message());
}

static void look_at_limits(diagnosis *d) {
    enum { FEWEST_FILES = 64 };
    struct rlimit files, size;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        add(d, files.rlim_cur >= FEWEST_FILES ? WORKS : PROBLEM, "open files", "raise the limit: ulimit -n 1024",
            "at most %llu", (unsigned long long)files.rlim_cur);
    if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY)
        add(d, PROBLEM, "file size", "raise the limit: ulimit -f unlimited",
            "at most %llu bytes, which a store may pass", (unsigned long long)size.rlim_cur);
    if (getrlimit(RLIMIT_AS, &size) == 0 && size.rlim_cur != RLIM_INFINITY)
        add(d, ABSENT, "memory limit", "raise the limit if runs fail for lack of memory: ulimit -v unlimited",
            "at most %.1f GiB per process", (double)size.rlim_cur / (1 << 30));
}

static const char *text_of(const json_t *row, const char *name) {
    return json_string_value(json_object_get(row, name));
}

static int print(const diagnosis *d) {
    size_t i;
    json_t *row;
    int width = 0;
    json_array_foreach(d->rows, i, row) {
        const int length = (int)strlen(text_of(row, "name"));
        if (length > width) width = length;
    }
    const bool narrow = output_width() < 60;
    const size_t indent = narrow ? 4 : 8 + 1 + (size_t)width + 2;
    json_array_foreach(d->rows, i, row) {
        print_indented(indent, "%-8s %-*s  %s", text_of(row, "state"), width, text_of(row, "name"),
                       text_of(row, "finding"));
        if (text_of(row, "remedy") != NULL)
            print_indented(indent, "%*s%s", narrow ? (int)indent : 8 + 1 + width + 2, "", text_of(row, "remedy"));
    }
    putchar('\n');
    if (d->problems > 0)
        print_paragraph("%zu problem%s to solve before runs can be trained here", d->problems, plural(d->problems));
    else
        print_paragraph("required parts work: runs can be trained and stored here");
    return finish_output();
}

static int run(const cli_request *request) {
    char folder[SF_PATH_SIZE];
    diagnosis d = {.rows = json_array()};
    name_folder(folder, request->options.store);
    look_at_cpu(&d);
    look_at_parts(&d);
    if (is_folder_or_nothing(&d, folder)) {
        look_at_store(&d, request->options.store);
        look_at_disk(&d, folder);
    }
    look_at_limits(&d);
    const int code = request->options.json ? print_json(json_pack("{s:s, s:b, s:O}", "version", SF_VERSION, "usable",
                                                                  d.problems == 0, "findings", d.rows))
                                           : print(&d);
    json_decref(d.rows);
    return code != EXIT_DONE ? code : d.problems > 0 ? EXIT_FAILED : EXIT_DONE;
}

const cli_verb verb_doctor = {
    .name = "doctor",
    .usage = "[--store DIR]",
    .summary = "say what works on this machine, and how to get the rest",
    .details =
        "Looks at the CPU, a GPU, the optional parts of this build, the store and its folder, and limits of the\n"
        "shell. Exit code 0 if runs can be trained and stored, even where optional parts are absent.\n",
    .groups = COMMON_GROUPS,
    .run = run,
};
