/* How the ranks on one machine share its cores and GPUs. */
#ifndef SF_RANKS_NODE_H
#define SF_RANKS_NODE_H

#include <sched.h>
#include <stddef.h>

/* Of rank `own` among the `count` ranks of a machine, given the cores that each may use: every core is divided among
 * the ranks that may use it. At least 1. */
size_t sf_node_threads(const cpu_set_t *allowed /* [count] */, size_t count, size_t own);

/* From now on this process sees one GPU, if the machine has any: its own if there are enough. */
void sf_node_take_gpu(size_t own);
/* The number that this rank has among those of its machine, as it was told by sf_node_take_gpu(); 0 before. */
size_t sf_node_place(void);

#endif
