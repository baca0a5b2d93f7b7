#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

typedef struct checking {
    sf_store *store;
    size_t checked, failed;
    size_t unknown;      /* this machine cannot evaluate them */
    size_t without_code; /* a part from a plug-in is not loaded */
    json_t *rows;
} checking;

static bool lacks_code(sf_store *store, const sf_stored_run *run) {
    sf_run_code code;
    return sf_store_code(&code, store, run) == SF_OK && (code.lacks_attention || code.lacks_task);
}

static sf_status check_one(checking *c, const char *id) {
    sf_stored_run run = {0};
    sf_status status = sf_store_find(&run, c->store, id);
    const bool found = status != SF_BAD_INPUT; /* else no run has this id */
    if (!found) return status;
    if (status == SF_OK) status = sf_store_check(c->store, &run);
    const bool unknown = status == SF_UNSUPPORTED;
    if (status != SF_OK) fail(status);
    json_array_append_new(c->rows, json_pack("{s:s, s:o, s:o}", "id", *run.id != '\0' ? run.id : id, "whole",
                                             unknown ? json_null() : json_boolean(status == SF_OK), "message",
                                             status == SF_OK ? json_null() : json_text(sf_message())));
    c->checked++;
    if (unknown && lacks_code(c->store, &run))
        c->without_code++;
    else
        *(unknown ? &c->unknown : &c->failed) += status != SF_OK;
    return SF_OK;
}

static void collect_id(void *ids, const char *id) {
    json_array_append_new(ids, json_text(id));
}

/* The ids first, then run by run: other processes may be training in the store, so each run is read anew. */
static sf_status check_all(checking *c, const char *where) {
    json_t *ids = json_array();
    sf_status status = sf_store_each_id(c->store, where, collect_id, ids);
    for (size_t i = 0; i < json_array_size(ids) && status == SF_OK; i++)
        status = check_one(c, json_string_value(json_array_get(ids, i)));
    json_decref(ids);
    return status;
}

static sf_status check_named(checking *c, const cli_request *request) {
    sf_status status = SF_OK;
    for (size_t i = 0; i < request->word_count && status == SF_OK; i++) status = check_one(c, request->words[i]);
    return status;
}

static int print_sums(const checking *c) {
    printf("%zu of %zu runs are intact", c->checked - c->failed - c->unknown - c->without_code, c->checked);
    if (c->unknown > 0) printf(", %zu could not be evaluated on this machine", c->unknown);
    if (c->without_code > 0)
        printf(", %zu could not be evaluated because a part that %s is not loaded (rows and files are as written)",
               c->without_code, c->without_code == 1 ? "it uses" : "they use");
    putchar('\n');
    return finish_output();
}

static int run(const cli_request *request) {
    if (request->word_count > 0 && *request->options.where != '\0')
        return fail_usage("both runs and --where were given; name the runs or the condition");
    checking c = {0};
    sf_status status = open_to_read(&c.store, request->options.store, SF_STORE_INSPECT);
    if (status != SF_OK) return fail(status);
    sf_store_show_archived(c.store);
    c.rows = json_array();
    const sf_status list = sf_store_check_list(c.store);
    if (list != SF_OK) fail(list); /* continue with the runs, to find which is damaged */
    status = request->word_count > 0 ? check_named(&c, request) : check_all(&c, request->options.where);
    sf_store_close(c.store);
    const size_t not_intact = c.failed + c.unknown + c.without_code;
    int code = status == SF_OK ? EXIT_DONE : fail(status);
    if (code == EXIT_DONE && request->options.json)
        code = print_json(json_incref(c.rows));
    else if (code == EXIT_DONE && (!request->options.quiet || not_intact > 0))
        code = print_sums(&c);
    json_decref(c.rows);
    return code == EXIT_DONE && (not_intact > 0 || list != SF_OK) ? EXIT_FAILED : code;
}

const cli_verb verb_check = {
    .name = "check",
    .usage = "[RUN...] [--where SQL]",
    .summary = "verify that the curves and checkpoints of a store agree",
    .details =
        "For each run it verifies that the curve has every epoch that was asked for, that all rows and checkpoint\n"
        "files are what was written (by their checksums), and that evaluating the saved weights gives the losses and\n"
        "accuracies of the curve, bit by bit. It also checks the database file itself. Runs in bf16 and tf32 are\n"
        "evaluated where their arithmetic is found; elsewhere only their rows and files are checked. So it is with\n"
        "runs of a plug-in that is not loaded, and of parts written in Python.\n"
        "Exit code 0 if every run is intact, 1 if one is damaged or could not be evaluated.\n"
        "example: semfocus check\n",
    .groups = SF_GROUP_QUERY | COMMON_GROUPS,
    .most_words = (size_t)-1,
    .first_word = "RUN",
    .next_words = "RUN",
    .run = run,
};
