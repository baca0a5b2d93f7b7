/* Study files: sections and name = value lines as libinih reads them, with the line in every message.
 *
 *   ; does the effect survive another activation?
 *   task = even-pairs, missing-duplicate
 *   seeds = 10
 *   attention = full, topk:5,
 *       banded:5                                   a list may continue on indented lines
 *
 *   [gelu]
 *   activation = gelu
 *
 *   [deep]
 *   blocks = 8, 16 */
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "io/lines.h"
#include "semfocus/suggest.h"
#include "study/study.h"

enum { LONGEST_LINE = INI_MAX_LINE - 2, MOST_LINES_JOINED = 512 };

typedef struct reader {
    sf_study *study;
    sf_lines lines;
    bool goes_on;     /* the current line is indented: it belongs to the value before it */
    bool in_defaults; /* [defaults] has been seen */
    char name[64];    /* of the setting being read, "": none */
    char values[MOST_LINES_JOINED * INI_MAX_LINE];
    size_t first_line; /* of its value */
    sf_status status;
} reader;

static bool is_run_setting(const char *name) {
    const sf_setting *setting;
    return strcmp(name, "seeds") == 0 || sf_setting_find(&setting, name, SF_RUN_GROUPS) == SF_OK;
}

/* What a study file may say: what `compare` takes, and its task. */
static const char *known_name(const void *unused, size_t i) {
    (void)unused;
    if (i == 0) return "task";
    const sf_setting *setting = sf_setting_at(i - 1);
    if (setting == NULL) return NULL;
    return (setting->group & SF_STUDY_GROUPS) != 0 ? setting->name : "";
}

static sf_status refuse_name(const char *name) {
    char quoted[SF_QUOTE_SIZE];
    const char *nearest = sf_suggest(SF_NAMES_SETTINGS, name, known_name, NULL);
    if (nearest == NULL) nearest = "task"; /* of every study */
    return sf_fail(SF_BAD_INPUT, "unknown setting '%s'; did you mean '%s'? 'semfocus study --help' lists them all",
                   sf_text_quote(quoted, name), nearest);
}

static sf_status take_setting(sf_study *study, const char *name, const char *values, size_t line) {
    const sf_setting *setting;
    sf_layer *layer = &study->layers[study->current];
    if (*values == '\0') return sf_fail(SF_BAD_INPUT, "%s has no value; give one or leave the line out", name);
    if (strcmp(name, "task") == 0) {
        layer->task_line = line;
        return sf_layer_add_tasks(layer, values);
    }
    if (sf_setting_find(&setting, name, SF_STUDY_GROUPS) != SF_OK) return refuse_name(name);
    if (study->current != SF_LAYER_DEFAULTS && !is_run_setting(name))
        return sf_fail(SF_BAD_INPUT, "%s applies to the whole study; put it before the first section", name);
    return sf_layer_set(layer, name, values, line);
}

/* A value is complete when the next setting, section or the end comes. */
static void finish_setting(reader *r) {
    if (*r->name == '\0' || r->status != SF_OK) return;
    const sf_status status = take_setting(r->study, r->name, r->values, r->first_line);
    *r->name = '\0';
    r->status = sf_fail_in(status, "%s:%zu", r->lines.name, r->first_line);
}

static void refuse_line(reader *r, sf_status status) {
    if (r->status == SF_OK) r->status = sf_fail_in(status, "%s:%zu", r->lines.name, r->lines.number);
}

static void begin_section(reader *r, const char *line) {
    finish_setting(r);
    if (r->status != SF_OK) return;
    char name[INI_MAX_LINE];
    const size_t width = strcspn(line + 1, "]");
    const char *rest = line + 1 + width;
    snprintf(name, sizeof name, "%.*s", (int)width, line + 1);
    rest += *rest == ']';
    rest += strspn(rest, " \t");
    if (line[1 + width] == '\0' || (*rest != '\0' && strchr(";#", *rest) == NULL)) {
        refuse_line(r, sf_fail(SF_BAD_INPUT, "a section must be a line [name]; close its bracket"));
    } else if (strcmp(name, "defaults") != 0) {
        refuse_line(r, sf_study_begin_variant(r->study, name, r->lines.number));
    } else if (r->in_defaults || r->study->layer_count > SF_LAYER_VARIANTS) {
        refuse_line(r, sf_fail(SF_BAD_INPUT, "[defaults] must come once, before all variants; move it up"));
    } else {
        r->in_defaults = true;
    }
}

/* Hands libinih one line at a time; sections are handled here, since libinih does not report empty ones. */
static char *next_line(char *out, int size, void *stream) {
    reader *r = stream;
    const char *line = r->status == SF_OK ? sf_lines_next(&r->lines) : NULL;
    if (line == NULL) return NULL;
    if (strlen(line) > LONGEST_LINE || strlen(line) > (size_t)size - 2) {
        refuse_line(
            r, sf_fail(SF_BAD_INPUT,
                       "the line has %zu characters but at most %d are read; a list may continue on indented lines",
                       strlen(line), (int)LONGEST_LINE));
        return NULL;
    }
    const char *text = line + strspn(line, " \t");
    r->goes_on = text > line && *r->name != '\0';
    if (*text == '[' && !r->goes_on) {
        begin_section(r, text);
        text = "";
    } else if (!r->goes_on && *text != '\0' && strchr(";#", *text) == NULL && strpbrk(text, "=:") == NULL) {
        char quoted[SF_QUOTE_SIZE];
        refuse_line(
            r, sf_fail(SF_BAD_INPUT, "'%s' is not name = value, [section] or ; comment", sf_text_quote(quoted, text)));
    }
    if (r->status != SF_OK) return NULL;
    snprintf(out, (size_t)size, "%s%s\n", r->goes_on ? " " : "", text);
    if (r->goes_on) { /* libinih looks for comments behind values only in their first line */
        char *comment = strstr(out, " ;");
        if (comment != NULL) strcpy(comment, "\n");
    }
    return out;
}

/* libinih calls this once per line, again with the same name where a value continues. */
static int on_value(void *context, const char *section, const char *name, const char *value) {
    (void)section;
    reader *r = context;
    if (r->status != SF_OK) return 1;
    if (!r->goes_on) {
        finish_setting(r);
        if (r->status != SF_OK) return 1;
        if (*name == '\0') refuse_line(r, sf_fail(SF_BAD_INPUT, "there is no name before '='; give one"));
        if (strlen(name) >= sizeof r->name) refuse_line(r, refuse_name(name));
        const sf_layer *layer = &r->study->layers[r->study->current];
        if (strcmp(name, "task") == 0 ? layer->task_count > 0 : sf_layer_find(layer, name) != NULL)
            refuse_line(r, sf_fail(SF_BAD_INPUT, "%s is set twice in this section; leave one out", name));
        if (r->status != SF_OK) return 1;
        strcpy(r->name, name);
        *r->values = '\0';
        r->first_line = r->lines.number;
    }
    /* A blank between lines, so that a missing comma gives an error message and not a longer number. */
    const size_t used = strlen(r->values);
    if (used + 1 + strlen(value) >= sizeof r->values)
        refuse_line(r, sf_fail(SF_BAD_INPUT, "the value continues over too many lines; divide the study into several"));
    else
        snprintf(r->values + used, sizeof r->values - used, "%s%s", used > 0 ? " " : "", value);
    return 1;
}

sf_status sf_study_read(sf_study *study, const char *path) {
    reader r = {.study = study};
    study->path = path;
    SF_TRY(sf_lines_read(&r.lines, path));
    study->path = r.lines.name;
    (void)ini_parse_stream(next_line, &r, on_value, &r);
    finish_setting(&r);
    if (r.status == SF_OK && study->layers[SF_LAYER_DEFAULTS].task_count == 0 &&
        study->layer_count == SF_LAYER_VARIANTS)
        r.status = sf_fail(SF_BAD_INPUT, "%s:%zu: has no task; add a line such as task = even-pairs", path,
                           r.lines.number + 1);
    study->current = SF_LAYER_OVERRIDES;
    sf_lines_release(&r.lines);
    return r.status;
}
