/* Ctrl-C and the other signals that ask a process to end. Nothing that was stored can be harmed by ending, so most
 * verbs end at once. Work that has something to keep (a run's epochs since its checkpoint, points of a surface) asks
 * with watch_for_stop() to be told instead; a second signal then ends it at once. The exit code is 128 and the signal's
 * number, as shells have it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static atomic_int stop_requested, received; /* a flag; the first signal, 0: none */
static volatile sig_atomic_t orderly;
static char farewell[SF_PATH_SIZE + 128]; /* what is said when the process ends at once; empty: nothing */

static void on_signal(int number) {
    int none = 0;
    const bool first = atomic_compare_exchange_strong(&received, &none, number);
    if (orderly && first) {
        atomic_store(&stop_requested, 1);
        return;
    }
    sf_files_abandon();
    (void)!write(STDERR_FILENO, farewell, strlen(farewell));
    _exit(EXIT_SIGNAL + number);
}

/* The reader closed the pipe. Work that watches for signals sees the failed write and ends in order. */
static void on_broken_pipe(int number) {
    if (orderly) return;
    sf_files_abandon();
    _exit(EXIT_SIGNAL + number);
}

/* A signal that was ignored stays so: jobs in the background of a script, and nohup. */
void watch_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction before;
        sigaction(signals[i], NULL, &before);
        const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        if (before.sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL);
    }
    const struct sigaction broken = {.sa_handler = on_broken_pipe, .sa_flags = SA_RESTART};
    sigaction(SIGPIPE, &broken, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes shows as a failed write */
}

atomic_int *watch_for_stop(void) {
    orderly = 1;
    return &stop_requested;
}

static void stopped_sentence(char *out, size_t size, const char *store) {
    snprintf(out, size, "semfocus: stopped; finished work is kept in '%s'; repeat the command to continue\n",
             on_one_line(store));
}

void say_when_stopped(const char *store) {
    *farewell = '\0';
    if (store == NULL) return;
    char sentence[sizeof farewell];
    stopped_sentence(sentence, sizeof sentence, store);
    for (char *at = sentence; *at != '\0'; at++) /* it does not pass through the filter of output */
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~') *at = *at == '\n' && at[1] == '\0' ? '\n' : '?';
    memcpy(farewell + 1, sentence + 1, strlen(sentence));
    *farewell = *sentence;
}

int tell_stopped(const char *store) {
    const int code = ended_by_signal();
    char sentence[sizeof farewell];
    stopped_sentence(sentence, sizeof sentence, store);
    fputs(sentence, stderr);
    return code != EXIT_DONE ? code : EXIT_FAILED;
}

int ended_by_signal(void) {
    orderly = 0;
    const int number = atomic_load(&received);
    return number != 0 ? EXIT_SIGNAL + number : EXIT_DONE;
}
