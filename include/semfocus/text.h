/* Models of text: how well they predict it, what they write, and the progress of tokenizing it.
 *
 *   sf_text_result result;
 *   sf_text_result_of(&result, store, &run);
 *
 *   char *text;
 *   sf_generation_request request = {.prompt = "In the", .tokens = 200, .temperature = 0.8, .seed = 1};
 *   sf_generate(&text, store, &run, &request);
 *   free(text); */
#ifndef SEMFOCUS_TEXT_H
#define SEMFOCUS_TEXT_H

#include "semfocus/api.h"
#include "semfocus/settings.h"
#include "semfocus/store.h"

SF_API_BEGIN

/* Called from the thread that reads the text: "tokenizing FILE", and which share of it is done; share 1: it has ended,
 * below 0: not known. NULL: no longer. Set it before other threads work. */
typedef void sf_text_progress(void *context, const char *what, double share);
void sf_text_on_progress(sf_text_progress *progress, void *context);

typedef struct sf_text_result { /* on the held-out text, after the last epoch */
    double perplexity;          /* per token; NaN: not a run of text, or not trained yet */
    double bits_per_byte;       /* NaN: likewise, or the tokenizer does not keep the text */
} sf_text_result;
sf_status sf_text_result_of(sf_text_result *out, sf_store *store, const sf_stored_run *run);

typedef struct sf_generation_request {
    sf_weights_at at;
    const char *prompt; /* ends with a zero byte; empty: a new line */
    size_t tokens;      /* to write after it */
    double temperature; /* 0: always the most probable token, the first of equals */
    size_t top;         /* draw from the most probable ones; 0: from all */
    uint32_t seed;
    sf_execution execution; /* only threads, device and notes are used */
} sf_generation_request;

/* What the model writes after the prompt, the prompt included; release with free(). The model must be causal and of
 * text. The same request gives the same text on every machine. The model sees as many tokens as its training pieces
 * have: the last ones. */
sf_status sf_generate(char **out, sf_store *store, const sf_stored_run *run, const sf_generation_request *request);

SF_API_END

#endif
