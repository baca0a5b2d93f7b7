#include <assert.h>
#include <string.h>

#include "base/sizes.h"
#include "base/stop.h"
#include "semfocus/ranks.h"
#include "train/cpu/exchange_inside.h"

enum { /* channels of a step, then of an evaluation */
       PART,
       NOTE = PART + SF_CHUNKS,
       SUM = NOTE + SF_CHUNKS,
       VERDICT,
       SLICE_LOSSES,
       SLICE_CORRECT,
       SLICE_FAULTS,
       ROW
};
static size_t summing_ranks(size_t chunks, size_t ranks) {
    return sf_smaller(chunks, ranks);
}

/* The k-th of the ranks that compute. Rank 0 comes last, because it has other things to do. */
size_t sf_exchange_rank_at(const sf_exchange *x, size_t k) {
    return k + 1 < x->ranks ? k + 1 : 0;
}

/* The inverse; K or more: this rank computes no chunk. */
size_t sf_exchange_place(const sf_exchange *x) {
    return x->rank > 0 ? x->rank - 1 : x->ranks - 1;
}

static bool is_mine(const sf_exchange *x, size_t chunk) {
    assert(x->now.summing > 0);
    return chunk % x->now.summing == sf_exchange_place(x);
}

bool sf_exchange_is_summing(const sf_exchange *x) {
    return sf_exchange_place(x) < x->now.summing;
}

bool sf_exchange_is_judge(const sf_exchange *x) {
    return sf_exchange_place(x) == 0;
}

size_t sf_exchange_boundary(const sf_exchange *x, size_t k) {
    return x->model->size / SF_PADDING * k / x->now.summing * SF_PADDING;
}

static stretch stretch_at(const sf_exchange *x, size_t k) {
    const size_t first = sf_exchange_boundary(x, k);
    return (stretch){first, sf_exchange_boundary(x, k + 1) - first};
}

static size_t widest_stretch(const sf_model *model, size_t summing) {
    return (model->size / SF_PADDING / summing + 1) * SF_PADDING;
}

/* Floats for the stretches of a batch of any size. */
static size_t room_for_received(const sf_model *model, size_t ranks) {
    size_t most = 0;
    for (size_t chunks = 1; chunks <= SF_CHUNKS; chunks++)
        most = sf_larger(most, chunks * widest_stretch(model, summing_ranks(chunks, ranks)));
    return most;
}

static size_t chunks_per_rank(size_t ranks) {
    const size_t summing = summing_ranks(SF_CHUNKS, ranks);
    return (SF_CHUNKS + summing - 1) / summing;
}

static sf_status open_parts(sf_exchange *x, size_t batch) {
    SF_TRY(SF_NEW(&x->own, chunks_per_rank(x->ranks) * x->model->size));
    x->computed = x->own;
    SF_TRY(SF_NEW(&x->received, room_for_received(x->model, x->ranks)));
    SF_TRY(SF_NEW(&x->notes, batch + SF_CHUNKS));
    SF_TRY(SF_NEW(&x->losses, x->sequences));
    SF_TRY(SF_NEW(&x->correct, x->sequences));
    SF_TRY(SF_NEW(&x->slice_faults, x->ranks));
    SF_TRY(SF_NEW(&x->sums_sent, x->ranks));
    SF_TRY(SF_NEW(&x->verdicts_sent, x->ranks));
    return SF_NEW(&x->slices, 3 * x->ranks);
}

sf_status sf_exchange_create(sf_exchange **out, const sf_model *model, size_t batch, size_t sequences) {
    *out = NULL;
    if (sf_larger(model->size * sizeof(float), sequences * sizeof(double)) > SF_LARGEST_MESSAGE)
        return sf_fail(SF_UNSUPPORTED,
                       "a model of %zu parameters on %zu sequences is too large for --data-parallel, which sends at "
                       "most %d bytes at once; train it without",
                       model->parameters, sequences, SF_LARGEST_MESSAGE);
    sf_exchange *x;
    SF_TRY(SF_NEW(&x, 1));
    *x = (sf_exchange){.model = model, .ranks = sf_ranks_count(), .rank = sf_ranks_rank(), .sequences = sequences};
    const sf_status status = open_parts(x, batch);
    if (status != SF_OK)
        sf_exchange_destroy(x);
    else
        *out = x;
    return status;
}

void sf_exchange_destroy(sf_exchange *x) {
    if (x == NULL) return;
    if (x->sums_sent != NULL) (void)sf_transfer_wait(x->sums_sent, x->ranks);
    if (x->verdicts_sent != NULL) (void)sf_transfer_wait(x->verdicts_sent, x->ranks);
    sf_gpu_part_close(x->gpu);
    sf_release(x->own);
    sf_release(x->received);
    sf_release(x->notes);
    sf_release(x->losses);
    sf_release(x->correct);
    sf_release(x->slice_faults);
    sf_release(x->sums_sent);
    sf_release(x->verdicts_sent);
    sf_release(x->slices);
    sf_release(x);
}

/* A rank whose GPU failed may wait for others that know and have given up. */
static sf_status wait_in_vain(sf_exchange *x, sf_transfer *transfers, size_t count) {
    double waited = 0;
    for (size_t i = 0; i < count;) {
        if (sf_transfer_is_complete(&transfers[i])) {
            i++;
            continue;
        }
        SF_TRY(sf_transfer_check());
        if (waited > x->patience) return SF_IO_ERROR;
        sf_transfer_nap(&waited);
    }
    return SF_OK;
}

sf_status sf_exchange_wait(sf_exchange *x, sf_transfer *transfers, size_t count) {
    return x->failure == SF_OK ? sf_transfer_wait(transfers, count) : wait_in_vain(x, transfers, count);
}

static double *note_of(const sf_exchange *x, size_t chunk, size_t *count) {
    size_t first, end;
    sf_cpu_chunk_bounds(&first, &end, x->now.B, chunk);
    *count = end - first;
    return x->notes + first + chunk;
}

static float *computed_gradient(const sf_exchange *x, size_t chunk) {
    return x->computed + chunk / x->now.summing * x->model->size;
}

static float *received_stretch(const sf_exchange *x, size_t chunk) {
    return x->received + chunk * widest_stretch(x->model, x->now.summing);
}

static unsigned faults_of(const sf_exchange *x, bool stopped, bool broken) {
    return (stopped ? (unsigned)SF_RANK_STOPPED : 0) | (broken ? (unsigned)SF_RANK_BROKEN : 0) |
           (x->failure != SF_OK ? (unsigned)SF_RANK_FAILED : 0);
}

/* Called by the worker that has computed the chunk: it travels while the next one is computed. */
void sf_exchange_send_chunk(void *context, size_t chunk, const double *losses) {
    sf_exchange *x = context;
    size_t count;
    double *note = note_of(x, chunk, &count);
    note[0] = faults_of(x, sf_stop_asked(x->stop), sf_attention_is_faulty(&x->model->shape.attention));
    memcpy(note + 1, losses, count * sizeof *losses);
    if (!sf_exchange_is_judge(x))
        sf_transfer_send(&x->notes_sent[chunk], sf_exchange_rank_at(x, 0), (unsigned)(NOTE + chunk), note,
                         (count + 1) * sizeof *note);
    for (size_t k = 0; k < x->now.summing && !x->linked; k++) {
        const stretch at = stretch_at(x, k);
        if (k != sf_exchange_place(x))
            sf_transfer_send(&x->parts_sent[chunk][k], sf_exchange_rank_at(x, k), (unsigned)(PART + chunk),
                             computed_gradient(x, chunk) + at.first, at.width * sizeof(float));
    }
}

static void begin_receiving_chunks(sf_exchange *x) {
    const stretch mine = stretch_at(x, sf_exchange_place(x));
    for (size_t c = 0; c < x->now.chunks; c++) {
        const size_t from = sf_exchange_rank_at(x, c % x->now.summing);
        size_t count;
        double *note = note_of(x, c, &count);
        if (is_mine(x, c)) continue;
        if (!x->linked)
            sf_transfer_receive(&x->parts_received[c], from, (unsigned)(PART + c), received_stretch(x, c),
                                mine.width * sizeof(float));
        if (sf_exchange_is_judge(x))
            sf_transfer_receive(&x->notes_received[c], from, (unsigned)(NOTE + c), note, (count + 1) * sizeof *note);
    }
}

static void begin_receiving_sums(sf_exchange *x, float *gradient) {
    for (size_t k = 0; k < x->now.summing && !x->linked; k++) {
        const stretch at = stretch_at(x, k);
        if (k != sf_exchange_place(x))
            sf_transfer_receive(&x->sums_received[k], sf_exchange_rank_at(x, k), SUM, gradient + at.first,
                                at.width * sizeof(float));
    }
    if (!sf_exchange_is_judge(x))
        sf_transfer_receive(&x->verdict_received, sf_exchange_rank_at(x, 0), VERDICT, &x->verdict, sizeof x->verdict);
}

sf_status sf_exchange_begin(sf_exchange *x, float *gradient, size_t B, size_t labelled) {
    const size_t chunks = sf_cpu_chunk_count(B), summing = summing_ranks(chunks, x->ranks);
    if (summing != x->now.summing) SF_TRY(sf_exchange_wait(x, x->sums_sent, x->ranks)); /* stretches move */
    x->now = (batch_plan){.B = B, .chunks = chunks, .labelled = labelled, .summing = summing};
    begin_receiving_sums(x, gradient);
    if (sf_exchange_is_summing(x)) begin_receiving_chunks(x);
    return SF_OK;
}

sf_status sf_exchange_add_up(sf_exchange *x, float *gradient, const sf_cpu_plan *plan) {
    const stretch mine = stretch_at(x, sf_exchange_place(x));
    const float *parts[SF_CHUNKS];
    SF_TRY(sf_exchange_wait(x, x->parts_received, x->now.chunks));
    SF_TRY(sf_exchange_wait(x, x->sums_sent, x->ranks)); /* of the step before, out of the same stretch */
    for (size_t c = 0; c < x->now.chunks; c++)
        parts[c] = is_mine(x, c) ? computed_gradient(x, c) + mine.first : received_stretch(x, c);
    sf_cpu_add_chunks(plan, gradient + mine.first, parts, x->now.chunks, mine.width);
    for (size_t r = 0; r < x->ranks; r++)
        if (r != x->rank) sf_transfer_send(&x->sums_sent[r], r, SUM, gradient + mine.first, mine.width * sizeof(float));
    return SF_OK;
}

/* The mean of the losses in order, as one process has it. */
static sf_status judge(sf_exchange *x) {
    SF_TRY(sf_exchange_wait(x, x->notes_received, x->now.chunks));
    SF_TRY(sf_exchange_wait(x, x->verdicts_sent, x->ranks)); /* of the step before */
    x->verdict = (verdict){0};
    for (size_t c = 0; c < x->now.chunks; c++) {
        size_t count;
        const double *note = note_of(x, c, &count);
        x->verdict.faults |= (unsigned)note[0];
        for (size_t n = 1; n <= count; n++) x->verdict.loss += note[n];
    }
    x->verdict.loss = sf_mean_over(x->verdict.loss, x->now.labelled);
    for (size_t r = 0; r < x->ranks; r++)
        if (r != x->rank) sf_transfer_send(&x->verdicts_sent[r], r, VERDICT, &x->verdict, sizeof x->verdict);
    return SF_OK;
}

static void compute_chunks(sf_exchange *x, sf_cpu_team *team, const sf_cpu_plan *plan, const float *params,
                           const sf_batch *batch, const sf_moment *moment) {
    sf_cpu_chunks mine = {.on_done = sf_exchange_send_chunk, .context = x};
    for (size_t c = 0; c < x->now.chunks; c++)
        if (is_mine(x, c)) mine.gradients[c] = computed_gradient(x, c);
    sf_cpu_some_chunks(team, &mine, plan, params, batch, moment);
}

sf_status sf_exchange_gradient(sf_exchange *x, double *loss, float *gradient /* [size] */, sf_cpu_team *team,
                               const sf_cpu_plan *plan, const float *params /* [size] */, const sf_batch *batch,
                               const sf_moment *moment, const atomic_int *stop) {
    x->stop = stop;
    SF_TRY(sf_exchange_begin(x, gradient, batch->B, sf_batch_labelled(batch, &x->model->shape)));
    if (sf_exchange_is_summing(x)) {
        compute_chunks(x, team, plan, params, batch, moment);
        SF_TRY(sf_exchange_add_up(x, gradient, plan));
    }
    return sf_exchange_finish(x, loss);
}

sf_status sf_exchange_finish(sf_exchange *x, double *loss) {
    if (sf_exchange_is_judge(x)) SF_TRY(judge(x));
    SF_TRY(sf_exchange_wait(x, &x->verdict_received, 1));
    SF_TRY(sf_exchange_wait(x, x->sums_received, x->now.summing));
    SF_TRY(sf_exchange_wait(x, &x->parts_sent[0][0], (size_t)SF_CHUNKS * SF_CHUNKS));
    SF_TRY(sf_exchange_wait(x, x->notes_sent, SF_CHUNKS));
    *loss = x->verdict.loss;
    return x->verdict.faults == 0 ? SF_OK : SF_INTERRUPTED;
}

static size_t slice_boundary(const sf_exchange *x, size_t rank) {
    return x->sequences * rank / x->ranks;
}

sf_exchange_slice sf_exchange_slice_of(const sf_exchange *x) {
    return (sf_exchange_slice){.first = slice_boundary(x, x->rank),
                               .end = slice_boundary(x, x->rank + 1),
                               .losses = x->losses,
                               .correct = x->correct};
}

static sf_status receive_slices(sf_exchange *x) {
    for (size_t r = 1; r < x->ranks; r++) {
        const size_t first = slice_boundary(x, r), count = slice_boundary(x, r + 1) - first;
        sf_transfer_receive(&x->slices[3 * r], r, SLICE_LOSSES, x->losses + first, count * sizeof *x->losses);
        sf_transfer_receive(&x->slices[3 * r + 1], r, SLICE_CORRECT, x->correct + first, count * sizeof *x->correct);
        sf_transfer_receive(&x->slices[3 * r + 2], r, SLICE_FAULTS, &x->slice_faults[r], sizeof *x->slice_faults);
    }
    return sf_exchange_wait(x, x->slices, 3 * x->ranks);
}

static sf_status send_slice(sf_exchange *x) {
    const sf_exchange_slice mine = sf_exchange_slice_of(x);
    const size_t count = mine.end - mine.first;
    sf_transfer_send(&x->slices[0], 0, SLICE_LOSSES, x->losses + mine.first, count * sizeof *x->losses);
    sf_transfer_send(&x->slices[1], 0, SLICE_CORRECT, x->correct + mine.first, count * sizeof *x->correct);
    sf_transfer_send(&x->slices[2], 0, SLICE_FAULTS, &x->slice_faults[x->rank], sizeof *x->slice_faults);
    return sf_exchange_wait(x, x->slices, 3);
}

sf_status sf_exchange_gather(sf_exchange *x, bool stopped, bool broken) {
    x->slice_faults[x->rank] = faults_of(x, stopped, broken);
    return x->rank == 0 ? receive_slices(x) : send_slice(x);
}

sf_status sf_exchange_share(sf_exchange *x, sf_epoch *row) {
    SF_TRY(sf_exchange_wait(x, x->verdicts_sent, x->ranks));
    if (x->rank == 0) {
        x->verdict = (verdict){.row = *row};
        for (size_t r = 0; r < x->ranks; r++) x->verdict.faults |= x->slice_faults[r];
        for (size_t r = 1; r < x->ranks; r++)
            sf_transfer_send(&x->verdicts_sent[r], r, ROW, &x->verdict, sizeof x->verdict);
        SF_TRY(sf_exchange_wait(x, x->verdicts_sent, x->ranks));
    } else {
        sf_transfer_receive(&x->verdict_received, 0, ROW, &x->verdict, sizeof x->verdict);
        SF_TRY(sf_exchange_wait(x, &x->verdict_received, 1));
        *row = x->verdict.row;
    }
    return x->verdict.faults == 0 ? SF_OK : SF_INTERRUPTED;
}

bool sf_exchange_is_broken(const sf_exchange *x) {
    return (x->verdict.faults & SF_RANK_BROKEN) != 0;
}
