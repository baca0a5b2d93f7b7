/* The measures of the theory for the model of a stored run. */
#include "semfocus/theory.h"

#include "measure/bounds.h"
#include "measure/domain.h"
#include "measure/lipschitz.h"
#include "measure/mask_stability.h"
#include "store/stored_model.h"

struct sf_theory {
    sf_stored_model stored;
    sf_subject subject;
    double share;
    sf_bounds *bounds;
    sf_bounds *extreme; /* of the domain that holds every sample: what local constants are compared with */
    sf_local_lipschitz *lipschitz;
    sf_mask_stability *stability;
};

sf_status sf_theory_open(sf_theory **out, sf_store *store, const sf_stored_run *run, const sf_theory_options *options) {
    *out = NULL;
    if (options->samples == 0) return sf_fail(SF_BAD_INPUT, "0 sequences were asked for; at least 1 is needed");
    if (!(options->share > 0 && options->share <= 1))
        return sf_fail(SF_BAD_INPUT, "a share of %g of the queries was asked for; it must be above 0 and at most 1",
                       options->share);
    sf_theory *theory;
    SF_TRY(SF_NEW(&theory, 1));
    sf_status status = sf_stored_model_open(&theory->stored, store, run, options->at);
    if (status == SF_OK) status = sf_stored_model_perturb(&theory->stored, options->perturbed, options->direction_seed);
    if (status != SF_OK) {
        sf_stored_model_close(&theory->stored);
        sf_release(theory);
        return status;
    }
    theory->subject = (sf_subject){.model = theory->stored.model,
                                   .params = theory->stored.params,
                                   .data = theory->stored.data,
                                   .split = options->split,
                                   .samples = options->samples,
                                   .seed = (uint32_t)theory->stored.config->seed,
                                   .machine = sf_machine_of(&options->execution)};
    theory->share = options->share;
    *out = theory;
    return SF_OK;
}

void sf_theory_close(sf_theory *theory) {
    if (theory == NULL) return;
    sf_bounds_destroy(theory->bounds);
    sf_bounds_destroy(theory->extreme);
    sf_local_lipschitz_destroy(theory->lipschitz);
    sf_mask_stability_destroy(theory->stability);
    sf_stored_model_close(&theory->stored);
    sf_release(theory);
}

static sf_status bounds_at(sf_bounds **out, const sf_theory *theory, double share) {
    sf_bound_domain *domains;
    size_t samples = 0;
    SF_TRY(SF_NEW(&domains, theory->subject.model->shape.L));
    sf_status status = sf_domain_measure(domains, &samples, &theory->subject, share);
    if (status == SF_OK) status = sf_bounds_create(out, theory->subject.model, theory->subject.params, domains);
    if (status == SF_OK) (*out)->samples = samples;
    sf_release(domains);
    return status;
}

sf_status sf_theory_bounds(const sf_bounds **out, sf_theory *theory) {
    *out = NULL;
    SF_TRY(sf_attention_check_theory(&theory->subject.model->shape.attention, "Lipschitz bounds are"));
    if (theory->bounds == NULL) SF_TRY(bounds_at(&theory->bounds, theory, theory->share));
    *out = theory->bounds;
    return SF_OK;
}

sf_status sf_theory_local_lipschitz(const sf_local_lipschitz **out, sf_theory *theory) {
    *out = NULL;
    const bool bounded = sf_attention_has_theory(&theory->subject.model->shape.attention);
    if (theory->extreme == NULL && bounded) SF_TRY(bounds_at(&theory->extreme, theory, 1));
    if (theory->lipschitz == NULL)
        SF_TRY(
            sf_local_lipschitz_measure(&theory->lipschitz, &theory->subject, bounded ? theory->extreme->blocks : NULL));
    *out = theory->lipschitz;
    return SF_OK;
}

sf_status sf_theory_mask_stability(const sf_mask_stability **out, sf_theory *theory, const double *scales,
                                   size_t scale_count) {
    *out = NULL;
    sf_mask_stability_destroy(theory->stability);
    theory->stability = NULL;
    SF_TRY(sf_mask_stability_measure(&theory->stability, &theory->subject, scales, scale_count));
    *out = theory->stability;
    return SF_OK;
}
