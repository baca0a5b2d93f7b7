/* Reading safetensors: 8 bytes of header length, a JSON header, raw little-endian data (not aligned: copy, never cast).
 * Every claim of the header is checked: the tensors must tile the data exactly. */
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
void sf_safetensors_close(sf_safetensors *file);

/* NULL if there is none. */
const sf_tensor *sf_safetensors_find(const sf_safetensors *file, const char *name);
const sf_tensor *sf_safetensors_at(const sf_safetensors *file, size_t i);
const char *sf_safetensors_metadata(const sf_safetensors *file, const char *key);

/* Copies the elements of an F32 or F64 (I32 for integers) tensor; another type is SF_BAD_INPUT. */
sf_status sf_tensor_reals(double *out /* [count] */, const sf_tensor *tensor);
sf_status sf_tensor_integers(int32_t *out /* [count] */, const sf_tensor *tensor);

#endif
