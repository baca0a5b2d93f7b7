#include "tasks/corpus.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/text.h"
#include "semfocus/settings.h"
#include "tasks/dataset.h"
#include "tasks/made.h"
#include "tasks/text_file.h"

enum {
    LONGEST_LINE = 1 << 30,         /* whose ids fit in memory */
    LONGEST_PIECES_LINE = 16 << 20, /* SentencePiece needs many times that */
    HELD_OUT_PART = 10              /* one line of so many, the last ones */
};

typedef enum stretch { WHOLE, FIRST_LINES, LAST_LINES } stretch;

typedef struct source { /* one text file */
    sf_text_file file;
    sf_bytes text; /* read when it is needed */
} source;

struct sf_corpus {
    sf_made_tokenizer *tokenizer;
    sf_made_ids *ids[2]; /* by split */
    sf_corpus_part parts[2];
    uint64_t hash;
};

typedef struct making {
    source sources[2]; /* by split; without a held-out file, the second is not used */
    bool shared;       /* both parts are of the first source */
    const char *name;  /* of the tokenizer, or its file */
    size_t vocab;
    const sf_tokenizer *tokenizer;
    sf_split split; /* that is being tokenized */
    const atomic_int *stop;
} making;

static source *source_of(making *m, sf_split split) {
    return &m->sources[m->shared ? SF_TRAINING : split];
}

static stretch stretch_of(const making *m, sf_split split) {
    return !m->shared ? WHOLE : split == SF_TRAINING ? FIRST_LINES : LAST_LINES;
}

static sf_status read_source(source *from) {
    return from->text.at != NULL ? SF_OK : sf_text_file_read(&from->text, &from->file);
}

/* Where the held-out lines begin. */
static size_t split_point(const source *from) {
    const size_t held = from->file.lines / HELD_OUT_PART > 0 ? from->file.lines / HELD_OUT_PART : 1;
    size_t at = 0, length;
    const char *line;
    bool ended;
    for (size_t i = 0; i < from->file.lines - held; i++)
        sf_text_next_line(&line, &length, &ended, &at, from->text.at, from->text.count);
    return at;
}

static sf_status take_text(const char **text, size_t *size, making *m, sf_split split) {
    source *from = source_of(m, split);
    SF_TRY(read_source(from));
    const size_t middle = m->shared ? split_point(from) : 0;
    const stretch part = stretch_of(m, split);
    *text = from->text.at + (part == LAST_LINES ? middle : 0);
    *size = part == FIRST_LINES ? middle : from->text.count - (part == LAST_LINES ? middle : 0);
    return SF_OK;
}

static uint64_t add_number(uint64_t hash, uint64_t number) {
    return sf_hash(hash, &number, sizeof number);
}

static uint64_t text_key(making *m, sf_split split) {
    return add_number(add_number(SF_HASH_START, source_of(m, split)->file.hash), (uint64_t)stretch_of(m, split));
}

static sf_status make_tokenizer(sf_tokenizer **out, void *context) {
    making *m = context;
    if (!sf_tokenizer_is_name(m->name)) return sf_tokenizer_read(out, m->name);
    const char *text;
    size_t size;
    char what[256];
    SF_TRY(take_text(&text, &size, m, SF_TRAINING));
    snprintf(what, sizeof what, "learning a tokenizer from %s", m->sources[0].file.path);
    sf_text_tell_progress(what, -1);
    const sf_status status = sf_tokenizer_train(out, m->name, m->vocab, text, size);
    sf_text_tell_progress("", 1);
    return sf_fail_in(status, "%s", m->sources[0].file.path);
}

static sf_status make_ids(FILE *out, void *context, uint64_t key) {
    making *m = context;
    sf_token_source from = {.tokenizer = m->tokenizer, .key = key, .name = source_of(m, m->split)->file.path};
    SF_TRY(take_text(&from.text, &from.size, m, m->split));
    return sf_token_file_write(out, &from, m->stop);
}

/* A tokenizer that was trained is known by what it was trained on, one in a file by its contents. */
static sf_status tokenizer_key(uint64_t *out, making *m) {
    if (sf_tokenizer_is_name(m->name)) {
        *out = add_number(sf_hash(text_key(m, SF_TRAINING), m->name, strlen(m->name)), m->vocab);
        return SF_OK;
    }
    sf_tokenizer *tokenizer;
    SF_TRY(sf_tokenizer_read(&tokenizer, m->name));
    *out = tokenizer->hash;
    const size_t vocab = tokenizer->vocab;
    sf_tokenizer_destroy(tokenizer);
    if (m->vocab == 0 || m->vocab == vocab) return SF_OK;
    return sf_fail_on(SF_BAD_INPUT, "vocab", "vocab is %zu but the tokenizer '%s' has %zu ids; leave vocab out",
                      m->vocab, m->name, vocab);
}

static sf_status take_part(sf_corpus *corpus, making *m, sf_split split) {
    m->split = split;
    const uint64_t key = add_number(text_key(m, split), m->tokenizer->hash);
    SF_TRY(sf_made_take_ids(&corpus->ids[split], key, make_ids, m));
    const sf_token_map *map = sf_made_map_of(corpus->ids[split]);
    corpus->parts[split] = (sf_corpus_part){.ids = map->ids,
                                            .count = (size_t)map->facts.count,
                                            .lines = (size_t)map->facts.lines,
                                            .line_ends = (size_t)map->facts.line_ends,
                                            .bytes = (size_t)map->facts.bytes};
    return SF_OK;
}

static sf_status make_corpus(sf_corpus *corpus, making *m) {
    uint64_t key = 0;
    SF_TRY(tokenizer_key(&key, m));
    SF_TRY(sf_made_take_tokenizer(&corpus->tokenizer, key, make_tokenizer, m));
    m->tokenizer = sf_made_tokenizer_of(corpus->tokenizer);
    SF_TRY(take_part(corpus, m, SF_TRAINING));
    SF_TRY(take_part(corpus, m, SF_HELDOUT));
    corpus->hash = add_number(add_number(text_key(m, SF_TRAINING), text_key(m, SF_HELDOUT)), m->tokenizer->hash);
    return SF_OK;
}

static bool is_pieces(const char *name) {
    return strcmp(name, "byte") != 0 && strcmp(name, "char") != 0 && strcmp(name, "word") != 0;
}

static sf_status examine_sources(making *m, const char *first, const char *second) {
    const sf_text_limits limits = {.binary = strcmp(m->name, "byte") == 0,
                                   .longest_line = is_pieces(m->name) ? LONGEST_PIECES_LINE : LONGEST_LINE};
    SF_TRY(sf_text_file_examine(&m->sources[0].file, first, &limits, m->stop));
    m->shared = second == NULL;
    if (!m->shared) return sf_text_file_examine(&m->sources[1].file, second, &limits, m->stop);
    if (m->sources[0].file.lines > 1) return SF_OK;
    return sf_fail(SF_BAD_INPUT,
                   "%s:1: is a single line, of which no lines can be held out; name a held-out text: text:%s,HELDOUT",
                   first, first);
}

sf_status sf_corpus_open(sf_corpus **out, const char *names, const char *tokenizer, size_t vocab,
                         const atomic_int *stop) {
    char path[SF_PATH_SIZE];
    *out = NULL;
    if (strlen(names) >= sizeof path)
        return sf_fail(SF_BAD_INPUT, "the file names after text: must be shorter than %zu characters", sizeof path);
    strcpy(path, names);
    char *heldout = strchr(path, ',');
    if (heldout != NULL) *heldout++ = '\0';
    making m = {.name = tokenizer, .vocab = vocab, .stop = stop};
    SF_TRY(examine_sources(&m, path, heldout));
    sf_corpus *corpus;
    SF_TRY(SF_NEW(&corpus, 1));
    sf_made_lock();
    const sf_status status = make_corpus(corpus, &m);
    sf_made_unlock();
    sf_bytes_release(&m.sources[0].text);
    sf_bytes_release(&m.sources[1].text);
    if (status != SF_OK) {
        sf_corpus_close(corpus);
        return status;
    }
    *out = corpus;
    return SF_OK;
}

void sf_corpus_close(sf_corpus *corpus) {
    if (corpus == NULL) return;
    sf_made_lock();
    sf_made_give_back(corpus->tokenizer, corpus->ids[SF_TRAINING]);
    sf_made_give_back(NULL, corpus->ids[SF_HELDOUT]);
    sf_made_unlock();
    sf_release(corpus);
}

const sf_tokenizer *sf_corpus_tokenizer(const sf_corpus *corpus) {
    return sf_made_tokenizer_of(corpus->tokenizer);
}

const sf_corpus_part *sf_corpus_part_of(const sf_corpus *corpus, sf_split split) {
    return &corpus->parts[split];
}

uint64_t sf_corpus_hash(const sf_corpus *corpus) {
    return corpus->hash;
}

size_t sf_corpus_context(const sf_corpus *corpus) {
    const sf_corpus_part *part = &corpus->parts[SF_TRAINING];
    const size_t mean = (part->count - part->line_ends) / part->lines;
    return mean > 0 ? mean : 1;
}

static sf_status too_short(sf_split split, const char *what, size_t context) {
    return sf_fail_on(SF_BAD_INPUT, "context",
                      "the %s text has no %s than %zu tokens; give a longer text, or a smaller context",
                      split == SF_TRAINING ? "training" : "held-out", what, context);
}

static sf_status finish(sf_dataset **out, sf_dataset *data, sf_status status) {
    if (status == SF_OK && sf_dataset_count(data) > UINT32_MAX)
        status = sf_fail(SF_BAD_INPUT, "the text gives %zu sequences but at most %u are possible; give less of it",
                         sf_dataset_count(data), UINT32_MAX);
    if (status == SF_OK)
        *out = data;
    else
        sf_dataset_destroy(data);
    return status;
}

static sf_dataset_view view_of(const sf_corpus *corpus, sf_split split, size_t label_after, bool each) {
    const int32_t *ids = corpus->parts[split].ids, largest = (int32_t)sf_corpus_tokenizer(corpus)->vocab - 1;
    return (sf_dataset_view){.tokens = ids,
                             .labels = ids + label_after,
                             .labels_each = each,
                             .largest_token = largest,
                             .largest_label = largest};
}

static sf_status add_windows(sf_dataset *data, const sf_corpus_part *part, int32_t line_end, size_t context) {
    for (size_t start = 0, end; start < part->count; start = end + 1) {
        for (end = start; end < part->count && part->ids[end] != line_end;) end++;
        for (size_t at = start; at + context < end; at++) SF_TRY(sf_dataset_add_view(data, at, context));
    }
    return SF_OK;
}

sf_status sf_corpus_windows(sf_dataset **out, const sf_corpus *corpus, sf_split split, size_t context) {
    const sf_dataset_view view = view_of(corpus, split, context, false);
    sf_dataset *data;
    *out = NULL;
    SF_TRY(sf_dataset_borrow(&data, &view, 0));
    sf_status status = add_windows(data, &corpus->parts[split], sf_corpus_tokenizer(corpus)->line_end, context);
    if (status == SF_OK && sf_dataset_count(data) == 0) status = too_short(split, "line with more", context);
    return finish(out, data, status);
}

sf_status sf_corpus_pieces(sf_dataset **out, const sf_corpus *corpus, sf_split split, size_t context) {
    const sf_dataset_view view = view_of(corpus, split, 1, true);
    const sf_corpus_part *part = &corpus->parts[split];
    sf_dataset *data;
    *out = NULL;
    if (part->count <= context) return too_short(split, "more", context);
    SF_TRY(sf_dataset_borrow(&data, &view, part->count / context));
    sf_status status = SF_OK;
    for (size_t at = 0; at + context < part->count && status == SF_OK; at += context)
        status = sf_dataset_add_view(data, at, context);
    return finish(out, data, status);
}
