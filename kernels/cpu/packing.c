/* The weights of a block as its products read them: right factors, transposed and prepared for forward, as they are for
 * backward. */
#include <string.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rows.h"

static void pack_forward(sf_packed_weight *w, size_t K, size_t N) {
    w->at = sf_prepare(w->room, sf_plain(w->transposed, N), K, N);
}

static void pack_backward(sf_packed_block *packed, const sf_cpu_plan *plan, const float *params, size_t block) {
    const sf_param *p = sf_model_block(plan->model, block);
    for (size_t i = 0; i < SF_BLOCK_WEIGHTS; i++) {
        const sf_param *weight = &p[2 * i];
        const size_t groups = weight[1].groups, width = weight->rows / groups, N = weight->stride;
        sf_packed_weight *back = packed->back + i * plan->model->shape.H;
        for (size_t g = 0; g < groups; g++)
            back[g].at = sf_prepare(back[g].room, sf_plain(params + weight->offset + g * width * N, N), width, N);
    }
}

void sf_pack_block(sf_packed_block *packed, const sf_cpu_plan *plan, const float *params, size_t block) {
    const sf_shape *s = &plan->model->shape;
    const size_t Cp = plan->rows.Cp, Fp = plan->rows.Fp, Dp = plan->rows.Dp, HDp = plan->rows.HDp;
    const sf_param *p = sf_model_block(plan->model, block);
    static const int projections[] = {SF_WQ, SF_WK, SF_WV};
    for (size_t i = 0; i < 3; i++) {
        const sf_param *weight = &p[projections[i]];
        for (size_t h = 0; h < s->H; h++)
            sf_transpose(packed->qkv.transposed + i * HDp + h * Dp, 3 * HDp, Dp, 1.0F,
                         params + weight->offset + h * s->D * Cp, Cp, s->D, Cp);
        memcpy(packed->qkv_bias + i * HDp, params + p[projections[i] + 1].offset, HDp * sizeof *params);
    }
    sf_transpose(packed->o.transposed, Cp, Cp, 1.0F, params + p[SF_WO].offset, HDp, s->C, HDp);
    sf_transpose(packed->w1.transposed, Fp, Fp, 1.0F, params + p[SF_W1].offset, Cp, s->F, Cp);
    sf_transpose(packed->w2.transposed, Cp, Cp, 1.0F, params + p[SF_W2].offset, Fp, s->C, Fp);
    pack_forward(&packed->qkv, Cp, 3 * HDp);
    pack_forward(&packed->o, HDp, Cp);
    pack_forward(&packed->w1, Cp, Fp);
    pack_forward(&packed->w2, Fp, Cp);
    pack_backward(packed, plan, params, block);
}
