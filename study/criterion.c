#include "semfocus/criterion.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

#define LOSS_PREFIX "loss:"
static const double most_loss = 1e6;

static sf_status refuse(const char *text, const char *rule) {
    char quoted[SF_QUOTE_SIZE];
    return sf_fail(SF_BAD_INPUT, "converged-at is '%s' but %s", sf_text_quote(quoted, text), rule);
}

sf_status sf_criterion_parse(sf_criterion *out, const char *text) {
    const size_t prefix = strlen(LOSS_PREFIX);
    *out = (sf_criterion){.is_loss = strncmp(text, LOSS_PREFIX, prefix) == 0};
    const bool is_number = sf_text_real(&out->value, out->is_loss ? text + prefix : text);
    if (out->is_loss && !(is_number && out->value > 0 && out->value <= most_loss))
        return refuse(text, "a training loss must be a number above 0; write for example loss:0.1");
    if (!out->is_loss && !(is_number && out->value > 0 && out->value <= 100))
        return refuse(text, "must be a training accuracy above 0 and up to 100, or a training loss such as loss:0.1");
    return SF_OK;
}

bool sf_criterion_met(const sf_criterion *criterion, const sf_epoch *row, sf_split set) {
    if (criterion->is_loss) return (set == SF_TRAINING ? row->train_loss : row->heldout_loss) <= criterion->value;
    return (set == SF_TRAINING ? row->train_accuracy : row->heldout_accuracy) >= criterion->value;
}

const char *sf_criterion_name(char out[SF_CRITERION_SIZE], const sf_criterion *criterion) {
    snprintf(out, SF_CRITERION_SIZE, criterion->is_loss ? "a training loss of %.6g" : "%.6g %% training accuracy",
             criterion->value);
    return out;
}

const char *sf_criterion_short(char out[SF_CRITERION_SIZE], const sf_criterion *criterion) {
    snprintf(out, SF_CRITERION_SIZE, criterion->is_loss ? "loss %.6g" : "%.6g %%", criterion->value);
    return out;
}
