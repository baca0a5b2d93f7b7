#include "cli/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 24, NAME_SIZE = SF_VARIANT_SIZE + SF_TEXT_SIZE + 32 };

/* Task where there are several, mechanism or variant, seed. */
static void name_of(char out[NAME_SIZE], const progress *shown, size_t run) {
    const sf_group *group = sf_study_group(shown->study, shown->each[run].group);
    snprintf(out, NAME_SIZE, "%.*s%s%s %lld", SF_TEXT_SIZE, shown->several_tasks ? on_one_line(group->task) : "",
             shown->several_tasks ? " " : "", group->name, (long long)shown->runs[run].config.seed);
}

bool has_several_tasks(const sf_study *study) {
    for (size_t g = 1; g < sf_study_group_count(study); g++)
        if (strcmp(sf_study_group(study, g)->task, sf_study_group(study, 0)->task) != 0) return true;
    return false;
}

bool progress_open(progress *shown, const sf_study *study, sf_store *store, atomic_int *stop, const sf_options *options,
                   const cli_share *share, cli_detail detail) {
    const bool silent = options->quiet != 0 || options->json != 0;
    *shown = (progress){.study = study,
                        .share = share,
                        .store = store,
                        .stop = stop,
                        .several_tasks = has_several_tasks(study),
                        .detail = detail,
                        .silent = silent,
                        .quiet = options->quiet != 0,
                        .fail_fast = options->fail_fast != 0 || options->keep_going == 0,
                        .left_width = BAR};
    moving_line_open(&shown->line, silent);
    shown->line.drawn = shown->line.began;
    shown->runs = sf_study_runs(study, &shown->count);
    shown->each = calloc(shown->count, sizeof *shown->each);
    if (shown->each == NULL) {
        fail_usage("no memory left to show %zu runs", shown->count);
        return false;
    }
    for (size_t g = 0; g < sf_study_group_count(study); g++) {
        const sf_group *group = sf_study_group(study, g);
        for (size_t m = 0; m < group->runs; m++) shown->each[sf_study_member(study, g, m)].group = g;
    }
    shown->ours = count_ours(share, shown->count);
    if (!board_open(&shown->board, store, options->tensorboard, shown->count)) {
        free(shown->each);
        return false;
    }
    for (size_t i = 0; i < shown->count; i++) {
        char name[NAME_SIZE];
        if (!is_ours(share, i)) continue;
        name_of(name, shown, i);
        if ((int)strlen(name) > shown->left_width) shown->left_width = (int)strlen(name);
        shown->each[i].epochs_left = (size_t)shown->runs[i].config.epochs;
        shown->epochs_left += shown->each[i].epochs_left;
    }
    shown->epochs_planned = shown->epochs_left;
    return true;
}

/* Columns of the table behind its first one. */
enum { ALL_COLUMNS = 57, ACCURACIES = 32, SHORTEST_BAR = 8, INDENT = 2 };

/* What of it fits: the losses are left out of a narrow one, and long names have lines of their own. */
static void fit_table(progress *shown) {
    const size_t width = output_width(), name = (size_t)shown->left_width;
    const bool is_bar = shown->ours == 1;
    shown->without_losses = (is_bar ? SHORTEST_BAR : name) + ALL_COLUMNS > width;
    const size_t columns = shown->without_losses ? ACCURACIES : ALL_COLUMNS;
    if (name + columns <= width) return;
    shown->names_apart = !is_bar;
    if (shown->names_apart) shown->without_losses = INDENT + ALL_COLUMNS > width;
    shown->left_width = !is_bar ? INDENT : width > columns + SHORTEST_BAR ? (int)(width - columns) : SHORTEST_BAR;
}

/* Only once there is something to show: a command that fails at once prints its sentence alone. */
static void print_heading(progress *shown) {
    if (shown->silent || shown->headed) return;
    shown->headed = true;
    const sf_config *config = &shown->runs[0].config;
    char ranks[48] = "";
    if (sf_ranks_count() > 1) snprintf(ranks, sizeof ranks, " on %zu MPI ranks", sf_ranks_count());
    if (print_share(shown->share)) printf("%s\n%s", ranks, shown->detail == EVERY_RUN ? "\n" : "");
    if (shown->detail == EVERY_RUN) {
        if (shown->share->places == NULL) printf("%zu run%s%s\n\n", shown->ours, plural(shown->ours), ranks);
        return;
    }
    if (shown->several_tasks) {
        printf("%zu run%s%s\n\n", shown->ours, plural(shown->ours), ranks);
    } else {
        print_paragraph("%s: %zu run%s%s, %lld block%s of width %lld, up to %lld epoch%s",
                        on_one_line(shown->runs[0].task), shown->ours, plural(shown->ours), ranks,
                        (long long)config->blocks, plural((size_t)config->blocks), (long long)config->width,
                        (long long)config->epochs, plural((size_t)config->epochs));
        putchar('\n');
    }
    fit_table(shown);
    const char *bar = shown->left_width < (int)strlen("training accuracy") ? "training" : "training accuracy";
    printf("%-*s %6s", shown->left_width, shown->names_apart ? "" : shown->ours > 1 ? "run" : bar, "epoch");
    if (shown->without_losses)
        printf("  %9s  %12s\n", "train acc", "held-out acc");
    else
        printf("  %10s %9s  %13s %12s\n", "train loss", "train acc", "held-out loss", "held-out acc");
}

static void print_row(const progress *shown, size_t run, const sf_epoch *row) {
    char left[NAME_SIZE];
    if (shown->ours > 1) {
        name_of(left, shown, run);
    } else { /* a bar from 0 to 100 % */
        const int bar = shown->left_width < BAR ? shown->left_width : BAR;
        const int filled = (int)(row->train_accuracy / 100.0 * bar + 0.5);
        snprintf(left, sizeof left, "%.*s%.*s", filled, "########################", bar - filled,
                 "........................");
    }
    if (shown->names_apart) {
        print_indented(INDENT, "%s", left);
        *left = '\0';
    }
    if (shown->without_losses) {
        printf("%-*s %6zu  %8.2f%%  %11.2f%%\n", shown->left_width, left, row->epoch, row->train_accuracy,
               row->heldout_accuracy);
        return;
    }
    const bool moderate = row->train_loss < 1e5 && row->heldout_loss < 1e5;
    printf(moderate ? "%-*s %6zu  %10.4f %8.2f%%  %13.4f %11.2f%%\n" : "%-*s %6zu  %10.3e %8.2f%%  %13.3e %11.2f%%\n",
           shown->left_width, left, row->epoch, row->train_loss, row->train_accuracy, row->heldout_loss,
           row->heldout_accuracy);
}

/* done/total runs, rate, time left, and where the last run stands; behind a bar of the epochs that are done. */
static void draw_line(progress *shown, size_t step, size_t steps) {
    if (!shown->line.terminal && shown->detail == EVERY_EPOCH) return; /* its rows show as much */
    const double within = steps > 0 ? (double)step / (double)steps : 0;
    const double rate = ((double)shown->epochs_done + within) / fmax(moving_line_seconds(&shown->line), 1e-9);
    const double epochs_left = (double)shown->epochs_left - within, left = rate > 0 ? epochs_left / rate : 0;
    char name[NAME_SIZE], failed[32] = "";
    name_of(name, shown, shown->last_run);
    if (shown->failed > 0) snprintf(failed, sizeof failed, ", %zu failed", shown->failed);
    moving_line_bar(&shown->line, 1 - epochs_left / (double)shown->epochs_planned,
                    "%zu/%zu runs%s  %.2f epochs/s  at most %d:%02d left  %s epoch %zu  train %.2f%%  held-out %.2f%%  "
                    "loss %.4f",
                    shown->finished, shown->ours, failed, rate, (int)(left / 60), (int)left % 60, name,
                    shown->last.epoch, shown->last.train_accuracy, shown->last.heldout_accuracy,
                    shown->last.train_loss);
}

typedef struct replay {
    progress *shown;
    size_t run, most;
} replay;

static void print_stored_row(void *context, const sf_epoch *row) {
    const replay *r = context;
    if (row->epoch <= r->most) print_row(r->shown, r->run, row);
}

/* The part of a curve that the store already has. */
static void print_stored(progress *shown, size_t run, size_t epochs) {
    sf_stored_run stored;
    replay r = {shown, run, epochs};
    if (sf_store_find(&stored, shown->store, shown->runs[run].id) != SF_OK) return;
    (void)sf_store_each_epoch(shown->store, &stored, print_stored_row, &r);
}

/* One line per run, for studies. */
static void print_finished(progress *shown, size_t run) {
    sf_stored_run stored;
    char name[NAME_SIZE];
    if (sf_store_find(&stored, shown->store, shown->runs[run].id) != SF_OK) return;
    name_of(name, shown, run);
    char count[64], how[128];
    const int left = snprintf(count, sizeof count, "%*zu/%zu  ", 5, shown->finished, shown->ours);
    if (strcmp(stored.status, "diverged") == 0)
        snprintf(how, sizeof how, "diverged in epoch %zu", stored.diverged_epoch);
    else if (stored.converged_epoch > 0)
        snprintf(how, sizeof how, "95 %% in epoch %-5zu held-out %6.2f %% after %zu", stored.converged_epoch,
                 stored.heldout_accuracy, stored.epochs);
    else
        snprintf(how, sizeof how, "95 %% not reached    held-out %6.2f %% after %zu", stored.heldout_accuracy,
                 stored.epochs);
    if ((size_t)(left + shown->left_width) + 1 + strlen(how) <= output_width()) {
        printf("%s%-*s %s\n", count, shown->left_width, name, how);
        return;
    }
    print_indented((size_t)left, "%s%s", count, name);
    print_indented((size_t)left, "%*s%s", 2 * (size_t)left < output_width() ? left : 0, "", how);
}

/* `count` epochs of a run need not be waited for any more. */
static void take_off(progress *shown, size_t run, size_t count) {
    size_t *left = &shown->each[run].epochs_left;
    if (count > *left) count = *left;
    *left -= count;
    shown->epochs_left -= count;
}

static void start_run(progress *shown, size_t run, const sf_epoch *row) {
    shown->started = shown->each[run].started = true;
    shown->last = *row;
    shown->last_run = run;
    take_off(shown, run, row->epoch);
    if (!shown->silent && shown->detail == EVERY_EPOCH && row->epoch > 0) print_stored(shown, run, row->epoch);
}

static void finish_run(progress *shown, size_t run) {
    const bool started = shown->each[run].started;
    shown->finished++;
    shown->kept += !started;
    take_off(shown, run, SIZE_MAX);
    if (shown->silent) return;
    if (shown->detail == EVERY_RUN && started) print_finished(shown, run);
    if (shown->detail == EVERY_EPOCH && !shown->started && shown->ours == 1)
        print_stored(shown, run, (size_t)shown->runs[run].config.epochs);
}

void progress_event(void *context, const sf_event *event) {
    progress *shown = context;
    board_event(&shown->board, event);
    if (event->kind != SF_EVENT_STEP && !shown->silent) moving_line_clear(&shown->line);
    if (event->kind == SF_EVENT_STARTED || event->kind == SF_EVENT_FINISHED) print_heading(shown);
    switch (event->kind) {
    case SF_EVENT_STARTED:
        start_run(shown, event->run, &event->row);
        break;
    case SF_EVENT_STEP:
        draw_line(shown, event->step, event->steps);
        return;
    case SF_EVENT_EPOCH:
        shown->last = event->row;
        shown->last_run = event->run;
        shown->epochs_done++;
        take_off(shown, event->run, 1);
        if (!shown->silent && shown->detail == EVERY_EPOCH) print_row(shown, event->run, &event->row);
        break;
    case SF_EVENT_FINISHED:
        finish_run(shown, event->run);
        break;
    case SF_EVENT_STOPPED:
        break;
    case SF_EVENT_FAILED:
        shown->failed++;
        if (shown->fail_fast) atomic_store(shown->stop, 1);
        if (strncmp(event->message, "run ", 4) == 0) /* it says which */
            fail_usage("%s", event->message);
        else
            fail_usage("run %s: %s", event->id, event->message);
        break;
    case SF_EVENT_NOTE:
        if (!shown->quiet) fprintf(stderr, "semfocus: note: %s\n", event->message);
        break;
    case SF_EVENT_WAITING:
        if (!shown->silent) fprintf(stderr, "semfocus: waiting for runs that other processes are training\n");
        break;
    }
    if (fflush(stdout) == 0 && ferror(stdout) == 0) return;
    shown->output_failed = true;
    atomic_store(shown->stop, 1);
}

void progress_close(progress *shown) {
    moving_line_clear(&shown->line);
    free(shown->each);
    board_close(&shown->board);
    if (shown->detail == EVERY_RUN && shown->kept > 0 && !shown->silent)
        printf("%zu of %zu runs were already done\n", shown->kept, shown->ours);
    if (shown->headed) putchar('\n');
}

/* Whether epochs that the plan asks for were not measured. No warning about what cannot be looked up. */
static bool lacks_measures(const sf_planned_run *plan, sf_store *store, size_t every) {
    sf_stored_run run;
    size_t measured;
    if (sf_store_find(&run, store, plan->id) != SF_OK || run.epochs == 0) return false;
    const size_t asked = (size_t)plan->config.epochs, last = run.epochs < asked ? run.epochs : asked;
    if (sf_store_count_measured(&measured, store, &run, every, last) != SF_OK) return false;
    return measured < last / every + 1;
}

void tell_unmeasured(const sf_study *study, sf_store *store, const cli_share *share, size_t every) {
    size_t count, lacking = 0;
    if (every == 0) return;
    const sf_planned_run *runs = sf_study_runs(study, &count);
    const size_t ours = count_ours(share, count);
    for (size_t i = 0; i < count; i++) lacking += is_ours(share, i) && lacks_measures(&runs[i], store, every);
    if (lacking > 0)
        fprintf(stderr,
                "semfocus: %zu of %zu run%s had epochs in the store that were trained without this --every; they are "
                "not measured again; use another --store to start from scratch\n",
                lacking, ours, plural(ours));
}

typedef struct sentence {
    char text[1024];
    size_t used, parts;
} sentence;

/* The parts of a sentence; each but the first after a semicolon. */
static void say_part(sentence *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say_part(sentence *s, const char *format, ...) {
    if (s->parts++ > 0) s->used += (size_t)snprintf(s->text + s->used, sizeof s->text - s->used, "; ");
    va_list values;
    va_start(values, format);
    s->used += (size_t)vsnprintf(s->text + s->used, sizeof s->text - s->used, format, values);
    va_end(values);
}

static void say_state(sentence *s, const sf_stored_run *run) {
    if (run->diverged_step > 0)
        say_part(s, "diverged in epoch %zu, step %zu (loss or gradient not finite)", run->diverged_epoch,
                 run->diverged_step);
    else if (run->diverged_epoch > 0)
        say_part(s, "diverged in the evaluation of epoch %zu (loss not finite)", run->diverged_epoch);
    else if (strcmp(run->status, "failed") == 0)
        say_part(s, "failed");
    else if (strcmp(run->status, "running") == 0)
        say_part(s, "under way");
    else if (strcmp(run->status, "pending") == 0)
        say_part(s, run->epochs > 0 ? "unfinished" : "no epoch done yet");
}

static void say_reached(sentence *s, const sf_stored_run *run) {
    const bool over = strcmp(run->status, "done") == 0 || strcmp(run->status, "diverged") == 0;
    if (run->converged_epoch > 0)
        say_part(s, "95 %% training accuracy in epoch %zu", run->converged_epoch);
    else if (over)
        say_part(s, "95 %% training accuracy not reached in %zu epoch%s", run->epochs, plural(run->epochs));
    else
        say_part(s, "95 %% training accuracy not reached yet");
    say_part(s, "after epoch %zu %.2f %% training, %.2f %% held out", run->epochs, run->train_accuracy,
             run->heldout_accuracy);
}

void print_ending(const sf_stored_run *run, bool with_task) {
    sentence s = {.used = 0};
    say_state(&s, run);
    if (run->epochs > 0) say_reached(&s, run);
    if (run->checkpoint_epoch > 0 && run->checkpoint_epoch == run->epochs)
        say_part(&s, "weights %016" PRIx64, run->weights_hash);
    else if (run->checkpoint_epoch > 0)
        say_part(&s, "weights of epoch %zu %016" PRIx64, run->checkpoint_epoch, run->weights_hash);
    print_paragraph("%s %s%s%s, seed %lld: %s", run->id, with_task ? on_one_line(run->task) : "", with_task ? " " : "",
                    on_one_line(run->attention), (long long)run->seed, s.text);
}
