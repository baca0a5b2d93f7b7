/* What a mistyped name may have meant. */
#ifndef SEMFOCUS_SUGGEST_H
#define SEMFOCUS_SUGGEST_H

#include <stddef.h>

#include "semfocus/api.h"

SF_API_BEGIN

typedef enum sf_name_kind { SF_NAMES_COMMANDS, SF_NAMES_SETTINGS, SF_NAMES_MECHANISMS, SF_NAMES_TASKS } sf_name_kind;

/* The candidate that the word is a common synonym of, or else the one with the fewest edits; NULL: none is near enough.
 * candidate(context, i) gives the i-th name, "" to skip it, NULL at the end. */
const char *sf_suggest(sf_name_kind kind, const char *word, const char *(*candidate)(const void *context, size_t i),
                       const void *context);

SF_API_END

#endif
