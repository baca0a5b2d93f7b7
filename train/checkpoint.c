#include "train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

enum { NAME_SIZE = SF_PARAM_NAME_SIZE + 40 };

static void tensor_name(char out[NAME_SIZE], const sf_param *param, size_t block) {
    if (block == 0)
        snprintf(out, NAME_SIZE, "%s", param->name);
    else
        snprintf(out, NAME_SIZE, "optimizer.%zu.%s", block - 1, param->name);
}

static void gather(float *packed, const float *block, const sf_param *param) {
    for (size_t r = 0; r < param->rows; r++)
        for (size_t c = 0; c < param->columns; c++) packed[r * param->columns + c] = block[sf_param_index(param, r, c)];
}

static void scatter(float *block, const float *packed, const sf_param *param) {
    for (size_t r = 0; r < param->rows; r++)
        for (size_t c = 0; c < param->columns; c++) block[sf_param_index(param, r, c)] = packed[r * param->columns + c];
}

static size_t elements(const sf_param *param) {
    return param->rows * param->columns;
}

sf_status sf_checkpoint_encode(unsigned char **bytes, size_t *size, uint64_t *hash, const sf_model *model,
                               float *const *blocks /* [count] */, size_t count, const sf_checkpoint_label *label) {
    const size_t tensor_count = count * model->param_count;
    sf_tensor *tensors = NULL;
    char(*names)[NAME_SIZE] = NULL;
    float *packed = NULL;
    *bytes = NULL;
    sf_status status = SF_NEW(&tensors, tensor_count);
    if (status == SF_OK) status = SF_NEW(&names, tensor_count);
    if (status == SF_OK) status = SF_NEW(&packed, count * model->parameters);
    if (status == SF_OK) {
        float *at = packed;
        for (size_t i = 0; i < tensor_count; i++) {
            const sf_param *param = &model->params[i % model->param_count];
            tensor_name(names[i], param, i / model->param_count);
            gather(at, blocks[i / model->param_count], param);
            tensors[i] = (sf_tensor){.name = names[i],
                                     .dtype = "F32",
                                     .rank = param->rank,
                                     .shape = {param->rank == 1 ? param->columns : param->rows, param->columns},
                                     .count = elements(param),
                                     .bytes = (const unsigned char *)at,
                                     .size = elements(param) * sizeof *at};
            at += elements(param);
        }
        char epoch[24];
        snprintf(epoch, sizeof epoch, "%zu", label->epoch);
        const char *const metadata[] = {"run", label->run, "epoch", epoch, NULL};
        status = sf_safetensors_encode(bytes, size, tensors, tensor_count, metadata, hash);
    }
    sf_release(tensors);
    sf_release(names);
    sf_release(packed);
    return status;
}

static sf_status damaged(const char *path, const char *what) {
    return sf_fail(SF_IO_ERROR,
                   "the checkpoint '%s' %s; put back a whole copy, or delete the file and train the run again", path,
                   what);
}

static sf_status unreadable(const char *path, int why) {
    if (why != ENOENT)
        return sf_fail(SF_IO_ERROR, "the checkpoint '%s' cannot be read: %s; make it readable again", path,
                       strerror(why));
    return sf_fail(SF_IO_ERROR,
                   "the checkpoint '%s' is missing; put it back, or train the run again and it is computed anew", path);
}

static sf_status other_bytes(const char *path) {
    return damaged(path, "is damaged (its bytes changed since it was written)");
}

sf_status sf_checkpoint_unpack(float *const *blocks /* [count] */, size_t count, const char *name,
                               const sf_safetensors *file, const sf_model *model) {
    for (size_t i = 0; i < count * model->param_count; i++) {
        const sf_param *param = &model->params[i % model->param_count];
        char of[NAME_SIZE];
        tensor_name(of, param, i / model->param_count);
        const sf_tensor *tensor = sf_safetensors_find(file, of);
        if (tensor == NULL || strcmp(tensor->dtype, "F32") != 0 || tensor->count != elements(param))
            return damaged(name, "is of another model");
        float *packed;
        SF_TRY(SF_NEW(&packed, tensor->count));
        memcpy(packed, tensor->bytes, tensor->size);
        scatter(blocks[i / model->param_count], packed, param);
        sf_release(packed);
    }
    return SF_OK;
}

sf_status sf_checkpoint_open(sf_safetensors **out, const char *path, uint64_t hash) {
    const sf_status status = sf_safetensors_open(out, path);
    if (status == SF_NO_MEMORY) return status;
    if (status != SF_OK) return access(path, R_OK) == 0 ? damaged(path, "is damaged") : unreadable(path, errno);
    if (sf_safetensors_hash(*out) == hash) return SF_OK;
    sf_safetensors_close(*out);
    *out = NULL;
    return other_bytes(path);
}

static sf_status read_pieces(int file, const char *path, uint64_t hash,
                             sf_status (*each)(void *context, const void *bytes, size_t count), void *context) {
    char piece[1 << 14];
    uint64_t found = SF_HASH_START;
    for (;;) {
        const ssize_t count = read(file, piece, sizeof piece);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return unreadable(path, errno);
        if (count == 0) return found == hash ? SF_OK : other_bytes(path);
        found = sf_hash(found, piece, (size_t)count);
        SF_TRY(each(context, piece, (size_t)count));
    }
}

sf_status sf_checkpoint_each_piece(const char *path, uint64_t hash,
                                   sf_status (*each)(void *context, const void *bytes, size_t count), void *context) {
    struct stat about;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait if it is a pipe */
    if (file < 0) return unreadable(path, errno);
    const bool regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    const sf_status status =
        regular ? read_pieces(file, path, hash, each, context) : damaged(path, "is no longer a file");
    close(file);
    return status;
}

sf_status sf_checkpoint_read(float *const *blocks /* [count] */, size_t count, const char *path, uint64_t hash,
                             const sf_model *model) {
    sf_safetensors *file;
    SF_TRY(sf_checkpoint_open(&file, path, hash));
    const sf_status status = sf_checkpoint_unpack(blocks, count, path, file, model);
    sf_safetensors_close(file);
    return status;
}
