/* Progress of what happens to a text before it can be learned from: learning a tokenizer, and tokenizing. */
#ifndef SEMFOCUS_TEXT_H
#define SEMFOCUS_TEXT_H

#include "semfocus/api.h"

SF_API_BEGIN

/* Called from the thread that reads the text: "tokenizing FILE", and which share of it is done; share 1: it has ended,
 * below 0: not known. NULL: no longer. Set it before other threads work. */
typedef void sf_text_progress(void *context, const char *what, double share);
void sf_text_on_progress(sf_text_progress *progress, void *context);

SF_API_END

#endif
