/* Every part of a mechanism: those built in, then those of plug-ins. */
#ifndef SF_ATTENTION_REGISTRY_H
#define SF_ATTENTION_REGISTRY_H

#include "attention/attention.h"

const sf_selector *sf_selector_at(size_t i); /* NULL past the end */
const sf_selector *sf_extra_at(size_t i);
const sf_weighting *sf_weighting_at(size_t i);
const sf_score_transform *sf_score_transform_at(size_t i);
const sf_selector *sf_selector_named(const char *name); /* NULL: there is none */
const sf_selector *sf_extra_named(const char *name);
const sf_weighting *sf_weighting_named(const char *name);
const sf_score_transform *sf_score_transform_named(const char *name);

/* Adds a part of a plug-in, which must stay valid. Its name must not be taken, and its members must have been
 * checked. */
sf_status sf_selector_register(const sf_selector *selector);
sf_status sf_weighting_register(const sf_weighting *weighting);
/* Takes it out again; parts that are not there are ignored. */
void sf_selector_unregister(const sf_selector *selector);
void sf_weighting_unregister(const sf_weighting *weighting);

#endif
