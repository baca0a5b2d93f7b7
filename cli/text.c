/* What the commands say about models of text. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

sf_status add_text_result(json_t *row, sf_store *store, const sf_stored_run *run) {
    sf_text_result result;
    const sf_status status = sf_text_result_of(&result, store, run);
    if (status != SF_OK || isnan(result.perplexity)) return status;
    json_object_set_new(row, "heldout_perplexity", number_or_null(result.perplexity));
    json_object_set_new(row, "heldout_bits_per_byte", number_or_null(result.bits_per_byte));
    return SF_OK;
}

sf_status print_text_result(sf_store *store, const sf_stored_run *run) {
    sf_text_result result;
    const sf_status status = sf_text_result_of(&result, store, run);
    if (status != SF_OK || isnan(result.perplexity)) return status;
    printf("%s held-out text: perplexity %.2f per token", run->id, result.perplexity);
    if (!isnan(result.bits_per_byte)) printf(", %.4f bits per byte", result.bits_per_byte);
    putchar('\n');
    return SF_OK;
}

static void show(void *context, const char *what, double share) {
    char line[320];
    (void)context;
    print_control("\r\033[K"); /* the start of the line, which is erased */
    if (share >= 1) return;
    if (share < 0)
        snprintf(line, sizeof line, "%s ...", on_one_line(what));
    else
        snprintf(line, sizeof line, "%s: %.0f %%", on_one_line(what), 100 * share);
    fputs(line, stderr);
    fflush(stderr);
}

void watch_tokenizing(void) {
    if (isatty(STDERR_FILENO)) sf_text_on_progress(show, NULL);
}
