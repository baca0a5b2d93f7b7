/* What a user's own data holds, before anything is trained on it.
 *
 *   sf_data_description *about;
 *   sf_data_describe(&about, "csv:reviews.csv", &config);
 *   sf_data_description_release(about); */
#ifndef SEMFOCUS_DESCRIBE_H
#define SEMFOCUS_DESCRIBE_H

#include <stddef.h>
#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/settings.h"

SF_API_BEGIN

typedef struct sf_data_label {
    char name[64]; /* as it is in the data, or a number; cut to what fits */
    size_t count;  /* in the training data */
} sf_data_label;

enum { SF_MOST_WARNINGS = 8 };

typedef struct sf_data_description {
    size_t training, heldout; /* sequences */
    size_t training_labels, heldout_labels;
    size_t shortest, longest; /* tokens per sequence, of both */
    double mean;
    const char *tokenizer;   /* its kind; NULL: the tokens are ids */
    size_t vocabulary, used; /* ids, and how many of them occur in the training data */
    double unknown;          /* percent of the held-out tokens that do not occur in the training data */
    sf_data_label *labels;   /* [label_count], the most frequent first */
    size_t label_count, classes;
    double majority; /* percent of the held-out labels that the most frequent training label gets right */
    char warnings[SF_MOST_WARNINGS][256];
    size_t warning_count;
} sf_data_description;

/* `task` is what train takes: csv:TRAIN[,HELDOUT] and the like. A built-in task is SF_BAD_INPUT. */
sf_status sf_data_describe(sf_data_description **out, const char *task, const sf_config *config);
void sf_data_description_release(sf_data_description *about); /* NULL is legal */

SF_API_END

#endif
