/* The line that moves: in place on a terminal, with a bar and colour where it can show them; now and then a plain line
 * elsewhere. NO_COLOR (not empty) switches colours off. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "cli/progress.h"

enum { BAR = 24, LEAST_WIDTH = 32, EIGHTHS = 8 }; /* columns; a narrower terminal has no bar; parts of a block */
static const double redraw_seconds = 0.1, plain_seconds = 60; /* between two lines */

double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A terminal that knows how to clear a line. */
static bool can_redraw(void) {
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) != 0 && kind != NULL && *kind != '\0' && strcmp(kind, "dumb") != 0;
}

static bool wants_colour(void) {
    const char *no = getenv("NO_COLOR");
    return no == NULL || *no == '\0';
}

/* Whether the user's locale has the blocks that a smooth bar is made of; the first variable that is set decides. */
static bool shows_blocks(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL || *value == '\0') continue;
        const char *code = strchr(value, '.');
        return code != NULL && (strcasecmp(code, ".UTF-8") == 0 || strcasecmp(code, ".utf8") == 0);
    }
    return false;
}

void moving_line_open(moving_line *line, bool silent) {
    *line = (moving_line){.silent = silent, .terminal = !silent && can_redraw()};
    moving_line_restart(line);
}

void moving_line_restart(moving_line *line) {
    line->began = now_seconds();
    if (!line->terminal) line->drawn = line->began;
}

double moving_line_seconds(const moving_line *line) {
    return now_seconds() - line->began;
}

void moving_line_clear(const moving_line *line) {
    if (line->terminal) print_control("\r\033[K");
}

static void draw_blocks(size_t filled /* eighths */, size_t columns) {
    static const char *const parts[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    for (size_t i = 0; i < filled / EIGHTHS; i++) fputs("█", stderr);
    fputs(parts[filled % EIGHTHS], stderr);
    for (size_t i = (filled + EIGHTHS - 1) / EIGHTHS; i < columns; i++) fputs("░", stderr);
}

static void draw_signs(size_t filled, size_t columns) {
    fputc('[', stderr);
    for (size_t i = 0; i < columns; i++) fputc(i < filled ? '#' : '.', stderr);
    fputc(']', stderr);
}

/* How many columns it took. */
static size_t draw_bar(double share, size_t width) {
    if (isnan(share) || width < LEAST_WIDTH) return 0;
    const size_t columns = width / 4 < BAR ? width / 4 : BAR;
    const bool blocks = shows_blocks(), colour = wants_colour();
    if (colour) print_control("\033[36m"); /* cyan: visible on light and dark, and no judgement */
    if (blocks)
        draw_blocks((size_t)(share * EIGHTHS * (double)columns), columns);
    else
        draw_signs((size_t)(share * (double)columns), columns);
    if (colour) print_control("\033[0m");
    fprintf(stderr, " %3.0f %%  ", floor(100 * share));
    return columns + (blocks ? 0 : 2) + 8;
}

/* How many bytes to show in so many columns: whole parts, which two spaces separate; else whole words, if there is one.
 */
static size_t shortened(const char *text, size_t columns) {
    size_t cut = 0, parts = 0, words = 0;
    for (; text[cut] != '\0'; cut++) {
        if (text[cut] == ' ' && text[cut + 1] == ' ') parts = cut;
        if (text[cut] == ' ' && text[cut - (cut > 0)] != ' ') words = cut;
        if (((unsigned char)text[cut] & 0xc0) != 0x80 && columns-- == 0) break;
    }
    return text[cut] == '\0' ? cut : parts > 0 ? parts : words > 0 ? words : cut;
}

/* Replaces the terminal's line; what does not fit is left out from the right. */
static void redraw(double share, const char *text) {
    size_t columns = terminal_width(STDERR_FILENO) - 1;
    print_control("\r\033[K");
    columns -= draw_bar(share, columns);
    fprintf(stderr, "%.*s", (int)shortened(text, columns), text);
}

static void draw(moving_line *line, double share, const char *format, va_list values) {
    const double now = now_seconds();
    if (line->silent || now - line->drawn < (line->terminal ? redraw_seconds : plain_seconds)) return;
    line->drawn = now;
    char text[512];
    if (!isnan(share)) share = fmin(fmax(share, 0), 1);
    vsnprintf(text, sizeof text, format, values);
    if (line->terminal)
        redraw(share, text);
    else
        fprintf(stderr, "%s\n", text);
}

void moving_line_draw(moving_line *line, const char *format, ...) {
    va_list values;
    va_start(values, format);
    draw(line, NAN, format, values);
    va_end(values);
}

void moving_line_bar(moving_line *line, double share, const char *format, ...) {
    va_list values;
    va_start(values, format);
    draw(line, share, format, values);
    va_end(values);
}

void moving_line_close(moving_line *line) {
    moving_line_clear(line);
}
