#include "train/flops.h"

#include "base/sizes.h"

sf_flops sf_flops_of(const sf_shape *s, double scored, double kept) {
    const double heads = (double)(s->H * s->D), C = (double)s->C, F = (double)s->F;
    const double linear = 2 * (4 * C * heads + 2 * C * F), positions = (double)(s->T * s->L);
    return (sf_flops){.forward = positions * (linear + 2 * heads * (scored + kept)),
                      .training = positions * (3 * linear + 2 * heads * (6 * kept + (scored - kept)))};
}

sf_flops sf_flops_of_run(const sf_config *config, const char *spelling) {
    const sf_shape shape = {.T = (size_t)config->length,
                            .C = (size_t)config->width,
                            .F = (size_t)config->mlp_width,
                            .H = (size_t)config->heads,
                            .D = (size_t)(config->head_width > 0 ? config->head_width : config->width),
                            .L = (size_t)config->blocks};
    const double all = (double)shape.T;
    sf_attention attention;
    if (sf_attention_parse(&attention, spelling) != SF_OK || attention.selector == &sf_selector_full)
        return sf_flops_of(&shape, all, all);
    const double kept = (double)sf_smaller(attention.k + attention.globals, shape.T);
    return sf_flops_of(&shape, (attention.selector->selects_by & SF_BY_SCORE) != 0 ? all : kept, kept);
}
