/* What the store costs: training through a session against training a bare fleet (same task, same epochs, alternately),
 * and one row of a curve in a store that already holds many. Usage: bench_store [rounds] [epochs]. Works in the folder
 * bench-store, which should not be there before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sorted.h"
#include "semfocus/semfocus.h"
#include "store/store.h"

static sf_status train_bare(const sf_config *config) {
    sf_fleet *fleet;
    sf_status status = sf_fleet_create(&fleet, "even-pairs", config, 1, NULL);
    while (status == SF_OK && !sf_fleet_finished(fleet)) status = sf_fleet_advance(fleet);
    sf_fleet_destroy(fleet);
    return status;
}

static sf_status train_stored(sf_store *store, const sf_config *config) {
    sf_planned_run run = {.task = "even-pairs", .config = *config};
    const sf_status status = sf_run_identify(run.id, run.attention, &run.config, run.task);
    return status == SF_OK ? sf_session_run(store, &(sf_session){.runs = &run, .count = 1}) : status;
}

/* The paper's even-pairs (T 40, 5 blocks), a checkpoint every 10 seconds as by default. */
static sf_status compare(sf_store *store, size_t rounds, const char *epochs) {
    double *ratios = calloc(rounds, sizeof *ratios);
    sf_status status = ratios != NULL ? SF_OK : SF_NO_MEMORY;
    for (size_t i = 0; i < rounds && status == SF_OK; i++) {
        sf_config config;
        char seed[24];
        snprintf(seed, sizeof seed, "%zu", i);
        sf_config_init(&config);
        sf_config_set(&config, "attention", "topk:5");
        sf_config_set(&config, "epochs", epochs);
        sf_config_set(&config, "seed", seed);
        const double start = sf_clock_seconds();
        status = train_bare(&config);
        const double middle = sf_clock_seconds();
        if (status == SF_OK) status = train_stored(store, &config);
        ratios[i] = (sf_clock_seconds() - middle) / (middle - start);
        printf("round %zu: bare %.2f s, stored / bare %.4f\n", i + 1, middle - start, ratios[i]);
    }
    if (status == SF_OK) {
        sf_sort(ratios, rounds);
        printf("median stored / bare: %.4f\n", ratios[rounds / 2]);
    }
    free(ratios);
    return status;
}

static sf_status time_rows(sf_store *store, size_t rows) {
    sf_config config;
    sf_stored_run run;
    sf_config_init(&config);
    sf_status status = sf_store_enter(&run, store, "00000000bench000", "even-pairs", "full", &config);
    const double start = sf_clock_seconds();
    for (size_t i = 1; i <= rows && status == SF_OK; i++)
        status = sf_store_append(
            store, &run,
            &(sf_epoch){
                .epoch = i, .train_loss = 0.5, .train_accuracy = 50, .heldout_loss = 0.5, .heldout_accuracy = 50},
            1);
    printf("one row of a curve of %zu: %.3f ms\n", rows, (sf_clock_seconds() - start) * 1e3 / (double)rows);
    return status;
}

int main(int count, char **words) {
    const long rounds = count > 1 ? strtol(words[1], NULL, 10) : 5;
    const char *folder = "bench-store";
    sf_store *store = NULL;
    if (rounds < 1) {
        fputs("usage: bench_store [rounds] [epochs], both at least 1\n", stderr);
        return 2;
    }
    sf_status status = sf_store_open(&store, folder, SF_STORE_WRITE);
    if (status == SF_OK) status = time_rows(store, 1000);
    if (status == SF_OK) status = compare(store, (size_t)rounds, count > 2 ? words[2] : "6");
    if (status != SF_OK) fprintf(stderr, "bench_store: %s\n", sf_message());
    sf_store_close(store);
    return status == SF_OK ? 0 : 1;
}
