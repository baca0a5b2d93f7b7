#include "study/rank_messages.h"

sf_coder sf_message_write(sf_message_kind kind) {
    sf_coder coder = {0};
    uint64_t number = (uint64_t)kind;
    SF_CODE(&coder, &number);
    return coder;
}

sf_message_kind sf_message_read(sf_coder *coder) {
    uint64_t number;
    SF_CODE(coder, &number);
    return (sf_message_kind)number;
}

void sf_code_session(sf_coder *coder, sf_session_message *message) {
    SF_CODE(coder, &message->session);
    SF_CODE(coder, &message->share);
    SF_CODE(coder, &message->threads);
    SF_CODE(coder, &message->device);
    SF_CODE(coder, &message->checkpoint_seconds);
    SF_CODE(coder, &message->measure_every);
}

void sf_code_ref(sf_coder *coder, sf_run_ref *ref) {
    SF_CODE(coder, &ref->index);
    SF_CODE(coder, &ref->ticket);
}

/* An array whose elements have this size; one that is no multiple of it is no such array. */
static void code_array(sf_coder *coder, const void **elements, size_t *count, size_t size) {
    size_t bytes = coder->reading ? 0 : *count * size;
    sf_code_block(coder, elements, &bytes);
    if (!coder->reading) return;
    coder->failed |= bytes % size != 0;
    *count = bytes / size;
}

void sf_code_dealt(sf_coder *coder, sf_dealt_message *message) {
    SF_CODE(coder, &message->worker);
    sf_code_ref(coder, &message->ref);
    SF_CODE(coder, &message->open);
    SF_CODE(coder, &message->saving);
    sf_code_text(coder, &message->plan.task);
    SF_CODE(coder, &message->plan.config);
    SF_CODE(coder, &message->plan.id);
    SF_CODE(coder, &message->plan.attention);
    SF_CODE(coder, &message->stored);
    code_array(coder, &message->lost, &message->lost_count, sizeof(sf_epoch));
    sf_code_block(coder, &message->checkpoint, &message->checkpoint_size);
    SF_CODE(coder, &message->last);
    SF_CODE(coder, &message->best);
    SF_CODE(coder, &message->converged_epoch);
    sf_code_text(coder, &message->environment);
}

void sf_code_no_run(sf_coder *coder, sf_no_run_message *message) {
    SF_CODE(coder, &message->worker);
}

void sf_code_hello(sf_coder *coder, sf_hello_message *message) {
    sf_code_text(coder, &message->program);
    sf_code_text(coder, &message->host);
    SF_CODE(coder, &message->threads);
}

void sf_code_ask(sf_coder *coder, sf_ask_message *message) {
    SF_CODE(coder, &message->session);
    SF_CODE(coder, &message->worker);
    SF_CODE(coder, &message->for_cpu);
    SF_CODE(coder, &message->for_rest);
    SF_CODE(coder, &message->has_like);
    SF_CODE(coder, &message->like);
    SF_CODE(coder, &message->precisions);
    SF_CODE(coder, &message->architecture);
}

void sf_code_begun(sf_coder *coder, sf_begun_message *message) {
    sf_code_ref(coder, &message->ref);
    sf_code_text(coder, &message->isa);
    sf_code_text(coder, &message->environment);
    SF_CODE(coder, &message->last);
}

void sf_code_row(sf_coder *coder, sf_row_message *message) {
    sf_code_ref(coder, &message->ref);
    SF_CODE(coder, &message->row);
    SF_CODE(coder, &message->seconds);
    code_array(coder, &message->points, &message->point_count, sizeof(sf_curve_point));
}

void sf_code_checkpoint(sf_coder *coder, sf_checkpoint_message *message) {
    sf_code_ref(coder, &message->ref);
    SF_CODE(coder, &message->saved);
    sf_code_block(coder, &message->last, &message->last_size);
    sf_code_block(coder, &message->best, &message->best_size);
}

void sf_code_completed(sf_coder *coder, sf_completed_message *message) {
    sf_code_ref(coder, &message->ref);
    SF_CODE(coder, &message->diverged);
    SF_CODE(coder, &message->diverged_epoch);
    SF_CODE(coder, &message->diverged_step);
}

void sf_code_ended(sf_coder *coder, sf_ended_message *message) {
    sf_code_ref(coder, &message->ref);
    SF_CODE(coder, &message->status);
    SF_CODE(coder, &message->begun);
    SF_CODE(coder, &message->on_cpu);
    SF_CODE(coder, &message->left);
    sf_code_text(coder, &message->message);
}

void sf_code_alive(sf_coder *coder, sf_alive_message *message) {
    code_array(coder, &message->steps, &message->step_count, sizeof(sf_step));
}
