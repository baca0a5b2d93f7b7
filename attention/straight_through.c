/* +st: straight-through selection. Forward as without it; backward as if the weights had been the softmax over all
 * visible keys, so that keys that were not kept also learn.
 *
 *   p = softmax over all visible s;  ds_j = p_j (dw_j - sum_i p_i dw_i) for every visible j,  dw_j = dcontext . v_j
 *
 * dv uses the forward weights. Only with the softmax weighting. Every part that computes gradients knows it, so this
 * part has no function of its own. Source: Bengio et al. 2013 (straight-through estimators). Cost: T^2 d in the
 * backward pass. Example: semfocus train even-pairs --attention topk:5+st */
#include "attention/attention.h"

const sf_selector sf_extra_st = {
    SF_SELECTOR,
    .name = "st",
    .summary = "backward as if the weights had been the softmax over all visible keys",
    .formula = "ds_j = p_j (dw_j - sum p dw), p the softmax over all visible keys",
    .cost = "T^2 d in the backward pass",
    .source = "Bengio et al. 2013, arXiv 1308.3432",
};
