/* Your own mechanism inside a program: strided:k keeps every k-th key, counted from the query's own position.
 *
 *   cc mechanism.c $(pkg-config --cflags --libs semfocus) -o mechanism
 *   ./mechanism strided:2
 *
 * The code is C and C++ alike. To use the mechanism in the semfocus program instead, put it into a plug-in:
 * semfocus/plugin.h shows how. */
#include <stdio.h>

#include <semfocus/semfocus.h>

static size_t keep_strided(uint32_t *kept, const sf_query *query) {
    size_t count = 0;
    for (size_t j = query->query % query->k; j < query->keys; j += query->k) kept[count++] = (uint32_t)j;
    return count;
}

static sf_status register_strided(void) {
    static sf_selector strided;
    static const sf_selector *selectors[] = {&strided, NULL};
    static sf_plugin plugin;
    strided.version = SF_SELECTOR_VERSION;
    strided.size = sizeof strided;
    strided.name = "strided";
    strided.summary = "every K-th key";
    strided.takes_k = true;
    strided.selects_by = SF_BY_POSITION;
    strided.keep = keep_strided;
    plugin.version = SF_PLUGIN_VERSION;
    plugin.size = sizeof plugin;
    plugin.selectors = selectors;
    return sf_plugin_register(&plugin, "/proc/self/exe");
}

static sf_status configure(sf_config *config, const char *attention) {
    static const char *const settings[][2] = {{"length", "8"},          {"blocks", "1"}, {"train-count", "1000"},
                                              {"heldout-count", "200"}, {"batch", "5"},  {"epochs", "6"}};
    sf_config_init(config);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const sf_status status = sf_config_set(config, settings[i][0], settings[i][1]);
        if (status != SF_OK) return status;
    }
    return sf_config_set(config, "attention", attention);
}

static sf_status train(const sf_config *config) {
    sf_fleet *fleet;
    sf_status status = sf_fleet_create(&fleet, "even-pairs", config, 1, NULL);
    if (status != SF_OK) return status;
    while (status == SF_OK && !sf_fleet_finished(fleet)) status = sf_fleet_advance(fleet);
    const sf_result result = sf_fleet_result(fleet, 0);
    if (status == SF_OK)
        printf("%s: training %.1f %%, held-out %.1f %% after %zu epochs\n", result.attention,
               result.last.train_accuracy, result.last.heldout_accuracy, result.last.epoch);
    sf_fleet_destroy(fleet);
    return status;
}

int main(int count, char **words) {
    sf_config config;
    sf_status status = register_strided();
    if (status == SF_OK) status = configure(&config, count > 1 ? words[1] : "strided:2");
    if (status == SF_OK) status = train(&config);
    if (status == SF_OK) return 0;
    fprintf(stderr, "%s\n", sf_message());
    return status == SF_BAD_INPUT ? 2 : 1;
}
