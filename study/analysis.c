/* The measures of a stored run, from its weights and its data. */
#include <math.h>
#include <string.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "base/threads.h"
#include "measure/scores.h"
#include "measure/spectral.h"
#include "store/stored_model.h"
#include "study/comparison.h"

struct sf_analysis {
    sf_stored_run run;
    sf_config config; /* with the task's recipe */
    sf_analysis_info info;
    sf_block_measures *blocks; /* [L+1], the last is all of them */
    sf_block_norms *norms;     /* [L] */
};

void sf_analysis_destroy(sf_analysis *analysis) {
    if (analysis == NULL) return;
    sf_release(analysis->blocks);
    for (size_t l = 0; l < analysis->info.blocks && analysis->norms != NULL; l++)
        sf_block_norms_close(&analysis->norms[l]);
    sf_release(analysis->norms);
    sf_release(analysis);
}

static void describe(sf_analysis *out, const sf_stored_model *stored, const sf_analysis_request *request) {
    const sf_shape *shape = &stored->model->shape;
    const sf_dataset *set = request->split == SF_TRAINING ? stored->data->training : stored->data->heldout;
    const size_t all = sf_dataset_count(set);
    const sf_theory_gap gap = sf_attention_theory_gap(&shape->attention);
    out->run = stored->run;
    out->config = *stored->config;
    out->info = (sf_analysis_info){.run = &out->run,
                                   .request = *request,
                                   .epoch = stored->epoch,
                                   .samples = request->samples > 0 && request->samples < all ? request->samples : all,
                                   .positions = shape->T,
                                   .ln_positions = sf_log((double)shape->T),
                                   .blocks = shape->L,
                                   .heads = shape->H,
                                   .k = sf_sink_keys(shape),
                                   .has_separation = sf_has_separation(shape),
                                   .has_theory = gap.kind == NULL,
                                   .lacks_kind = gap.kind,
                                   .lacks_name = gap.name};
}

static sf_status measure_scores(sf_analysis *out, const sf_stored_model *stored) {
    const sf_analysis_request *request = &out->info.request;
    sf_meter *meter;
    const sf_machine machine = sf_machine_of(&request->execution);
    SF_TRY(sf_meter_create(&meter, stored->model, &machine));
    sf_status status = sf_meter_measure(meter, stored->params,
                                        &(sf_measured_data){.data = stored->data,
                                                            .split = request->split,
                                                            .samples = request->samples,
                                                            .seed = (uint32_t)stored->config->seed});
    for (size_t block = 0; block <= out->info.blocks && status == SF_OK; block++)
        status = sf_meter_read(&out->blocks[block], meter, block);
    sf_meter_destroy(meter);
    return status;
}

/* NaN if either is. */
static double larger(double a, double b) {
    return isnan(a) || a >= b ? a : b;
}

static sf_status measure_norms(sf_analysis *out, const sf_stored_model *stored) {
    const size_t L = out->info.blocks, H = out->info.heads;
    sf_block_measures *all = &out->blocks[L];
    for (size_t l = 0; l < L; l++) {
        sf_block_measures *block = &out->blocks[l];
        sf_block_norms *norms = &out->norms[l];
        SF_TRY(sf_block_norms_open(norms, stored->model, stored->params, l));
        for (size_t h = 0; h < H; h++) {
            block->gamma = larger(block->gamma, norms->heads[h].gamma);
            block->upsilon = larger(block->upsilon, norms->heads[h].upsilon);
        }
        block->w1 = norms->w1;
        block->w2 = norms->w2;
        all->gamma = larger(all->gamma, block->gamma);
        all->upsilon = larger(all->upsilon, block->upsilon);
        all->w1 = larger(all->w1, block->w1);
        all->w2 = larger(all->w2, block->w2);
    }
    return SF_OK;
}

static sf_status fill(sf_analysis *out, const sf_stored_model *stored, const sf_analysis_request *request) {
    describe(out, stored, request);
    SF_TRY(SF_NEW(&out->blocks, out->info.blocks + 1));
    SF_TRY(SF_NEW(&out->norms, out->info.blocks));
    SF_TRY(measure_scores(out, stored));
    return measure_norms(out, stored);
}

sf_status sf_analyze(sf_analysis **out, sf_store *store, const sf_stored_run *run, const sf_analysis_request *request) {
    *out = NULL;
    sf_analysis *analysis;
    sf_stored_model stored;
    SF_TRY(sf_stored_model_open(&stored, store, run, request->at));
    sf_status status = sf_stored_model_perturb(&stored, request->perturbed, request->direction_seed);
    if (status == SF_OK) status = SF_NEW(&analysis, 1);
    if (status == SF_OK) {
        status = fill(analysis, &stored, request);
        if (status == SF_OK)
            *out = analysis;
        else
            sf_analysis_destroy(analysis);
    }
    sf_stored_model_close(&stored);
    return status;
}

sf_analysis_info sf_analysis_describe(const sf_analysis *analysis) {
    return analysis->info;
}

const sf_block_measures *sf_analysis_block(const sf_analysis *analysis, size_t block) {
    return &analysis->blocks[block];
}

const sf_block_measures *sf_analysis_overall(const sf_analysis *analysis) {
    return &analysis->blocks[analysis->info.blocks];
}

void sf_analysis_head_norms(double *gamma, double *upsilon, const sf_analysis *analysis, size_t block, size_t head) {
    const sf_head_norms *norms = &analysis->norms[block].heads[head];
    *gamma = norms->gamma;
    *upsilon = norms->upsilon;
}

bool sf_analysis_comparable(const sf_analysis *full, const sf_analysis *sparse) {
    return strcmp(full->run.attention, "full") == 0 && sparse->info.has_separation && sparse->info.has_theory &&
           strcmp(full->run.task, sparse->run.task) == 0 &&
           sf_same_but_for_the_mechanism(&full->config, &sparse->config);
}

void sf_analysis_compare(sf_comparison out[SF_QUANTILES], const sf_analysis *full, const sf_analysis *sparse) {
    const sf_measured *theirs = sf_analysis_overall(full)->measures, *ours = sf_analysis_overall(sparse)->measures;
    sf_compare_quantiles(out, &(sf_compared){.dispersion = theirs[SF_DISPERSION].at,
                                             .kept_dispersion = ours[SF_KEPT_DISPERSION].at,
                                             .separation = ours[SF_SEPARATION].at,
                                             .in_degree = ours[SF_IN_DEGREE].at,
                                             .k = (double)sparse->info.k});
}
