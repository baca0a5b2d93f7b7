/* Words in a user's condition: those that SQL keeps for itself, and those that no column has. */
#ifndef SF_STORE_CONDITION_TEXT_H
#define SF_STORE_CONDITION_TEXT_H

#include "base/status.h"

/* The condition with "group" in quotes where it is the setting, which SQL would take for the beginning of GROUP BY.
 * Release with sf_release(). */
sf_status sf_condition_text(char **out, const char *where);

/* The column that somebody who wrote this may have meant; NULL: none is near enough. In the letters of a column, with _
 * for -. */
enum { SF_COLUMN_SIZE = 64 };
const char *sf_condition_column(char out[SF_COLUMN_SIZE], const char *word);

#endif
