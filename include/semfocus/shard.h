/* Shards: the runs of a plan dealt to N jobs that do not know of each other, each with a store of its own.
 *
 *   sf_shard shard;
 *   sf_shard_parse(&shard, "2/3");
 *   sf_shard_deal(places, &share, runs, count, &shard);
 *   sf_session_run(store, &(sf_session){.runs = runs, .count = count, .places = places});
 *
 * When all jobs are done, sf_store_merge() joins their stores: the result is what one session would have left. */
#ifndef SEMFOCUS_SHARD_H
#define SEMFOCUS_SHARD_H

#include "semfocus/api.h"
#include "semfocus/session.h"

SF_API_BEGIN

enum { SF_MOST_SHARDS = 1000000 };

typedef struct sf_shard {
    size_t index, count; /* index from 1 to count */
} sf_shard;

/* "2/3"; anything else is SF_BAD_INPUT. */
sf_status sf_shard_parse(sf_shard *out, const char *text);

typedef struct sf_share {
    size_t runs, all; /* of the shard, of the plan; a run that is planned twice counts once */
} sf_share;

/* Longest runs first, each to the shard with the least work so far: shards take about the same time, as far as
 * settings tell. The result depends on the plan alone, so every job deals the same, and every run belongs to exactly
 * one shard. places[i] is the place of run i in the plan, counted from 1, or 0 if it is another shard's. */
sf_status sf_shard_deal(size_t *places /* [count] */, sf_share *share, const sf_planned_run *runs /* [count] */,
                        size_t count, const sf_shard *shard);

SF_API_END

#endif
