/* What is made of a text once: its tokenizer, and its ids. Made things are kept in this process, a few of them even
 * while nobody uses them, and as files in the folder that sf_corpus_keep_in() names. */
#ifndef SF_TASKS_MADE_H
#define SF_TASKS_MADE_H

#include "tasks/token_file.h"

typedef struct sf_made_tokenizer sf_made_tokenizer;
typedef struct sf_made_ids sf_made_ids;

/* Called if the thing has to be made. */
typedef sf_status sf_make_tokenizer(sf_tokenizer **out, void *context);
typedef sf_status sf_make_ids(FILE *out, void *context, uint64_t key);

/* Between the two calls, other threads wait for their turn. */
void sf_made_lock(void);
void sf_made_unlock(void);

/* Under the lock. What is taken is given back, once per time. */
sf_status sf_made_take_tokenizer(sf_made_tokenizer **out, uint64_t key, sf_make_tokenizer *make, void *context);
sf_status sf_made_take_ids(sf_made_ids **out, uint64_t key, sf_make_ids *make, void *context);
void sf_made_give_back(sf_made_tokenizer *tokenizer, sf_made_ids *ids); /* either may be NULL */

const sf_tokenizer *sf_made_tokenizer_of(const sf_made_tokenizer *made);
const sf_token_map *sf_made_map_of(const sf_made_ids *made);

#endif
