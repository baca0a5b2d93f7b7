/* Trains one model and prints its curve.
 *
 *   cc train_one.c $(pkg-config --cflags --libs semfocus) -o train_one
 *   ./train_one topk:3
 *
 * The code is C and C++ alike. */
#include <stdio.h>

#include <semfocus/semfocus.h>

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
    while (status == SF_OK && !sf_fleet_finished(fleet)) {
        status = sf_fleet_advance(fleet);
        const sf_result result = sf_fleet_result(fleet, 0);
        if (status == SF_OK)
            printf("epoch %2zu  training %5.1f %%  held-out %5.1f %%\n", result.last.epoch, result.last.train_accuracy,
                   result.last.heldout_accuracy);
    }
    sf_fleet_destroy(fleet);
    return status;
}

int main(int count, char **words) {
    sf_config config;
    sf_status status = configure(&config, count > 1 ? words[1] : "topk:3");
    if (status == SF_OK) status = train(&config);
    if (status == SF_OK) return 0;
    fprintf(stderr, "%s\n", sf_message());
    return status == SF_BAD_INPUT ? 2 : 1;
}
