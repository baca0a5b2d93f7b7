/* Where the text of an entry comes from: the user's, remembered in the store; or one that is taken without being asked
 * for, and kept in the folder paper/ of the store. */
#ifndef SF_PAPER_TEXT_SOURCE_H
#define SF_PAPER_TEXT_SOURCE_H

#include "paper/catalogue.h"

#define SF_MADE_UP_TEXT "" /* in sf_paper_plan; otherwise verses, "gen1:1-gen50:26", of the King James Bible */

/* Sets paper->text, or paper->missing where there is none. With machine->prepares, a text that is taken without being
 * asked for is written if it is not there. */
sf_status sf_paper_find_text(sf_paper *paper, const sf_paper_machine *machine);
/* For a text that was remembered and is no longer what it was: the entry lacks it, and others can be shown. */
sf_status sf_paper_lose_text(sf_paper *paper);
/* So that later commands need not name it. */
sf_status sf_paper_remember_text(const sf_paper *paper, const sf_paper_machine *machine);

#endif
