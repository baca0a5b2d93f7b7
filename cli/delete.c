#include "cli/cli.h"

#include <stdio.h>

static int run(const cli_request *request) {
    sf_store *store;
    sf_status status = sf_store_open(&store, request->options.store, SF_STORE_READ); /* none is made by deleting */
    if (status == SF_BAD_INPUT) return fail(status);
    if (status == SF_OK) sf_store_close(store);
    status = sf_store_open(&store, request->options.store, SF_STORE_MEND);
    if (status != SF_OK) return fail(status);
    for (size_t i = 0; i < request->word_count && status == SF_OK; i++) {
        char id[SF_RUN_ID_SIZE];
        status = sf_store_delete(id, store, request->words[i]);
        if (status == SF_OK && !request->options.quiet) printf("deleted: run %s\n", id);
    }
    sf_store_close(store);
    const int code = status == SF_OK ? EXIT_DONE : fail(status);
    const int written = finish_output();
    return code != EXIT_DONE ? code : written;
}

const cli_verb verb_delete = {
    .name = "delete",
    .usage = "RUN...",
    .summary = "remove runs from a store, with their rows and checkpoints",
    .details =
        "RUN is an id from 'semfocus runs' or an unambiguous beginning of one. No other command removes a run: a\n"
        "run that 'semfocus check' finds damaged stays, and is refused, until it is deleted or a copy of runs.db\n"
        "is restored. Repeating the command that trained a deleted run trains it again from its first epoch.\n"
        "example: semfocus delete 3f2a\n",
    .groups = COMMON_GROUPS,
    .fewest_words = 1,
    .most_words = (size_t)-1,
    .first_word = "RUN",
    .next_words = "RUN",
    .run = run,
};
