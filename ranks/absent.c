/* A build without MPI: every process is alone. */
#include "base/memory.h"
#include "base/rebuild.h"
#include "ranks/launcher.h"
#include "ranks/post.h"
#include "semfocus/ranks.h"

sf_status sf_ranks_start(void) {
    const char *launcher = sf_launcher();
    if (launcher == NULL) return SF_OK;
    return sf_fail(SF_UNSUPPORTED,
                   "%s started several processes, but this program was built without MPI; install libopenmpi-dev or "
                   "libmpich-dev, then " SF_REBUILD_WITH("MPI") ", or start it without a launcher",
                   launcher);
}

size_t sf_ranks_count(void) {
    return 1;
}

size_t sf_ranks_rank(void) {
    return 0;
}

void sf_ranks_end(bool all, int code) {
    (void)all;
    (void)code;
}

/* There is no other rank to send to. */
sf_status sf_post_open(const sf_listener *listener) {
    (void)listener;
    return SF_OK;
}

sf_status sf_post_send(size_t to, sf_coder *message) {
    (void)to;
    sf_release(message->bytes);
    return SF_OK;
}

void sf_post_close(double seconds) {
    (void)seconds;
}
