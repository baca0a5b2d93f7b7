/* What a model is, as pairs of name and value: whoever has them and the weights can build it again. They are the
 * metadata of exported weights. */
#ifndef SF_STORE_MODEL_FACTS_H
#define SF_STORE_MODEL_FACTS_H

#include "attention/attention.h"
#include "semfocus/settings.h"
#include "semfocus/store.h"

enum { SF_MOST_FACTS = 40, SF_FACT_SIZE = SF_SPELLING_SIZE };

typedef struct sf_model_facts {
    size_t count;
    const char *pairs[2 * SF_MOST_FACTS + 1]; /* name, value, ..., NULL: the values are those below */
    char values[SF_MOST_FACTS][SF_FACT_SIZE];
} sf_model_facts;

typedef struct sf_model_sizes { /* that the settings do not say */
    size_t tokens;              /* rows of the embedding */
    size_t classes;
    size_t positions; /* that the model reads, padding and globals included; 0: not known */
} sf_model_sizes;

void sf_model_facts_add(sf_model_facts *facts, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The attention is the resolved one. */
void sf_model_facts_fill(sf_model_facts *facts, const sf_config *config, const sf_attention *attention,
                         const sf_model_sizes *sizes);
/* Those of a stored run; the positions are left out if its data cannot be had any more. */
sf_status sf_model_facts_of_run(sf_model_facts *facts, sf_store *store, const sf_stored_run *run, size_t tokens,
                                size_t classes);

#endif
