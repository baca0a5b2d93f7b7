/* Internals of labels (semfocus/labels.h): the table `labels`, whose rows are sealed together by a fact. */
#ifndef SF_STORE_LABELS_H
#define SF_STORE_LABELS_H

#include "store/store_inside.h"

/* The name of a label in the database. */
const char *sf_label_word(int kind);

/* SF_IO_ERROR if the rows are not those that were written. */
sf_status sf_labels_verify(const sf_store *store);
/* Within a transaction: seals the rows as they are. */
sf_status sf_labels_seal(const sf_store *store);
/* Within a transaction of the target: adds the labels of the source's runs to those of the same runs there. Of two
 * names or notes the first in alphabetical order stays, so that the order of the stores does not matter. */
sf_status sf_labels_merge(sf_store *target, sf_store *source);

#endif
