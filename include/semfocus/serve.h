/* The live page: what a store holds, in a browser, updated while runs are trained. The store is only read.
 *
 *   sf_server *server;
 *   sf_server_start(&server, "semfocus-runs", 0);
 *   puts(sf_server_url(server));                http://127.0.0.1:40123/TOKEN/
 *   ...
 *   sf_server_stop(server);
 *
 * It listens on 127.0.0.1 alone. Every request must name this host and carry the token, which is random; only GET and
 * HEAD are answered. The page loads nothing from elsewhere, and its Content-Security-Policy allows no inline script. */
#ifndef SEMFOCUS_SERVE_H
#define SEMFOCUS_SERVE_H

#include <stdint.h>

#include "semfocus/api.h"
#include "semfocus/status.h"

SF_API_BEGIN

typedef struct sf_server sf_server;

/* The store need not exist yet. Port 0: one that is free. SF_UNSUPPORTED in a build without libmicrohttpd. */
sf_status sf_server_start(sf_server **out, const char *folder, uint16_t port);
const char *sf_server_url(const sf_server *server);
void sf_server_stop(sf_server *server); /* NULL is legal */

SF_API_END

#endif
