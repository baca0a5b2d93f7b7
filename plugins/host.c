#include "base/elementary.h"
#include "base/random.h"
#include "plugins/plugins.h"

static const sf_plugin_host host = {
    .version = SF_PLUGIN_HOST_VERSION,
    .size = sizeof(sf_plugin_host),
    .draw_word = sf_draw_word,
    .draw_below = sf_draw_below,
    .draw_unit = sf_draw_unit,
    .draw_normal = sf_draw_normal,
    .exp = sf_exp,
    .log = sf_log,
    .log1p = sf_log1p,
    .pow = sf_pow,
    .hypot = sf_hypot,
    .erfc = sf_erfc,
    .sin = sf_sin,
    .cos = sf_cos,
    .fail = sf_fail,
};

const sf_plugin_host *sf_plugin_host_table(void) {
    return &host;
}
