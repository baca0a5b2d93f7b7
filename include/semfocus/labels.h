/* What people write on runs: names, tags and notes, and whether a run is archived. Labels are no part of a run: they do
 * not change its id, and no number depends on them. */
#ifndef SEMFOCUS_LABELS_H
#define SEMFOCUS_LABELS_H

#include "semfocus/api.h"
#include "semfocus/store.h"

SF_API_BEGIN

typedef enum sf_label {
    SF_LABEL_NAME, /* one per run, also the name of a study: several runs may have the same */
    SF_LABEL_TAG,  /* any number per run */
    SF_LABEL_NOTE, /* one per run */
    SF_LABEL_ARCHIVED,
    SF_LABEL_KINDS
} sf_label;

enum { SF_NAME_SIZE = 128, SF_TAG_SIZE = 64, SF_NOTE_SIZE = 1024, SF_TAGS_SIZE = 1024 };

typedef struct sf_run_labels {
    char name[SF_NAME_SIZE], note[SF_NOTE_SIZE]; /* empty: none */
    char tags[SF_TAGS_SIZE];                     /* in order, with ", " between them; cut if there are too many */
    bool archived;
} sf_run_labels;

sf_status sf_store_labels(sf_run_labels *out, sf_store *store, const sf_stored_run *run);

/* SF_BAD_INPUT with a sentence where the text cannot be such a label. */
sf_status sf_label_check(sf_label kind, const char *text);
/* Adds a tag, or sets the name or the note, where an empty text removes it. The text of SF_LABEL_ARCHIVED is "". Labels
 * are one line of text without control characters; a tag has no comma. The store must be open for writing. */
sf_status sf_store_add_label(sf_store *store, const sf_stored_run *run, sf_label kind, const char *text);
/* Removing what is not there is no failure. */
sf_status sf_store_remove_label(sf_store *store, const sf_stored_run *run, sf_label kind, const char *text);

/* From now on, functions that go through runs include archived ones. They find a run by its id in any case. */
void sf_store_show_archived(sf_store *store);

SF_API_END

#endif
