/* New ids for runs that earlier versions entered under ids of an earlier rule.
 *
 * A run gets its new id if its stored settings and its data give its earlier id: then it is identified. A run whose
 * data files are missing or changed keeps its earlier id. It gets the new one when the store is opened for writing and
 * they are back, or when a command names the run with its data in another place. */
#ifndef SF_STORE_NEW_IDS_H
#define SF_STORE_NEW_IDS_H

#include "store/store_inside.h"

/* Within a transaction: renews the id of every run, verified by the seal over `sealed_columns` columns. A damaged run
 * stays as it is, and its damage can still be detected. */
sf_status sf_ids_renew(const sf_store *store, int sealed_columns);
/* The same, in a transaction of its own, for runs that still have their earlier ids in a store of the newest schema. */
sf_status sf_ids_renew_rest(const sf_store *store);
/* The id of today of a run that still has its earlier one; empty if its data is not here. */
sf_status sf_ids_find_new(char out[SF_RUN_ID_SIZE], const sf_store *store, int64_t number);
/* Fills the table new_ids of a store that is read without conversion. */
sf_status sf_ids_foretell(const sf_store *store);

#endif
