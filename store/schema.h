/* The tables of the store: their migrations, version by version, and whether they are still as they were made. */
#ifndef SF_STORE_SCHEMA_H
#define SF_STORE_SCHEMA_H

#include "store/store_inside.h"

/* The newest; the first with seals, with the ids of today, with labels. */
enum { SF_SCHEMA = 7, SF_SCHEMA_SEALED = 5, SF_SCHEMA_NEW_IDS = 6, SF_SCHEMA_LABELS = 7 };

sf_status sf_schema_version(int64_t *out, const sf_store *store);
/* Brings the store to the newest schema, in one transaction: seals what had no seals, gives runs their new ids.
 * `verified`: only if its list of runs is not damaged. */
sf_status sf_schema_bring_forward(sf_store *store, bool verified);
/* Makes a store of an earlier schema readable as it is: what it lacks is put beside it, in memory. */
sf_status sf_schema_stand_in(const sf_store *store, int64_t schema);
/* Whether the tables have what came after this schema, regardless of the version number. */
bool sf_schema_is_newer_than(const sf_store *store, int64_t schema);
/* SF_IO_ERROR if a table's definition is not the one that was made. */
sf_status sf_schema_verify(const sf_store *store);

#endif
