/* A build without MPI has one rank, which sends nothing. */
#include <assert.h>

#include "ranks/transfer.h"

void sf_transfer_send(sf_transfer *out, size_t to, unsigned channel, const void *bytes, size_t size) {
    (void)out, (void)to, (void)channel, (void)bytes, (void)size;
    assert(false && "a build without MPI has one rank");
}

void sf_transfer_receive(sf_transfer *out, size_t from, unsigned channel, void *bytes, size_t size) {
    (void)out, (void)from, (void)channel, (void)bytes, (void)size;
    assert(false && "a build without MPI has one rank");
}

sf_status sf_transfer_wait(sf_transfer *transfers, size_t count) {
    (void)transfers, (void)count;
    return SF_OK;
}

bool sf_transfer_is_complete(sf_transfer *transfer) {
    (void)transfer;
    return true;
}

void sf_transfer_forget(sf_transfer *receiving) {
    (void)receiving;
}

void sf_transfer_nap(double *waited) {
    (void)waited;
}

sf_status sf_transfer_open(const atomic_int *flag, double seconds) {
    (void)flag, (void)seconds;
    return SF_OK;
}

void sf_transfer_close(void) {
}

const atomic_int *sf_transfer_begin_order(uint64_t number) {
    (void)number;
    return NULL;
}

void sf_transfer_end_order(void) {
}

sf_status sf_transfer_check(void) {
    return SF_OK;
}

const char *sf_transfer_host(size_t rank) {
    (void)rank;
    return "localhost";
}
