#include "lab/environment.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "base/version.h"
#include "kernels/cpu/cpu.h"

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

char *sf_environment_text(int threads, sf_precision precision) {
    char cpu[128];
    read_cpu_name(cpu, sizeof cpu);
    json_t *facts = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:i}", "version", SF_VERSION, "compiler", __VERSION__,
                              "cpu", cpu, "isa", sf_cpu_isa_name(precision), "threads", threads, "precision",
                              precision == SF_BF16 ? "bf16" : "f32", "numerics", SF_NUMERICS_VERSION);
    char *text = facts != NULL ? json_dumps(facts, JSON_COMPACT) : NULL;
    json_decref(facts);
    return text;
}
