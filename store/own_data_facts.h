/* What a run's record keeps of a user's data: the tokenizer, the names of the labels, how many bytes of text a token
 * stands for. */
#ifndef SF_STORE_OWN_DATA_FACTS_H
#define SF_STORE_OWN_DATA_FACTS_H

#include <jansson.h>

#include "store/store.h"
#include "train/own_data.h"

/* The members that a run's environment gets: "data": {...}; NULL without memory. */
json_t *sf_own_facts_json(const sf_own_facts *own);
/* The text of a run as far as the store has it: without sequences. *found: the store has its tokenizer; some stores of
 * earlier versions do not. */
sf_status sf_own_data_of_record(sf_run_data *out, bool *found, sf_store *store, const sf_stored_run *run);

#endif
