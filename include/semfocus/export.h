/* Curves of stored runs as text, for other programs: one line per run and epoch, with every setting of the run. */
#ifndef SEMFOCUS_EXPORT_H
#define SEMFOCUS_EXPORT_H

#include "semfocus/api.h"
#include "semfocus/store.h"

SF_API_BEGIN

/* SF_CSV (with a header line) or SF_JSONL (one JSON object per line), oldest run first; "-" is standard output, a file
 * appears whole or not at all. `where` is an SQL condition on runs; NULL or "": all. */
sf_status sf_store_export_curves(sf_store *store, const char *where, sf_export_format format, const char *path);

SF_API_END

#endif
