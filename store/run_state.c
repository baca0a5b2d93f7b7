#include "store/run_state.h"

#include "io/atomic_file.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"

sf_status sf_run_state_open(sf_run_state *out, sf_fleet *fleet, size_t s, const sf_stored_run *run) {
    *out = (sf_run_state){.fleet = fleet, .s = s, .run = *run, .best_accuracy = -1};
    const sf_member *member = sf_run_state_member(out);
    out->block_count = 1 + sf_optimizer_moments(&member->config);
    for (size_t i = 0; i < out->block_count; i++) SF_TRY(SF_NEW(&out->blocks[i], member->model.size));
    return SF_NEW(&out->best, member->model.size);
}

void sf_run_state_close(sf_run_state *state) {
    for (size_t i = 0; i < SF_MOST_BLOCKS; i++) sf_release(state->blocks[i]);
    sf_release(state->best);
}

sf_status sf_continuation_read(sf_continuation *out, sf_store *store, const sf_stored_run *run) {
    char path[SF_CHECKPOINT_PATH_SIZE];
    *out = (sf_continuation){0};
    if (run->checkpoint_epoch == 0) return SF_OK;
    sf_store_checkpoint_path(path, store, run, false, run->checkpoint_epoch);
    sf_status status = sf_checkpoint_open(&out->checkpoint, path, run->checkpoint_hash);
    if (status == SF_OK) status = sf_store_row(&out->last, store, run, run->checkpoint_epoch);
    if (status == SF_OK)
        status = sf_store_first_epoch_at(&out->converged_epoch, store, run, SF_CONVERGED_AT, run->checkpoint_epoch);
    if (status == SF_OK && run->best_saved_epoch > 0)
        status = sf_store_row(&out->best, store, run, run->best_saved_epoch);
    if (status != SF_OK) sf_continuation_close(out);
    return status;
}

void sf_continuation_close(sf_continuation *from) {
    sf_safetensors_close(from->checkpoint);
    *from = (sf_continuation){0};
}

sf_status sf_run_state_continue(sf_run_state *state, const sf_continuation *from) {
    const sf_stored_run *run = &state->run;
    if (from->checkpoint == NULL) return SF_OK;
    SF_TRY(sf_checkpoint_unpack(state->blocks, state->block_count, run->id, from->checkpoint,
                                &sf_run_state_member(state)->model));
    SF_TRY(sf_fleet_resume(state->fleet, state->s, &from->last, from->converged_epoch, state->blocks));
    state->saved = (sf_saved){.epoch = run->checkpoint_epoch,
                              .hash = run->checkpoint_hash,
                              .best_epoch = run->best_saved_epoch,
                              .best_hash = run->best_hash,
                              .weights_hash = run->weights_hash};
    if (from->best.epoch > 0) {
        state->best_epoch = from->best.epoch;
        state->best_accuracy = from->best.heldout_accuracy;
    }
    return SF_OK;
}

sf_status sf_run_state_note(sf_run_state *state) {
    const sf_epoch *last = &sf_run_state_member(state)->result.last;
    if (last->heldout_accuracy <= state->best_accuracy) return SF_OK;
    SF_TRY(sf_fleet_read(state->fleet, state->s, 0, state->best));
    state->best_accuracy = last->heldout_accuracy;
    state->best_epoch = last->epoch;
    return SF_OK;
}

sf_status sf_run_state_collect(sf_checkpoint_files *out, sf_run_state *state) {
    const sf_member *member = sf_run_state_member(state);
    *out = (sf_checkpoint_files){.saved = state->saved};
    sf_saved *saved = &out->saved;
    saved->epoch = member->result.last.epoch;
    for (size_t i = 0; i < state->block_count; i++) SF_TRY(sf_fleet_read(state->fleet, state->s, i, state->blocks[i]));
    saved->weights_hash = sf_model_hash(&member->model, state->blocks[0]);
    sf_checkpoint_label label = {.run = state->run.id, .epoch = saved->epoch};
    SF_TRY(sf_checkpoint_encode(&out->last, &out->last_size, &saved->hash, &member->model, state->blocks,
                                state->block_count, &label));
    if (state->best_epoch == saved->best_epoch) return SF_OK;
    label.epoch = saved->best_epoch = state->best_epoch;
    const sf_status status =
        sf_checkpoint_encode(&out->best, &out->best_size, &saved->best_hash, &member->model, &state->best, 1, &label);
    if (status != SF_OK) sf_checkpoint_files_close(out);
    return status;
}

void sf_checkpoint_files_close(sf_checkpoint_files *files) {
    sf_release(files->last);
    sf_release(files->best);
    *files = (sf_checkpoint_files){0};
}

sf_status sf_checkpoint_files_write(const sf_checkpoint_files *files, const sf_store *store, const sf_stored_run *run) {
    char path[SF_CHECKPOINT_PATH_SIZE];
    sf_store_checkpoint_path(path, store, run, false, files->saved.epoch);
    SF_TRY(sf_atomic_write(path, files->last, files->last_size));
    if (files->best == NULL) return SF_OK;
    sf_store_checkpoint_path(path, store, run, true, files->saved.best_epoch);
    return sf_atomic_write(path, files->best, files->best_size);
}
