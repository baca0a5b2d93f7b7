/* What `analyze` shows beyond the measures: bounds, local Lipschitz constants, mask stability. */
#ifndef SF_CLI_THEORY_H
#define SF_CLI_THEORY_H

#include "cli/cli.h"

/* JSON has no infinity and nothing for what is not defined: "infinity", "-infinity" and null stand for them. */
json_t *json_number(double value);

/* Whether any of the three is asked for. */
bool wants_theory(const sf_options *options);
/* Prints what is asked for; into the run's JSON object instead where there is one. */
sf_status tell_theory(json_t *run, sf_store *store, const sf_stored_run *stored, const sf_options *options);

#endif
