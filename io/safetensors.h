/* Safetensors: 8 bytes of header length, a JSON header, raw little-endian data (not aligned: copy, never cast).
 * Reading checks every claim of the header: the tensors must tile the data exactly. */
#ifndef SF_IO_SAFETENSORS_H
#define SF_IO_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct sf_safetensors sf_safetensors;

enum { SF_TENSOR_RANK = 8 };
typedef struct sf_tensor {
    const char *name;
    const char *dtype; /* "F32", "F64", "I32", ... */
    size_t rank, shape[SF_TENSOR_RANK];
    size_t count; /* elements */
    const unsigned char *bytes;
    size_t size;
} sf_tensor;

sf_status sf_safetensors_open(sf_safetensors **out, const char *path);
/* The contents of such a file, which are copied. */
sf_status sf_safetensors_parse(sf_safetensors **out, const void *bytes, size_t size);
void sf_safetensors_close(sf_safetensors *file);

/* NULL if there is none. */
const sf_tensor *sf_safetensors_find(const sf_safetensors *file, const char *name);
const sf_tensor *sf_safetensors_at(const sf_safetensors *file, size_t i);
const char *sf_safetensors_metadata(const sf_safetensors *file, const char *key);

const unsigned char *sf_safetensors_bytes(const sf_safetensors *file, size_t *size); /* the whole file */
uint64_t sf_safetensors_hash(const sf_safetensors *file); /* of these bytes: any changed byte changes it */

/* Writes tensors one after the other in the order given; `metadata` is name, value, ..., NULL. The file appears whole
 * or not at all; "-" is standard output. *hash (may be NULL) is set to the file's hash. */
sf_status sf_safetensors_write(const char *path, const sf_tensor *tensors, size_t count, const char *const *metadata,
                               uint64_t *hash);

/* The same bytes in memory; release *bytes. */
sf_status sf_safetensors_encode(unsigned char **bytes, size_t *size, const sf_tensor *tensors, size_t count,
                                const char *const *metadata, uint64_t *hash);

/* Copies the elements of an F32 or F64 (I32 for integers) tensor; another type is SF_BAD_INPUT. */
sf_status sf_tensor_reals(double *out /* [count] */, const sf_tensor *tensor);
sf_status sf_tensor_integers(int32_t *out /* [count] */, const sf_tensor *tensor);

#endif
