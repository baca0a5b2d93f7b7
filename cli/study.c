/* The same as compare, from a file. */
#include "cli/cli.h"

static int run(const cli_request *request) {
    const sf_status status = sf_study_read(request->study, request->words[0]);
    return status == SF_OK ? conduct_study(request) : fail(status);
}

const cli_verb verb_study = {
    .name = "study",
    .usage = "FILE.ini [--setting LIST ...]",
    .summary = "compare as described in a study file: lists are grids, sections are variants",
    .details =
        "Lines of the file: name = value, where name is task or a setting below. Lists have commas and may continue\n"
        "on indented lines. Lines before the first [section], or under [defaults], apply to all runs; every other\n"
        "[section] is a variant of that name whose values replace them. Options on the command line replace values\n"
        "in the file. A variant with one mechanism is compared with the first variant.\n"
        "example:  task = even-pairs\n"
        "          seeds = 10\n"
        "          attention = full, topk:5\n"
        "          [shallow]\n"
        "          blocks = 2\n"
        "          [deep]\n"
        "          blocks = 8, 16\n",
    .groups = SF_STUDY_GROUPS | SF_GROUP_PLUGIN,
    .lists = ALL_LISTS,
    .fewest_words = 1,
    .most_words = 1,
    .first_word = "FILE",
    .run = run,
};
