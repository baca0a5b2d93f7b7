/* A plug-in's file is read before it is loaded: for its hash, and because the system's loader crashes on a truncated
 * file, which ends before its segments do. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "plugins/plugins.h"

static sf_status refuse(const char *path, const char *why) {
    char quoted[SF_QUOTE_SIZE];
    return sf_fail(SF_BAD_INPUT, "plug-in '%s' %s; build one with 'cc -shared -fPIC'", sf_text_quote(quoted, path),
                   why);
}

static bool lies_within(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
}

static sf_status check_segments(const char *path, const unsigned char *bytes, size_t size) {
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    if (!lies_within(header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr), size) ||
        header.e_phentsize != sizeof(Elf64_Phdr))
        return refuse(path, "is cut short or damaged");
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, bytes + header.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_LOAD && !lies_within(segment.p_offset, segment.p_filesz, size))
            return refuse(path, "is cut short or damaged");
    }
    return SF_OK;
}

static sf_status check_bytes(const char *path, const unsigned char *bytes, size_t size) {
    if (size < sizeof(Elf64_Ehdr) || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return refuse(path, "is not a shared library");
    if (bytes[EI_CLASS] != ELFCLASS64) return refuse(path, "is not a shared library of 64 bits");
    return check_segments(path, bytes, size);
}

static sf_status read_bytes(sf_plugin_bytes *out, const char *path, int file) {
    char quoted[SF_QUOTE_SIZE];
    if (fstat(file, &out->about) != 0)
        return sf_fail(SF_BAD_INPUT, "plug-in '%s' cannot be read: %s", sf_text_quote(quoted, path), strerror(errno));
    if (!S_ISREG(out->about.st_mode)) return refuse(path, S_ISDIR(out->about.st_mode) ? "is a folder" : "is no file");
    const size_t size = (size_t)out->about.st_size;
    if (size == 0) return refuse(path, "is empty");
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED)
        return sf_fail(SF_BAD_INPUT, "plug-in '%s' cannot be read: %s", sf_text_quote(quoted, path), strerror(errno));
    const sf_status status = check_bytes(path, bytes, size);
    if (status == SF_OK) out->hash = sf_hash(SF_HASH_START, bytes, size);
    munmap(bytes, size);
    return status;
}

sf_status sf_plugin_bytes_read(sf_plugin_bytes *out, const char *path) {
    char quoted[SF_QUOTE_SIZE];
    *out = (sf_plugin_bytes){0};
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    if (file < 0)
        return sf_fail(SF_BAD_INPUT, "plug-in '%s' cannot be opened: %s", sf_text_quote(quoted, path), strerror(errno));
    sf_status status = read_bytes(out, path, file);
    close(file);
    if (status == SF_OK && (out->path = realpath(path, NULL)) == NULL)
        status =
            sf_fail(SF_BAD_INPUT, "plug-in '%s' cannot be found: %s", sf_text_quote(quoted, path), strerror(errno));
    return status;
}
