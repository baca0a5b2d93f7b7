/* How far apart the weights of two runs are. */
#include "cli/cli.h"

#include <stdio.h>

static int print_as_json(const sf_stored_run runs[2], const sf_run_distance_result *d) {
    return print_json(json_pack("{s:[s, s], s:I, s:f, s:f, s:[f, f], s:[f, f], s:[f, f]}", "runs", runs[0].id,
                                runs[1].id, "epoch", (json_int_t)d->epoch, "distance", d->distance, "relative",
                                d->relative, "norms", d->norm_a, d->norm_b, "train_losses", d->train_loss_a,
                                d->train_loss_b, "heldout_losses", d->heldout_loss_a, d->heldout_loss_b));
}

static int print_as_text(const sf_stored_run runs[2], const sf_run_distance_result *d) {
    const double norms[] = {d->norm_a, d->norm_b}, train[] = {d->train_loss_a, d->train_loss_b},
                 heldout[] = {d->heldout_loss_a, d->heldout_loss_b};
    printf("%-16s  %-28s %-18s %10s %6s %12s %12s %13s\n", "id", "task", "attention", "seed", "epoch", "|weights|",
           "train loss", "held-out loss");
    for (size_t i = 0; i < 2; i++)
        printf("%-16s  %-28s %-18s %10lld %6zu %12.6g %12.6g %13.6g\n", runs[i].id, on_one_line(runs[i].task),
               on_one_line(runs[i].attention), (long long)runs[i].seed, d->epoch, norms[i], train[i], heldout[i]);
    printf("distance of the weights (l2): %.6g, %.4g %% of the mean norm\n", d->distance, 100 * d->relative);
    return finish_output();
}

static int run(const cli_request *request) {
    const char *arithmetic = given_arithmetic(request);
    if (arithmetic != NULL)
        return fail_usage("--%s has no effect on distance, which compares weights as they are stored; leave it out",
                          arithmetic);
    sf_store *store;
    sf_status status = open_to_read(&store, request->options.store, SF_STORE_READ);
    if (status != SF_OK) return fail(status);
    sf_stored_run runs[2];
    sf_run_distance_result distance;
    for (size_t i = 0; i < 2 && status == SF_OK; i++) status = sf_store_find(&runs[i], store, request->words[i]);
    if (status == SF_OK) status = sf_run_distance(&distance, store, &runs[0], &runs[1]);
    sf_store_close(store);
    if (status != SF_OK) return fail(status);
    return request->options.json ? print_as_json(runs, &distance) : print_as_text(runs, &distance);
}

const cli_verb verb_distance = {
    .name = "distance",
    .usage = "RUN RUN",
    .summary = "compare the weights and losses of two runs",
    .details =
        "RUN is an id from 'semfocus runs' or an unambiguous beginning of one. Both are taken at their last "
        "checkpoint,\n"
        "which must be of the same epoch and of weights of the same shape. With --swap-sample it shows how much one\n"
        "training sequence matters to a mechanism (algorithmic stability):\n"
        "example: semfocus train even-pairs --attention topk:5\n"
        "         semfocus train even-pairs --attention topk:5 --swap-sample 17\n"
        "         semfocus distance 3f2a 91bc\n",
    .groups = COMMON_GROUPS,
    .fewest_words = 2,
    .most_words = 2,
    .first_word = "RUN",
    .next_words = "RUN",
    .run = run,
};
