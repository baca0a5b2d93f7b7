#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

typedef struct checking {
    sf_store *store;
    size_t checked, failed;
    json_t *rows;
} checking;

static void check_one(void *context, const sf_stored_run *run) {
    checking *c = context;
    const sf_status status = sf_store_check(c->store, run);
    c->checked++;
    c->failed += status != SF_OK;
    if (status != SF_OK) fail(status);
    json_array_append_new(c->rows, json_pack("{s:s, s:b, s:o}", "id", run->id, "whole", status == SF_OK, "message",
                                             status == SF_OK ? json_null() : json_text(sf_message())));
}

static sf_status check_named(checking *c, const cli_request *request) {
    for (size_t i = 0; i < request->word_count; i++) {
        sf_stored_run run;
        const sf_status status = sf_store_find(&run, c->store, request->words[i]);
        if (status != SF_OK) return status;
        check_one(c, &run);
    }
    return SF_OK;
}

static int run(const cli_request *request) {
    if (request->word_count > 0 && *request->config.where != '\0')
        return fail_usage("both runs and --where were given; name the runs or the condition");
    checking c = {0};
    sf_status status = sf_store_open(&c.store, request->config.store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    c.rows = json_array();
    status = request->word_count > 0 ? check_named(&c, request)
                                     : sf_store_each_run(c.store, request->config.where, check_one, &c);
    sf_store_close(c.store);
    int code = status == SF_OK ? EXIT_DONE : fail(status);
    if (code == EXIT_DONE && request->config.json) {
        code = print_json(json_incref(c.rows));
    } else if (code == EXIT_DONE && (!request->config.quiet || c.failed > 0)) {
        printf("%zu of %zu runs are whole\n", c.checked - c.failed, c.checked);
        code = finish_output();
    }
    json_decref(c.rows);
    return code == EXIT_DONE && c.failed > 0 ? EXIT_FAILED : code;
}

const cli_verb verb_check = {
    .name = "check",
    .usage = "[RUN...] [--where SQL]",
    .summary = "prove that the curves and checkpoints of a store agree",
    .details = "For each run: the curve has no gap, the checkpoint files are byte for byte what was written, and\n"
               "evaluating their weights gives the losses and accuracies of the curve, bit by bit.\n"
               "example: semfocus check\n",
    .groups = SF_GROUP_QUERY | COMMON_GROUPS,
    .most_words = (size_t)-1,
    .run = run,
};
