/* Which of the planned runs a command trains: all, or those of --shard I/N. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int open_share(cli_share *out, const sf_planned_run *runs, size_t count, const sf_options *options) {
    *out = (cli_share){.counts = {.runs = count, .all = count}};
    if (!sf_options_given(options, "shard")) return EXIT_DONE;
    sf_status status = sf_shard_parse(&out->shard, options->shard);
    if (status != SF_OK) return fail(status);
    out->all_places = calloc(count > 0 ? count : 1, sizeof *out->all_places);
    if (out->all_places == NULL) {
        fail_usage("no memory left to plan %zu runs", count);
        return EXIT_FAILED;
    }
    status = sf_shard_deal(out->all_places, &out->counts, runs, count, &out->shard);
    out->places = out->all_places;
    return status == SF_OK ? EXIT_DONE : fail(status);
}

void close_share(cli_share *share) {
    free(share->all_places);
    *share = (cli_share){0};
}

bool is_ours(const cli_share *share, size_t run) {
    return share->places == NULL || share->places[run] > 0;
}

size_t count_ours(const cli_share *share, size_t count) {
    size_t ours = 0;
    for (size_t i = 0; i < count; i++) ours += is_ours(share, i);
    return ours;
}

bool print_share(const cli_share *share) {
    if (share->places == NULL) return false;
    printf("shard %zu of %zu: %zu of %zu run%s", share->shard.index, share->shard.count, share->counts.runs,
           share->counts.all, plural(share->counts.all));
    return true;
}

void tell_how_to_join(const cli_share *share, const sf_options *options) {
    if (options->json || !print_share(share)) return;
    printf(" in '%s'\nWhen all %zu shards are done, join their stores: semfocus merge STORE... --into STORE\n",
           on_one_line(options->store), share->shard.count);
}
