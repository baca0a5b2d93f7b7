/* Files that appear whole or not at all: reports, figures, exports, checkpoints. They are written under another name,
 * NAME.semfocus-PID-N.part, and renamed when they are complete. Unfinished files of killed processes are removed the
 * next time a file is written into the same folder; those of running processes are locked and stay. */
#ifndef SEMFOCUS_FILES_H
#define SEMFOCUS_FILES_H

#include "semfocus/api.h"

SF_API_BEGIN

/* For a signal handler that ends the process: removes the unfinished files of the whole process. Async-signal-safe. */
void sf_files_abandon(void);

SF_API_END

#endif
