/* Queries that keep the same keys: those of a cluster of kmeans, or of the same buckets of lsh. Kernels list the keys
 * of such a group once, and compute its queries together. */
#ifndef SF_ATTENTION_GROUPS_H
#define SF_ATTENTION_GROUPS_H

#include "attention/attention.h"

typedef struct sf_query_groups {
    const uint32_t *order;    /* [T]: queries, those of a group side by side and ascending */
    const uint32_t *of_query; /* [T]: the group */
} sf_query_groups;

/* Whether the queries of a mechanism come in groups. `head` below is prepared. */
bool sf_attention_has_groups(const sf_attention *attention);
sf_query_groups sf_attention_groups(const sf_attention *attention, const sf_head_state *head);
/* The keys that all queries of the query's group keep, ascending; returns their number, which may be 0. */
size_t sf_attention_keep_group(uint32_t *kept /* [T] */, const sf_attention *attention, const sf_head_state *head,
                               size_t query);
/* Whether a query of a group that keeps `count` keys also keeps its own. */
bool sf_attention_adds_own(const sf_attention *attention, size_t count);

/* Of the selectors. */
sf_query_groups sf_kmeans_groups(const sf_head_state *head);
sf_query_groups sf_lsh_groups(const sf_head_state *head);
size_t sf_kmeans_keep_group(uint32_t *kept, const sf_head_state *head, size_t query);
size_t sf_lsh_keep_group(uint32_t *kept, const sf_head_state *head, size_t query);

#endif
