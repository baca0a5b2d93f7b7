/* What rank 0 orders the other ranks to do with their copies of its fleet, and what they reply. An order may be
 * followed by a message of `bytes`; all but the last kind have a reply. */
#ifndef SF_TRAIN_CPU_ORDERS_H
#define SF_TRAIN_CPU_ORDERS_H

#include "train/gpu_part.h"

enum { SF_ORDERS = 40, SF_REPLIES, SF_ORDERED_BYTES }; /* channels; those of train/cpu/exchange.c are below */
enum { SF_REPLY_SIZE = 1024, SF_VERSION_SIZE = 32 };

typedef enum sf_order_kind {
    SF_ORDER_OPEN,     /* a fleet for one member */
    SF_ORDER_ADD,      /* bytes: an sf_ordered_member and the plug-ins that are loaded */
    SF_ORDER_LINK,     /* bytes: what sf_gpu_part_link() needs; none: gradients do not go from GPU to GPU */
    SF_ORDER_WRITE,    /* bytes: a block */
    SF_ORDER_ADVANCE,  /* one epoch */
    SF_ORDER_EVALUATE, /* the weights as they are */
    SF_ORDER_REMOVE,   /* the member */
    SF_ORDER_CLOSE,    /* the fleet */
    SF_ORDER_RELEASE   /* no order follows, until rank 0 shares a model again; there is no reply */
} sf_order_kind;

typedef struct sf_order {
    uint64_t number; /* from 1 */
    sf_order_kind kind;
    char version[SF_VERSION_SIZE]; /* of rank 0's program */
    sf_precision precision;        /* open */
    size_t threads;                /* open */
    double timeout;                /* open: seconds without a sign of life */
    bool on_gpu;                   /* add */
    size_t block;                  /* write */
    size_t bytes;                  /* what follows */
    sf_result result;              /* advance: where the member is */
} sf_order;

typedef struct sf_ordered_member {
    sf_config config;
    char task[SF_PATH_SIZE];
    uint64_t data_hash;
    size_t plugins; /* paths that follow, each with its hash and its end */
} sf_ordered_member;

typedef struct sf_reply {
    uint64_t number;
    sf_status status;
    uint64_t weights_hash;       /* advance */
    bool broken;                 /* the mechanism broke its rules here; the message says how */
    sf_gpu_about gpu;            /* add, if a GPU computes */
    char message[SF_REPLY_SIZE]; /* of a failure */
} sf_reply;

/* An order's bytes have a channel of their own: what a rank had no memory to receive is not taken for those of the next
 * one. */
static inline unsigned sf_order_channel(const sf_order *order) {
    return SF_ORDERED_BYTES + (unsigned)(order->number % 1024);
}

#endif
