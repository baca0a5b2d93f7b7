/* The manual page, from the tables of verbs and settings. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

/* Prints text so that troff sees no requests or escapes in it. */
static void print_plain(const char *text) {
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        line_start = *text == '\n';
    }
}

static void print_setting_page(const sf_setting *setting) {
    printf(".TP\n.B \\-\\-");
    print_plain(setting->name);
    const char *value = setting->kind == SF_CHOICE ? setting->choices : setting->value;
    if (value != NULL) {
        printf(" \\fI");
        print_plain(value);
        printf("\\fR");
    }
    putchar('\n');
    print_plain(setting->help);
    if (setting->kind == SF_INTEGER || setting->kind == SF_REAL)
        printf(" (%.10g to %.10g, default %s)", setting->low, setting->high, setting->initial);
    else if (setting->kind != SF_FLAG && *setting->initial != '\0')
        printf(" (default %s)", setting->initial);
    putchar('\n');
}

static int run_man(const cli_request *request) {
    (void)request;
    printf(
        ".TH SEMFOCUS 1 \"\" \"semfocus " SF_VERSION "\"\n"
        ".SH NAME\n"
        "semfocus \\- compare attention mechanisms by experiment\n"
        ".SH SYNOPSIS\n"
        ".B semfocus\n"
        ".I COMMAND\n"
        "[arguments] [\\-\\-option value ...]\n"
        ".SH DESCRIPTION\n"
        "Trains transformers with any attention mechanism and shows which one learns faster and generalizes better.\n"
        ".SH COMMANDS\n");
    const cli_verb *verb;
    for (size_t i = 0; (verb = verb_at(i)) != NULL; i++) {
        printf(".TP\n.B %s \\fR", verb->name);
        print_plain(verb->usage);
        putchar('\n');
        print_plain(verb->summary);
        printf(".\n");
        if (verb->details == NULL) continue;
        printf(".RS\n.nf\n");
        print_plain(verb->details);
        printf(".fi\n.RE\n");
    }
    printf(".SH OPTIONS\n"
           "A command's \\-\\-help shows which of them it takes.\n");
    const sf_setting *setting;
    for (size_t i = 0; (setting = sf_setting_at(i)) != NULL; i++) print_setting_page(setting);
    printf(".SH ENVIRONMENT\n"
           ".TP\n"
           ".B SEMFOCUS_ISA\n"
           "scalar, avx2 or avx512 instead of the widest instruction set of the CPU.\n"
           ".TP\n"
           ".B SEMFOCUS_PLUGINS\n"
           "shared libraries to load as with \\-\\-plugin, separated by colons.\n"
           ".TP\n"
           ".B SEMFOCUS_NCCL\n"
           "the NCCL library to load instead of libnccl.so.2; no: gradients of \\-\\-data\\-parallel go over MPI.\n"
           ".SH EXIT STATUS\n"
           "0 done, 1 failed work, 2 bad usage or input; 128 plus the number of the signal that ended it: 130 "
           "Ctrl\\-C, 143 SIGTERM, 129 SIGHUP, 141 if the reader of its output is gone.\n");
    return finish_output();
}

const cli_verb verb_man = {
    .name = "man",
    .usage = "",
    .summary = "print the manual page (semfocus man | man -l -)",
    .groups = 0,
    .run = run_man,
};
