/* The server of the live page, on libmicrohttpd: who may ask, what there is, and how much at a time.
 *
 * It trusts nobody. A page of another site that guesses the port fails at the Host header (its own name, even if that
 * resolves to this machine) and at the token; a program of another user fails at the token. There are no files: the
 * paths are a table. Connections, their memory, their idle time and the time of a request are limited. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/memory.h"
#include "base/text.h"
#include "report/page.h"
#include "semfocus/serve.h"
#include "serve/deadlines.h"
#include "serve/live.h"
#include "store/store.h"

enum {
    MOST_CONNECTIONS = 64,
    MOST_PLACES = 128,        /* for deadlines: also of connections that are just ending */
    MOST_STREAMS = 24,        /* connections that stay open for news */
    IDLE_SECONDS = 10,        /* until a connection that says nothing is closed */
    REQUEST_SECONDS = 10,     /* until a request is complete, or its connection is closed */
    NEWS_SECONDS = 5,         /* between two signs of life on a quiet stream */
    CONNECTION_BYTES = 32768, /* for a request */
    STACK_BYTES = 1 << 20,
    TOKEN_DIGITS = 32
};

extern const char sf_live_html[], sf_live_css[], sf_live_js[]; /* live.html, live.css, live.js */

struct sf_server {
    struct MHD_Daemon *daemon;
    sf_live *live;
    sf_deadlines *deadlines;
    char token[TOKEN_DIGITS + 1], url[96];
    atomic_uint port; /* 0: not known yet */
    atomic_int streams;
};

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void add_headers(struct MHD_Response *response, const char *type) {
    static const char *const headers[][2] = {{"Content-Security-Policy", policy},
                                             {"X-Content-Type-Options", "nosniff"},
                                             {"X-Frame-Options", "DENY"},
                                             {"Referrer-Policy", "no-referrer"},
                                             {"Cross-Origin-Opener-Policy", "same-origin"},
                                             {"Cross-Origin-Resource-Policy", "same-origin"},
                                             {"Cache-Control", "no-store"}};
    MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
}

static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned code, struct MHD_Response *response,
                                     const char *type) {
    if (response == NULL) return MHD_NO;
    add_headers(response, type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (code != MHD_HTTP_OK) MHD_add_response_header(response, "Connection", "close");
    const enum MHD_Result queued = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned code, const char *sentence) {
    return send_response(connection, code,
                         MHD_create_response_from_buffer(strlen(sentence), (void *)sentence, MHD_RESPMEM_PERSISTENT),
                         "text/plain; charset=utf-8");
}

static enum MHD_Result send_constant(struct MHD_Connection *connection, const char *text, const char *type) {
    return send_response(connection, MHD_HTTP_OK,
                         MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT), type);
}

/* A text that was made for this request, or why it could not be. */
static enum MHD_Result send_made(struct MHD_Connection *connection, sf_status status, char *text, size_t size,
                                 const char *type) {
    if (status == SF_OK)
        return send_response(connection, MHD_HTTP_OK,
                             MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE), type);
    const char *sentence = sf_message();
    return send_response(connection, status == SF_BAD_INPUT ? MHD_HTTP_NOT_FOUND : MHD_HTTP_INTERNAL_SERVER_ERROR,
                         MHD_create_response_from_buffer(strlen(sentence), (void *)sentence, MHD_RESPMEM_MUST_COPY),
                         "text/plain; charset=utf-8");
}

static enum MHD_Result answer_page(sf_server *server, struct MHD_Connection *connection) {
    (void)server;
    return send_constant(connection, sf_live_html, "text/html; charset=utf-8");
}

static enum MHD_Result answer_style(sf_server *server, struct MHD_Connection *connection) {
    (void)server;
    return send_constant(connection, sf_live_css, "text/css; charset=utf-8");
}

static enum MHD_Result answer_report_style(sf_server *server, struct MHD_Connection *connection) {
    (void)server;
    return send_constant(connection, sf_page_css, "text/css; charset=utf-8");
}

static enum MHD_Result answer_script(sf_server *server, struct MHD_Connection *connection) {
    (void)server;
    return send_constant(connection, sf_live_js, "text/javascript; charset=utf-8");
}

static enum MHD_Result answer_report_script(sf_server *server, struct MHD_Connection *connection) {
    (void)server;
    return send_constant(connection, sf_page_js, "text/javascript; charset=utf-8");
}

static enum MHD_Result answer_files_script(sf_server *server, struct MHD_Connection *connection) {
    (void)server;
    return send_constant(connection, sf_page_files_js, "text/javascript; charset=utf-8");
}

static const char *argument(struct MHD_Connection *connection, const char *name) {
    const char *value = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
    return value != NULL ? value : "";
}

static enum MHD_Result answer_runs(sf_server *server, struct MHD_Connection *connection) {
    char *text = NULL;
    size_t size = 0;
    int64_t since = 0;
    if (!sf_text_integer(&since, argument(connection, "since")) || since < 0) since = 0;
    const sf_status status = sf_live_runs(&text, &size, server->live, (uint64_t)since);
    return send_made(connection, status, text, size, "application/json");
}

static enum MHD_Result answer_run(sf_server *server, struct MHD_Connection *connection) {
    char *text = NULL;
    size_t size = 0;
    const char *id = argument(connection, "id");
    if (strlen(id) != SF_RUN_ID_SIZE - 1 || strspn(id, "0123456789abcdef") != strlen(id))
        return refuse(connection, MHD_HTTP_BAD_REQUEST, "id must be the 16 digits of a run\n");
    const sf_status status = sf_live_run(&text, &size, server->live, id);
    return send_made(connection, status, text, size, "application/json");
}

static enum MHD_Result answer_report(sf_server *server, struct MHD_Connection *connection) {
    char *text = NULL;
    size_t size = 0;
    const sf_status status = sf_live_report(&text, &size, server->live);
    return send_made(connection, status, text, size, "text/html; charset=utf-8");
}

typedef struct stream { /* one connection that waits for news */
    sf_server *server;
    uint64_t version;
    bool begun;
} stream;

/* One event per change, and a comment now and then: a connection that is gone is noticed by writing to it. Every
 * connection has a thread, so waiting is allowed. */
static ssize_t next_event(void *context, uint64_t position, char *out, size_t room) {
    stream *s = context;
    const uint64_t before = s->version;
    (void)position;
    if (!sf_live_wait(s->server->live, &s->version, s->begun ? NEWS_SECONDS : 0))
        return MHD_CONTENT_READER_END_OF_STREAM;
    const bool is_news = s->version != before || !s->begun;
    s->begun = true;
    const int length =
        is_news ? snprintf(out, room, "data: %" PRIu64 "\n\n", s->version) : snprintf(out, room, ":\n\n");
    return length > 0 && (size_t)length < room ? length : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_stream(void *context) {
    stream *s = context;
    atomic_fetch_sub(&s->server->streams, 1);
    sf_release(s);
}

static enum MHD_Result answer_events(sf_server *server, struct MHD_Connection *connection) {
    enum { BLOCK = 64 };
    stream *s;
    if (atomic_fetch_add(&server->streams, 1) >= MOST_STREAMS || SF_NEW(&s, 1) != SF_OK) {
        atomic_fetch_sub(&server->streams, 1);
        return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages are open; close some\n");
    }
    s->server = server;
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, next_event, s, close_stream);
    if (response == NULL) close_stream(s);
    return send_response(connection, MHD_HTTP_OK, response, "text/event-stream");
}

typedef struct route {
    const char *path; /* behind the token */
    enum MHD_Result (*answer)(sf_server *server, struct MHD_Connection *connection);
} route;

static const route routes[] = {
    {"", answer_page},
    {"live.css", answer_style},
    {"live.js", answer_script},
    {"page.css", answer_report_style},
    {"page.js", answer_report_script},
    {"page_files.js", answer_files_script},
    {"runs", answer_runs},
    {"run", answer_run},
    {"report", answer_report},
    {"events", answer_events},
};

/* A browser sends the name that its user or a page asked for: names that resolve to this machine are not enough. */
static bool is_our_host(const sf_server *server, struct MHD_Connection *connection) {
    static const char *const names[] = {"127.0.0.1", "localhost"};
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    char ours[32];
    for (size_t i = 0; host != NULL && i < sizeof names / sizeof *names; i++) {
        snprintf(ours, sizeof ours, "%s:%u", names[i], atomic_load(&server->port));
        if (strcmp(host, ours) == 0) return true;
    }
    return false;
}

/* Takes as long for a wrong token as for a right one. What follows it, or NULL. */
static const char *behind_token(const sf_server *server, const char *path) {
    unsigned char difference = 0;
    if (path[0] != '/' || strlen(path) < 1 + TOKEN_DIGITS + 1) return NULL;
    for (size_t i = 0; i < TOKEN_DIGITS; i++)
        difference |= (unsigned char)((unsigned char)path[1 + i] ^ (unsigned char)server->token[i]);
    return difference == 0 && path[1 + TOKEN_DIGITS] == '/' ? path + TOKEN_DIGITS + 2 : NULL;
}

static sf_deadline *deadline_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void note_connection(void *context, struct MHD_Connection *connection, void **deadline,
                            enum MHD_ConnectionNotificationCode code) {
    sf_server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        sf_deadline_end(*deadline);
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *deadline = info != NULL ? sf_deadline_begin(server->deadlines, info->connect_fd) : NULL;
}

static void note_answered(void *context, struct MHD_Connection *connection, void **request,
                          enum MHD_RequestTerminationCode how) {
    (void)context, (void)request, (void)how;
    sf_deadline_renew(deadline_of(connection));
}

/* Called when the headers of a request are complete. */
static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **request) {
    sf_server *server = context;
    (void)version, (void)upload, (void)upload_size, (void)request;
    sf_deadline_pause(deadline_of(connection));
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
    if (!is_our_host(server, connection))
        return refuse(connection, MHD_HTTP_FORBIDDEN, "the Host header names another host\n");
    const char *rest = behind_token(server, path);
    if (rest == NULL)
        return refuse(connection, MHD_HTTP_FORBIDDEN,
                      "the address needs the token that 'semfocus serve' printed; open that address\n");
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(routes[i].path, rest) == 0) return routes[i].answer(server, connection);
    return refuse(connection, MHD_HTTP_NOT_FOUND, "there is no such page\n");
}

static sf_status make_token(char out[TOKEN_DIGITS + 1]) {
    unsigned char bytes[TOKEN_DIGITS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return sf_fail(SF_IO_ERROR, "the system gives no random numbers for a token: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return SF_OK;
}

static void say_nothing(void *context, const char *format, va_list values) {
    (void)context, (void)format, (void)values; /* what clients do wrong is not our user's concern */
}

/* No path and no argument of ours needs decoding, and what is not decoded cannot surprise. */
static size_t leave_escaped(void *context, struct MHD_Connection *connection, char *text) {
    (void)context, (void)connection;
    return strlen(text);
}

static sf_status listen_on(sf_server *server, uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const unsigned flags =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ERROR_LOG;
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags, port, NULL, NULL, answer, server, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, note_connection,
        server, MHD_OPTION_NOTIFY_COMPLETED, note_answered, server, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES,
        MHD_OPTION_END);
    if (server->daemon == NULL)
        return sf_fail(SF_IO_ERROR, "cannot listen on port %u of this machine: %s; give another --port, or none", port,
                       errno != 0 ? strerror(errno) : "the server did not start");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info == NULL) return sf_fail(SF_IO_ERROR, "the server does not know its port; give one with --port");
    atomic_store(&server->port, info->port);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u/%s/", (unsigned)info->port, server->token);
    return SF_OK;
}

sf_status sf_server_start(sf_server **out, const char *folder, uint16_t port) {
    sf_server *server;
    *out = NULL;
    if (*folder == '\0' || strlen(folder) >= SF_PATH_SIZE)
        return sf_fail(SF_BAD_INPUT, "store must be a folder of 1 to %d characters", SF_PATH_SIZE - 1);
    SF_TRY(SF_NEW(&server, 1));
    sf_status status = make_token(server->token);
    if (status == SF_OK) status = sf_live_open(&server->live, folder);
    if (status == SF_OK) status = sf_deadlines_open(&server->deadlines, MOST_PLACES, REQUEST_SECONDS);
    if (status == SF_OK) status = listen_on(server, port);
    if (status == SF_OK)
        *out = server;
    else
        sf_server_stop(server);
    return status;
}

const char *sf_server_url(const sf_server *server) {
    return server->url;
}

void sf_server_stop(sf_server *server) {
    if (server == NULL) return;
    if (server->live != NULL) sf_live_stop(server->live); /* streams end, so that their threads do */
    if (server->daemon != NULL) MHD_stop_daemon(server->daemon);
    sf_deadlines_close(server->deadlines);
    if (server->live != NULL) sf_live_close(server->live);
    sf_release(server);
}
