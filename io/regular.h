/* What kind of file a path names. */
#ifndef SF_IO_REGULAR_H
#define SF_IO_REGULAR_H

#include "base/status.h"

/* SF_BAD_INPUT, with the name and its kind, if it names a folder, a pipe or a device instead of a file. A name that
 * does not exist or cannot be examined passes: opening it gives the reason. */
sf_status sf_check_regular(const char *path, const char *why /* why it must be one: "data is read twice" */);

#endif
