/* Standard output and standard error as text that is safe to show: names of files and tasks, messages and the contents
 * of a store may contain anything, and a terminal obeys control characters. So both streams pass through a filter that
 * spells them out: \x1b for a control character or a byte that is not UTF-8, \u009b for the control characters that
 * Unicode has beyond ASCII. Newlines and tabs pass. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct filter {
    int file;
    unsigned char pending[4]; /* the beginning of a character that is not complete */
    size_t held;
    int failure; /* errno of the first write that failed; 0: none did */
} filter;

static filter out_filter = {.file = STDOUT_FILENO}, error_filter = {.file = STDERR_FILENO};
static FILE *plain_stdout, *plain_stderr;

typedef struct piece { /* of text on its way out */
    int file;
    size_t used;
    char text[4096];
} piece;

static bool write_all(int file, const char *text, size_t size) {
    while (size > 0) {
        const ssize_t written = write(file, text, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text += written;
        size -= (size_t)written;
    }
    return true;
}

static bool flush_piece(piece *p) {
    const bool good = write_all(p->file, p->text, p->used);
    p->used = 0;
    return good;
}

enum { LONGEST = 16 }; /* of what one character becomes */

static bool add(piece *p, const char *text, size_t size) {
    if (p->used + size > sizeof p->text && !flush_piece(p)) return false;
    memcpy(p->text + p->used, text, size);
    p->used += size;
    return true;
}

static bool add_byte_spelled(piece *p, unsigned char byte) {
    char text[LONGEST];
    const int size = snprintf(text, sizeof text, byte == '\r' ? "\\r" : "\\x%02x", byte);
    return add(p, text, (size_t)size);
}

/* How many bytes a UTF-8 character that begins like this has; 0: none begins so. */
static size_t length_of(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return 2;
    if (first >= 0xe0 && first <= 0xef) return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* Whether `next` may follow the bytes held: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
static bool continues(const filter *f, unsigned char next) {
    unsigned char low = 0x80, high = 0xbf;
    if (f->held == 1 && f->pending[0] == 0xe0) low = 0xa0;
    if (f->held == 1 && f->pending[0] == 0xed) high = 0x9f;
    if (f->held == 1 && f->pending[0] == 0xf0) low = 0x90;
    if (f->held == 1 && f->pending[0] == 0xf4) high = 0x8f;
    return next >= low && next <= high;
}

static bool add_held_spelled(piece *p, filter *f) {
    bool good = true;
    for (size_t i = 0; i < f->held && good; i++) good = add_byte_spelled(p, f->pending[i]);
    f->held = 0;
    return good;
}

/* Controls of two and three bytes: C1, and those that turn the direction of what follows, as U+202E does. */
static unsigned control_of(const filter *f, size_t size) {
    const unsigned char *at = f->pending;
    const unsigned two = (at[0] & 0x1fU) << 6 | (at[1] & 0x3fU);
    if (size == 2) return two < 0xa0 || two == 0x61c ? two : 0;
    const unsigned three = size == 3 ? (at[0] & 0xfU) << 12 | (at[1] & 0x3fU) << 6 | (at[2] & 0x3fU) : 0;
    const bool turns = three == 0x200e || three == 0x200f || (three >= 0x202a && three <= 0x202e) ||
                       (three >= 0x2066 && three <= 0x2069);
    return turns ? three : 0;
}

static bool add_character(piece *p, filter *f) {
    const size_t size = f->held;
    const unsigned control = size > 1 ? control_of(f, size) : 0;
    f->held = 0;
    if (control > 0) {
        char text[LONGEST];
        const int spelled = snprintf(text, sizeof text, "\\u%04x", control);
        return add(p, text, (size_t)spelled);
    }
    const unsigned char first = f->pending[0];
    if ((first < ' ' && first != '\n' && first != '\t') || first == 0x7f) return add_byte_spelled(p, first);
    return add(p, (const char *)f->pending, size);
}

static bool add_raw_byte(piece *p, filter *f, unsigned char byte) {
    if (f->held > 0 && !continues(f, byte) && !add_held_spelled(p, f)) return false;
    f->pending[f->held++] = byte;
    const size_t whole = length_of(f->pending[0]);
    if (whole == 0) return add_held_spelled(p, f);
    return f->held < whole || add_character(p, f);
}

static bool is_plain(char byte) {
    return (byte >= ' ' && byte < 0x7f) || byte == '\n' || byte == '\t';
}

/* How many characters from the beginning on pass as they are; in blocks without branches, which become vectors. */
static size_t plain_run(const char *text, size_t size) {
    enum { BLOCK = 64 };
    size_t count = 0;
    for (bool plain = true; plain && size - count >= BLOCK; count += plain ? BLOCK : 0)
        for (size_t i = 0; i < BLOCK; i++) plain &= is_plain(text[count + i]);
    while (count < size && is_plain(text[count])) count++;
    return count;
}

static bool add_run(piece *p, const char *text, size_t size) {
    if (size <= sizeof p->text) return add(p, text, size);
    return flush_piece(p) && write_all(p->file, text, size);
}

static ssize_t write_filtered(void *cookie, const char *text, size_t size) {
    filter *f = cookie;
    piece p = {.file = f->file};
    bool good = true;
    for (size_t i = 0; i < size && good;) {
        const size_t run = f->held == 0 ? plain_run(text + i, size - i) : 0;
        good = run > 0 ? add_run(&p, text + i, run) : add_raw_byte(&p, f, (unsigned char)text[i]);
        i += run > 0 ? run : 1;
    }
    good = good && flush_piece(&p);
    if (!good && f->failure == 0) f->failure = errno;
    return good ? (ssize_t)size : 0; /* 0: a failure */
}

static FILE *open_filter(filter *f, int buffering) {
    enum { ROOM = 1 << 16 }; /* an export of many curves is gigabytes */
    FILE *stream = fopencookie(f, "w", (cookie_io_functions_t){.write = write_filtered});
    if (stream != NULL && setvbuf(stream, NULL, buffering, ROOM) == 0) return stream;
    return NULL;
}

bool open_output(void) {
    FILE *out = open_filter(&out_filter, isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF);
    FILE *error = open_filter(&error_filter, _IONBF);
    if (out == NULL || error == NULL) return false;
    plain_stdout = stdout;
    plain_stderr = stderr;
    stdout = out;
    stderr = error;
    return true;
}

void print_bytes_from_now_on(void) {
    stdout = plain_stdout;
}

void print_control(const char *sequence) {
    fputs(sequence, plain_stderr != NULL ? plain_stderr : stderr);
}

/* The beginning of a character at the end of all output is spelled, too. */
static void end_filter(filter *f) {
    piece p = {.file = f->file};
    if (f->held > 0 && add_held_spelled(&p, f)) (void)flush_piece(&p);
}

int finish_output(void) {
    const bool good = fflush(stdout) == 0 && ferror(stdout) == 0;
    const int why = out_filter.failure != 0 ? out_filter.failure : errno;
    end_filter(&out_filter);
    if (good) return EXIT_DONE;
    if (why == EPIPE) return EXIT_SIGNAL + SIGPIPE; /* the reader closed the pipe */
    fprintf(stderr, "semfocus: cannot write standard output: %s\n", strerror(why));
    return EXIT_FAILED;
}

static size_t columns_of(int file, size_t unknown) {
    struct winsize size;
    return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : unknown;
}

size_t terminal_width(int file) {
    return columns_of(file, 80);
}

size_t output_width(void) {
    return columns_of(STDOUT_FILENO, SIZE_MAX);
}

/* Bytes of the next word and the spaces before it; a sign such as % stays with its number. *columns: how wide it is. */
static size_t next_word(const char *text, size_t *columns) {
    size_t used = strspn(text, " ");
    while (text[used] != '\0' && (text[used] != ' ' || text[used + 1] == '%')) used++;
    *columns = 0;
    for (size_t i = 0; i < used; i++) *columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return used;
}

static void print_broken(const char *text, size_t width, size_t indent) {
    size_t column = 0, wide;
    while (*text != '\0') {
        const size_t used = next_word(text, &wide), spaces = strspn(text, " ");
        const bool breaks = column > 0 && column + wide > width;
        if (breaks) printf("\n%*s", (int)indent, "");
        printf("%.*s", (int)(breaks ? used - spaces : used), text + (breaks ? spaces : 0));
        column = breaks ? indent + wide - spaces : column + wide;
        text += used;
    }
}

static void print_lines(size_t indent, const char *format, va_list values) {
    enum { SIZE = 4 * SF_PATH_SIZE };
    static char text[SIZE];
    const size_t width = output_width();
    if (width == SIZE_MAX) { /* nothing to break, however long it is */
        vprintf(format, values);
    } else {
        vsnprintf(text, sizeof text, format, values);
        print_broken(text, width, 2 * indent < width ? indent : 0);
    }
    putchar('\n');
}

void print_paragraph(const char *format, ...) {
    va_list values;
    va_start(values, format);
    print_lines(0, format, values);
    va_end(values);
}

void print_indented(size_t indent, const char *format, ...) {
    va_list values;
    va_start(values, format);
    print_lines(indent, format, values);
    va_end(values);
}

const char *on_one_line(const char *text) {
    enum { KEPT = 8, SIZE = 2 * SF_PATH_SIZE };
    static char kept[KEPT][SIZE];
    static size_t next;
    char *out = kept[next++ % KEPT];
    size_t used = 0;
    for (; *text != '\0' && used < SIZE - 3; text++) {
        if (*text == '\n' || *text == '\t') {
            out[used++] = '\\';
            out[used++] = *text == '\n' ? 'n' : 't';
        } else {
            out[used++] = *text;
        }
    }
    out[used] = '\0';
    return out;
}

void print_csv_text(const char *text) {
    if (strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:") == strlen(text)) {
        fputs(text, stdout);
        return;
    }
    fputs(strchr("=+-@\t\r", *text) != NULL ? "\"'" : "\"", stdout);
    for (; *text != '\0'; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}

/* Of several ranks, rank 0 speaks for all. */
void print_sentence(const char *text) {
    if (sf_ranks_rank() > 0) return;
    fputs("semfocus: ", stderr);
    fputs(on_one_line(text), stderr);
    fputc('\n', stderr);
}

static int write_json(const char *text, size_t size, void *unused) {
    (void)unused;
    for (size_t i = 0; i < size; i++) /* the one control character that jansson does not escape */
        if (text[i] == 0x7f ? fputs("\\u007f", stdout) < 0 : putchar(text[i]) == EOF) return -1;
    return 0;
}

int print_json(json_t *document) {
    const bool complete =
        document != NULL && json_dump_callback(document, write_json, NULL,
                                               JSON_INDENT(2) | JSON_REAL_PRECISION(12) | JSON_ENSURE_ASCII) == 0;
    json_decref(document);
    if (!complete && ferror(stdout) == 0) {
        fail_usage("no memory left to print the result");
        return EXIT_FAILED;
    }
    putchar('\n');
    return finish_output();
}

json_t *json_text(const char *text) {
    json_t *exact = json_string(text);
    if (exact != NULL) return exact;
    char printable[1024]; /* not UTF-8: keep what is ASCII */
    size_t i = 0;
    for (; i < sizeof printable - 1 && text[i] != '\0'; i++)
        printable[i] = (char)((unsigned char)text[i] < 128 ? text[i] : '?');
    printable[i] = '\0';
    return json_string(printable);
}
