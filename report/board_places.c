#include "report/board_places.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/status.h"
#include "semfocus/task.h"

enum { WORD_SIZE = 144, HASH_DIGITS = 9 };

/* What the settings would be if only task and mechanism were given. */
static void usual_settings(sf_config *out, const char *task) {
    const sf_task *known;
    sf_config_init(out);
    if (sf_task_find(&known, task) == SF_OK) (void)sf_config_apply_recipe(out, sf_task_describe(known).recipe);
}

/* The seed tells the runs of a group apart, the mechanism comes first anyway, and how long a run was trained is no
 * property of it. */
static bool is_named(const sf_setting *setting, const sf_config *config) {
    return sf_setting_changes_numbers(setting, config) && strcmp(setting->name, "seed") != 0 &&
           strcmp(setting->name, "attention") != 0;
}

void sf_board_name(char out[SF_BOARD_NAME_SIZE], const char *task, const char *attention, const sf_config *config) {
    sf_config usual;
    usual_settings(&usual, task);
    size_t used = (size_t)snprintf(out, SF_BOARD_NAME_SIZE, "%s", attention);
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        char value[SF_TEXT_SIZE], before[SF_TEXT_SIZE];
        if (!is_named(setting, config)) continue;
        sf_config_text(value, config, setting);
        sf_config_text(before, &usual, setting);
        if (strcmp(value, before) == 0 || used >= SF_BOARD_NAME_SIZE) continue;
        used += (size_t)snprintf(out + used, SF_BOARD_NAME_SIZE - used, ",%s=%s", setting->name, value);
    }
}

/* A name as one word of a path. What cannot stand there is replaced, and a hash then tells it from others. */
static void spell(char out[WORD_SIZE], const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:,+=@%";
    size_t used = 0;
    bool same = *name != '.';
    for (; used < WORD_SIZE - 1 - HASH_DIGITS && name[used] != '\0'; used++) {
        const bool kept = strchr(plain, name[used]) != NULL;
        out[used] = '_';
        if (kept && (used > 0 || same)) out[used] = name[used];
        same = same && kept;
    }
    out[used] = '\0';
    if (same && name[used] == '\0') return;
    snprintf(out + used, WORD_SIZE - used, "-%08" PRIx32, (uint32_t)sf_hash(SF_HASH_START, name, strlen(name)));
}

static sf_status make_folder(const char *path) {
    struct stat about;
    if (mkdir(path, 0777) == 0 || (stat(path, &about) == 0 && S_ISDIR(about.st_mode))) return SF_OK;
    return sf_fail(SF_IO_ERROR, "cannot create the folder '%s': %s; change that, or name another folder", path,
                   strerror(errno));
}

sf_status sf_board_place(char out[SF_BOARD_PATH_SIZE], const char *folder, const char *task, const char *name,
                         const char *leaf) {
    char words[3][WORD_SIZE];
    spell(words[0], task);
    spell(words[1], name);
    spell(words[2], leaf);
    size_t used = (size_t)snprintf(out, SF_BOARD_PATH_SIZE, "%s", folder);
    SF_TRY(make_folder(out));
    for (size_t i = 0; i < 3; i++) {
        used += (size_t)snprintf(out + used, SF_BOARD_PATH_SIZE - used, "/%s", words[i]);
        SF_TRY(make_folder(out));
    }
    snprintf(out + used, SF_BOARD_PATH_SIZE - used, "/events.out.tfevents.semfocus");
    return SF_OK;
}
