#include "store/run_state.h"

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

sf_status sf_run_state_load(sf_run_state *state, sf_store *store) {
    const sf_stored_run *run = &state->run;
    if (run->checkpoint_epoch == 0) return SF_OK;
    char path[SF_CHECKPOINT_PATH_SIZE];
    sf_store_checkpoint_path(path, store, run, false, run->checkpoint_epoch);
    const sf_model *model = &sf_run_state_member(state)->model;
    SF_TRY(sf_checkpoint_read(state->blocks, state->block_count, path, run->checkpoint_hash, model));
    sf_epoch row;
    SF_TRY(sf_store_row(&row, store, run, run->checkpoint_epoch));
    size_t converged;
    SF_TRY(sf_store_first_epoch_at(&converged, store, run, SF_CONVERGED_AT, run->checkpoint_epoch));
    SF_TRY(sf_fleet_resume(state->fleet, state->s, &row, converged, state->blocks));
    state->saved = (sf_saved){.epoch = run->checkpoint_epoch,
                              .hash = run->checkpoint_hash,
                              .best_epoch = run->best_saved_epoch,
                              .best_hash = run->best_hash,
                              .weights_hash = run->weights_hash};
    if (run->best_saved_epoch > 0) {
        sf_epoch best;
        SF_TRY(sf_store_row(&best, store, run, run->best_saved_epoch));
        state->best_epoch = run->best_saved_epoch;
        state->best_accuracy = best.heldout_accuracy;
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

sf_status sf_run_state_save(sf_run_state *state, const sf_store *store) {
    const sf_member *member = sf_run_state_member(state);
    char path[SF_CHECKPOINT_PATH_SIZE];
    sf_saved saved = state->saved;
    saved.epoch = member->result.last.epoch;
    for (size_t i = 0; i < state->block_count; i++) SF_TRY(sf_fleet_read(state->fleet, state->s, i, state->blocks[i]));
    saved.weights_hash = sf_model_hash(&member->model, state->blocks[0]);
    sf_checkpoint_label label = {.run = state->run.id, .epoch = saved.epoch};
    sf_store_checkpoint_path(path, store, &state->run, false, saved.epoch);
    SF_TRY(sf_checkpoint_write(&saved.hash, path, &member->model, state->blocks, state->block_count, &label));
    if (state->best_epoch != saved.best_epoch) {
        label.epoch = saved.best_epoch = state->best_epoch;
        sf_store_checkpoint_path(path, store, &state->run, true, saved.best_epoch);
        SF_TRY(sf_checkpoint_write(&saved.best_hash, path, &member->model, &state->best, 1, &label));
    }
    state->saved = saved;
    return SF_OK;
}
