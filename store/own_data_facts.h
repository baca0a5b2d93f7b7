/* What a run's record keeps of a user's data: the tokenizer, the names of the labels, how many bytes of text a token
 * stands for. */
#ifndef SF_STORE_OWN_DATA_FACTS_H
#define SF_STORE_OWN_DATA_FACTS_H

#include <jansson.h>

#include "train/own_data.h"

/* The members that a run's environment gets: "data": {...}; NULL without memory. */
json_t *sf_own_facts_json(const sf_own_facts *own);

#endif
