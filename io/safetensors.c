#include "io/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/atomic_file.h"

struct sf_safetensors {
    json_t *header;
    unsigned char *bytes; /* the whole file */
    size_t size;
    sf_tensor *tensors;
    size_t count;
};

enum { LENGTH_BYTES = 8 };

typedef struct element_type {
    const char *name;
    size_t size;
} element_type;

static const element_type element_types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                             {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"U16", 2},
                                             {"U32", 4}, {"U64", 8}, {"BOOL", 1}};

static const element_type *find_type(const char *name) {
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
        if (strcmp(element_types[i].name, name) == 0) return &element_types[i];
    return NULL;
}

static sf_status read_whole(sf_safetensors *file, const char *path) {
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) /* before opening: a pipe without a writer would hang */
        return sf_fail(SF_BAD_INPUT, "is not a regular file; name a safetensors file");
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) return sf_fail(SF_BAD_INPUT, "cannot be opened: %s", strerror(errno));
    file->size = (size_t)about.st_size;
    sf_status status = SF_NEW(&file->bytes, file->size);
    if (status == SF_OK && fread(file->bytes, 1, file->size, stream) != file->size)
        status = sf_fail(SF_IO_ERROR, "cannot be read: it ended early or the disk failed");
    fclose(stream);
    return status;
}

static sf_status malformed(const char *what) {
    return sf_fail(SF_BAD_INPUT, "is not a valid safetensors file: %s; get an intact copy of it", what);
}

static sf_status parse_shape(sf_tensor *tensor, const json_t *shape, size_t element_size) {
    char what[160], quoted[SF_QUOTE_SIZE];
    if (!json_is_array(shape) || json_array_size(shape) > SF_TENSOR_RANK) {
        snprintf(what, sizeof what, "tensor '%s' has no shape of at most 8 numbers",
                 sf_text_quote(quoted, tensor->name));
        return malformed(what);
    }
    tensor->rank = json_array_size(shape);
    tensor->count = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        const json_t *number = json_array_get(shape, i);
        if (!json_is_integer(number) || json_integer_value(number) < 0 ||
            __builtin_mul_overflow(tensor->count, (size_t)json_integer_value(number), &tensor->count)) {
            snprintf(what, sizeof what, "tensor '%s' has an impossible shape", sf_text_quote(quoted, tensor->name));
            return malformed(what);
        }
        tensor->shape[i] = (size_t)json_integer_value(number);
    }
    if (__builtin_mul_overflow(tensor->count, element_size, &tensor->size)) {
        snprintf(what, sizeof what, "tensor '%s' has an impossible shape", sf_text_quote(quoted, tensor->name));
        return malformed(what);
    }
    return SF_OK;
}

static sf_status parse_tensor(sf_tensor *tensor, json_t *entry, const unsigned char *data, size_t data_size) {
    char what[192], quoted[SF_QUOTE_SIZE];
    sf_text_quote(quoted, tensor->name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const element_type *type = dtype != NULL ? find_type(dtype) : NULL;
    if (type == NULL) {
        snprintf(what, sizeof what, "tensor '%s' has no known dtype", quoted);
        return malformed(what);
    }
    tensor->dtype = type->name;
    SF_TRY(parse_shape(tensor, json_object_get(entry, "shape"), type->size));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    const json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        begin < 0 || end < begin || (size_t)end > data_size || (size_t)(end - begin) != tensor->size) {
        snprintf(what, sizeof what, "the data_offsets of tensor '%s' do not fit its shape and the file", quoted);
        return malformed(what);
    }
    tensor->bytes = data + begin;
    return SF_OK;
}

static int by_place(const void *a, const void *b) {
    const sf_tensor *left = a, *right = b;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? -1 : 1;
    return (left->size > right->size) - (left->size < right->size);
}

static sf_status parse(sf_safetensors *file) {
    if (file->size < LENGTH_BYTES) return malformed("it is shorter than its 8-byte length");
    uint64_t length = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)file->bytes[i] << 8 * i;
    if (length > file->size - LENGTH_BYTES) return malformed("its header is longer than the file");
    json_error_t error;
    file->header = json_loadb((const char *)file->bytes + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(file->header)) return malformed("its header is not a JSON object");

    const unsigned char *data = file->bytes + LENGTH_BYTES + length;
    const size_t data_size = file->size - LENGTH_BYTES - (size_t)length;
    SF_TRY(SF_NEW(&file->tensors, json_object_size(file->header)));
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        sf_tensor *tensor = &file->tensors[file->count++];
        tensor->name = name;
        SF_TRY(parse_tensor(tensor, entry, data, data_size));
    }
    if (file->count == 0) return malformed("it has no tensor");
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    const unsigned char *expected = data;
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].bytes != expected) return malformed("its tensors overlap or leave a gap");
        expected += file->tensors[i].size;
    }
    if (expected != data + data_size) return malformed("it has data after the last tensor");
    return SF_OK;
}

sf_status sf_safetensors_open(sf_safetensors **out, const char *path) {
    *out = NULL;
    sf_safetensors *file;
    SF_TRY(SF_NEW(&file, 1));
    sf_status status = read_whole(file, path);
    if (status == SF_OK) status = parse(file);
    if (status != SF_OK) {
        sf_safetensors_close(file);
        return sf_fail_in(status, "%s", path);
    }
    *out = file;
    return SF_OK;
}

sf_status sf_safetensors_parse(sf_safetensors **out, const void *bytes, size_t size) {
    *out = NULL;
    sf_safetensors *file;
    SF_TRY(SF_NEW(&file, 1));
    sf_status status = SF_NEW(&file->bytes, size);
    if (status == SF_OK) {
        memcpy(file->bytes, bytes, size);
        file->size = size;
        status = parse(file);
    }
    if (status == SF_OK)
        *out = file;
    else
        sf_safetensors_close(file);
    return status;
}

void sf_safetensors_close(sf_safetensors *file) {
    if (file == NULL) return;
    json_decref(file->header);
    sf_release(file->bytes);
    sf_release(file->tensors);
    sf_release(file);
}

const sf_tensor *sf_safetensors_at(const sf_safetensors *file, size_t i) {
    return i < file->count ? &file->tensors[i] : NULL;
}

const sf_tensor *sf_safetensors_find(const sf_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

const char *sf_safetensors_metadata(const sf_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

const unsigned char *sf_safetensors_bytes(const sf_safetensors *file, size_t *size) {
    *size = file->size;
    return file->bytes;
}

uint64_t sf_safetensors_hash(const sf_safetensors *file) {
    return sf_hash(SF_HASH_START, file->bytes, file->size);
}

static void print_entry(FILE *out, const sf_tensor *tensor, size_t offset) {
    sf_text_json(out, tensor->name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", tensor->dtype);
    for (size_t d = 0; d < tensor->rank; d++) fprintf(out, d > 0 ? ",%zu" : "%zu", tensor->shape[d]);
    fprintf(out, "],\"data_offsets\":[%zu,%zu]}", offset, offset + tensor->size);
}

/* The JSON header, padded with blanks to a multiple of 8; release with free(). NULL if memory runs out, never a partial
 * header. */
static char *header_text(const sf_tensor *tensors, size_t count, const char *const *metadata) {
    char *text = NULL;
    size_t size = 0, offset = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) return NULL;
    fputs("{\"__metadata__\":{", out);
    for (size_t i = 0; metadata != NULL && metadata[i] != NULL; i += 2) {
        if (i > 0) fputc(',', out);
        sf_text_json(out, metadata[i]);
        fputc(':', out);
        sf_text_json(out, metadata[i + 1]);
    }
    fputc('}', out);
    for (size_t i = 0; i < count; offset += tensors[i++].size) {
        fputc(',', out);
        print_entry(out, &tensors[i], offset);
    }
    fputc('}', out);
    for (long at = ftell(out); at % 8 != 0; at++) fputc(' ', out);
    const bool failed = ferror(out) != 0;
    if (fclose(out) == 0 && !failed) return text;
    free(text);
    return NULL;
}

static void write_length(unsigned char out[LENGTH_BYTES], size_t length) {
    for (size_t i = 0; i < LENGTH_BYTES; i++) out[i] = (unsigned char)(length >> 8 * i);
}

static unsigned char *append(unsigned char *at, const void *bytes, size_t count) {
    memcpy(at, bytes, count);
    return at + count;
}

sf_status sf_safetensors_encode(unsigned char **bytes, size_t *size, const sf_tensor *tensors, size_t count,
                                const char *const *metadata, uint64_t *hash) {
    *bytes = NULL;
    char *header = header_text(tensors, count, metadata);
    if (header == NULL) return sf_fail(SF_NO_MEMORY, "no memory left for the header of a file of tensors");
    const size_t length = strlen(header);
    *size = LENGTH_BYTES + length;
    for (size_t i = 0; i < count; i++) *size += tensors[i].size;
    const sf_status status = SF_NEW(bytes, *size);
    if (status == SF_OK) {
        unsigned char *at = *bytes;
        write_length(at, length);
        at = append(at + LENGTH_BYTES, header, length);
        for (size_t i = 0; i < count; i++) at = append(at, tensors[i].bytes, tensors[i].size);
        if (hash != NULL) *hash = sf_hash(SF_HASH_START, *bytes, *size);
    }
    free(header);
    return status;
}

static void put(FILE *stream, const void *bytes, size_t count, uint64_t *hash) {
    fwrite(bytes, 1, count, stream); /* failures show in ferror() */
    *hash = sf_hash(*hash, bytes, count);
}

sf_status sf_safetensors_write(const char *path, const sf_tensor *tensors, size_t count, const char *const *metadata,
                               uint64_t *hash) {
    const bool to_stdout = strcmp(path, "-") == 0;
    char *header = header_text(tensors, count, metadata);
    if (header == NULL) return sf_fail(SF_NO_MEMORY, "%s: no memory left for the file's header", path);
    sf_atomic_file file = {.stream = stdout};
    sf_status status = to_stdout ? SF_OK : sf_atomic_open(&file, path);
    if (status == SF_OK) {
        unsigned char length[LENGTH_BYTES];
        uint64_t sum = SF_HASH_START;
        write_length(length, strlen(header));
        put(file.stream, length, sizeof length, &sum);
        put(file.stream, header, strlen(header), &sum);
        for (size_t i = 0; i < count; i++) put(file.stream, tensors[i].bytes, tensors[i].size, &sum);
        if (hash != NULL) *hash = sum;
        if (!to_stdout)
            status = sf_atomic_commit(&file);
        else if (fflush(stdout) != 0 || ferror(stdout) != 0)
            status = sf_fail(SF_IO_ERROR, "cannot write standard output: %s", strerror(errno));
    }
    free(header);
    return status;
}

static sf_status wrong_type(const sf_tensor *tensor, const char *expected) {
    char quoted[SF_QUOTE_SIZE];
    return sf_fail(SF_BAD_INPUT, "tensor '%s' has dtype %s but must be %s", sf_text_quote(quoted, tensor->name),
                   tensor->dtype, expected);
}

sf_status sf_tensor_reals(double *out /* [count] */, const sf_tensor *tensor) {
    const bool wide = strcmp(tensor->dtype, "F64") == 0;
    if (!wide && strcmp(tensor->dtype, "F32") != 0) return wrong_type(tensor, "F32 or F64");
    for (size_t i = 0; i < tensor->count; i++) {
        float narrow;
        if (wide) {
            memcpy(&out[i], tensor->bytes + i * sizeof *out, sizeof *out);
        } else {
            memcpy(&narrow, tensor->bytes + i * sizeof narrow, sizeof narrow);
            out[i] = narrow;
        }
    }
    return SF_OK;
}

sf_status sf_tensor_integers(int32_t *out /* [count] */, const sf_tensor *tensor) {
    if (strcmp(tensor->dtype, "I32") != 0) return wrong_type(tensor, "I32");
    memcpy(out, tensor->bytes, tensor->size);
    return SF_OK;
}
