#include "train/own_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "io/lines.h"
#include "io/regular.h"
#include "tasks/corpus.h"
#include "tasks/dataset.h"
#include "tasks/table_data.h"

static const double held_out_share = 0.2; /* of a table without a separate held-out file */

typedef enum own_kind { NOT_OWN, OWN_TSV, OWN_CSV, OWN_JSONL, OWN_TEXT } own_kind;

static own_kind kind_of(const char **names, const char *task) {
    static const struct {
        const char *prefix;
        own_kind kind;
    } kinds[] = {{"tsv:", OWN_TSV}, {"csv:", OWN_CSV}, {"jsonl:", OWN_JSONL}, {"text:", OWN_TEXT}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t length = strlen(kinds[i].prefix);
        if (strncmp(task, kinds[i].prefix, length) != 0) continue;
        if (names != NULL) *names = task + length;
        return kinds[i].kind;
    }
    return NOT_OWN;
}

bool sf_run_data_is_own(const char *task) {
    return kind_of(NULL, task) != NOT_OWN;
}

bool sf_run_data_is_text(const char *task) {
    return kind_of(NULL, task) == OWN_TEXT;
}

static void absolute(char out[SF_PATH_SIZE], const char *path) {
    char *real = realpath(path, NULL);
    snprintf(out, SF_PATH_SIZE, "%s", real != NULL ? real : path);
    free(real);
}

const char *sf_run_data_place(char out[SF_PATH_SIZE], const char *task) {
    const char *given;
    if (kind_of(&given, task) == NOT_OWN) return task;
    char first[SF_PATH_SIZE], names[SF_PATH_SIZE], second[SF_PATH_SIZE];
    snprintf(names, sizeof names, "%s", given);
    char *heldout = strchr(names, ',');
    if (heldout != NULL) *heldout++ = '\0';
    absolute(first, names);
    absolute(second, heldout != NULL ? heldout : "");
    const int used = snprintf(out, SF_PATH_SIZE, "%.*s%s%s%s", (int)(given - task), task, first,
                              heldout != NULL ? "," : "", heldout != NULL ? second : "");
    return used > 0 && used < SF_PATH_SIZE ? out : task;
}

/* Windows as the paper trains on them; pieces as language models are usually trained. */
static const char *const window_recipe[] = {"batch", "128", "lr", "1", "gamma", "0.99", NULL};
static const char *const causal_recipe[] = {"optimizer", "adamw", "lr", "0.001",  "schedule", "cosine", "batch",
                                            "32",        "clip",  "1",  "epochs", "10",       NULL};

sf_status sf_own_data_recipe(sf_config *config, const char *task) {
    char path[SF_PATH_SIZE];
    if (*config->tokenizer != '\0' && !sf_tokenizer_is_name(config->tokenizer)) { /* to be found from any folder */
        absolute(path, config->tokenizer);
        if (strlen(path) < sizeof config->tokenizer) strcpy(config->tokenizer, path);
    }
    if (!sf_run_data_is_text(task)) return SF_OK;
    return sf_config_apply_recipe(config, config->readout == SF_READ_EACH ? causal_recipe : window_recipe);
}

static sf_status refuse(const sf_config *config, const char *const *names, const char *why) {
    for (; *names != NULL; names++)
        if (sf_config_given(config, *names))
            return sf_fail_on(SF_BAD_INPUT, *names, "%s %s; leave it out", *names, why);
    return SF_OK;
}

sf_status sf_own_data_check(const char *task, const sf_config *config) {
    static const char *const of_tables[] = {"tokens", "label", "classes", "data-seed", NULL};
    static const char *const of_text[] = {"context", NULL};
    if (!sf_run_data_is_text(task)) return refuse(config, of_text, "belongs to text: data");
    SF_TRY(refuse(config, of_tables, "has no effect on text: data"));
    if (config->readout != SF_READ_EACH || config->causal) return SF_OK;
    return sf_fail_on(
        SF_BAD_INPUT, "causal",
        "readout each on text: data needs --causal: otherwise a position sees the token that it is to predict");
}

static int32_t greater(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* Vocabulary and classes: as set, else one more than the largest seen; with names, as many as there are. */
static sf_status size_up(sf_run_data *data, const sf_config *config) {
    const int32_t token = greater(sf_dataset_largest_token(data->training), sf_dataset_largest_token(data->heldout));
    const int32_t label = greater(sf_dataset_largest_label(data->training), sf_dataset_largest_label(data->heldout));
    const sf_own_facts *own = data->own;
    data->pad = own->tokenizer != NULL ? (int32_t)own->tokenizer->vocab
                : config->vocab > 0    ? (int32_t)config->vocab
                                       : token + 1;
    data->classes = config->classes > 0   ? (size_t)config->classes
                    : own->labels != NULL ? own->labels->count
                                          : (size_t)label + 1;
    if (token >= data->pad)
        return sf_fail_on(SF_BAD_INPUT, "vocab",
                          "token id %d is in the data but vocab is %d; ids must be below it: raise vocab", token,
                          data->pad);
    if ((size_t)label >= data->classes)
        return sf_fail_on(SF_BAD_INPUT, "classes",
                          "label %d is in the data but classes is %zu; labels must be below it: raise classes", label,
                          data->classes);
    return SF_OK;
}

/* TRAIN[,HELDOUT] in a copy of the names; *heldout may become NULL. */
static sf_status split_names(char path[SF_PATH_SIZE], char **heldout, const char *task, const char *names) {
    const int prefix = (int)(names - task);
    if (strlen(names) >= SF_PATH_SIZE)
        return sf_fail(SF_BAD_INPUT, "the file names after %.*s must be shorter than %d characters", prefix, task,
                       SF_PATH_SIZE);
    strcpy(path, names);
    *heldout = strchr(path, ',');
    if (*heldout != NULL) *(*heldout)++ = '\0';
    if (*path == '\0' || (*heldout != NULL && **heldout == '\0'))
        return sf_fail(SF_BAD_INPUT, "'%s' lacks a file name; write %.*sTRAIN or %.*sTRAIN,HELDOUT", task, prefix, task,
                       prefix, task);
    if (strcmp(path, "-") == 0 || (*heldout != NULL && strcmp(*heldout, "-") == 0))
        return sf_fail(SF_BAD_INPUT,
                       "'%s' names standard input, but training reads its data more than once; use a file", task);
    SF_TRY(sf_check_regular(path, "training reads its data more than once"));
    return *heldout != NULL ? sf_check_regular(*heldout, "training reads its data more than once") : SF_OK;
}

static sf_status open_text(sf_run_data *data, const char *names, const sf_config *config, const atomic_int *stop) {
    sf_own_facts *own = data->own;
    const char *tokenizer = *config->tokenizer != '\0' ? config->tokenizer : "char";
    SF_TRY(sf_corpus_open(&own->corpus, names, tokenizer, (size_t)config->vocab, stop));
    own->tokenizer = sf_corpus_tokenizer(own->corpus);
    own->hash = sf_corpus_hash(own->corpus);
    own->context = config->context > 0 ? (size_t)config->context : sf_corpus_context(own->corpus);
    const bool each = config->readout == SF_READ_EACH;
    sf_status (*const cut)(sf_dataset **, const sf_corpus *, sf_split, size_t) =
        each ? sf_corpus_pieces : sf_corpus_windows;
    SF_TRY(sf_fail_in(cut(&data->training, own->corpus, SF_TRAINING, own->context), "%s", names));
    SF_TRY(sf_fail_in(cut(&data->heldout, own->corpus, SF_HELDOUT, own->context), "%s", names));
    /* Line ends are tokens and bytes of the pieces, and neither of the windows. */
    const sf_corpus_part *part = sf_corpus_part_of(own->corpus, SF_HELDOUT);
    const size_t without = each ? 0 : part->line_ends;
    if (sf_tokenizer_keeps_text(own->tokenizer))
        own->bytes_per_token = (double)(part->bytes - without) / (double)(part->count - without);
    data->pad = (int32_t)own->tokenizer->vocab;
    data->classes = own->tokenizer->vocab;
    return SF_OK;
}

typedef enum tsv_form {
    TSV_PUBLISHED, /* Source and Target, which has a reader of its own */
    TSV_IDS,       /* as 'semfocus data' writes it: the header tokens and label, then numbers alone */
    TSV_ANY
} tsv_form;

/* Whether every word is a whole number, of any size, or - where that means something. */
static bool is_numbers(const char *text, bool none_is_one) {
    static const char *const blanks = " \t\r\n";
    for (text += strspn(text, blanks); *text != '\0'; text += strspn(text, blanks)) {
        const size_t length = strcspn(text, blanks), sign = *text == '-' || *text == '+' ? 1 : 0;
        const size_t digits = strspn(text + sign, "0123456789");
        const bool none = none_is_one && length == 1 && *text == '-';
        if (!none && (digits == 0 || sign + digits != length)) return false;
        text += length;
    }
    return true;
}

static sf_status find_form(tsv_form *out, sf_table *table) {
    bool more;
    *out = TSV_PUBLISHED; /* its reader says what is wrong with an empty file */
    SF_TRY(sf_table_next(table, &more));
    if (!more) return SF_OK;
    *out = TSV_ANY;
    if (sf_table_fields(table) != 2) return SF_OK;
    const char *first = sf_table_field(table, 0).text, *second = sf_table_field(table, 1).text;
    const bool ours = strcmp(first, "tokens") == 0 && strcmp(second, "label") == 0;
    if (strcmp(first, "Source") == 0 && strcmp(second, "Target") == 0) *out = TSV_PUBLISHED;
    if (!ours) return SF_OK;
    SF_TRY(sf_table_next(table, &more));
    if (!more || (is_numbers(sf_table_field(table, 0).text, false) && is_numbers(sf_table_field(table, 1).text, true)))
        *out = TSV_IDS;
    return SF_OK;
}

static tsv_form form_of(const char *path) {
    sf_table *table;
    tsv_form form = TSV_ANY;
    if (sf_table_open(&table, path, SF_TABLE_TSV) != SF_OK)
        return form; /* whoever reads the table says what is wrong */
    if (find_form(&form, table) != SF_OK) form = TSV_ANY;
    sf_table_close(table);
    return form;
}

/* One line per row, after the header. */
static sf_status check_published_labels(const sf_run_data *data, const char *heldout) {
    bool *seen;
    size_t count;
    SF_TRY(SF_NEW(&seen, (size_t)sf_dataset_largest_label(data->training) + 1));
    for (size_t i = 0; i < sf_dataset_count(data->training); i++) {
        const int32_t *labels = sf_dataset_labels(data->training, i, &count);
        for (size_t t = 0; t < count; t++)
            if (labels[t] >= 0) seen[labels[t]] = true;
    }
    sf_status status = SF_OK;
    for (size_t i = 0; i < sf_dataset_count(data->heldout) && status == SF_OK; i++) {
        const int32_t *labels = sf_dataset_labels(data->heldout, i, &count);
        for (size_t t = 0; t < count && status == SF_OK; t++)
            if (labels[t] >= 0 && (labels[t] > sf_dataset_largest_label(data->training) || !seen[labels[t]]))
                status = sf_fail(
                    SF_BAD_INPUT,
                    "%s:%zu: label %d is held out but not in the training rows; add rows with it, or leave it out",
                    heldout, i + 2, labels[t]);
    }
    sf_release(seen);
    return status;
}

static sf_status open_published_tsv(sf_run_data *data, const char *training, const char *heldout,
                                    const sf_config *config, const atomic_int *stop) {
    if (heldout != NULL) {
        SF_TRY(sf_dataset_read_until(&data->training, training, stop));
        SF_TRY(sf_dataset_read_until(&data->heldout, heldout, stop));
        return check_published_labels(data, heldout);
    }
    sf_dataset *all;
    SF_TRY(sf_dataset_read_until(&all, training, stop));
    const sf_status status =
        sf_dataset_hold_out(&data->training, &data->heldout, all, sf_run_data_seed(config), held_out_share);
    sf_dataset_destroy(all);
    return sf_fail_in(status, "%s", training);
}

static uint64_t hash_names(const sf_table_data *table) {
    uint64_t hash = SF_HASH_START;
    if (table->tokenizer == NULL && table->labels.count == 0) return 0;
    if (table->tokenizer != NULL) hash = sf_hash(hash, &table->tokenizer->hash, sizeof table->tokenizer->hash);
    return sf_hash(hash, table->labels.text, table->labels.text_used);
}

static sf_status open_table(sf_run_data *data, const sf_table_request *request, const atomic_int *stop) {
    sf_own_facts *own = data->own;
    SF_TRY(sf_table_data_open(&own->table, request, stop));
    sf_table_data *table = own->table;
    data->training = table->training;
    data->heldout = table->heldout;
    table->training = table->heldout = NULL;
    own->tokenizer = table->tokenizer;
    own->labels = table->labels.count > 0 ? &table->labels : NULL;
    own->hash = hash_names(table);
    return own->tokenizer != NULL ? sf_corpus_keep_tokenizer(own->tokenizer) : SF_OK;
}

static sf_status open_rows(sf_run_data *data, own_kind kind, const char *training, const char *heldout,
                           const sf_config *config, const atomic_int *stop) {
    if (heldout != NULL && config->data_seed >= 0)
        return sf_fail_on(SF_BAD_INPUT, "data-seed",
                          "data-seed has no effect on data with a held-out file; leave it out");
    const bool asked = *config->tokenizer != '\0' || *config->tokens_column != '\0' || *config->label_column != '\0';
    const tsv_form form = kind == OWN_TSV && !asked ? form_of(training) : TSV_ANY;
    const sf_table_request request = {.format = kind == OWN_TSV   ? SF_TABLE_TSV
                                                : kind == OWN_CSV ? SF_TABLE_CSV
                                                                  : SF_TABLE_JSONL,
                                      .training = training,
                                      .heldout = heldout,
                                      .columns = {config->tokens_column, config->label_column},
                                      .tokenizer = config->tokenizer,
                                      .vocab = (size_t)config->vocab,
                                      .each = config->readout == SF_READ_EACH,
                                      .ids = form == TSV_IDS,
                                      .seed = sf_run_data_seed(config),
                                      .share = held_out_share};
    SF_TRY(form == TSV_PUBLISHED ? open_published_tsv(data, training, heldout, config, stop)
                                 : open_table(data, &request, stop));
    return size_up(data, config);
}

sf_status sf_own_data_open(sf_run_data *out, const char *task, const sf_config *config, const atomic_int *stop) {
    char path[SF_PATH_SIZE], *heldout = NULL;
    const char *names = task;
    const own_kind kind = kind_of(&names, task);
    SF_TRY(split_names(path, &heldout, task, names));
    SF_TRY(SF_NEW(&out->own, 1));
    if (kind == OWN_TEXT) return open_text(out, names, config, stop);
    return open_rows(out, kind, path, heldout, config, stop);
}

sf_status sf_own_data_without_text(sf_run_data *out, sf_tokenizer *tokenizer, size_t context) {
    *out = (sf_run_data){.pad = (int32_t)tokenizer->vocab, .classes = tokenizer->vocab, .longest = context};
    sf_status status = SF_NEW(&out->own, 1);
    if (status == SF_OK) status = sf_dataset_create(&out->training, 0, 0, true);
    if (status == SF_OK) status = sf_dataset_create(&out->heldout, 0, 0, true);
    if (status != SF_OK) {
        sf_tokenizer_destroy(tokenizer);
        sf_run_data_close(out);
        return status;
    }
    *out->own = (sf_own_facts){.tokenizer = tokenizer, .kept = tokenizer, .context = context};
    return SF_OK;
}

void sf_own_data_close(sf_run_data *data) {
    if (data->own == NULL) return;
    sf_tokenizer_destroy(data->own->kept);
    sf_corpus_close(data->own->corpus);
    sf_table_data_close(data->own->table);
    sf_release(data->own);
    data->own = NULL;
}
