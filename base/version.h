/* Versions that runs record. */
#ifndef SF_BASE_VERSION_H
#define SF_BASE_VERSION_H

/* Increased by every change that alters the bits of a trained model: data, streams, initial weights, order of
 * arithmetic. */
#define SF_NUMERICS_VERSION 4

#endif
