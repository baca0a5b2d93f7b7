#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/text.h"
#include "bindings/bindings.h"

void sf_text_release(void *text) {
    free(text);
}

sf_status sf_collect(sf_collected *out) {
    *out = (sf_collected){0};
    out->stream = open_memstream(&out->text, &out->size);
    return out->stream != NULL ? SF_OK : sf_fail(SF_NO_MEMORY, "no memory left to write JSON");
}

sf_status sf_collected_end(char **out, sf_collected *collected, sf_status status) {
    const bool failed = ferror(collected->stream) != 0;
    const bool complete = fclose(collected->stream) == 0 && !failed;
    *out = NULL;
    if (status == SF_OK && complete) {
        *out = collected->text;
        return SF_OK;
    }
    free(collected->text);
    return status != SF_OK ? status : sf_fail(SF_NO_MEMORY, "no memory left to write JSON");
}

static void begin(FILE *out, const char *name) {
    if (*name != '{') fputc(',', out);
    fputc('"', out);
    fputs(*name != '{' ? name : name + 1, out);
    fputs("\":", out);
}

void sf_json_text(FILE *out, const char *name, const char *text) {
    begin(out, name);
    if (text != NULL)
        sf_text_json(out, text);
    else
        fputs("null", out);
}

void sf_json_number(FILE *out, const char *name, double number) {
    begin(out, name);
    if (isfinite(number))
        fprintf(out, "%.17g", number);
    else
        fputs("null", out);
}

void sf_json_count(FILE *out, const char *name, size_t count) {
    begin(out, name);
    fprintf(out, "%zu", count);
}

void sf_json_flag(FILE *out, const char *name, bool flag) {
    begin(out, name);
    fputs(flag ? "true" : "false", out);
}
