#include "ranks/node.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t sf_node_threads(const cpu_set_t *allowed /* [count] */, size_t count, size_t own) {
    double share = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed[own])) continue;
        size_t users = 0;
        for (size_t i = 0; i < count; i++) users += CPU_ISSET(cpu, &allowed[i]) != 0;
        share += 1 / (double)users;
    }
    return share + 1e-6 >= 1 ? (size_t)(share + 1e-6) : 1;
}

static size_t place;

size_t sf_node_place(void) {
    return place;
}

/* The driver lists one folder per GPU. */
static size_t count_gpus(void) {
    size_t count = 0;
    DIR *listing = opendir("/proc/driver/nvidia/gpus");
    if (listing == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

/* CUDA_VISIBLE_DEVICES is the list of what may be used, by number or name, separated by commas. */
void sf_node_take_gpu(size_t own) {
    char one[256];
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    place = own;
    if (list == NULL) {
        const size_t count = count_gpus();
        if (count == 0) return;
        snprintf(one, sizeof one, "%zu", own % count);
    } else {
        size_t count = 1;
        for (const char *at = list; (at = strchr(at, ',')) != NULL; at++) count++;
        for (size_t i = own % count; i > 0; i--) list = strchr(list, ',') + 1;
        snprintf(one, sizeof one, "%.*s", (int)strcspn(list, ","), list);
    }
    setenv("CUDA_VISIBLE_DEVICES", one, 1);
}
