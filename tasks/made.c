#include "tasks/made.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "io/atomic_file.h"
#include "semfocus/settings.h"
#include "tasks/corpus.h"

enum { SLOTS = 16 }; /* things that are kept although nobody uses them */

struct sf_made_tokenizer {
    uint64_t key;
    size_t users, turn; /* when it was taken last */
    size_t kept;        /* number of the folder that has its file; 0: none */
    sf_tokenizer *tokenizer;
    struct sf_made_tokenizer *next;
};

struct sf_made_ids {
    uint64_t key;
    size_t users, turn, kept;
    sf_token_map map;
    struct sf_made_ids *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sf_made_tokenizer *tokenizers;
static sf_made_ids *all_ids;
static size_t turns;
static char folder[SF_PATH_SIZE]; /* of the store; empty: none */
static bool writes;               /* new files may be put there */
static size_t folder_number;

void sf_made_lock(void) {
    pthread_mutex_lock(&lock);
}

void sf_made_unlock(void) {
    pthread_mutex_unlock(&lock);
}

static void change_folder(const char *store, bool write) {
    writes = write;
    folder_number++;
    snprintf(folder, sizeof folder, "%s", store);
}

void sf_corpus_keep_in(const char *store, bool write) {
    sf_made_lock();
    change_folder(store, write);
    sf_made_unlock();
}

void sf_corpus_leave(const char *store) {
    sf_made_lock();
    if (strcmp(folder, store) == 0) change_folder("", false);
    sf_made_unlock();
}

void sf_corpus_look_in(const char *store) {
    sf_made_lock();
    if (!writes) change_folder(store, false);
    sf_made_unlock();
}

enum { PLACE_SIZE = SF_PATH_SIZE + 64, KEY_DIGITS = 16 };
#define MODEL ".model"

/* False: there is no folder. */
static bool place_of(char out[PLACE_SIZE], const char *room, uint64_t key, const char *ending) {
    if (*folder == '\0') return false;
    snprintf(out, PLACE_SIZE, "%s/%s/%016" PRIx64 "%s", folder, room, key, ending);
    return true;
}

static sf_status make_room_in(const char *store, const char *room) {
    char path[PLACE_SIZE];
    snprintf(path, sizeof path, "%s/%s", store, room);
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return SF_OK;
    return sf_fail(SF_IO_ERROR, "cannot make the folder '%s': %s", path, strerror(errno));
}

static sf_status make_room(const char *room) {
    return make_room_in(folder, room);
}

static bool can_write(void) {
    return *folder != '\0' && writes;
}

static void release_tokenizer(sf_made_tokenizer *made) {
    sf_tokenizer_destroy(made->tokenizer);
    sf_release(made);
}

static void release_ids(sf_made_ids *made) {
    sf_token_map_close(&made->map);
    sf_release(made);
}

/* Forgets the one that was not used for the longest time, if there are too many. */
static void forget_tokenizer(void) {
    sf_made_tokenizer **oldest = NULL;
    size_t idle = 0;
    for (sf_made_tokenizer **at = &tokenizers; *at != NULL; at = &(*at)->next) {
        if ((*at)->users > 0) continue;
        if (oldest == NULL || (*at)->turn < (*oldest)->turn) oldest = at;
        idle++;
    }
    if (idle <= SLOTS) return;
    sf_made_tokenizer *made = *oldest;
    *oldest = made->next;
    release_tokenizer(made);
}

static void forget_ids(void) {
    sf_made_ids **oldest = NULL;
    size_t idle = 0;
    for (sf_made_ids **at = &all_ids; *at != NULL; at = &(*at)->next) {
        if ((*at)->users > 0) continue;
        if (oldest == NULL || (*at)->turn < (*oldest)->turn) oldest = at;
        idle++;
    }
    if (idle <= SLOTS) return;
    sf_made_ids *made = *oldest;
    *oldest = made->next;
    release_ids(made);
}

/* The hash of a model's bytes is in a file beside it: another bit may give another tokenizer that can be read. */
static void hash_place(char out[PLACE_SIZE], const char *model) {
    snprintf(out, PLACE_SIZE, "%.*s.hash", (int)(strlen(model) - strlen(MODEL)), model);
}

static bool has_hash(const char *model) {
    char path[PLACE_SIZE];
    hash_place(path, model);
    return access(path, F_OK) == 0;
}

static void hash_text(char out[KEY_DIGITS + 1], uint64_t hash) {
    snprintf(out, KEY_DIGITS + 1, "%016" PRIx64, hash);
}

static sf_status write_hash(const char *model, uint64_t hash) {
    char path[PLACE_SIZE], text[KEY_DIGITS + 1];
    hash_place(path, model);
    hash_text(text, hash);
    return sf_atomic_write(path, text, KEY_DIGITS);
}

/* Earlier versions wrote no hash: their models are taken as they are. */
static bool is_whole(const char *model, uint64_t hash) {
    char path[PLACE_SIZE], found[KEY_DIGITS + 1] = "", expected[KEY_DIGITS + 1];
    hash_place(path, model);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return errno == ENOENT;
    const size_t count = fread(found, 1, KEY_DIGITS, file);
    fclose(file);
    hash_text(expected, hash);
    return count == KEY_DIGITS && strcmp(found, expected) == 0;
}

/* The tokenizer in its file, NULL if there is none; a damaged one is made again. */
static sf_tokenizer *tokenizer_in_file(uint64_t key) {
    char path[PLACE_SIZE];
    sf_tokenizer *tokenizer = NULL;
    if (!place_of(path, "tokenizers", key, MODEL) || access(path, R_OK) != 0) return NULL;
    if (sf_tokenizer_read(&tokenizer, path) != SF_OK) return NULL;
    if (is_whole(path, tokenizer->hash)) return tokenizer;
    sf_tokenizer_destroy(tokenizer);
    return NULL;
}

/* One that was made before the store was known, or whose file is damaged. */
static sf_status keep_tokenizer(sf_made_tokenizer *made) {
    char path[PLACE_SIZE];
    const sf_bytes *file = &made->tokenizer->file;
    if (!can_write() || made->kept == folder_number || !place_of(path, "tokenizers", made->key, MODEL)) return SF_OK;
    sf_tokenizer *there = tokenizer_in_file(made->key);
    const bool same = there != NULL && there->hash == made->tokenizer->hash;
    sf_tokenizer_destroy(there);
    if (!same) {
        SF_TRY(make_room("tokenizers"));
        SF_TRY(sf_atomic_write(path, file->at, file->count));
    }
    if (!same || !has_hash(path)) SF_TRY(write_hash(path, made->tokenizer->hash));
    made->kept = folder_number;
    return SF_OK;
}

sf_status sf_made_take_tokenizer(sf_made_tokenizer **out, uint64_t key, sf_make_tokenizer *make, void *context) {
    sf_made_tokenizer *made = tokenizers;
    *out = NULL;
    while (made != NULL && made->key != key) made = made->next;
    if (made == NULL) {
        SF_TRY(SF_NEW(&made, 1));
        made->key = key;
        made->tokenizer = tokenizer_in_file(key);
        const sf_status status = made->tokenizer == NULL ? make(&made->tokenizer, context) : SF_OK;
        if (status != SF_OK) {
            sf_release(made);
            return status;
        }
        made->next = tokenizers;
        tokenizers = made;
    }
    made->users++;
    made->turn = ++turns;
    *out = made;
    return keep_tokenizer(made);
}

sf_status sf_corpus_keep_tokenizer(const sf_tokenizer *tokenizer) {
    sf_tokenizer borrowed = *tokenizer;
    sf_made_tokenizer made = {.key = tokenizer->hash, .tokenizer = &borrowed};
    sf_made_lock();
    const sf_status status = keep_tokenizer(&made);
    sf_made_unlock();
    return status;
}

static sf_status read_file(sf_bytes *bytes, const char *path) {
    char block[65536];
    FILE *file = fopen(path, "rb");
    if (file == NULL) return sf_fail(SF_IO_ERROR, "cannot open '%s': %s", path, strerror(errno));
    sf_status status = SF_OK;
    for (size_t count; status == SF_OK && (count = fread(block, 1, sizeof block, file)) > 0;)
        status = sf_bytes_add(bytes, block, count);
    if (status == SF_OK && ferror(file) != 0)
        status = sf_fail(SF_IO_ERROR, "cannot read '%s': %s", path, strerror(errno));
    fclose(file);
    return status;
}

/* To where there is none yet; a damaged one is refused in any case. */
static sf_status copy_model(const char *to, const char *from) {
    sf_bytes bytes = {0};
    sf_status status = read_file(&bytes, from);
    const uint64_t hash = sf_hash(SF_HASH_START, bytes.at, bytes.count);
    if (status == SF_OK && !is_whole(from, hash))
        status = sf_fail(SF_IO_ERROR,
                         "the tokenizer '%s' is damaged (its bytes changed since it was written); put back a whole "
                         "copy, or delete the file; nothing was merged",
                         from);
    if (status == SF_OK && access(to, F_OK) != 0) {
        status = sf_atomic_write(to, bytes.at, bytes.count);
        if (status == SF_OK) status = write_hash(to, hash);
    }
    sf_bytes_release(&bytes);
    return status;
}

/* The name of the next tokenizer's file; NULL: there is none. */
static const char *next_model(DIR *list) {
    for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
        if (strlen(entry->d_name) == KEY_DIGITS + strlen(MODEL) && strcmp(entry->d_name + KEY_DIGITS, MODEL) == 0)
            return entry->d_name;
    return NULL;
}

sf_tokenizer *sf_corpus_kept_tokenizer(uint64_t hash) {
    char path[PLACE_SIZE];
    sf_tokenizer *found = NULL;
    sf_made_lock();
    snprintf(path, sizeof path, "%s/tokenizers", folder);
    DIR *list = opendir(path);
    for (const char *name; list != NULL && found == NULL && (name = next_model(list)) != NULL;) {
        found = tokenizer_in_file(strtoull(name, NULL, 16));
        if (found == NULL || found->hash == hash) continue;
        sf_tokenizer_destroy(found);
        found = NULL;
    }
    if (list != NULL) closedir(list);
    sf_made_unlock();
    return found;
}

sf_status sf_corpus_copy_tokenizers(const char *to, const char *from) {
    char source[PLACE_SIZE], target[PLACE_SIZE];
    snprintf(source, sizeof source, "%s/tokenizers", from);
    DIR *list = opendir(source);
    if (list == NULL) return SF_OK; /* without it, a run that writes needs its text */
    sf_status status = SF_OK;
    for (const char *name; status == SF_OK && (name = next_model(list)) != NULL;) {
        snprintf(source, sizeof source, "%s/tokenizers/%s", from, name);
        snprintf(target, sizeof target, "%s/tokenizers/%s", to, name);
        status = make_room_in(to, "tokenizers");
        if (status == SF_OK) status = copy_model(target, source);
    }
    closedir(list);
    return status;
}

static sf_status map_file(sf_token_map *out, const char *path, uint64_t key) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return sf_fail(SF_IO_ERROR, "cannot open '%s': %s", path, strerror(errno));
    const sf_status status = sf_token_map_open(out, file, key);
    close(file);
    return status;
}

/* Whole, or not at all. */
static sf_status write_and_map(sf_token_map *out, const char *path, uint64_t key, sf_make_ids *make, void *context) {
    sf_atomic_file file;
    SF_TRY(make_room("texts"));
    SF_TRY(sf_atomic_open(&file, path));
    const sf_status status = make(file.stream, context, key);
    if (status != SF_OK) {
        sf_atomic_abandon(&file);
        return status;
    }
    SF_TRY(sf_atomic_commit(&file));
    return map_file(out, path, key);
}

/* Without a store, in a file that has no name and is gone when it is closed. */
static sf_status map_nameless(sf_token_map *out, uint64_t key, sf_make_ids *make, void *context) {
    FILE *file = tmpfile();
    if (file == NULL)
        return sf_fail(SF_IO_ERROR, "cannot make a temporary file for the tokens of a text: %s", strerror(errno));
    sf_status status = make(file, context, key);
    if (status == SF_OK && fflush(file) != 0)
        status = sf_fail(SF_IO_ERROR, "cannot write the tokens of a text: %s", strerror(errno));
    if (status == SF_OK) status = sf_token_map_open(out, fileno(file), key);
    fclose(file);
    return status;
}

static sf_status make_map(sf_token_map *out, uint64_t key, sf_make_ids *make, void *context) {
    char path[PLACE_SIZE];
    if (place_of(path, "texts", key, ".tokens")) {
        if (access(path, R_OK) == 0 && map_file(out, path, key) == SF_OK) return SF_OK;
        if (can_write()) return write_and_map(out, path, key, make, context);
    }
    return map_nameless(out, key, make, context);
}

static sf_status keep_ids(sf_made_ids *made) {
    char path[PLACE_SIZE];
    sf_token_map there;
    if (!can_write() || made->kept == folder_number || !place_of(path, "texts", made->key, ".tokens")) return SF_OK;
    if (access(path, R_OK) == 0 && map_file(&there, path, made->key) == SF_OK) {
        sf_token_map_close(&there);
    } else {
        SF_TRY(make_room("texts"));
        SF_TRY(sf_atomic_write(path, made->map.start, made->map.size));
    }
    made->kept = folder_number;
    return SF_OK;
}

sf_status sf_made_take_ids(sf_made_ids **out, uint64_t key, sf_make_ids *make, void *context) {
    sf_made_ids *made = all_ids;
    *out = NULL;
    while (made != NULL && made->key != key) made = made->next;
    if (made == NULL) {
        SF_TRY(SF_NEW(&made, 1));
        made->key = key;
        const sf_status status = make_map(&made->map, key, make, context);
        if (status != SF_OK) {
            sf_release(made);
            return status;
        }
        made->next = all_ids;
        all_ids = made;
    }
    made->users++;
    made->turn = ++turns;
    *out = made;
    return keep_ids(made);
}

void sf_made_give_back(sf_made_tokenizer *tokenizer, sf_made_ids *ids) {
    if (tokenizer != NULL) tokenizer->users--;
    if (ids != NULL) ids->users--;
    forget_tokenizer();
    forget_ids();
}

const sf_tokenizer *sf_made_tokenizer_of(const sf_made_tokenizer *made) {
    return made->tokenizer;
}

const sf_token_map *sf_made_map_of(const sf_made_ids *made) {
    return &made->map;
}
