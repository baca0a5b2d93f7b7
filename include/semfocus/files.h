/* Files that appear whole or not at all: reports, figures, exports, checkpoints. They are written under another name,
 * NAME.semfocus-PID-N.part, and renamed when they are complete. What a killed process leaves of them is removed the
 * next time a file is written into the same folder; a living writer holds a lock on its own, and keeps it. */
#ifndef SEMFOCUS_FILES_H
#define SEMFOCUS_FILES_H

#include "semfocus/api.h"

SF_API_BEGIN

/* For a signal handler that ends the process: removes what is being written. Async-signal-safe, for the
 * whole process. */
void sf_files_abandon(void);

SF_API_END

#endif
