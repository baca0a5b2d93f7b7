#include "report/mechanism_words.h"

#include <string.h>

#include "report/svg.h"
#include "semfocus/attention.h"

static const char *mechanism_of(const sf_study *study, size_t group) {
    size_t count;
    return sf_study_runs(study, &count)[sf_study_member(study, group, 0)].attention;
}

static bool is_new(const sf_study *study, size_t from, size_t group) {
    for (size_t g = from; g < group; g++)
        if (strcmp(mechanism_of(study, g), mechanism_of(study, group)) == 0) return false;
    return true;
}

/* The mechanism of a plug-in that is not loaded cannot be read, and is left out. */
static void print_one(FILE *out, const char *spelling) {
    sf_attention attention;
    char words[SF_WORDS_SIZE];
    if (sf_attention_parse(&attention, spelling) != SF_OK) return;
    sf_attention_say(words, &attention);
    fputs("<dt>", out);
    sf_markup_text(out, spelling);
    fputs("</dt><dd>", out);
    sf_markup_text(out, words);
    fputs("</dd>\n", out);
}

void sf_mechanism_words_print(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<details class=\"words\"><summary>What the names of the mechanisms mean</summary>\n<dl>\n", out);
    for (size_t g = from; g < to; g++)
        if (is_new(study, from, g)) print_one(out, mechanism_of(study, g));
    fputs("</dl>\n</details>\n", out);
}
