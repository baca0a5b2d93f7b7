/* The plug-ins whose parts a run uses: in its id and in its entry. */
#ifndef SF_STORE_RUN_PLUGINS_H
#define SF_STORE_RUN_PLUGINS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "attention/attention.h"
#include "semfocus/store.h"

/* Adds the hashes of the files that the parts came from; nothing where all of them are built in. */
uint64_t sf_run_plugins_hash(uint64_t hash, const sf_attention *attention, const char *task);

/* Writes ,"plugins":[{"part": ..., "file": ..., "hash": ...}] for the parts that are not built in; nothing if all are.
 */
void sf_run_plugins_write(FILE *out, const char *attention, const char *task);

/* SF_BAD_INPUT, naming what is missing, if a part that was written this way is not loaded or came from another file. */
sf_status sf_run_plugins_check(const json_t *plugins, const char *run);

/* Which of these parts are not loaded. */
sf_status sf_run_plugins_look(sf_run_code *out, const json_t *plugins, const char *run);

#endif
