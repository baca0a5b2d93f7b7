/* +global:g: g tokens more, with ids of their own behind PAD, that keep all keys and are kept by all queries.
 *
 * They stand after the sequence and its padding, have positions, and are part of the mean that is classified. The
 * selector works among the other tokens. Not for causal models: a global token would carry later tokens to earlier
 * ones. The tokens are laid out with the data (train/data.c), so this part has no function of its own. Source: Beltagy
 * et al. 2020, Zaheer et al. 2020, as in Ram et al. 2025. Settings: g from 1 to 1024. Cost: 2 g T d. Example: semfocus
 * train even-pairs --attention block:5+global:1 */
#include "attention/attention.h"

const sf_selector sf_extra_global = {
    SF_SELECTOR,
    .name = "global",
    .summary = "K tokens more that keep all keys and are kept by all queries",
    .takes_k = true,
    .not_causal = true,
    .formula = "i >= T or j >= T, for positions T..T+K-1",
    .cost = "2 K T d",
    .source = "Beltagy et al. 2020; Zaheer et al. 2020; Ram et al. 2025",
};
