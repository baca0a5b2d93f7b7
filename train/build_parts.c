#include "semfocus/build_parts.h"

#include "base/rebuild.h"
#include "train/gpu_part.h"

bool sf_build_part_describe(sf_build_part *out, size_t i) {
    static const sf_build_part parts[] = {
        {"cuda", "training on NVIDIA GPUs", "install the CUDA toolkit (nvcc), then " SF_REBUILD_WITH("CUDA"),
         SF_WITH_CUDA},
        {"nccl", "gradients from GPU to GPU with --data-parallel",
         "install libnccl-dev beside the CUDA toolkit, then " SF_REBUILD_WITH("CUDA"), SF_WITH_NCCL},
        {"mpi", "training on several processes and machines",
         "install libopenmpi-dev or libmpich-dev, then " SF_REBUILD_WITH("MPI"), SF_WITH_MPI},
        {"http", "the live page of 'semfocus serve'", "install libmicrohttpd-dev, then " SF_REBUILD_WITH("HTTP"),
         SF_WITH_HTTP},
        {"sentencepiece", "the tokenizers unigram and bpe",
         "install libsentencepiece-dev and g++, then " SF_REBUILD_WITH("SENTENCEPIECE"), SF_WITH_SENTENCEPIECE},
    };
    if (i >= sizeof parts / sizeof *parts) return false;
    *out = parts[i];
    return true;
}

sf_status sf_nccl_check(void) {
    int version;
    return sf_gpu_part_find_nccl(&version);
}

const char *sf_instruction_set(void) {
    return sf_backend_cpu.variant(SF_F32);
}
