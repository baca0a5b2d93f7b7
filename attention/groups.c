#include "attention/groups.h"

static bool is_lsh(const sf_attention *attention) {
    return attention->selector == &sf_selector_lsh;
}

bool sf_attention_has_groups(const sf_attention *attention) {
    return (is_lsh(attention) || attention->selector == &sf_selector_kmeans) && !attention->causal &&
           !sf_attention_has_extras(attention) && attention->globals == 0;
}

sf_query_groups sf_attention_groups(const sf_attention *attention, const sf_head_state *head) {
    return is_lsh(attention) ? sf_lsh_groups(head) : sf_kmeans_groups(head);
}

size_t sf_attention_keep_group(uint32_t *kept, const sf_attention *attention, const sf_head_state *head, size_t query) {
    return is_lsh(attention) ? sf_lsh_keep_group(kept, head, query) : sf_kmeans_keep_group(kept, head, query);
}

bool sf_attention_adds_own(const sf_attention *attention, size_t count) {
    return is_lsh(attention) || count == 0;
}
