#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR = 24, NAME_SIZE = SF_SPELLING_SIZE + 24 };

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

static void name_of(char out[NAME_SIZE], const run_plan *runs, size_t i) {
    snprintf(out, NAME_SIZE, "%s %lld", runs->runs[i].attention, (long long)runs->runs[i].config.seed);
}

/* A terminal that knows how to clear a line. */
static bool can_redraw(void) {
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) != 0 && kind != NULL && *kind != '\0' && strcmp(kind, "dumb") != 0;
}

static int terminal_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void progress_open(progress *shown, const run_plan *runs, sf_store *store, atomic_int *stop, bool silent,
                   bool fail_fast) {
    *shown = (progress){.runs = runs,
                        .store = store,
                        .stop = stop,
                        .silent = silent,
                        .fail_fast = fail_fast,
                        .terminal = !silent && can_redraw(),
                        .began = now_seconds(),
                        .left_width = BAR};
    for (size_t i = 0; i < runs->count; i++) {
        char name[NAME_SIZE];
        name_of(name, runs, i);
        if ((int)strlen(name) > shown->left_width) shown->left_width = (int)strlen(name);
        shown->epochs_left += (size_t)runs->runs[i].config.epochs;
    }
}

/* Only once there is something to show: a command that fails at once prints its sentence alone. */
static void print_heading(progress *shown) {
    if (shown->silent || shown->headed) return;
    shown->headed = true;
    const run_plan *runs = shown->runs;
    const sf_config *config = &runs->runs[0].config;
    printf("%s: %zu run%s, %lld block%s of width %lld, up to %lld epochs\n\n", runs->runs[0].task, runs->count,
           plural(runs->count), (long long)config->blocks, plural((size_t)config->blocks), (long long)config->width,
           (long long)config->epochs);
    printf("%-*s %6s  %10s %9s  %13s %12s\n", shown->left_width, runs->count > 1 ? "run" : "training accuracy", "epoch",
           "train loss", "train acc", "held-out loss", "held-out acc");
}

static void clear_line(const progress *shown) {
    if (shown->terminal) fputs("\r\033[K", stderr);
}

static void print_row(const progress *shown, size_t run, const sf_epoch *row) {
    char left[NAME_SIZE];
    if (shown->runs->count > 1) {
        name_of(left, shown->runs, run);
    } else { /* a bar from 0 to 100 % */
        const int filled = (int)(row->train_accuracy / 100.0 * BAR + 0.5);
        snprintf(left, sizeof left, "%.*s%.*s", filled, "########################", BAR - filled,
                 "........................");
    }
    const bool moderate = row->train_loss < 1e5 && row->heldout_loss < 1e5;
    printf(moderate ? "%-*s %6zu  %10.4f %8.2f%%  %13.4f %11.2f%%\n" : "%-*s %6zu  %10.3e %8.2f%%  %13.3e %11.2f%%\n",
           shown->left_width, left, row->epoch, row->train_loss, row->train_accuracy, row->heldout_loss,
           row->heldout_accuracy);
}

/* done/total runs, epoch, accuracy, rate, time left: redrawn at most ten times a second. */
static void draw_line(progress *shown, size_t step, size_t steps) {
    const double now = now_seconds();
    if (!shown->terminal || now - shown->drawn < 0.1) return;
    shown->drawn = now;
    const double within = steps > 0 ? (double)step / (double)steps : 0;
    const double rate = ((double)shown->epochs_done + within) / (now - shown->began);
    const double left = rate > 0 ? ((double)shown->epochs_left - within) / rate : 0;
    char line[256];
    snprintf(line, sizeof line,
             "%zu/%zu runs  epoch %zu of %lld  step %zu/%zu  loss %.4f  train %.2f%%  held-out %.2f%%  %.2f epochs/s  "
             "at most %d:%02d left",
             shown->finished, shown->runs->count, shown->last.epoch + 1,
             (long long)shown->runs->runs[shown->last_run].config.epochs, step, steps, shown->last.train_loss,
             shown->last.train_accuracy, shown->last.heldout_accuracy, rate, (int)(left / 60), (int)left % 60);
    fprintf(stderr, "\r\033[K%.*s", terminal_width() - 1, line);
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
    if (sf_store_find(&stored, shown->store, shown->runs->runs[run].id) != SF_OK) return;
    (void)sf_store_each_epoch(shown->store, &stored, print_stored_row, &r);
}

void progress_event(void *context, const sf_event *event) {
    progress *shown = context;
    if (event->kind != SF_EVENT_STEP && !shown->silent) clear_line(shown);
    const size_t target = (size_t)shown->runs->runs[event->run].config.epochs;
    if (event->kind == SF_EVENT_STARTED || event->kind == SF_EVENT_FINISHED) print_heading(shown);
    switch (event->kind) {
    case SF_EVENT_STARTED:
        shown->started = true;
        shown->last = event->row;
        shown->last_run = event->run;
        shown->epochs_left -= event->row.epoch < target ? event->row.epoch : target;
        if (!shown->silent && event->row.epoch > 0) print_stored(shown, event->run, event->row.epoch);
        break;
    case SF_EVENT_STEP:
        draw_line(shown, event->step, event->steps);
        return;
    case SF_EVENT_EPOCH:
        shown->last = event->row;
        shown->last_run = event->run;
        shown->epochs_done++;
        shown->epochs_left--;
        if (!shown->silent) print_row(shown, event->run, &event->row);
        break;
    case SF_EVENT_FINISHED:
        shown->finished++;
        if (!shown->silent && !shown->started && shown->runs->count == 1) print_stored(shown, event->run, target);
        break;
    case SF_EVENT_STOPPED:
        break;
    case SF_EVENT_FAILED:
        shown->failed++;
        if (shown->fail_fast) atomic_store(shown->stop, 1);
        fail_usage("run %s: %s", event->id, event->message);
        break;
    case SF_EVENT_WAITING:
        if (!shown->silent) fprintf(stderr, "semfocus: waiting for runs that other processes are at\n");
        break;
    }
    if (fflush(stdout) == 0 && ferror(stdout) == 0) return;
    shown->output_failed = true;
    atomic_store(shown->stop, 1);
}

void progress_close(progress *shown) {
    clear_line(shown);
    if (shown->headed) putchar('\n');
}

void print_ending(const sf_stored_run *run) {
    printf("%s %s, seed %lld: ", run->id, run->attention, (long long)run->seed);
    if (strcmp(run->status, "failed") == 0) printf("failed; ");
    if (run->diverged_step > 0)
        printf("diverged in epoch %zu, step %zu (loss or gradient not finite); ", run->diverged_epoch,
               run->diverged_step);
    else if (run->diverged_epoch > 0)
        printf("diverged in the evaluation of epoch %zu (loss not finite); ", run->diverged_epoch);
    if (run->converged_epoch > 0)
        printf("95 %% training accuracy in epoch %zu; ", run->converged_epoch);
    else if (run->epochs > 0)
        printf("95 %% training accuracy not reached in %zu epoch%s; ", run->epochs, plural(run->epochs));
    if (run->epochs > 0)
        printf("after epoch %zu %.2f %% training, %.2f %% held out; ", run->epochs, run->train_accuracy,
               run->heldout_accuracy);
    printf("weights %016" PRIx64 "\n", run->weights_hash);
}
