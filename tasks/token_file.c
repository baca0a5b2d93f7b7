#include "tasks/token_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/stop.h"
#include "tasks/text_file.h"

#define MARK UINT64_C(0x746f6b656e732031) /* "tokens 1" */

enum { FLUSH_AT = 1 << 18 };

static sf_status flush(FILE *out, sf_ids *ids, sf_token_facts *facts) {
    facts->hash = sf_hash(facts->hash, ids->at, ids->count * sizeof *ids->at);
    facts->count += ids->count;
    const size_t written = fwrite(ids->at, sizeof *ids->at, ids->count, out);
    if (written != ids->count) return sf_fail(SF_IO_ERROR, "cannot write the tokens of a text: %s", strerror(errno));
    ids->count = 0;
    return SF_OK;
}

static sf_status write_lines(FILE *out, sf_ids *ids, sf_token_facts *facts, const sf_token_source *source,
                             const atomic_int *stop) {
    char what[256];
    const char *line;
    size_t length;
    bool ended;
    snprintf(what, sizeof what, "tokenizing %s", source->name);
    for (size_t at = 0, told = 0; sf_text_next_line(&line, &length, &ended, &at, source->text, source->size);) {
        if (sf_stop_asked(stop)) return sf_fail(SF_INTERRUPTED, "stopped on request");
        SF_TRY(sf_fail_in(sf_tokenizer_encode(ids, source->tokenizer, line, length), "%s:%zu", source->name,
                          (size_t)facts->lines + 1));
        if (ended) SF_TRY(sf_ids_add(ids, source->tokenizer->line_end));
        facts->lines++;
        facts->line_ends += ended;
        if (ids->count >= FLUSH_AT) SF_TRY(flush(out, ids, facts));
        if (at - told < (size_t)1 << 20) continue;
        told = at;
        sf_text_tell_progress(what, (double)at / (double)(source->size + 1));
    }
    return flush(out, ids, facts);
}

sf_status sf_token_file_write(FILE *out, const sf_token_source *source, const atomic_int *stop) {
    sf_token_facts facts = {.mark = MARK, .key = source->key, .hash = SF_HASH_START, .bytes = source->size};
    sf_ids ids = {0};
    sf_status status = write_lines(out, &ids, &facts, source, stop);
    sf_ids_release(&ids);
    sf_text_tell_progress("", 1);
    if (status == SF_OK && fwrite(&facts, sizeof facts, 1, out) != 1)
        status = sf_fail(SF_IO_ERROR, "cannot write the tokens of a text: %s", strerror(errno));
    return status;
}

static sf_status check_map(sf_token_map *map, uint64_t key) {
    const size_t room = map->size - sizeof map->facts;
    memcpy(&map->facts, (const char *)map->start + room, sizeof map->facts);
    const sf_token_facts *facts = &map->facts;
    if (facts->mark == MARK && facts->key == key && room % sizeof *map->ids == 0 &&
        facts->count == room / sizeof *map->ids && sf_hash(SF_HASH_START, map->ids, room) == facts->hash)
        return SF_OK;
    return sf_fail(SF_BAD_INPUT, "the file of tokens is damaged");
}

sf_status sf_token_map_open(sf_token_map *out, int file, uint64_t key) {
    struct stat about;
    *out = (sf_token_map){0};
    if (fstat(file, &about) != 0 || about.st_size < (off_t)sizeof out->facts)
        return sf_fail(SF_BAD_INPUT, "the file of tokens is not whole");
    out->size = (size_t)about.st_size;
    out->start = mmap(NULL, out->size, PROT_READ, MAP_SHARED, file, 0);
    if (out->start == MAP_FAILED) {
        *out = (sf_token_map){0};
        return sf_fail(SF_IO_ERROR, "the file of tokens cannot be mapped: %s", strerror(errno));
    }
    out->ids = out->start;
    const sf_status status = check_map(out, key);
    if (status != SF_OK) sf_token_map_close(out);
    return status;
}

void sf_token_map_close(sf_token_map *map) {
    if (map->start != NULL) munmap(map->start, map->size);
    *map = (sf_token_map){0};
}
