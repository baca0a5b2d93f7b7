/* The steps of loading a plug-in: reading the file, getting its table, checking its parts. */
#ifndef SF_PLUGINS_PLUGINS_H
#define SF_PLUGINS_PLUGINS_H

#include <sys/stat.h>

#include "base/memory.h"
#include "semfocus/plugin.h"

typedef struct sf_plugin_bytes { /* the file, before any of its code runs */
    char *path;                  /* absolute; release with free() */
    struct stat about;
    uint64_t hash;
} sf_plugin_bytes;
/* Refuses a file that is not a complete shared library for this machine. */
sf_status sf_plugin_bytes_read(sf_plugin_bytes *out, const char *path);

typedef struct sf_plugin_parts { /* copies of this version's size */
    sf_selector **selectors;     /* [selector_count] */
    sf_weighting **weightings;
    sf_task **tasks;
    size_t selector_count, weighting_count, task_count;
} sf_plugin_parts;
/* Copies and checks what a plug-in's table lists; SF_BAD_INPUT with a sentence if this version cannot run all of it. */
sf_status sf_plugin_parts_take(sf_plugin_parts *out, const sf_plugin *plugin);
void sf_plugin_parts_release(sf_plugin_parts *parts);

#endif
