/* The scripts that make a shell ask 'semfocus complete'. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

extern const char cli_completion_bash[], cli_completion_zsh[], cli_completion_fish[];

#define SHELLS "bash|zsh|fish"

static int run(const cli_request *request) {
    const char *shell = request->word_count > 0 ? request->words[0] : "bash";
    if (strcmp(shell, "bash") == 0)
        fputs(cli_completion_bash, stdout);
    else if (strcmp(shell, "zsh") == 0)
        fputs(cli_completion_zsh, stdout);
    else if (strcmp(shell, "fish") == 0)
        fputs(cli_completion_fish, stdout);
    else
        return fail_usage("there is no completion for '%.40s'; choose bash, zsh or fish", shell);
    return finish_output();
}

const cli_verb verb_completion = {
    .name = "completion",
    .usage = "[" SHELLS "]",
    .summary = "print the completion script of a shell, bash if none is named",
    .details = "An installed semfocus has all three in place. Without that:\n"
               "  bash   source <(semfocus completion bash)\n"
               "  zsh    semfocus completion zsh > DIR/_semfocus     with DIR a folder of $fpath\n"
               "  fish   semfocus completion fish | source\n",
    .groups = 0,
    .most_words = 1,
    .first_word = SHELLS,
    .run = run,
};
