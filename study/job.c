#include "study/job.h"

#include <time.h>

#include "base/clock.h"
#include "ranks/post.h"
#include "ranks/transfer.h"
#include "semfocus/ranks.h"

static const double farewell_seconds = 10; /* that ranks may take to leave */

static sf_clerk *the_clerk; /* NULL: not opened */

static sf_status send(void *context, size_t to, sf_coder *message) {
    (void)context;
    return sf_post_send(to, message);
}

static void on_message(void *context, size_t from, const unsigned char *bytes, size_t size) {
    sf_clerk_receive(context, from, bytes, size);
}

static void on_tick(void *context) {
    sf_clerk_tick(context, sf_clock_seconds());
}

sf_status sf_job_clerk(sf_clerk **clerk) {
    *clerk = the_clerk;
    if (the_clerk != NULL || sf_ranks_count() == 1) return SF_OK;
    SF_TRY(sf_clerk_create(&the_clerk, sf_ranks_count(), &(sf_outbox){.send = send}));
    const sf_status status =
        sf_post_open(&(sf_listener){.on_message = on_message, .on_tick = on_tick, .context = the_clerk});
    if (status != SF_OK) {
        sf_clerk_destroy(the_clerk);
        the_clerk = NULL;
    }
    *clerk = the_clerk;
    return status;
}

sf_status sf_job_share_model(void) {
    sf_clerk *clerk;
    SF_TRY(sf_job_clerk(&clerk));
    for (size_t r = 1; r < sf_ranks_count(); r++) {
        sf_coder message = sf_message_write(SF_SHARE_MODEL);
        SF_TRY(sf_post_send(r, &message));
    }
    return SF_OK;
}

bool sf_ranks_dismiss(void) {
    sf_clerk *clerk;
    if (sf_job_clerk(&clerk) != SF_OK) return false;
    if (clerk == NULL) return true;
    sf_clerk_dismiss(clerk);
    const bool lost = sf_transfer_check() != SF_OK; /* then the others wait for that rank, and cannot answer */
    const double end = sf_clock_seconds() + (lost ? 0 : farewell_seconds);
    while (sf_clerk_remaining(clerk) > 0 && sf_clock_seconds() < end)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    const bool all = sf_clerk_remaining(clerk) == 0;
    sf_post_close(all ? farewell_seconds : 0);
    sf_clerk_destroy(clerk);
    the_clerk = NULL;
    return all;
}
