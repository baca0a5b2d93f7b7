#include "report/svg.h"

#include <math.h>
#include <string.h>

#include "base/elementary.h"

static double transformed(const sf_scale *scale, double value) {
    return scale->is_log ? sf_log10(value) : value;
}

double sf_scale_place(const sf_scale *scale, double value) {
    const double low = transformed(scale, scale->low), high = transformed(scale, scale->high);
    double share = (transformed(scale, value) - low) / (high - low);
    if (!(share > 0)) share = 0; /* also what a logarithmic scale cannot show */
    if (share > 1) share = 1;
    return scale->from + share * (scale->to - scale->from);
}

/* 1, 2 or 5 times a power of ten, so that about `wanted` steps fit. */
static double round_step(double span, size_t wanted) {
    const double rough = span / (double)wanted, power = sf_pow(10, floor(sf_log10(rough)));
    const double share = rough / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

/* Powers of ten; where the scale spans few of them, also 2 and 5 times those. */
static size_t log_ticks(double *ticks, const sf_scale *scale) {
    const double low = sf_log10(scale->low), high = sf_log10(scale->high);
    const int step = (int)((high - low) / 8) + 1;
    const size_t factors = high - low < 3 ? 3 : 1;
    size_t count = 0;
    for (int power = (int)floor(low); power <= (int)ceil(high); power += step) {
        for (size_t i = 0; i < factors && count < SF_MOST_TICKS; i++) {
            const double tick = (double[]){1, 2, 5}[i] * sf_pow(10, power);
            if (tick >= scale->low && tick <= scale->high) ticks[count++] = tick;
        }
    }
    return count;
}

size_t sf_scale_ticks(double ticks[SF_MOST_TICKS], const sf_scale *scale, size_t wanted, bool whole) {
    if (scale->is_log) return log_ticks(ticks, scale);
    double step = round_step(scale->high - scale->low, wanted);
    if (whole && step < 1) step = 1;
    const double slack = 1e-9 * (scale->high - scale->low), first = ceil((scale->low - slack) / step);
    size_t count = 0;
    while (count < SF_MOST_TICKS && (first + (double)count) * step <= scale->high + slack) {
        ticks[count] = (first + (double)count) * step + 0.0; /* -0 is 0 */
        count++;
    }
    return count;
}

/* Length of the UTF-8 character that begins here, 0 if none does. */
static size_t utf8_length(const unsigned char *at) {
    static const struct {
        unsigned char mask, lead;
        size_t length;
        unsigned least;
    } kinds[] = {{0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if ((at[0] & kinds[k].mask) != kinds[k].lead) continue;
        unsigned code = at[0] & (unsigned char)~kinds[k].mask;
        for (size_t i = 1; i < kinds[k].length; i++) {
            if ((at[i] & 0xC0) != 0x80) return 0;
            code = code << 6 | (at[i] & 0x3Fu);
        }
        return code < kinds[k].least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : kinds[k].length;
    }
    return 0;
}

void sf_markup_text(FILE *out, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        const size_t length = utf8_length(at);
        const char *entity = *at == '&'   ? "&amp;"
                             : *at == '<' ? "&lt;"
                             : *at == '>' ? "&gt;"
                             : *at == '"' ? "&quot;"
                                          : NULL;
        if (entity != NULL)
            fputs(entity, out);
        else if (length == 0 || (*at < ' ' && *at != '\n'))
            fputc('?', out);
        else
            fwrite(at, 1, length, out);
        at += length > 0 ? length : 1;
    }
}

void sf_markup_name(FILE *out, const char *name) {
    while (*name != '\0') {
        const size_t part = 1 + strcspn(name + 1, "+/@");
        char text[64]; /* a longer part in pieces, but no character in two */
        size_t used = part < sizeof text ? part : sizeof text - 1;
        while (used < part && used > 1 && (name[used] & 0xC0) == 0x80) used--;
        memcpy(text, name, used);
        text[used] = '\0';
        sf_markup_text(out, text);
        name += used;
        if (*name != '\0' && used == part) fputs("<wbr>", out);
    }
}

/* "10⁻³" and "5·10⁻³" outside of the range that plain numbers show well. */
static void tick_text(char out[SF_TICK_SIZE], double tick, bool is_log) {
    static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    if (!is_log || (tick >= 1e-3 && tick <= 1e4)) {
        snprintf(out, SF_TICK_SIZE, "%.6g", tick);
        return;
    }
    const double power = floor(sf_log10(tick) + 1e-9), factor = tick / sf_pow(10, power);
    char plain[8];
    int used = factor > 1.5 ? snprintf(out, SF_TICK_SIZE, "%.0f·10", factor) : snprintf(out, SF_TICK_SIZE, "10");
    snprintf(plain, sizeof plain, "%.0f", power);
    for (const char *at = plain; *at != '\0'; at++)
        used += snprintf(out + used, SF_TICK_SIZE - (size_t)used, "%s", *at == '-' ? "⁻" : digits[*at - '0']);
}

void sf_svg_tick(FILE *out, double tick, bool is_log) {
    char text[SF_TICK_SIZE];
    tick_text(text, tick, is_log);
    fputs(text, out);
}

static double text_width(const char *text) {
    double width = 0;
    for (; *text != '\0'; text++) width += ((unsigned char)*text & 0xC0) != 0x80 ? 7.2 : 0;
    return width;
}

/* Whether the label of a tick at this place is clear of the one before; keeps where it ends. */
static bool has_room(double *end, double at, const char *label, bool horizontal) {
    const double half = horizontal ? 0.5 * text_width(label) + 3 : 8;
    const double begin = horizontal ? at - half : -at - half; /* places of a vertical axis descend */
    if (begin < *end) return false;
    *end = begin + 2 * half;
    return true;
}

static size_t axis_ticks(double ticks[SF_MOST_TICKS], const sf_scale *scale, bool horizontal, bool whole) {
    const double pixels = fabs(scale->to - scale->from);
    const size_t wanted = (size_t)fmax(2, horizontal ? fmin(8, pixels / 48) : fmin(5, pixels / 28));
    return sf_scale_ticks(ticks, scale, wanted, whole);
}

/* Of the widest label of a vertical axis, in the largest type (12.5) of the widest fonts. */
static double widest_label(const sf_scale *scale) {
    double ticks[SF_MOST_TICKS], widest = 0;
    const size_t count = axis_ticks(ticks, scale, false, false);
    for (size_t i = 0; i < count; i++) {
        char label[SF_TICK_SIZE];
        tick_text(label, ticks[i], scale->is_log);
        double width = 0;
        for (const char *at = label; *at != '\0'; at++)
            width += ((unsigned char)*at & 0xC0) == 0x80 ? 0 : *at == '.' ? 4 : (unsigned char)*at > 127 ? 6 : 8;
        widest = fmax(widest, width);
    }
    return widest;
}

enum { LABEL_GAP = 6, TITLE_GAP = 5, TITLE_HEIGHT = 12, USUAL_LABEL = 33 };

double sf_svg_axis_room(const sf_scale *y) {
    return LABEL_GAP + fmax(USUAL_LABEL, widest_label(y)) + TITLE_GAP + TITLE_HEIGHT;
}

void sf_svg_axis(FILE *out, const sf_scale *x, const sf_scale *y, bool horizontal, bool whole, const char *title) {
    const sf_scale *scale = horizontal ? x : y;
    double ticks[SF_MOST_TICKS], end = -INFINITY;
    const size_t count = axis_ticks(ticks, scale, horizontal, whole);
    for (size_t i = 0; i < count; i++) {
        const double at = sf_scale_place(scale, ticks[i]);
        char label[SF_TICK_SIZE];
        tick_text(label, ticks[i], scale->is_log);
        if (!has_room(&end, at, label, horizontal)) continue;
        if (horizontal)
            fprintf(out,
                    "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                    at, at, y->from, y->to, at, y->from + 16, label);
        else
            fprintf(out,
                    "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                    x->from, x->to, at, at, x->from - LABEL_GAP, at + 4, label);
    }
    if (*title == '\0') return;
    if (horizontal)
        fprintf(out, "<text class=\"axis\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", 0.5 * (x->from + x->to),
                y->from + 34);
    else
        fprintf(out, "<text class=\"axis\" transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\">",
                x->from - sf_svg_axis_room(y) + TITLE_HEIGHT, 0.5 * (y->from + y->to));
    sf_markup_text(out, title);
    fputs("</text>\n", out);
}

void sf_svg_path(FILE *out, const sf_scale *x, const sf_scale *y, const double *xs, const double *ys, size_t count) {
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%.1f %.1f", i == 0 ? "M" : "L", sf_scale_place(x, xs[i]), sf_scale_place(y, ys[i]));
}
