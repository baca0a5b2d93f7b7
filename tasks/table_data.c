#include "tasks/table_data.h"

#include <stdio.h>

#include "base/stop.h"
#include "base/text.h"
#include "tasks/dataset.h"

enum { LARGEST_ID = 65535 };

typedef struct loading {
    const sf_table_request *request;
    sf_table_rows training, heldout; /* the second only where it has a file of its own */
    bool *held;                      /* [training.count]: rows that are held out; NULL: none of this file */
    bool ids, numbers;               /* what tokens and labels are */
    bool *seen;                      /* [LARGEST_ID + 1]: the numbers that are labels of training rows */
    bool checks;                     /* the rows being read are held out, in a file of their own */
    sf_table_data *data;
    const atomic_int *stop;
} loading;

#define FAIL(rows, i, ...) sf_fail_in(sf_fail(SF_BAD_INPUT, __VA_ARGS__), "%s:%zu", (rows)->path, (rows)->at[i].line)

/* The next word between blanks from *text on; false: there is none. */
static bool next_word(const char **word, size_t *length, const char **text) {
    *word = *text + strspn(*text, " \t\r\n");
    *length = strcspn(*word, " \t\r\n");
    *text = *word + *length;
    return *length > 0;
}

static bool read_id(int32_t *out, const char *word, size_t length) {
    char digits[24];
    int64_t value;
    if (length >= sizeof digits) return false;
    memcpy(digits, word, length);
    digits[length] = '\0';
    if (!sf_text_integer(&value, digits) || value < 0 || value > LARGEST_ID) return false;
    *out = (int32_t)value;
    return true;
}

static bool all_ids(const char *text) {
    const char *word;
    size_t length;
    int32_t id;
    while (next_word(&word, &length, &text))
        if (!read_id(&id, word, length)) return false;
    return true;
}

static const char *quote(char out[SF_QUOTE_SIZE], const char *word, size_t length) {
    char copy[SF_QUOTE_SIZE];
    const size_t shown = length < sizeof copy - 1 ? length : sizeof copy - 1;
    memcpy(copy, word, shown);
    copy[shown] = '\0';
    return sf_text_quote(out, copy);
}

static bool is_none(const char *word, size_t length) {
    return length == 1 && *word == '-';
}

/* Whether the first label of the first row that has one is a number. */
static bool first_label_is_number(const sf_table_rows *rows, bool each) {
    for (size_t i = 0; i < rows->count; i++) {
        const char *text = sf_table_label(rows, i), *word;
        size_t length;
        int32_t id;
        if (!each) return read_id(&id, text, strlen(text));
        while (next_word(&word, &length, &text))
            if (!is_none(word, length)) return read_id(&id, word, length);
    }
    return true;
}

static bool by_words(const loading *l) {
    return (l->request->each || l->training.lists) &&
           (*l->request->tokenizer == '\0' || strcmp(l->request->tokenizer, "word") == 0);
}

static bool is_held(const loading *l, size_t i) {
    return l->held != NULL && l->held[i];
}

static sf_status train_on_words(loading *l) {
    sf_words seen = {0};
    sf_status status = SF_OK;
    for (size_t i = 0; i < l->training.count && status == SF_OK; i++) {
        if (is_held(l, i)) continue;
        const char *text = sf_table_tokens(&l->training, i), *word;
        size_t length;
        while (status == SF_OK && next_word(&word, &length, &text)) status = sf_words_add(NULL, &seen, word, length);
    }
    if (status == SF_OK) status = sf_tokenizer_of_words(&l->data->tokenizer, &seen, l->request->vocab);
    sf_words_release(&seen);
    return status;
}

static sf_status train_on_text(loading *l, const char *name) {
    sf_bytes text = {0};
    sf_status status = SF_OK;
    for (size_t i = 0; i < l->training.count && status == SF_OK; i++) {
        if (is_held(l, i)) continue;
        status = sf_bytes_add(&text, sf_table_tokens(&l->training, i), l->training.at[i].token_bytes);
        if (status == SF_OK) status = sf_bytes_add(&text, "\n", 1);
    }
    if (status == SF_OK) status = sf_tokenizer_train(&l->data->tokenizer, name, l->request->vocab, text.at, text.count);
    sf_bytes_release(&text);
    return sf_fail_in(status, "%s", l->training.path);
}

static sf_status find_tokenizer(loading *l) {
    const char *name = *l->request->tokenizer != '\0' ? l->request->tokenizer : "word";
    if (l->ids) return SF_OK;
    if (by_words(l)) return train_on_words(l);
    return sf_tokenizer_is_name(name) ? train_on_text(l, name) : sf_tokenizer_read(&l->data->tokenizer, name);
}

static sf_status add_names(sf_words *out, const char *text, bool each) {
    const char *word;
    size_t length;
    if (!each) return sf_words_add(NULL, out, text, strlen(text));
    while (next_word(&word, &length, &text))
        if (!is_none(word, length)) SF_TRY(sf_words_add(NULL, out, word, length));
    return SF_OK;
}

static sf_status find_names(loading *l) {
    sf_words seen = {0};
    sf_status status = SF_OK;
    if (l->numbers) return SF_OK;
    for (size_t i = 0; i < l->training.count && status == SF_OK; i++)
        status = add_names(&seen, sf_table_label(&l->training, i), l->request->each);
    if (status == SF_OK) status = sf_words_sorted(&l->data->labels, &seen, SF_BY_BYTES, SIZE_MAX);
    sf_words_release(&seen);
    if (status == SF_OK && l->data->labels.count > LARGEST_ID + 1)
        status =
            sf_fail(SF_BAD_INPUT, "%s: has %zu different labels but at most %d are possible; is this the label column?",
                    l->training.path, l->data->labels.count, LARGEST_ID + 1);
    return status;
}

static sf_status mixed(const loading *l, const sf_table_rows *rows, size_t i, const char *word, size_t length) {
    char quoted[SF_QUOTE_SIZE];
    if (l->request->ids)
        return FAIL(rows, i, "label '%s' is not valid; write an integer 0..%d", quote(quoted, word, length),
                    LARGEST_ID);
    if (l->numbers)
        return FAIL(
            rows, i,
            "label '%s' is not a number 0..%d, unlike those before it; write all labels as numbers or all as text",
            quote(quoted, word, length), LARGEST_ID);
    return FAIL(
        rows, i,
        "label '%s' is a number, unlike those before it; write all labels as text or all as numbers, or name the "
        "columns with --tokens and --label if the first line is a header",
        quote(quoted, word, length));
}

static sf_status read_label(int32_t *out, const loading *l, const sf_table_rows *rows, size_t i, const char *word,
                            size_t length) {
    size_t index = 0;
    char quoted[SF_QUOTE_SIZE];
    const bool number = read_id(out, word, length);
    if (number != l->numbers) return mixed(l, rows, i, word, length);
    if (number && !l->checks) l->seen[*out] = true;
    if (number ? !l->seen[*out] : !sf_words_find(&index, &l->data->labels, word, length))
        return FAIL(rows, i, "label '%s' is held out but not in the training rows; add rows with it, or leave it out",
                    quote(quoted, word, length));
    if (!number) *out = (int32_t)index;
    return SF_OK;
}

/* The ids of a row, appended to an empty list. */
static sf_status read_tokens(sf_ids *ids, const loading *l, const sf_table_rows *rows, size_t i) {
    const char *text = sf_table_tokens(rows, i), *word;
    char quoted[SF_QUOTE_SIZE];
    size_t length;
    if (!l->ids && !by_words(l))
        return sf_fail_in(sf_tokenizer_encode(ids, l->data->tokenizer, text, rows->at[i].token_bytes), "%s:%zu",
                          rows->path, rows->at[i].line);
    while (next_word(&word, &length, &text)) {
        int32_t id;
        if (!l->ids)
            id = sf_tokenizer_word_id(l->data->tokenizer, word, length);
        else if (!read_id(&id, word, length) && l->request->ids)
            return FAIL(rows, i, "token '%s' is not valid; write an integer 0..%d", quote(quoted, word, length),
                        LARGEST_ID);
        else if (!read_id(&id, word, length))
            return FAIL(
                rows, i,
                "token '%s' is not an integer 0..%d, unlike those before it; correct it, or set --tokenizer to read "
                "all tokens as text",
                quote(quoted, word, length), LARGEST_ID);
        SF_TRY(sf_ids_add(ids, id));
    }
    return SF_OK;
}

static sf_status read_labels(int32_t *labels, const loading *l, const sf_table_rows *rows, size_t i, size_t count) {
    const char *text = sf_table_label(rows, i), *word;
    size_t length, found = 0;
    for (; next_word(&word, &length, &text); found++) {
        if (found >= count) continue;
        labels[found] = -1;
        if (!is_none(word, length)) SF_TRY(read_label(&labels[found], l, rows, i, word, length));
    }
    if (found == count) return SF_OK;
    return FAIL(rows, i, "has %zu labels for %zu tokens; give one label per token, - for none", found, count);
}

static sf_status add_row(sf_dataset *data, const loading *l, const sf_table_rows *rows, size_t i, sf_ids *ids) {
    int32_t *tokens, *labels, label = 0;
    ids->count = 0;
    SF_TRY(read_tokens(ids, l, rows, i));
    if (ids->count == 0) return FAIL(rows, i, "has no tokens; give at least one, or leave out the row");
    SF_TRY(sf_dataset_open_row(&tokens, &labels, data, ids->count));
    memcpy(tokens, ids->at, ids->count * sizeof *tokens);
    if (l->request->each) {
        SF_TRY(read_labels(labels, l, rows, i, ids->count));
        sf_dataset_close_row_each(data, ids->count);
        return SF_OK;
    }
    const char *text = sf_table_label(rows, i);
    if (l->request->ids && strpbrk(text, " \t") != NULL)
        return sf_fail_about(FAIL(rows, i, "has one label per token; set readout to each"), "readout");
    SF_TRY(read_label(&label, l, rows, i, text, strlen(text)));
    sf_dataset_close_row(data, ids->count, label);
    return SF_OK;
}

/* The rows of a file that are held out, or those that are not. */
static sf_status fill(sf_dataset **out, const loading *l, const sf_table_rows *rows, const bool *held, bool wanted) {
    sf_ids ids = {0};
    SF_TRY(sf_dataset_create(out, 0, 0, l->request->each));
    sf_status status = SF_OK;
    for (size_t i = 0; i < rows->count && status == SF_OK; i++) {
        if (sf_stop_asked(l->stop)) status = sf_fail(SF_INTERRUPTED, "stopped on request");
        if (status == SF_OK && (held != NULL && held[i]) == wanted) status = add_row(*out, l, rows, i, &ids);
    }
    sf_ids_release(&ids);
    return status;
}

/* A dataset of row numbers is split as a dataset of the rows would be. */
static sf_status choose_held_out(loading *l) {
    sf_dataset *numbers = NULL, *training = NULL, *heldout = NULL;
    int32_t *token;
    sf_status status = SF_NEW(&l->held, l->training.count);
    if (status == SF_OK) status = sf_dataset_create(&numbers, l->training.count, l->training.count, false);
    for (size_t i = 0; i < l->training.count && status == SF_OK; i++) {
        status = sf_dataset_open_row(&token, NULL, numbers, 1);
        if (status != SF_OK) break;
        *token = (int32_t)i;
        sf_dataset_close_row(numbers, 1, 0);
    }
    if (status == SF_OK)
        status = sf_fail_in(sf_dataset_hold_out(&training, &heldout, numbers, l->request->seed, l->request->share),
                            "%s", l->training.path);
    for (size_t i = 0, count; status == SF_OK && i < sf_dataset_count(heldout); i++)
        l->held[*sf_dataset_tokens(heldout, i, &count)] = true;
    sf_dataset_destroy(numbers);
    sf_dataset_destroy(training);
    sf_dataset_destroy(heldout);
    return status;
}

/* Without names of columns, the first row counts as data; a label of its own makes that doubtful. */
static bool is_first_row_odd(const loading *l) {
    const sf_table_rows *rows = &l->training;
    if (rows->named || l->numbers || l->request->each || l->data->labels.count + 1 >= rows->count) return false;
    for (size_t i = 1; i < rows->count; i++)
        if (strcmp(sf_table_label(rows, i), sf_table_label(rows, 0)) == 0) return false;
    return true;
}

static sf_status load(loading *l) {
    const sf_table_request *request = l->request;
    SF_TRY(sf_table_rows_read(&l->training, request->training, request->format, &request->columns, l->stop));
    if (request->heldout != NULL)
        SF_TRY(sf_table_rows_read(&l->heldout, request->heldout, request->format, &request->columns, l->stop));
    else
        SF_TRY(choose_held_out(l));
    l->ids = request->ids || (*request->tokenizer == '\0' && all_ids(sf_table_tokens(&l->training, 0)));
    l->numbers = request->ids || first_label_is_number(&l->training, request->each);
    SF_TRY(SF_NEW(&l->seen, LARGEST_ID + 1));
    SF_TRY(find_tokenizer(l));
    SF_TRY(find_names(l));
    l->data->odd_first_row = is_first_row_odd(l);
    SF_TRY(fill(&l->data->training, l, &l->training, l->held, false));
    l->checks = request->heldout != NULL;
    const sf_table_rows *held_out = request->heldout != NULL ? &l->heldout : &l->training;
    return fill(&l->data->heldout, l, held_out, l->held, request->heldout == NULL);
}

sf_status sf_table_data_open(sf_table_data **out, const sf_table_request *request, const atomic_int *stop) {
    loading l = {.request = request, .stop = stop};
    *out = NULL;
    SF_TRY(SF_NEW(&l.data, 1));
    const sf_status status = load(&l);
    sf_table_rows_release(&l.training);
    sf_table_rows_release(&l.heldout);
    sf_release(l.held);
    sf_release(l.seen);
    if (status != SF_OK) {
        sf_table_data_close(l.data);
        return status;
    }
    *out = l.data;
    return SF_OK;
}

void sf_table_data_close(sf_table_data *data) {
    if (data == NULL) return;
    sf_dataset_destroy(data->training);
    sf_dataset_destroy(data->heldout);
    sf_tokenizer_destroy(data->tokenizer);
    sf_words_release(&data->labels);
    sf_release(data);
}
