/* Internals of settings: a value is parsed once, and can then be stored into any number of structures. */
#ifndef SF_BASE_SETTINGS_H
#define SF_BASE_SETTINGS_H

#include "semfocus/settings.h"

typedef union sf_value {
    int64_t integer; /* SF_INTEGER, SF_CHOICE, SF_FLAG */
    double real;
    const char *text; /* the caller's */
} sf_value;

/* Checked against the bounds or choices of the setting. */
sf_status sf_setting_read(sf_value *out, const sf_setting *setting, const char *text);

/* For a setting of sf_config, and of sf_options. */
void sf_config_put(sf_config *config, const sf_setting *setting, sf_value value);
void sf_options_put(sf_options *options, const sf_setting *setting, sf_value value);

#endif
