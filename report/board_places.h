/* Where runs are in a folder for TensorBoard, and what it calls them. */
#ifndef SF_REPORT_BOARD_PLACES_H
#define SF_REPORT_BOARD_PLACES_H

#include "semfocus/settings.h"

enum { SF_BOARD_NAME_SIZE = 1024, SF_BOARD_PATH_SIZE = SF_PATH_SIZE + 512 };

/* "topk:5,length=20": the mechanism, and the settings in which the run differs from its task's recipe, but for the
 * seed. Runs of one task have the same name if they differ only in the seed. */
void sf_board_name(char out[SF_BOARD_NAME_SIZE], const char *task, const char *attention, const sf_config *config);

/* Makes FOLDER/TASK/NAME/LEAF; `out` is the path of the event file in it. */
sf_status sf_board_place(char out[SF_BOARD_PATH_SIZE], const char *folder, const char *task, const char *name,
                         const char *leaf);

#endif
