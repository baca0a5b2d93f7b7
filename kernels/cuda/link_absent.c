/* A build without NCCL's header has no links. */
#include <assert.h>

#include "kernels/cuda/link.h"

static sf_status absent(void) {
    return sf_fail(SF_UNSUPPORTED, "this semfocus was built without NCCL");
}

sf_status sf_cuda_link_check(int *version) {
    *version = 0;
    return absent();
}

sf_status sf_cuda_link_id(char *id) {
    (void)id;
    return absent();
}

sf_status sf_cuda_link_open(sf_cuda_link **out, const char *id, size_t ranks, size_t rank, double seconds) {
    (void)id, (void)ranks, (void)rank, (void)seconds;
    *out = NULL;
    return absent();
}

void sf_cuda_link_close(sf_cuda_link *link) {
    assert(link == NULL);
}

sf_status sf_cuda_link_begin(sf_cuda_link *link) {
    (void)link;
    return absent();
}

sf_status sf_cuda_link_send(sf_cuda_link *link, size_t to, const float *from, size_t count, void *stream) {
    (void)link, (void)to, (void)from, (void)count, (void)stream;
    return absent();
}

sf_status sf_cuda_link_receive(sf_cuda_link *link, size_t from, float *to, size_t count, void *stream) {
    (void)link, (void)from, (void)to, (void)count, (void)stream;
    return absent();
}

sf_status sf_cuda_link_end(sf_cuda_link *link) {
    (void)link;
    return absent();
}

sf_status sf_cuda_link_state(const sf_cuda_link *link) {
    (void)link;
    return absent();
}
