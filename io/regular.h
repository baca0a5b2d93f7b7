/* What stands in the place of a file. */
#ifndef SF_IO_REGULAR_H
#define SF_IO_REGULAR_H

#include "base/status.h"

/* SF_BAD_INPUT, with the name and what it is, where there is something else than a file: a folder, a pipe, a device. A
 * name that is not there, or cannot be looked at, passes: opening it tells why. */
sf_status sf_check_regular(const char *path, const char *why /* it must be one: "data is read twice" */);

#endif
