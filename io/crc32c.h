/* CRC-32C (Castagnoli, polynomial 0x1edc6f41, reflected): the checksum of the records that TensorBoard reads. */
#ifndef SF_IO_CRC32C_H
#define SF_IO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t sf_crc32c(const void *bytes, size_t count);
/* As it is stored in a record: rotated and shifted, so that a record may itself contain checksums. */
uint32_t sf_crc32c_masked(const void *bytes, size_t count);

#endif
