/* Text that is collected in memory: JSON that must be complete or fail. */
#ifndef SF_BINDINGS_BINDINGS_H
#define SF_BINDINGS_BINDINGS_H

#include <stdio.h>

#include "semfocus/bindings.h"

typedef struct sf_collected {
    FILE *stream;
    char *text;
    size_t size;
} sf_collected;

sf_status sf_collect(sf_collected *out);
/* Gives the text, or fails if `status` is a failure or memory was short. */
sf_status sf_collected_end(char **out, sf_collected *collected, sf_status status);

/* Members of an object; the name of the first begins with a brace: "{id". */
void sf_json_text(FILE *out, const char *name, const char *text);
void sf_json_number(FILE *out, const char *name, double number); /* null if it is not finite */
void sf_json_count(FILE *out, const char *name, size_t count);
void sf_json_flag(FILE *out, const char *name, bool flag);

#endif
