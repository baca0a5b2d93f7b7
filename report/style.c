#include "report/style.h"

#include <string.h>

#include "report/svg.h"

/* Distinct also to colour-blind people, above all the first six; a line has a contrast of at least 3 against white. The
 * baseline is neutral. page.css has the same colours, and others for dark pages; tests/report/test_layout.py measures
 * both. */
static const char *const palette[SF_COLOURS + 1] = {"#333333", "#0077ab", "#de6702", "#01a279",
                                                    "#6b218b", "#885200", "#4552c6", "#b83b89"};
static const size_t inks = SF_COLOURS + 1;
static const char *const dashes[SF_DASHES] = {"none", "7 3", "2 3", "10 3 2 3", "14 4", "5 2 2 2 2 2"};

/* How many mechanisms of the task come before this group's, the baseline's apart. */
static size_t mechanisms_before(const sf_study *study, size_t from, size_t group, size_t neutral) {
    const size_t mine = sf_study_group(study, group)->mechanism;
    size_t count = 0;
    for (size_t g = from; g < mine; g++) count += sf_study_group(study, g)->mechanism == g && g != neutral;
    return count;
}

size_t sf_figure_style(const sf_study *study, size_t from, size_t group) {
    const size_t mine = sf_study_group(study, group)->mechanism, first = sf_study_group(study, from)->baseline;
    const size_t neutral = sf_study_group(study, first)->mechanism;
    size_t setting = 0;
    for (size_t g = from; g < group; g++) setting += sf_study_group(study, g)->mechanism == mine;
    const size_t place = mine == neutral ? 0 : mechanisms_before(study, from, group, neutral);
    const size_t colour = mine == neutral ? 0 : 1 + place % SF_COLOURS;
    return colour + inks * (setting % SF_DASHES + SF_DASHES * (place / SF_COLOURS));
}

size_t sf_style_colour(size_t style) {
    return style % inks;
}

size_t sf_style_dash(size_t style) {
    return style / inks % SF_DASHES;
}

size_t sf_style_round(size_t style) {
    return style / (inks * SF_DASHES);
}

size_t sf_style_without_dashes(size_t style) {
    return sf_style_colour(style) + inks * SF_DASHES * sf_style_round(style);
}

const char *sf_style_ink(size_t style) {
    return palette[sf_style_colour(style)];
}

void sf_style_paint(FILE *out, size_t style, bool is_band, bool standalone) {
    if (!standalone) return;
    if (is_band)
        fprintf(out, " fill=\"%s\" fill-opacity=\"0.18\"", sf_style_ink(style));
    else
        fprintf(out, " fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"", sf_style_ink(style),
                dashes[sf_style_dash(style)]);
}

/* Longer names are cut; the table has them in full. */
enum { MOST_NAME = 44 };
static const double character_pixels = 6.9;      /* on average */
static const double wide_character_pixels = 7.6; /* of a name with many wide characters */

static bool begins_character(char byte) {
    return ((unsigned char)byte & 0xC0) != 0x80; /* not one of the inner bytes of UTF-8 */
}

double sf_name_width(const char *name) {
    size_t characters = 0;
    for (; *name != '\0'; name++) characters += begins_character(*name);
    return character_pixels * (double)(characters < MOST_NAME ? characters : MOST_NAME);
}

static void write_name(FILE *out, const char *name, size_t most) {
    char cut[SF_VARIANT_SIZE];
    size_t used = 0, characters = 0, end = 0; /* end: of the characters that fit beside an ellipsis */
    for (; name[used] != '\0' && characters <= most; used++) {
        characters += begins_character(name[used]);
        if (characters < most) end = used + 1;
    }
    if (characters <= most) end = used;
    snprintf(cut, sizeof cut, "%.*s", (int)end, name);
    sf_markup_text(out, cut);
    if (name[end] != '\0') fputs("…", out);
}

void sf_figure_name(FILE *out, const char *name) {
    write_name(out, name, MOST_NAME);
}

void sf_figure_name_within(FILE *out, const char *name, double width) {
    const size_t room = (size_t)(width / wide_character_pixels);
    write_name(out, name, room < MOST_NAME ? room : MOST_NAME);
}

void sf_series_begin(FILE *out, size_t style, size_t number, const char *name) {
    fprintf(out, "<g class=\"series c%zu d%zu\" data-series=\"%zu\" data-name=\"", sf_style_colour(style),
            sf_style_dash(style), number);
    sf_markup_text(out, name);
    fputc('"', out);
}

void sf_series_numbers(FILE *out, const char *name, const double *values, size_t count, size_t step) {
    fprintf(out, " data-%s=\"", name);
    for (size_t i = 0; i < count; i = i + step < count || i + 1 == count ? i + step : count - 1)
        fprintf(out, i > 0 ? " %.5g" : "%.5g", values[i]);
    fputc('"', out);
}

void sf_legend_item(FILE *out, size_t style, size_t number, const char *name) {
    fprintf(out, "<li class=\"c%zu d%zu\"", sf_style_colour(style), sf_style_dash(style));
    if (number != SF_NO_SWITCH) fprintf(out, " data-series=\"%zu\"", number);
    fputs("><svg viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"line\" d=\"M1 5H29\"/></svg>", out);
    sf_markup_text(out, name);
    fputs("</li>\n", out);
}

void sf_legend_print(FILE *out, const sf_study *study, size_t from, size_t to) {
    fputs("<ul class=\"legend\">\n", out);
    for (size_t g = from; g < to && g - from < SF_MOST_SERIES; g++)
        sf_legend_item(out, sf_figure_style(study, from, g), g - from, sf_study_group(study, g)->name);
    fputs("</ul>\n", out);
}

enum { KEYS_LEFT = 12, KEY_MARK = 33, KEY_GAP = 16, KEY_ROW = 20, MOST_COLUMNS = 4 };

static size_t key_columns(const sf_key *keys, size_t count, int width) {
    double longest = 1;
    for (size_t i = 0; i < count; i++)
        if (sf_name_width(keys[i].name) > longest) longest = sf_name_width(keys[i].name);
    const size_t columns = (size_t)((width - KEYS_LEFT) / (KEY_MARK + KEY_GAP + longest));
    return columns < 1 ? 1 : columns > MOST_COLUMNS ? MOST_COLUMNS : columns;
}

int sf_keys_height(const sf_key *keys, size_t count, int width) {
    const size_t columns = key_columns(keys, count, width);
    return count > 0 ? KEY_ROW * (int)((count + columns - 1) / columns) + 10 : 0;
}

void sf_keys_draw(FILE *out, const sf_key *keys, size_t count, int width, int top) {
    const size_t columns = key_columns(keys, count, width);
    for (size_t i = 0; i < count; i++) {
        const int x = KEYS_LEFT + (int)(i % columns) * (width - KEYS_LEFT) / (int)columns;
        const int y = top + 8 + (int)(i / columns) * KEY_ROW;
        fprintf(out, "<path d=\"M%d %dh26\"", x, y);
        sf_style_paint(out, keys[i].style, false, true);
        fprintf(out, "/><text class=\"key\" x=\"%d\" y=\"%d\">", x + KEY_MARK, y + 4);
        sf_figure_name(out, keys[i].name);
        fputs("</text>\n", out);
    }
}
