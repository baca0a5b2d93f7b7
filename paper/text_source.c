#include "paper/text_source.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/atomic_file.h"

enum { PLACE_SIZE = SF_PATH_SIZE + 64 };

static const char not_named[] = "name yours with 'semfocus paper run ID --text FILE'; without --text, paper run takes "
                                "the King James Bible of Debian's package bible-kjv (at scale smoke a made-up text)";
static const char not_usable[] = "the one that was run is gone or can no longer be used; name it again with 'semfocus "
                                 "paper run ID --text FILE'";
static const char not_installed[] =
    "name yours with --text FILE, or install Debian's package bible-kjv, from which the "
    "King James Bible is taken otherwise";

static bool is_readable(const char *path) {
    return access(path, R_OK) == 0;
}

static sf_status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return SF_OK;
    return sf_fail(SF_IO_ERROR, "cannot make the folder '%s': %s", path, strerror(errno));
}

/* A file in the folder of texts. */
static void place_in(char out[PLACE_SIZE], const char *store, const char *name) {
    snprintf(out, PLACE_SIZE, "%s/paper/%s", store, name);
}

static void memory_of(char out[PLACE_SIZE], const sf_paper *paper, const char *store) {
    char name[48];
    snprintf(name, sizeof name, "%.30s-%s.text", paper->entry->id, sf_paper_scale_name(paper->scale));
    place_in(out, store, name);
}

static void name_default(char out[48], const sf_paper_plan *plan) {
    if (*plan->text == '\0')
        snprintf(out, 48, "made-up.txt");
    else
        snprintf(out, 48, "bible-kjv-%.24s.txt", plan->text);
    for (char *at = out; *at != '\0'; at++)
        if (*at == ':') *at = '.';
}

/* Short sentences of a small grammar. The counts of words have no common factors, so that sentences differ. */
static sf_status write_made_up(FILE *out) {
    static const char *const kinds[] = {"old", "red", "small", "quiet", "tall"};
    static const char *const things[] = {"cat", "dog", "bird", "horse", "child", "ship", "fox"};
    static const char *const acts[] = {"sees", "follows", "likes"};
    static const char *const places[] = {"in the garden", "on the hill", "by the river", "at night"};
    enum { LINES = 200 };
    for (size_t i = 0; i < LINES; i++)
        fprintf(out, "the %s %s %s the %s %s %s .\n", kinds[i % 5], things[i % 7], acts[i % 3], kinds[(2 * i + 1) % 5],
                things[(3 * i + 2) % 7], places[(i / 2) % 4]);
    return SF_OK;
}

/* The program prints "Ge1:1 In the beginning ...", one verse per line. */
static size_t copy_verses(FILE *out, FILE *from) {
    char *line = NULL;
    size_t room = 0, lines = 0;
    while (getline(&line, &room, from) >= 0) {
        const char *verse = strchr(line, ' ');
        if (verse == NULL) continue;
        fputs(verse + 1, out);
        lines++;
    }
    free(line);
    return lines;
}

/* Its standard output; NULL: it does not start. */
static FILE *start_bible(pid_t *process, const char *verses) {
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return NULL;
    char range[48];
    snprintf(range, sizeof range, "%s", verses);
    char *const words[] = {(char[]){"bible"}, (char[]){"-f"}, (char[]){"-l"}, (char[]){"0"}, range, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    const bool started = posix_spawnp(process, words[0], &actions, NULL, words, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *from = started ? fdopen(ends[0], "r") : NULL;
    if (from == NULL) close(ends[0]);
    return from;
}

/* Without verses: the package is not there. */
static size_t write_verses(FILE *out, const char *verses) {
    pid_t process;
    int ended = 0;
    FILE *from = start_bible(&process, verses);
    if (from == NULL) return 0;
    const size_t lines = copy_verses(out, from);
    fclose(from);
    const bool waited = waitpid(process, &ended, 0) == process;
    return waited && WIFEXITED(ended) && WEXITSTATUS(ended) == 0 ? lines : 0;
}

/* Nothing appears at `path` where there is no text to take. */
static sf_status write_default(const char *path, const sf_paper_plan *plan) {
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    const bool made_up = *plan->text == '\0';
    sf_status status = made_up ? write_made_up(file.stream) : SF_OK;
    if (status == SF_OK && (made_up || write_verses(file.stream, plan->text) > 0)) return sf_atomic_commit(&file);
    sf_atomic_abandon(&file);
    return status;
}

/* What was remembered: a name in the folder of texts, or TRAIN[,HELDOUT] by their whole paths. */
static void recall(sf_paper *paper, const char *store) {
    char place[PLACE_SIZE], first[PLACE_SIZE], name[SF_PATH_SIZE] = "";
    memory_of(place, paper, store);
    FILE *file = fopen(place, "r");
    if (file == NULL) return;
    if (fgets(name, sizeof name, file) == NULL) *name = '\0';
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    if (*name == '\0') return;
    if (*name == '/')
        snprintf(place, sizeof place, "%s", name);
    else
        place_in(place, store, name);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(place, ","), place);
    if (is_readable(first) && strlen(place) < sizeof paper->text) strcpy(paper->text, place);
}

static sf_status take_default(sf_paper *paper, const char *store) {
    char folder[PLACE_SIZE], place[PLACE_SIZE], name[48];
    name_default(name, paper->plan);
    place_in(place, store, name);
    place_in(folder, store, "");
    if (!is_readable(place)) {
        SF_TRY(make_folder(store));
        SF_TRY(make_folder(folder));
        SF_TRY(write_default(place, paper->plan));
    }
    if (is_readable(place) && strlen(place) < sizeof paper->text) strcpy(paper->text, place);
    return SF_OK;
}

sf_status sf_paper_find_text(sf_paper *paper, const sf_paper_machine *machine) {
    const char *given = machine->text != NULL ? machine->text : "";
    const char *store = machine->store != NULL ? machine->store : "";
    *paper->text = '\0';
    if (strlen(given) >= sizeof paper->text)
        return sf_fail_on(SF_BAD_INPUT, "text", "text must be shorter than %zu characters", sizeof paper->text);
    strcpy(paper->text, given);
    if (*paper->text == '\0' && *store != '\0') recall(paper, store);
    if (*paper->text == '\0' && *store != '\0' && machine->prepares) SF_TRY(take_default(paper, store));
    paper->missing = *paper->text != '\0' ? NULL : machine->prepares ? not_installed : not_named;
    return SF_OK;
}

sf_status sf_paper_lose_text(sf_paper *paper) {
    sf_study_destroy(paper->study);
    paper->study = NULL;
    *paper->text = '\0';
    paper->missing = not_usable;
    return SF_OK;
}

/* One of TRAIN[,HELDOUT] by its whole path. */
static size_t append_whole(char *out, size_t used, size_t size, const char *name, size_t length) {
    char part[SF_PATH_SIZE];
    snprintf(part, sizeof part, "%.*s", (int)length, name);
    char *whole = realpath(part, NULL);
    used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? "," : "", whole != NULL ? whole : part);
    free(whole);
    return used;
}

sf_status sf_paper_remember_text(const sf_paper *paper, const sf_paper_machine *machine) {
    if (!machine->prepares || machine->store == NULL || *machine->store == '\0' || *paper->text == '\0') return SF_OK;
    char place[PLACE_SIZE], folder[PLACE_SIZE], text[2 * SF_PATH_SIZE], name[48];
    name_default(name, paper->plan);
    place_in(place, machine->store, name);
    size_t used = 0;
    if (strcmp(place, paper->text) == 0)
        used = (size_t)snprintf(text, sizeof text, "%s", name);
    else
        for (const char *at = paper->text; used < sizeof text && at != NULL;) {
            const size_t length = strcspn(at, ",");
            used = append_whole(text, used, sizeof text, at, length);
            at = at[length] == ',' ? at + length + 1 : NULL;
        }
    if (used >= SF_PATH_SIZE) return SF_OK; /* it has to be named again */
    place_in(folder, machine->store, "");
    SF_TRY(make_folder(machine->store));
    SF_TRY(make_folder(folder));
    memory_of(place, paper, machine->store);
    text[used++] = '\n';
    return sf_atomic_write(place, text, used);
}
