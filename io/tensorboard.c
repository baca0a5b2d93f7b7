#include "io/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/crc32c.h"

/* Field numbers of the messages, as TensorBoard's .proto files have them. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum { HPARAMS_START = 3, HPARAMS_END = 4 };
enum { START_HPARAMS = 1, START_GROUP = 4, START_TIME = 5, END_STATUS = 1, END_TIME = 2 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2, ANY_NUMBER = 2, ANY_TEXT = 3 };
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* how a field is encoded */

static const char session_start[] = "_hparams_/session_start_info", session_end[] = "_hparams_/session_end_info";

enum { HEADER = 12, FOOTER = 4, TIME_FIELD = 9 };

void sf_event_log_close(sf_event_log *log) {
    sf_release(log->bytes);
    *log = (sf_event_log){0};
}

static void put(sf_event_log *log, const void *bytes, size_t count) {
    if (log->status == SF_OK && log->room - log->count < count) {
        const size_t room = 2 * (log->count + count) + 256;
        log->status = SF_GROW(&log->bytes, log->count, room);
        if (log->status == SF_OK) log->room = room;
    }
    if (log->status != SF_OK) return;
    memcpy(log->bytes + log->count, bytes, count);
    log->count += count;
}

static void put_little_endian(sf_event_log *log, uint64_t value, size_t count) {
    unsigned char bytes[8];
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)(value >> (8 * i));
    put(log, bytes, count);
}

static void put_varint(sf_event_log *log, uint64_t value) {
    do {
        const unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(log, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_key(sf_event_log *log, unsigned field, unsigned encoding) {
    put_varint(log, field << 3 | encoding);
}

static void put_number(sf_event_log *log, unsigned field, uint64_t value) {
    put_key(log, field, VARINT);
    put_varint(log, value);
}

static void put_double(sf_event_log *log, unsigned field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(log, field, FIXED64);
    put_little_endian(log, bits, 8);
}

static void put_float(sf_event_log *log, unsigned field, double value) {
    const float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    put_key(log, field, FIXED32);
    put_little_endian(log, bits, 4);
}

static void put_text(sf_event_log *log, unsigned field, const char *text) {
    put_key(log, field, BYTES);
    put_varint(log, strlen(text));
    put(log, text, strlen(text));
}

/* A message within a message: its content, from `start` on, gets its key and its length before it. */
static void wrap(sf_event_log *log, size_t start, unsigned field) {
    enum { MOST = 16 };
    unsigned char key[MOST];
    const size_t end = log->count, count = end - start;
    put_key(log, field, BYTES); /* behind the content at first, so that there is room */
    put_varint(log, count);
    if (log->status != SF_OK) return;
    const size_t size = log->count - end;
    memcpy(key, log->bytes + end, size);
    memmove(log->bytes + start + size, log->bytes + start, count);
    memcpy(log->bytes + start, key, size);
}

static uint64_t read_little_endian(const unsigned char *bytes, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* A record begins with a place for its header. */
static size_t open_record(sf_event_log *log, double time) {
    const size_t start = log->count;
    put(log, (const unsigned char[HEADER]){0}, HEADER);
    put_double(log, EVENT_TIME, time);
    return start;
}

static void close_record(sf_event_log *log, size_t start) {
    if (log->status != SF_OK) {
        log->count = start;
        return;
    }
    const size_t end = log->count, length = end - start - HEADER;
    log->count = start;
    put_little_endian(log, length, 8);
    put_little_endian(log, sf_crc32c_masked(log->bytes + start, 8), 4);
    log->count = end;
    put_little_endian(log, sf_crc32c_masked(log->bytes + start + HEADER, length), FOOTER);
    if (log->status != SF_OK) log->count = start;
}

void sf_event_version(sf_event_log *log, double time) {
    const size_t record = open_record(log, time);
    put_text(log, EVENT_VERSION, "brain.Event:2");
    close_record(log, record);
}

void sf_event_scalars(sf_event_log *log, double time, int64_t step, const sf_scalar *scalars, size_t count) {
    const size_t record = open_record(log, time);
    put_number(log, EVENT_STEP, (uint64_t)step); /* also if it is 0, by which scalars are told from other events */
    const size_t summary = log->count;
    for (size_t i = 0; i < count; i++) {
        const size_t value = log->count;
        put_text(log, VALUE_TAG, scalars[i].tag);
        put_float(log, VALUE_NUMBER, scalars[i].value);
        wrap(log, value, SUMMARY_VALUE);
    }
    wrap(log, summary, EVENT_SUMMARY);
    close_record(log, record);
}

/* Closes an event of HParams whose content begins at `content`; `kind` is the field that it is. */
static void close_hparams(sf_event_log *log, size_t record, size_t summary, size_t metadata, size_t content,
                          unsigned kind) {
    wrap(log, content, kind);
    wrap(log, content, PLUGIN_CONTENT);
    wrap(log, metadata, METADATA_PLUGIN);
    wrap(log, metadata, VALUE_METADATA);
    wrap(log, summary, SUMMARY_VALUE);
    wrap(log, summary, EVENT_SUMMARY);
    close_record(log, record);
}

void sf_event_session_start(sf_event_log *log, double time, const char *group, const sf_hparam *hparams, size_t count) {
    const size_t record = open_record(log, time), summary = log->count;
    put_text(log, VALUE_TAG, session_start);
    const size_t metadata = log->count;
    put_text(log, PLUGIN_NAME, "hparams");
    const size_t content = log->count;
    for (size_t i = 0; i < count; i++) {
        const size_t entry = log->count;
        put_text(log, ENTRY_KEY, hparams[i].name);
        const size_t value = log->count;
        if (hparams[i].is_number)
            put_double(log, ANY_NUMBER, hparams[i].number);
        else
            put_text(log, ANY_TEXT, hparams[i].text);
        wrap(log, value, ENTRY_VALUE);
        wrap(log, entry, START_HPARAMS);
    }
    put_text(log, START_GROUP, group);
    put_double(log, START_TIME, time);
    close_hparams(log, record, summary, metadata, content, HPARAMS_START);
}

void sf_event_session_end(sf_event_log *log, double time, sf_session_status status) {
    const size_t record = open_record(log, time), summary = log->count;
    put_text(log, VALUE_TAG, session_end);
    const size_t metadata = log->count;
    put_text(log, PLUGIN_NAME, "hparams");
    const size_t content = log->count;
    put_number(log, END_STATUS, (uint64_t)status);
    put_double(log, END_TIME, time);
    close_hparams(log, record, summary, metadata, content, HPARAMS_END);
}

/* The size of the whole record at the beginning of the bytes; 0: there is none. */
static size_t whole_record(const unsigned char *bytes, size_t count) {
    if (count < HEADER + FOOTER || read_little_endian(bytes + 8, 4) != sf_crc32c_masked(bytes, 8)) return 0;
    const uint64_t length = read_little_endian(bytes, 8);
    if (length > count - HEADER - FOOTER) return 0;
    const uint64_t crc = read_little_endian(bytes + HEADER + length, FOOTER);
    return crc == sf_crc32c_masked(bytes + HEADER, length) ? HEADER + length + FOOTER : 0;
}

/* The step of one of our scalar events, which comes right after the time; -1: the event has none. */
static int64_t step_of(const unsigned char *event, size_t count) {
    uint64_t step = 0;
    if (count <= TIME_FIELD || event[TIME_FIELD] != (EVENT_STEP << 3 | VARINT)) return -1;
    for (size_t i = TIME_FIELD + 1, shift = 0; i < count && shift < 64; i++, shift += 7) {
        step |= (uint64_t)(event[i] & 0x7f) << shift;
        if (event[i] < 0x80) return (int64_t)step;
    }
    return -1;
}

static void look_through(sf_event_file *file, const unsigned char *bytes, size_t count) {
    for (size_t record; (record = whole_record(bytes + file->size, count - file->size)) > 0; file->size += record) {
        const unsigned char *event = bytes + file->size + HEADER;
        const size_t length = record - HEADER - FOOTER;
        const int64_t step = step_of(event, length);
        if (step > file->last_step) file->last_step = step;
        if (!file->has_start) file->has_start = memmem(event, length, session_start, sizeof session_start - 1) != NULL;
        file->has_end = memmem(event, length, session_end, sizeof session_end - 1) != NULL;
    }
}

static sf_status failure(const char *what, const char *path) {
    return sf_fail(SF_IO_ERROR, "cannot %s '%s': %s; change that, or name another folder", what, path, strerror(errno));
}

static sf_status look_at(sf_event_file *file, const char *path) {
    struct stat about;
    if (flock(file->file, LOCK_EX) != 0 || fstat(file->file, &about) != 0) return failure("read", path);
    if (!S_ISREG(about.st_mode))
        return sf_fail(SF_BAD_INPUT, "'%s' is not a file, but must be one; name another folder", path);
    if (about.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file->file, 0);
        if (bytes == MAP_FAILED) return failure("read", path);
        look_through(file, bytes, (size_t)about.st_size);
        munmap(bytes, (size_t)about.st_size);
    }
    if (file->size < (size_t)about.st_size && ftruncate(file->file, (off_t)file->size) != 0)
        return failure("write", path);
    return SF_OK;
}

sf_status sf_event_file_open(sf_event_file *out, const char *path) {
    *out = (sf_event_file){.last_step = -1};
    out->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (out->file < 0) return failure("write", path);
    const sf_status status = look_at(out, path);
    if (status != SF_OK) sf_event_file_close(out);
    return status;
}

sf_status sf_event_file_append(sf_event_file *file, const sf_event_log *log, const char *path) {
    SF_TRY(log->status);
    for (size_t done = 0; done < log->count;) {
        const ssize_t wrote = pwrite(file->file, log->bytes + done, log->count - done, (off_t)(file->size + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return failure("write", path);
        done += (size_t)wrote;
    }
    file->size += log->count;
    return SF_OK;
}

void sf_event_file_close(sf_event_file *file) {
    if (file->file >= 0) close(file->file);
    file->file = -1;
}
