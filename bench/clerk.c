/* How many messages of other ranks can rank 0 handle? Feeds its clerk with the messages of a thousand ranks that each
 * train one run: rows as fast as they are taken, and checkpoints of the paper's model. Usage: bench_clerk [ranks]
 * [epochs] [checkpoints per rank]. Works in the folder bench-clerk, which should not be there before. */
#include <stdlib.h>

#include "base/clock.h"
#include "tests/simulated_ranks.h"

enum { CHECKPOINT_SIZE = 540000 }; /* of even-pairs at the paper's size */

static double feed_rows(simulation *s, size_t epochs) {
    const double start = sf_clock_seconds();
    for (size_t epoch = 1; epoch <= epochs; epoch++) {
        for (size_t r = 1; r < s->count; r++) simulation_row(s, r, epoch);
        sf_clerk_tick(s->clerk, sf_clock_seconds());
    }
    return sf_clock_seconds() - start;
}

static double feed_checkpoints(simulation *s, size_t epochs, size_t count, const void *file) {
    const double start = sf_clock_seconds();
    for (size_t i = 0; i < count; i++) simulation_checkpoint(s, 1 + i % (s->count - 1), epochs, file, CHECKPOINT_SIZE);
    return sf_clock_seconds() - start;
}

/* The messages of one run, without its checkpoints. */
static void print_sizes(void) {
    sf_row_message row = {0};
    sf_dealt_message dealt = {.plan = {.task = "even-pairs"}};
    sf_alive_message alive = {0};
    sf_coder messages[] = {sf_message_write(SF_ROW), sf_message_write(SF_RUN_DEALT), sf_message_write(SF_ALIVE)};
    sf_code_row(&messages[0], &row);
    sf_code_dealt(&messages[1], &dealt);
    sf_code_alive(&messages[2], &alive);
    printf("bytes: %zu per row, %zu to deal a run, %zu per second and rank and %zu more per run as a sign of life\n",
           messages[0].size, messages[1].size, messages[2].size, sizeof(sf_step));
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) sf_release(messages[i].bytes);
}

int main(int count, char **words) {
    const size_t ranks = count > 1 ? strtoul(words[1], NULL, 10) : 1000;
    const size_t epochs = count > 2 ? strtoul(words[2], NULL, 10) : 50;
    const size_t checkpoints = count > 3 ? strtoul(words[3], NULL, 10) : 200;
    unsigned char *file;
    simulation s;
    if (ranks < 1 || epochs < 1 || SF_NEW(&file, CHECKPOINT_SIZE) != SF_OK ||
        simulation_open(&s, "bench-clerk", ranks, ranks) != SF_OK) {
        fprintf(stderr, "bench_clerk [ranks] [epochs] [checkpoints]: %s\n", sf_message());
        return 2;
    }
    const double start = sf_clock_seconds();
    for (size_t r = 1; r <= ranks; r++) {
        simulation_hello(&s, r);
        simulation_ask(&s, r);
        simulation_begin(&s, r);
    }
    const double dealt = sf_clock_seconds() - start;
    const double rows = feed_rows(&s, epochs), saved = feed_checkpoints(&s, epochs, checkpoints, file);
    printf("%zu ranks: %.0f runs dealt and begun per second, %.0f rows per second, %.1f checkpoints per second\n",
           ranks, (double)ranks / dealt, (double)(ranks * epochs) / rows, (double)checkpoints / saved);
    print_sizes();
    if (s.notes > 0) printf("it said: %s\n", s.note);
    simulation_close(&s);
    sf_release(file);
    return s.notes > 0;
}
