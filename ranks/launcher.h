/* Whether a launcher of MPI started this process, as its environment tells: MPI is initialized only then, so that a
 * plain start costs nothing. */
#ifndef SF_RANKS_LAUNCHER_H
#define SF_RANKS_LAUNCHER_H

/* The name of the launcher if it started more than one process, else NULL. */
const char *sf_launcher(void);

#endif
