/* Which runs belong together, how their group is named, and which group it is compared with. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "study/study.h"
#include "train/data.h"

enum { LIST_SIZE = 384 };   /* of mechanisms, within a note */
#define OTHERS "and others" /* where they do not fit */

typedef struct identity { /* of a group */
    const char *label;
    uint64_t rest, whole;      /* hashes of label, task and settings: without and with the mechanism */
    uint64_t code;             /* of plug-ins; 0: none */
    uint64_t data;             /* hash of task and data */
    const sf_planned_run *run; /* one of its runs */
    size_t place;              /* in order of appearance */
    size_t task;
} identity;

static const void *value_at(const sf_planned_run *run, const sf_setting *setting) {
    if (strcmp(setting->name, "attention") == 0) return run->attention; /* as resolved */
    return (const char *)&run->config + setting->offset;
}

/* Everything but the seed. The number of epochs is no difference where more epochs only continue the run. */
static bool sets_apart(const sf_setting *setting, const sf_config *config) {
    return sf_setting_changes_numbers(setting, config) && strcmp(setting->name, "seed") != 0;
}

static size_t value_size(const sf_setting *setting, const void *value) {
    return setting->kind == SF_TEXT ? strlen(value) + 1 : sizeof(int64_t);
}

static uint64_t code_of(const sf_study *study, const sf_planned_run *run) {
    return study->codes != NULL ? study->codes[run - study->runs].hash : 0;
}

const sf_run_code *sf_study_missing_code(const sf_study *study, size_t run) {
    const sf_run_code *code = study->codes != NULL ? &study->codes[run] : NULL;
    return code != NULL && (code->lacks_attention || code->lacks_task) ? code : NULL;
}

void sf_study_code_suffix(char out[SF_CODE_SUFFIX_SIZE], const sf_study *study, size_t run) {
    const sf_planned_run *own = &study->runs[run];
    *out = '\0';
    for (size_t i = 0; study->codes != NULL && i < study->run_count; i++) {
        const sf_planned_run *other = &study->runs[i];
        if (study->codes[i].hash == study->codes[run].hash || strcmp(other->attention, own->attention) != 0 ||
            strcmp(other->task, own->task) != 0)
            continue;
        if (study->codes[run].hash == 0)
            strcpy(out, " (built in)");
        else
            snprintf(out, SF_CODE_SUFFIX_SIZE, " (hash %08" PRIx64 ")", study->codes[run].hash >> 32);
        return;
    }
}

/* What is learned, independent of the model. */
static uint64_t hash_data(const sf_planned_run *run) {
    uint64_t hash = sf_hash(SF_HASH_START, run->task, strlen(run->task) + 1);
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if (!sets_apart(setting, &run->config) || (setting->group & (SF_GROUP_SAMPLE | SF_GROUP_DATA)) == 0) continue;
        const void *value = value_at(run, setting);
        hash = sf_hash(sf_hash(hash, &i, sizeof i), value, value_size(setting, value));
    }
    return hash;
}

static identity identify(const sf_planned_run *run, const char *label, uint64_t code) {
    uint64_t hash = sf_hash(SF_HASH_START, label, strlen(label) + 1);
    hash = sf_hash(hash, run->task, strlen(run->task) + 1);
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        if (!sets_apart(setting, &run->config) || strcmp(setting->name, "attention") == 0) continue;
        const void *value = value_at(run, setting);
        hash = sf_hash(sf_hash(hash, &i, sizeof i), value, value_size(setting, value));
    }
    const uint64_t whole = sf_hash(hash, run->attention, strlen(run->attention) + 1);
    return (identity){.label = label,
                      .rest = hash,
                      .whole = code != 0 ? sf_hash(whole, &code, sizeof code) : whole,
                      .code = code,
                      .data = hash_data(run),
                      .run = run};
}

static size_t find_group(const identity *groups, size_t count, uint64_t whole) {
    for (size_t g = count; g-- > 0;) /* members of a group are mostly adjacent */
        if (groups[g].whole == whole) return g;
    return count;
}

static int by_task(const void *a, const void *b) {
    const identity *left = a, *right = b;
    if (left->task != right->task) return left->task < right->task ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

/* Task by task, in order of appearance. */
static void order_groups(identity *groups, size_t count) {
    size_t tasks = 0;
    for (size_t g = 0; g < count; g++) {
        groups[g].task = tasks;
        for (size_t other = g; other-- > 0;) {
            if (strcmp(groups[other].run->task, groups[g].run->task) != 0) continue;
            groups[g].task = groups[other].task;
            break;
        }
        tasks += groups[g].task == tasks;
    }
    qsort(groups, count, sizeof *groups, by_task);
}

static int by_group(const void *a, const void *b) {
    const sf_planned *left = a, *right = b;
    if (left->group != right->group) return left->group < right->group ? -1 : 1;
    return (left->run > right->run) - (left->run < right->run);
}

static bool is_listed(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

/* Collects in each group's note the mechanisms that were asked for by another name. */
static sf_status list_asked(sf_study *study, const size_t *place_of) {
    for (size_t m = 0; m < study->member_count; m++) {
        const char **note = &study->groups[place_of[study->members[m].group]].note;
        const char *asked = study->members[m].asked;
        if (*asked == '\0' || is_listed(*note, asked) || is_listed(*note, OTHERS)) continue;
        char list[LIST_SIZE];
        const bool fits = strlen(*note) + strlen(asked) + sizeof OTHERS + 4 < sizeof list;
        snprintf(list, sizeof list, "%s%s%s", *note, **note != '\0' ? ", " : "", fits ? asked : OTHERS);
        SF_TRY(sf_sentence_keep(note, list));
    }
    return SF_OK;
}

/* Makes a sentence of the list. */
static sf_status say_asked(sf_group *group, const sf_planned_run *run) {
    if (*group->note == '\0') return SF_OK;
    const bool several = strchr(group->note, ',') != NULL;
    char keys[32] = "the longest sequence", text[LIST_SIZE + 128];
    if (!sf_run_data_is_own(run->task)) snprintf(keys, sizeof keys, "%lld", (long long)run->config.length);
    snprintf(text, sizeof text, "%s keep%s every key of %s: %s %s attention", group->note, several ? "" : "s", keys,
             several ? "they are" : "it is", run->attention);
    return sf_sentence_keep(&group->note, text);
}

/* Runs whose code is not loaded are shown from their rows. */
static sf_status say_missing(sf_group *group, const char *attention, const sf_run_code *code) {
    char text[SF_SPELLING_SIZE + SF_RUN_PART_SIZE + 128];
    if (code == NULL) return SF_OK;
    snprintf(text, sizeof text,
             "%s is shown from its stored rows, without what needs its code, because %s is not loaded here", attention,
             code->missing);
    return sf_sentence_keep(&group->note, text);
}

/* Puts members in the order of their groups; a run that was named twice is one member. */
static void order_members(sf_study *study, const size_t *place_of) {
    for (size_t m = 0; m < study->member_count; m++) study->members[m].group = place_of[study->members[m].group];
    qsort(study->members, study->member_count, sizeof *study->members, by_group);
    size_t kept = 0;
    for (size_t m = 0; m < study->member_count; m++) {
        const sf_planned member = study->members[m];
        if (kept > 0 && by_group(&study->members[kept - 1], &member) == 0) continue;
        study->members[kept] = member;
        if (study->groups[member.group].runs++ == 0) study->first_members[member.group] = kept;
        kept++;
    }
    study->member_count = kept;
}

static bool same_value(const sf_planned_run *a, const sf_planned_run *b, const sf_setting *setting) {
    const void *left = value_at(a, setting), *right = value_at(b, setting);
    return value_size(setting, left) == value_size(setting, right) &&
           memcmp(left, right, value_size(setting, left)) == 0;
}

/* The groups of one task and label are between `from` and `to`; true where they differ in the setting and it counts for
 * one of them. */
static bool varies(const identity *groups, size_t from, size_t to, const sf_setting *setting) {
    for (size_t g = from + 1; g < to; g++)
        if (groups[g].task == groups[from].task && strcmp(groups[g].label, groups[from].label) == 0 &&
            (sets_apart(setting, &groups[from].run->config) || sets_apart(setting, &groups[g].run->config)) &&
            !same_value(groups[g].run, groups[from].run, setting))
            return true;
    return false;
}

/* A group is named after its variant, its mechanism and the settings that tell it from the others. */
static void name_groups(sf_study *study, const identity *groups, size_t from, size_t to) {
    const bool labelled = *groups[from].label != '\0';
    const sf_setting *varying[SF_MOST_SETTINGS], *setting;
    size_t varying_count = 0;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) {
        const bool is_attention = strcmp(setting->name, "attention") == 0;
        if ((is_attention && !labelled) || varies(groups, from, to, setting)) varying[varying_count++] = setting;
    }
    for (size_t g = from; g < to; g++) {
        if (strcmp(groups[g].label, groups[from].label) != 0) continue;
        char *name = study->groups[g].name;
        const size_t size = sizeof study->groups[g].name;
        size_t used = (size_t)snprintf(name, size, "%s", groups[g].label);
        for (size_t i = 0; i < varying_count && used < size; i++) {
            const char *gap = used > 0 ? " " : "";
            char value[SF_TEXT_SIZE];
            sf_config_text(value, &groups[g].run->config, varying[i]);
            if (strcmp(varying[i]->name, "attention") == 0)
                used += (size_t)snprintf(name + used, size - used, "%s%s", gap, groups[g].run->attention);
            else
                used += (size_t)snprintf(name + used, size - used, "%s%s=%s", gap, varying[i]->name, value);
        }
        char suffix[SF_CODE_SUFFIX_SIZE];
        sf_study_code_suffix(suffix, study, (size_t)(groups[g].run - study->runs));
        if (used < size) snprintf(name + used, size - used, "%s", suffix);
    }
}

/* The other mechanisms with the same settings are compared with full attention, or the first of them. A group without
 * other mechanisms is compared with the task's first baseline. */
static size_t baseline_of(const identity *groups, size_t count, size_t g) {
    size_t home = g, first = g;
    bool alone = true;
    for (size_t other = count; other-- > 0;) {
        if (groups[other].task != groups[g].task) continue;
        home = other;
        if (groups[other].rest != groups[g].rest) continue;
        alone = alone && other == g;
        first = other;
    }
    if (alone) return home == g ? g : baseline_of(groups, count, home);
    for (size_t other = first; other < count; other++)
        if (groups[other].rest == groups[g].rest && strcmp(groups[other].run->attention, "full") == 0) return other;
    return first;
}

static bool same_mechanism(const identity *a, const identity *b) {
    return a->code == b->code && strcmp(a->run->attention, b->run->attention) == 0;
}

/* Groups of one mechanism on the same data are the settings it was tried with; full attention, or else the first
 * mechanism on this data, is what it is compared with. */
static void find_grids(sf_study *study, const identity *groups, size_t count) {
    for (size_t g = 0; g < count; g++) {
        sf_group *group = &study->groups[g];
        bool full = false;
        group->mechanism = group->rival = count;
        for (size_t other = 0; other < count; other++) {
            if (groups[other].data != groups[g].data) continue;
            if (group->mechanism == count && same_mechanism(&groups[other], &groups[g])) group->mechanism = other;
            const bool is_full = strcmp(groups[other].run->attention, "full") == 0;
            if (group->rival == count || (is_full && !full)) group->rival = other;
            full |= is_full;
        }
    }
}

static sf_status make_groups(sf_study *study, const identity *groups, size_t count) {
    size_t *place_of;
    SF_TRY(SF_NEW(&study->groups, count));
    study->group_count = count;
    for (size_t g = 0; g < count; g++)
        study->groups[g].sentence = study->groups[g].best_sentence = study->groups[g].note = "";
    SF_TRY(SF_NEW(&study->first_members, count));
    SF_TRY(SF_NEW(&place_of, count));
    for (size_t g = 0; g < count; g++) {
        place_of[groups[g].place] = g;
        study->groups[g].task = groups[g].run->task;
        study->groups[g].baseline = baseline_of(groups, count, g);
    }
    find_grids(study, groups, count);
    sf_status status = list_asked(study, place_of);
    for (size_t g = 0; g < count && status == SF_OK; g++) status = say_asked(&study->groups[g], groups[g].run);
    for (size_t g = 0; g < count && status == SF_OK; g++)
        status = say_missing(&study->groups[g], groups[g].run->attention,
                             sf_study_missing_code(study, (size_t)(groups[g].run - study->runs)));
    order_members(study, place_of);
    sf_release(place_of);
    SF_TRY(status);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && groups[to].task == groups[from].task;) to++;
        for (size_t g = from; g < to; g++)
            if (*study->groups[g].name == '\0') name_groups(study, groups, g, to);
    }
    return SF_OK;
}

sf_status sf_study_group_runs(sf_study *study, const char *const *labels) {
    identity *groups;
    size_t count = 0;
    SF_TRY(SF_NEW(&groups, study->member_count));
    for (size_t m = 0; m < study->member_count; m++) {
        const sf_planned_run *run = &study->runs[study->members[m].run];
        identity mine = identify(run, labels[m], code_of(study, run));
        const size_t g = find_group(groups, count, mine.whole);
        mine.place = count;
        if (g == count) groups[count++] = mine;
        study->members[m].group = g;
    }
    order_groups(groups, count);
    const sf_status status = make_groups(study, groups, count);
    sf_release(groups);
    return status;
}
