/* A link between GPUs of several processes, over NCCL. The library is loaded when it is first needed; a build without
 * NCCL's header, or a machine without the library, has no links. */
#ifndef SF_KERNELS_CUDA_LINK_H
#define SF_KERNELS_CUDA_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { SF_CUDA_LINK_ID = 128, SF_CUDA_GPU_NAME = 32 }; /* bytes */

typedef struct sf_cuda_link sf_cuda_link;

/* The version of the library; SF_UNSUPPORTED, with a clause, if there is none. */
sf_status sf_cuda_link_check(int *version);
/* What one process makes and all need to open a link. */
sf_status sf_cuda_link_id(char *id /* [SF_CUDA_LINK_ID] */);
/* All ranks at the same time, each on the GPU in use. SF_UNSUPPORTED after so many seconds if others do not come. */
sf_status sf_cuda_link_open(sf_cuda_link **out, const char *id /* [SF_CUDA_LINK_ID] */, size_t ranks, size_t rank,
                            double seconds);
void sf_cuda_link_close(sf_cuda_link *link); /* NULL is legal; ends what is under way */

/* Between begin and end, what is sent and received, in any order; it takes place on the stream. Ranks that exchange
 * something call in the same order. Counts are of floats. SF_IO_ERROR if NCCL fails, SF_UNSUPPORTED as above. */
sf_status sf_cuda_link_begin(sf_cuda_link *link);
sf_status sf_cuda_link_send(sf_cuda_link *link, size_t to, const float *from, size_t count, void *stream);
sf_status sf_cuda_link_receive(sf_cuda_link *link, size_t from, float *to, size_t count, void *stream);
/* Also after one of the calls between failed: it fails, too. */
sf_status sf_cuda_link_end(sf_cuda_link *link);
/* Whether it still works. */
sf_status sf_cuda_link_state(const sf_cuda_link *link);

/* What tells the GPU in use from every other one of this machine. */
sf_status sf_cuda_gpu_name(char *name /* [SF_CUDA_GPU_NAME] */);

#endif
