/* Names that people know from elsewhere, for the suggestion in a message: none of them is accepted. */
#ifndef SF_BASE_SYNONYMS_H
#define SF_BASE_SYNONYMS_H

#include "semfocus/suggest.h"

/* What this word means here, in any case and with _ for -; NULL: not known. */
const char *sf_synonym(sf_name_kind kind, const char *word);

#endif
