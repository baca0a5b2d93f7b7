#include "store/environment.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "semfocus/version.h"
#include "store/own_data_facts.h"
#include "train/backend.h"

static void read_cpu_name(char *out, size_t size) {
    snprintf(out, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL) return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    fclose(file);
}

/* What the speed of a run depends on besides the run. */
static bool same_share(const json_t *a, const json_t *b) {
    static const char *const names[] = {"cpu", "isa", "threads", SF_RUNS_AT_A_TIME};
    static const char *const optional[] = {"gpu", "ranks"};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        const json_t *fact = json_object_get(a, optional[i]), *other = json_object_get(b, optional[i]);
        if ((fact != NULL || other != NULL) && !json_equal(fact, other)) return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *fact = json_object_get(a, names[i]);
        if (fact == NULL || !json_equal(fact, json_object_get(b, names[i]))) return false;
    }
    return json_integer_value(json_object_get(a, SF_RUNS_AT_A_TIME)) > 0;
}

bool sf_environment_is_alike(const char *a, const char *b) {
    json_t *left = json_loads(a, 0, NULL), *right = json_loads(b, 0, NULL);
    const bool alike = same_share(left, right);
    json_decref(left);
    json_decref(right);
    return alike;
}

bool sf_environment_is_steady(const char *text) {
    return sf_environment_is_alike(text, text);
}

char *sf_environment_text(const sf_environment *now, const char *before) {
    char cpu[128];
    read_cpu_name(cpu, sizeof cpu);
    json_t *facts =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:i}", "version", SF_VERSION, "compiler", __VERSION__,
                  "cpu", cpu, "backend", now->backend->name, "isa", now->backend->variant(now->precision), "threads",
                  now->threads, SF_RUNS_AT_A_TIME, now->runs_at_a_time, "precision",
                  now->backend->numerics(now->precision), "numerics", SF_NUMERICS_VERSION);
    if (facts != NULL && now->backend->hardware != NULL)
        json_object_set_new(facts, "gpu", json_string(now->backend->hardware()));
    if (facts != NULL && now->ranks > 1) json_object_set_new(facts, "ranks", json_integer(now->ranks));
    if (facts != NULL && now->own != NULL) json_object_update_new(facts, sf_own_facts_json(now->own));
    json_t *earlier = before != NULL ? json_loads(before, 0, NULL) : NULL;
    if (facts != NULL && before != NULL && !same_share(facts, earlier))
        json_object_set_new(facts, SF_RUNS_AT_A_TIME, json_integer(0));
    char *text = facts != NULL ? json_dumps(facts, JSON_COMPACT) : NULL;
    json_decref(earlier);
    json_decref(facts);
    return text;
}
