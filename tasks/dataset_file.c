/* Labelled sequences as TSV. Reading is strict: the first line names one of two forms, every other line is one
 * row of words, one tab and its labels.
 *
 *   tokens<TAB>label      token ids 0..65535 and a label 0..65535:             0 1 3 2 2<TAB>0
 *                         or as many labels as tokens, "-" for none:           0 1 3 2 2<TAB>- - 3 - 2
 *   Source<TAB>Target     ListOps as published, parentheses to be ignored:     ( ( ( [MAX 2 ) 3 ) ] )<TAB>3
 *
 * All rows of a file have one label, or all have one per token; a row of a single token can be either. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/stop.h"
#include "base/text.h"
#include "io/atomic_file.h"
#include "io/lines.h"
#include "tasks/dataset.h"

enum { LARGEST_ID = 65535 };

static sf_status read_number(int32_t *out, const char *what, const char *text, int32_t largest) {
    int64_t value;
    if (!sf_text_integer(&value, text) || value < 0 || value > largest) {
        char quoted[SF_QUOTE_SIZE];
        return sf_fail(SF_BAD_INPUT, "%s '%s' is not valid; write an integer 0..%d", what, sf_text_quote(quoted, text),
                       largest);
    }
    *out = (int32_t)value;
    return SF_OK;
}

static sf_status append_id(int32_t *tokens, size_t *count, const char *word) {
    SF_TRY(read_number(&tokens[*count], "token", word, LARGEST_ID));
    ++*count;
    return SF_OK;
}

static sf_status append_listops(int32_t *tokens, size_t *count, const char *word) {
    static const char *const words[] = {"0", "1", "2",    "3",    "4",    "5",   "6", "7",
                                        "8", "9", "[MIN", "[MAX", "[MED", "[SM", "]"}; /* by token id */
    if (strcmp(word, "(") == 0 || strcmp(word, ")") == 0) return SF_OK;
    for (size_t id = 0; id < sizeof words / sizeof *words; id++) {
        if (strcmp(word, words[id]) != 0) continue;
        tokens[(*count)++] = (int32_t)id;
        return SF_OK;
    }
    char quoted[SF_QUOTE_SIZE];
    return sf_fail(SF_BAD_INPUT,
                   "'%s' is not a word of ListOps; use 0..9 [MIN [MAX [MED [SM ] ( ) with blanks between them",
                   sf_text_quote(quoted, word));
}

typedef struct file_form {
    const char *header;
    int32_t largest_label;
    bool may_label_each;
    sf_status (*append)(int32_t *tokens, size_t *count, const char *word);
} file_form;

static const file_form forms[] = {
    {.header = "tokens\tlabel", .largest_label = LARGEST_ID, .may_label_each = true, .append = append_id},
    {.header = "Source\tTarget", .largest_label = 9, .append = append_listops},
};

static sf_status find_form(const file_form **out, const char *header) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        *out = &forms[i];
        if (strcmp(header, forms[i].header) == 0) return SF_OK;
    }
    char quoted[SF_QUOTE_SIZE];
    return sf_fail(SF_BAD_INPUT,
                   "the file starts with '%s'; its first line must be tokens<TAB>label or Source<TAB>Target",
                   sf_text_quote(quoted, header));
}

/* Cuts the next word off the text, NULL when only blanks are left. */
static char *next_word(char **text) {
    char *word = *text;
    while (*word == ' ') word++;
    char *end = word;
    while (*end != ' ' && *end != '\0') end++;
    *text = *end == '\0' ? end : end + 1;
    *end = '\0';
    return end == word ? NULL : word;
}

static size_t count_words(const char *text) {
    size_t count = 0;
    for (; *text != '\0'; text++) count += *text != ' ' && (text[1] == ' ' || text[1] == '\0');
    return count;
}

/* Whether the row has one label per token. Settles which kind the file has, at its first row that is not both. */
static sf_status settle_kind(bool *each, sf_dataset *data, const file_form *form, const char *text, size_t tokens) {
    const size_t labels = count_words(text);
    const bool none = strcmp(text, "-") == 0;
    *each = form->may_label_each && (data->labels_each || labels > 1 || (none && tokens == 1));
    if (!*each) return SF_OK;
    if (labels != tokens)
        return sf_fail(SF_BAD_INPUT,
                       "%zu labels for %zu tokens; give one label per row, or one per token in every row "
                       "(- where there is none)",
                       labels, tokens);
    if (data->labels_each) return SF_OK;
    if (data->longest > 1)
        return sf_fail(SF_BAD_INPUT, "one label per token, but the rows before have one label; write all rows alike");
    return sf_dataset_make_each(data);
}

static sf_status read_labels(int32_t *labels, const file_form *form, char *text) {
    for (char *word; (word = next_word(&text)) != NULL; labels++) {
        *labels = -1;
        if (strcmp(word, "-") != 0) SF_TRY(read_number(labels, "label", word, form->largest_label));
    }
    return SF_OK;
}

static sf_status read_row(sf_dataset *data, const file_form *form, char *line) {
    char quoted[SF_QUOTE_SIZE];
    char *tab = strchr(line, '\t');
    if (tab == NULL)
        return sf_fail(SF_BAD_INPUT, "'%s' has no tab; a row is a sequence, one tab and a label",
                       sf_text_quote(quoted, line));
    if (strchr(tab + 1, '\t') != NULL)
        return sf_fail(SF_BAD_INPUT, "'%s' has more than one tab; a row is a sequence, one tab and a label",
                       sf_text_quote(quoted, line));
    *tab = '\0';
    int32_t *tokens, label = 0;
    size_t count = 0;
    bool each;
    SF_TRY(sf_dataset_open_row(&tokens, NULL, data, (size_t)(tab - line) / 2 + 1)); /* a blank between two words */
    for (char *word; (word = next_word(&line)) != NULL;) SF_TRY(form->append(tokens, &count, word));
    if (count == 0) return sf_fail(SF_BAD_INPUT, "the sequence before the tab is empty; give at least one token");
    SF_TRY(settle_kind(&each, data, form, tab + 1, count));
    if (each) {
        SF_TRY(read_labels(data->own_labels + data->tokens_used, form, tab + 1));
        sf_dataset_close_row_each(data, count);
        return SF_OK;
    }
    SF_TRY(read_number(&label, "label", tab + 1, form->largest_label));
    sf_dataset_close_row(data, count, label);
    return SF_OK;
}

static sf_status read_rows(sf_dataset *data, sf_lines *lines, const atomic_int *stop) {
    const file_form *form;
    char *line = sf_lines_next(lines);
    if (line == NULL)
        return sf_fail(SF_BAD_INPUT, "%s:1: is empty; write the line tokens<TAB>label, then one row per line",
                       lines->name);
    SF_TRY(sf_fail_in(find_form(&form, line), "%s:%zu", lines->name, lines->number));
    while ((line = sf_lines_next(lines)) != NULL) {
        if (sf_stop_asked(stop)) return sf_fail(SF_INTERRUPTED, "stopped on request");
        SF_TRY(sf_fail_in(read_row(data, form, line), "%s:%zu", lines->name, lines->number));
    }
    if (sf_dataset_count(data) == 0)
        return sf_fail(SF_BAD_INPUT, "%s:%zu: no row follows the header; add at least one", lines->name, lines->number);
    if (sf_dataset_label_count(data) == 0)
        return sf_fail(SF_BAD_INPUT, "%s: no token has a label; write a label for at least one", lines->name);
    return SF_OK;
}

sf_status sf_dataset_read(sf_dataset **out, const char *path) {
    return sf_dataset_read_until(out, path, NULL);
}

sf_status sf_dataset_read_until(sf_dataset **out, const char *path, const atomic_int *stop) {
    *out = NULL;
    sf_lines lines;
    SF_TRY(sf_lines_read(&lines, path));
    sf_dataset *data;
    sf_status status = sf_dataset_create(&data, 0, 0, false);
    if (status == SF_OK) status = read_rows(data, &lines, stop);
    sf_lines_release(&lines);
    if (status != SF_OK) {
        sf_dataset_destroy(data);
        return status;
    }
    *out = data;
    return SF_OK;
}

static void print_label(FILE *stream, int32_t label) {
    if (label < 0)
        fputc('-', stream);
    else
        fprintf(stream, "%d", label);
}

static void print_rows(FILE *stream, const sf_dataset *data) {
    fputs("tokens\tlabel\n", stream);
    for (size_t i = 0; i < sf_dataset_count(data) && ferror(stream) == 0; i++) {
        size_t count;
        const int32_t *tokens = sf_dataset_tokens(data, i, &count);
        for (size_t t = 0; t < count; t++) fprintf(stream, t > 0 ? " %d" : "%d", tokens[t]);
        const int32_t *labels = sf_dataset_labels(data, i, &count);
        for (size_t t = 0; t < count; t++) {
            fputc(t > 0 ? ' ' : '\t', stream);
            print_label(stream, labels[t]);
        }
        fputc('\n', stream);
    }
}

sf_status sf_dataset_write(const sf_dataset *data, const char *path) {
    if (strcmp(path, "-") == 0) {
        print_rows(stdout, data);
        if (fflush(stdout) == 0 && ferror(stdout) == 0) return SF_OK;
        return sf_fail(SF_IO_ERROR, "cannot write standard output: %s", strerror(errno));
    }
    sf_atomic_file file;
    SF_TRY(sf_atomic_open(&file, path));
    print_rows(file.stream, data);
    return sf_atomic_commit(&file);
}
