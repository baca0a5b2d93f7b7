/* A build without libmicrohttpd. */
#include <stddef.h>

#include "base/rebuild.h"
#include "base/status.h"
#include "semfocus/serve.h"

sf_status sf_server_start(sf_server **out, const char *folder, uint16_t port) {
    (void)folder, (void)port;
    *out = NULL;
    return sf_fail(SF_UNSUPPORTED, "this build has no live page, which needs libmicrohttpd; install libmicrohttpd-dev, "
                                   "then " SF_REBUILD_WITH("HTTP"));
}

const char *sf_server_url(const sf_server *server) {
    (void)server;
    return "";
}

void sf_server_stop(sf_server *server) {
    (void)server;
}
