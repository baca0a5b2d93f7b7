/* 'runs name', 'runs tag', 'runs note', 'runs archive' and what takes them back: what people write on runs. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct action {
    const char *word;
    sf_label kind;
    bool adds;
    bool takes_text; /* the last word */
    const char *done;
} action;

static const action actions[] = {
    {"name", SF_LABEL_NAME, true, true, "named"},
    {"tag", SF_LABEL_TAG, true, true, "tagged"},
    {"untag", SF_LABEL_TAG, false, true, "untagged"},
    {"note", SF_LABEL_NOTE, true, true, "noted"},
    {"archive", SF_LABEL_ARCHIVED, true, false, "archived"},
    {"unarchive", SF_LABEL_ARCHIVED, false, false, "shown again"},
};
enum { ACTIONS = sizeof actions / sizeof *actions };

static const action *find_action(const char *word) {
    for (size_t i = 0; i < ACTIONS; i++)
        if (strcmp(actions[i].word, word) == 0) return &actions[i];
    return NULL;
}

/* All runs are found before the first is changed. */
static sf_status change_runs(sf_store *store, const action *what, char **ids, size_t count, const char *text,
                             bool quiet) {
    sf_stored_run run;
    sf_status status = SF_OK;
    for (size_t i = 0; i < count && status == SF_OK; i++) status = sf_store_find(&run, store, ids[i]);
    for (size_t i = 0; i < count && status == SF_OK; i++) {
        status = sf_store_find(&run, store, ids[i]);
        if (status == SF_OK)
            status = what->adds ? sf_store_add_label(store, &run, what->kind, text)
                                : sf_store_remove_label(store, &run, what->kind, text);
        if (status == SF_OK && !quiet) printf("%s: run %s\n", what->done, run.id);
    }
    return status;
}

int label_runs(const cli_request *request) {
    const action *what = find_action(request->words[0]);
    if (what == NULL)
        return fail_usage("'%.40s' is not something to do with runs; it must be name, tag, untag, note, archive or "
                          "unarchive ('semfocus runs --help' shows more)",
                          request->words[0]);
    const size_t texts = what->takes_text ? 1 : 0;
    if (request->word_count < 2 + texts)
        return fail_usage("usage: semfocus runs %s RUN...%s", what->word,
                          what->kind == SF_LABEL_TAG ? " TAG"
                          : texts > 0                ? " \"TEXT\""
                                                     : "");
    const char *text = texts > 0 ? request->words[request->word_count - 1] : "";
    sf_store *store;
    sf_status status = sf_label_check(what->kind, text);
    if (status == SF_OK)
        status = sf_store_open(&store, request->options.store, SF_STORE_READ); /* none is made by labelling */
    if (status != SF_OK) return fail(status);
    sf_store_close(store);
    status = sf_store_open(&store, request->options.store, SF_STORE_WRITE);
    if (status != SF_OK) return fail(status);
    status = change_runs(store, what, request->words + 1, request->word_count - 1 - texts, text,
                         request->options.quiet != 0);
    sf_store_close(store);
    const int code = status == SF_OK ? EXIT_DONE : fail(status);
    const int written = finish_output();
    return code != EXIT_DONE ? code : written;
}
