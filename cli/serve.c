/* The live page: it only reads, so Ctrl-C has nothing to keep. */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"

static int run(const cli_request *request) {
    sf_server *server;
    atomic_int *stop = watch_for_stop();
    const sf_status status = sf_server_start(&server, request->options.store, (uint16_t)request->options.port);
    if (status != SF_OK) return fail(status);
    if (request->options.json)
        printf("{\"url\": \"%s\"}\n", sf_server_url(server));
    else
        printf("%s\nopen this address in a browser on this machine; Ctrl-C ends the page, not the runs\n",
               sf_server_url(server));
    int code = finish_output();
    while (code == EXIT_DONE && atomic_load(stop) == 0) usleep(100000);
    sf_server_stop(server);
    const int signalled = ended_by_signal();
    return signalled != EXIT_DONE ? signalled : code;
}

const cli_verb verb_serve = {
    .name = "serve",
    .usage = "[--store DIR] [--port N]",
    .summary = "show the report of a store in a browser, updated while runs are trained",
    .details =
        "Prints an address that works on this machine alone and contains a random token: whoever has it can read the\n"
        "store, and nothing can be changed through it. The page shows which runs are under way and how long they\n"
        "take, those that wait, any run's curve and settings, and the report. The store need not exist yet. From\n"
        "another machine: ssh -L PORT:127.0.0.1:PORT HOST.\n"
        "example: semfocus serve --store semfocus-runs --port 8642\n",
    .groups = SF_GROUP_SERVE | COMMON_GROUPS,
    .run = run,
};
