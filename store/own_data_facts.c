#include "store/own_data_facts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/elementary.h"
#include "semfocus/text.h"
#include "tasks/corpus.h"

enum { MOST_NAMES = 1000 }; /* of labels in a record */

static json_t *any_text(const char *text) {
    json_t *value = json_string(text);
    return value != NULL ? value : json_string("(not UTF-8)");
}

static json_t *names_of(const sf_words *labels) {
    json_t *names = json_array();
    for (size_t i = 0; i < labels->count && i < MOST_NAMES; i++)
        json_array_append_new(names, any_text(sf_words_text(labels, i)));
    return names;
}

json_t *sf_own_facts_json(const sf_own_facts *own) {
    char hash[24];
    json_t *facts = json_object();
    if (own->tokenizer != NULL) {
        snprintf(hash, sizeof hash, "%016" PRIx64, own->tokenizer->hash);
        json_object_set_new(facts, "tokenizer", json_string(own->tokenizer->kind->name));
        json_object_set_new(facts, "tokenizer_hash", json_string(hash));
        json_object_set_new(facts, "vocabulary", json_integer((json_int_t)own->tokenizer->vocab));
    }
    if (own->context > 0) json_object_set_new(facts, "context", json_integer((json_int_t)own->context));
    if (own->bytes_per_token > 0) json_object_set_new(facts, "bytes_per_token", json_real(own->bytes_per_token));
    if (own->labels != NULL) json_object_set_new(facts, "labels", names_of(own->labels));
    json_t *all = json_object();
    json_object_set_new(all, "data", facts);
    return all;
}

sf_status sf_own_data_of_record(sf_run_data *out, bool *found, sf_store *store, const sf_stored_run *run) {
    char *environment;
    *found = false;
    SF_TRY(sf_store_environment(&environment, store, run->id));
    json_t *facts = json_loads(environment, 0, NULL);
    const json_t *data = json_object_get(facts, "data");
    const char *hash = json_string_value(json_object_get(data, "tokenizer_hash"));
    const json_int_t context = json_integer_value(json_object_get(data, "context"));
    sf_tokenizer *tokenizer = hash != NULL ? sf_corpus_kept_tokenizer(strtoull(hash, NULL, 16)) : NULL;
    free(environment);
    json_decref(facts);
    *found = tokenizer != NULL && context > 0;
    if (*found) return sf_own_data_without_text(out, tokenizer, (size_t)context);
    sf_tokenizer_destroy(tokenizer);
    return SF_OK;
}

static void take_last(void *last, const sf_epoch *row) {
    *(sf_epoch *)last = *row;
}

static double bytes_per_token(const char *environment) {
    json_t *facts = json_loads(environment, 0, NULL);
    const double bytes = json_number_value(json_object_get(json_object_get(facts, "data"), "bytes_per_token"));
    json_decref(facts);
    return bytes;
}

sf_status sf_text_result_of(sf_text_result *out, sf_store *store, const sf_stored_run *run) {
    *out = (sf_text_result){.perplexity = NAN, .bits_per_byte = NAN};
    if (!sf_run_data_is_text(run->task) || run->epochs == 0) return SF_OK;
    sf_epoch last = {0};
    char *environment;
    SF_TRY(sf_store_each_epoch(store, run, take_last, &last));
    SF_TRY(sf_store_environment(&environment, store, run->id));
    const double bytes = bytes_per_token(environment);
    free(environment);
    out->perplexity = sf_exp(last.heldout_loss);
    if (bytes > 0) out->bits_per_byte = last.heldout_loss / sf_log(2) / bytes;
    return SF_OK;
}
