#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "base/hash.h"
#include "base/text.h"
#include "plugins/plugins.h"
#include "tasks/task.h"

typedef struct loaded {
    sf_plugin_file file;
    dev_t device;
    ino_t inode;
    bool is_text; /* of no file: device and inode are not set */
    sf_plugin_parts parts;
} loaded;

static loaded **files; /* [file_count] */
static size_t file_count;

const sf_plugin_file *sf_plugin_file_at(size_t i) {
    return i < file_count ? &files[i]->file : NULL;
}

static bool has_part(const sf_plugin_parts *parts, const void *part) {
    for (size_t i = 0; i < parts->selector_count; i++)
        if (parts->selectors[i] == part) return true;
    for (size_t i = 0; i < parts->weighting_count; i++)
        if (parts->weightings[i] == part) return true;
    for (size_t i = 0; i < parts->task_count; i++)
        if (parts->tasks[i] == part) return true;
    return false;
}

const sf_plugin_file *sf_plugin_file_of(const void *part) {
    for (size_t i = 0; i < file_count; i++)
        if (has_part(&files[i]->parts, part)) return &files[i]->file;
    return NULL;
}

static sf_status register_parts(const sf_plugin_parts *parts) {
    for (size_t i = 0; i < parts->selector_count; i++) SF_TRY(sf_selector_register(parts->selectors[i]));
    for (size_t i = 0; i < parts->weighting_count; i++) SF_TRY(sf_weighting_register(parts->weightings[i]));
    for (size_t i = 0; i < parts->task_count; i++) SF_TRY(sf_task_register(parts->tasks[i]));
    return SF_OK;
}

typedef const sf_plugin *entry_point(const sf_plugin_host *host);

static sf_status ask_for_parts(sf_plugin_parts *out, void *library) {
    entry_point *entry;
    void *symbol = dlsym(library, "sf_plugin_entry");
    if (symbol == NULL) return sf_fail(SF_BAD_INPUT, "does not export sf_plugin_entry; see semfocus/plugin.h");
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function */
    const sf_plugin *plugin = entry(sf_plugin_host_table());
    if (plugin == NULL)
        return sf_fail(SF_BAD_INPUT, "refuses to work with this semfocus: its sf_plugin_entry gave no table");
    return sf_plugin_parts_take(out, plugin);
}

/* The library is never unloaded, because its parts are used until the process ends. */
static sf_status open_library(sf_plugin_parts *out, const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return sf_fail(SF_BAD_INPUT, "cannot be loaded: %s", dlerror());
    const sf_status status = ask_for_parts(out, library);
    if (status != SF_OK) dlclose(library);
    return status;
}

static const loaded *find_loaded(const sf_plugin_bytes *bytes) {
    for (size_t i = 0; i < file_count; i++)
        if (!files[i]->is_text && files[i]->device == bytes->about.st_dev && files[i]->inode == bytes->about.st_ino)
            return files[i];
    return NULL;
}

static const char *without_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Loads the parts of the table `given` by a program, or those of the library in the file if it is NULL. */
static sf_status load(loaded *out, sf_plugin_bytes *bytes, const sf_plugin *given) {
    SF_TRY(SF_GROW(&files, file_count, file_count + 1));
    SF_TRY(given != NULL ? sf_plugin_parts_take(&out->parts, given) : open_library(&out->parts, bytes->path));
    out->file = (sf_plugin_file){.path = bytes->path, .name = without_folder(bytes->path), .hash = bytes->hash};
    out->device = bytes->about.st_dev;
    out->inode = bytes->about.st_ino;
    files[file_count++] = out;
    bytes->path = NULL;
    return register_parts(&out->parts);
}

static sf_status load_fresh(sf_plugin_bytes *bytes, const char *path, const sf_plugin *given) {
    char quoted[SF_QUOTE_SIZE];
    loaded *fresh;
    const size_t before = file_count;
    SF_TRY(SF_NEW(&fresh, 1));
    const sf_status status = sf_fail_in(load(fresh, bytes, given), "plug-in '%s'", sf_text_quote(quoted, path));
    if (file_count == before) sf_release(fresh);
    return status;
}

sf_status sf_plugin_load(const char *path) {
    sf_plugin_bytes bytes;
    char quoted[SF_QUOTE_SIZE];
    sf_status status = sf_plugin_bytes_read(&bytes, path);
    const loaded *same = status == SF_OK ? find_loaded(&bytes) : NULL;
    if (same != NULL && same->file.hash != bytes.hash)
        status = sf_fail(SF_BAD_INPUT, "plug-in '%s' was changed while it is loaded; start semfocus again",
                         sf_text_quote(quoted, path));
    if (status == SF_OK && same == NULL) status = load_fresh(&bytes, path, NULL);
    free(bytes.path);
    return status;
}

sf_status sf_plugin_register(const sf_plugin *plugin, const char *file) {
    sf_plugin_bytes bytes;
    sf_status status = sf_plugin_bytes_read(&bytes, file);
    if (status == SF_OK) status = load_fresh(&bytes, file, plugin);
    free(bytes.path);
    return status;
}

static size_t find_text(const char *name) {
    size_t i = 0;
    while (i < file_count && !(files[i]->is_text && strcmp(files[i]->file.name, name) == 0)) i++;
    return i;
}

static void unregister_parts(const sf_plugin_parts *parts) {
    for (size_t i = 0; i < parts->selector_count; i++) sf_selector_unregister(parts->selectors[i]);
    for (size_t i = 0; i < parts->weighting_count; i++) sf_weighting_unregister(parts->weightings[i]);
}

static sf_status load_text(loaded *out, const sf_plugin *plugin, const char *name, const char *source) {
    SF_TRY(SF_GROW(&files, file_count, file_count + 1));
    char *path = strdup(name);
    if (path == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to register %s", name);
    sf_status status = sf_plugin_parts_take(&out->parts, plugin);
    if (status == SF_OK && out->parts.task_count > 0)
        status = sf_fail(SF_BAD_INPUT, "registers a task, which must be compiled");
    if (status == SF_OK) status = register_parts(&out->parts);
    if (status != SF_OK) {
        sf_plugin_parts_release(&out->parts);
        free(path);
        return status;
    }
    out->is_text = true;
    out->file = (sf_plugin_file){.path = path, .name = path, .hash = sf_hash(SF_HASH_START, source, strlen(source))};
    return SF_OK;
}

/* What the name stood for before stays in memory: a mechanism that was parsed earlier may still point to it. */
sf_status sf_plugin_register_text(const sf_plugin *plugin, const char *name, const char *source) {
    char quoted[SF_QUOTE_SIZE];
    const size_t at = find_text(name);
    loaded *fresh;
    SF_TRY(SF_NEW(&fresh, 1));
    if (at < file_count) unregister_parts(&files[at]->parts);
    const sf_status status =
        sf_fail_in(load_text(fresh, plugin, name, source), "plug-in '%s'", sf_text_quote(quoted, name));
    if (status != SF_OK) {
        sf_release(fresh);
        if (at < file_count) SF_TRY(register_parts(&files[at]->parts)); /* there was room for them */
        return status;
    }
    files[at] = fresh;
    if (at == file_count) file_count++;
    return SF_OK;
}

sf_status sf_plugin_load_all(const char *paths, char separator) {
    while (*paths != '\0') {
        const char *end = strchr(paths, separator);
        const size_t length = end != NULL ? (size_t)(end - paths) : strlen(paths);
        char *path = strndup(paths, length);
        if (path == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to load a plug-in");
        const sf_status status = length > 0 ? sf_plugin_load(path) : SF_OK;
        free(path);
        SF_TRY(status);
        paths += length + (end != NULL);
    }
    return SF_OK;
}
