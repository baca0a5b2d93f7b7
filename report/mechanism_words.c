#include "report/mechanism_words.h"

#include <string.h>

#include "report/svg.h"
#include "semfocus/attention.h"
#include "study/study.h"

static bool is_loaded(const sf_study *study, size_t group) {
    const sf_run_code *missing = sf_study_missing_code(study, sf_study_member(study, group, 0));
    return missing == NULL || !missing->lacks_attention;
}

static const char *mechanism_of(const sf_study *study, size_t group) {
    size_t count;
    return sf_study_runs(study, &count)[sf_study_member(study, group, 0)].attention;
}

static bool is_new(const sf_study *study, size_t from, size_t group) {
    for (size_t g = from; g < group; g++)
        if (is_loaded(study, g) && strcmp(mechanism_of(study, g), mechanism_of(study, group)) == 0) return false;
    return true;
}

static void print_one(FILE *out, const char *spelling) {
    sf_attention attention;
    char words[SF_WORDS_SIZE];
    if (sf_attention_parse(&attention, spelling) != SF_OK) return;
    sf_attention_say(words, &attention);
    fputs("<dt>", out);
    sf_markup_name(out, spelling);
    fputs("</dt><dd>", out);
    sf_markup_text(out, words);
    fputs("</dd>\n", out);
}

/* Mechanisms of plug-ins that are not loaded are left out. */
void sf_mechanism_words_print(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<details class=\"words\"><summary>What the names of the mechanisms mean</summary>\n<dl>\n", out);
    for (size_t g = from; g < to; g++)
        if (is_loaded(study, g) && is_new(study, from, g)) print_one(out, mechanism_of(study, g));
    fputs("</dl>\n</details>\n", out);
}
