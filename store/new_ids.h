/* New ids for runs that earlier versions entered under a rule of their own.
 *
 * A run gets its id if what the store says of it gives its earlier one: then it is known what the run is. One whose
 * data files are away or changed keeps its earlier id. It gets its own when the store is opened for writing and they
 * are back, or when a command names the run with its data in another place. */
#ifndef SF_STORE_NEW_IDS_H
#define SF_STORE_NEW_IDS_H

#include "store/store_inside.h"

/* Within a transaction: every run of the store, verified by the seal over so many columns. A damaged one stays as it
 * is, and stays known as damaged. */
sf_status sf_ids_renew(const sf_store *store, int sealed_columns);
/* The same, in a transaction of its own, for the runs of a store of the newest schema that have their earlier ids. */
sf_status sf_ids_renew_rest(const sf_store *store);
/* Fills the table new_ids of a store that is read as it is. */
sf_status sf_ids_foretell(const sf_store *store);

#endif
