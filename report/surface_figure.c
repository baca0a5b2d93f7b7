#include "report/surface_figure.h"

#include <math.h>

#include "base/elementary.h"
#include "base/memory.h"
#include "report/contour.h"
#include "report/figure.h"
#include "report/svg.h"

enum { WIDTH = 340, HEIGHT = 264, LEFT = 54, TOP = 10, SIDE = 210, BAR_LEFT = LEFT + SIDE + 12, BAR_WIDTH = 12 };
enum { COLOURS = 40, MOST_CELLS = 256, MOST_READ = 48 };

typedef struct colour {
    double red, green, blue;
} colour;

/* From dark blue over grey to yellow: lightness increases throughout, and nearly everyone can tell blue from yellow. */
static colour colour_at(double share) {
    static const colour anchors[] = {{13, 27, 76},    {42, 74, 128},   {92, 117, 135},
                                     {152, 152, 124}, {214, 194, 100}, {255, 242, 150}};
    enum { LAST = sizeof anchors / sizeof *anchors - 1 };
    const double place = share * LAST;
    const size_t below = place >= LAST ? LAST - 1 : (size_t)place;
    const double part = place - (double)below;
    const colour a = anchors[below], b = anchors[below + 1];
    return (colour){a.red + part * (b.red - a.red), a.green + part * (b.green - a.green),
                    a.blue + part * (b.blue - a.blue)};
}

void sf_surface_open_svg(FILE *out, int width, int height, const char *title, bool standalone) {
    sf_svg_open(out, width, height, title, standalone);
    fputs(">\n", out);
    if (standalone) sf_svg_style_alone(out, width, height);
}

static void print_colour(FILE *out, double share) {
    const colour c = colour_at(share);
    fprintf(out, "#%02x%02x%02x", (unsigned)lround(c.red), (unsigned)lround(c.green), (unsigned)lround(c.blue));
}

typedef struct map { /* one surface that is being drawn */
    const sf_surface *surface;
    const double *values; /* [grid,grid] of the surface */
    sf_surface_quantity quantity;
    sf_scale scale; /* values to 0..1 */
    bool is_empty;  /* no finite value in any of the maps */
    size_t step;    /* every step-th point is drawn */
    size_t cells;   /* along a side */
    double *drawn;  /* [cells,cells]: as the scale counts, NaN: not finite */
    sf_scale x, y;  /* coordinates to pixels */
} map;

/* One scale for all surfaces; logarithmic where most of a loss would lie on the bottom otherwise. */
static void choose_scale(map *m, const sf_landscape *landscape) {
    double low = NAN, high = NAN;
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        low = fmin(low, sf_landscape_surface(landscape, i)->least);
        high = fmax(high, sf_landscape_surface(landscape, i)->most);
    }
    m->scale = (sf_scale){.low = 0, .high = 100, .from = 0, .to = 1};
    m->is_empty = isnan(low);
    if (m->quantity == SF_SURFACE_ACCURACY || m->is_empty) return;
    m->scale.is_log = low > 0 && high / low >= 20;
    m->scale.low = low;
    m->scale.high = high > low ? high : low + 1;
}

static double counted(const map *m, double value) {
    if (!m->scale.is_log) return value;
    return sf_log10(fmax(value, m->scale.low));
}

static sf_status open_map(map *m, const sf_landscape *landscape, size_t i, sf_surface_quantity quantity) {
    *m = (map){.surface = sf_landscape_surface(landscape, i), .quantity = quantity};
    const size_t grid = m->surface->grid;
    const double extent = m->surface->extent;
    choose_scale(m, landscape);
    m->values = quantity == SF_SURFACE_LOSS ? m->surface->losses : m->surface->accuracies;
    m->step = (grid + MOST_CELLS - 1) / MOST_CELLS;
    m->cells = (grid - 1) / m->step + 1;
    m->x = (sf_scale){.low = -extent, .high = extent, .from = LEFT, .to = LEFT + SIDE};
    m->y = (sf_scale){.low = -extent, .high = extent, .from = TOP + SIDE, .to = TOP};
    SF_TRY(SF_NEW(&m->drawn, m->cells * m->cells));
    for (size_t row = 0; row < m->cells; row++)
        for (size_t column = 0; column < m->cells; column++) {
            const size_t at = row * m->step * grid + column * m->step;
            const bool finite = !isnan(m->surface->losses[at]);
            m->drawn[row * m->cells + column] = finite ? counted(m, m->values[at]) : NAN;
        }
    return SF_OK;
}

/* Dark is good: a low loss, a high accuracy. */
static double shade(const map *m, double value) {
    const double share = sf_scale_place(&m->scale, value);
    return m->quantity == SF_SURFACE_LOSS ? share : 1 - share;
}

/* Which of the colours a cell has; COLOURS where its loss is not finite. */
static size_t colour_of_cell(const map *m, size_t row, size_t column) {
    const double value = m->drawn[row * m->cells + column];
    if (isnan(value)) return COLOURS;
    const size_t number = (size_t)(shade(m, m->scale.is_log ? sf_pow(10, value) : value) * COLOURS);
    return number < COLOURS ? number : COLOURS - 1;
}

/* Where cell i begins: halfway between its point and the one before, at the frame's edge for the first. */
static double cell_edge(const map *m, const sf_scale *scale, size_t i) {
    if (i == 0) return scale->from;
    if (i >= m->cells) return scale->to;
    const double before = sf_surface_coordinate(m->surface, (i - 1) * m->step),
                 after = sf_surface_coordinate(m->surface, i * m->step);
    return sf_scale_place(scale, 0.5 * (before + after));
}

/* All cells of one colour as one path, neighbours in a row joined. */
static void draw_cells(FILE *out, const map *m, size_t number) {
    bool any = false;
    for (size_t row = 0; row < m->cells; row++)
        for (size_t column = 0, end; column < m->cells; column = end) {
            end = column + 1;
            if (colour_of_cell(m, row, column) != number) continue;
            while (end < m->cells && colour_of_cell(m, row, end) == number) end++;
            const double left = cell_edge(m, &m->x, column), right = cell_edge(m, &m->x, end);
            const double bottom = cell_edge(m, &m->y, row), top = cell_edge(m, &m->y, row + 1);
            fprintf(out, "%sM%.2f %.2fH%.2fV%.2fH%.2fZ", any ? "" : "<path d=\"", left, bottom, right, top, left);
            any = true;
        }
    if (!any) return;
    fputs("\" fill=\"", out);
    if (number == COLOURS)
        fprintf(out, "url(#not-finite-%s-%d)", m->surface->run.id, (int)m->quantity);
    else
        print_colour(out, ((double)number + 0.5) / COLOURS);
    fputs("\"/>\n", out);
}

static void draw_line(FILE *out, const map *m, const sf_contour *contour, const sf_contour_line *line) {
    const double last = (double)((m->cells - 1) * m->step), grid = (double)(m->surface->grid - 1);
    for (size_t i = 0; i < line->count; i++) {
        const sf_contour_point p = contour->points[line->first + i];
        /* the grid's place, from the drawn cells' */
        const double column = p.x / (double)(m->cells - 1) * last, row = p.y / (double)(m->cells - 1) * last;
        fprintf(out, "%s%.1f %.1f", i == 0 ? "M" : "L", m->x.from + column / grid * (m->x.to - m->x.from),
                m->y.from + row / grid * (m->y.to - m->y.from));
    }
    if (line->closed) fputc('Z', out);
}

/* Black or white, for better contrast. */
static const char *ink_on(double share) {
    return share > 0.55 ? "#000" : "#fff";
}

typedef struct level {
    double value;
    bool named; /* beside the colours */
} level;

enum { MOST_LEVELS = 2 * SF_MOST_TICKS };

/* Where lines are drawn: at round values; on a logarithmic scale at 1, 2 and 5 times the powers of ten, of which only
 * the powers are named where there are many. */
static size_t choose_levels(level levels[MOST_LEVELS], const map *m) {
    double ticks[SF_MOST_TICKS];
    size_t count = 0;
    if (m->is_empty) return 0;
    const size_t named = sf_scale_ticks(ticks, &m->scale, 8, false);
    for (size_t i = 0; i < named; i++) levels[count++] = (level){ticks[i], true};
    const double decades = m->scale.is_log ? sf_log10(m->scale.high / m->scale.low) : 0;
    if (decades < 3 || decades > 6) return count;
    for (int power = (int)floor(sf_log10(m->scale.low)); power <= (int)sf_log10(m->scale.high); power++)
        for (int i = 0; i < 2; i++) {
            const double value = (i == 0 ? 2 : 5) * sf_pow(10, power);
            if (value > m->scale.low && value < m->scale.high) levels[count++] = (level){value, false};
        }
    return count;
}

static const char *width_of(const level *at) {
    return at->named ? "1.2" : "0.6";
}

static sf_status draw_level(FILE *out, const map *m, const level *at) {
    sf_contour contour;
    SF_TRY(sf_contour_trace(&contour, m->drawn, m->cells, m->cells, counted(m, at->value)));
    if (contour.line_count > 0) {
        fprintf(out,
                "<path class=\"contour\" fill=\"none\" stroke=\"%s\" stroke-opacity=\"0.75\" stroke-width=\"%s\" d=\"",
                ink_on(shade(m, at->value)), width_of(at));
        for (size_t i = 0; i < contour.line_count; i++) draw_line(out, m, &contour, &contour.lines[i]);
        fprintf(out, "\"><title>%.4g</title></path>\n", at->value);
    }
    sf_contour_close(&contour);
    return SF_OK;
}

/* The colours from bottom to top, with a mark and a number where a contour line is drawn. */
static void draw_bar(FILE *out, const map *m, const level *levels, size_t count) {
    sf_scale bar = m->scale;
    bar.from = TOP + SIDE;
    bar.to = TOP;
    fputs("<g shape-rendering=\"crispEdges\">\n", out);
    for (size_t i = 0; i < COLOURS; i++) {
        const double share = ((double)i + 0.5) / COLOURS;
        fprintf(out, "<rect x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\" fill=\"", BAR_LEFT,
                TOP + SIDE * (1 - (double)(i + 1) / COLOURS), BAR_WIDTH, (double)SIDE / COLOURS + 0.3);
        print_colour(out, m->quantity == SF_SURFACE_LOSS ? share : 1 - share);
        fputs("\"/>\n", out);
    }
    fputs("</g>\n", out);
    double last = INFINITY; /* the place of the last number: they do not lie on one another */
    for (size_t i = 0; i < count; i++) {
        const double at = sf_scale_place(&bar, levels[i].value);
        fprintf(out, "<path d=\"M%d %.1fh%d\" stroke=\"%s\" stroke-opacity=\"0.75\" stroke-width=\"%s\"/>\n", BAR_LEFT,
                at, BAR_WIDTH, ink_on(shade(m, levels[i].value)), width_of(&levels[i]));
        if (!levels[i].named || fabs(at - last) < 14) continue;
        last = at;
        fprintf(out, "<text class=\"tick\" x=\"%d\" y=\"%.1f\">", BAR_LEFT + BAR_WIDTH + 5, at + 4);
        sf_svg_tick(out, levels[i].value, m->scale.is_log);
        fputs("</text>\n", out);
    }
}

static void draw_patterns(FILE *out, const map *m) {
    fprintf(out,
            "<defs><pattern id=\"not-finite-%s-%d\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
            "<rect width=\"6\" height=\"6\" fill=\"#bbb\"/><path d=\"M0 6L6 0\" stroke=\"#666\"/></pattern></defs>\n",
            m->surface->run.id, (int)m->quantity);
}

static void draw_ticks(FILE *out, const map *m) {
    double ticks[SF_MOST_TICKS];
    const size_t count = sf_scale_ticks(ticks, &m->x, 5, false);
    for (size_t i = 0; i < count; i++) {
        const double x = sf_scale_place(&m->x, ticks[i]), y = sf_scale_place(&m->y, ticks[i]);
        fprintf(out,
                "<path class=\"grid\" d=\"M%.1f %dv5M%d %.1fh-5\"/><text class=\"tick\" x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%.6g</text><text class=\"tick\" x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.6g</text>\n",
                x, TOP + SIDE, LEFT, y, x, TOP + SIDE + 17, ticks[i], LEFT - 8, y + 4, ticks[i]);
    }
    fprintf(out,
            "<text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">first direction</text>"
            "<text class=\"axis\" transform=\"translate(12 %d) rotate(-90)\" text-anchor=\"middle\">second "
            "direction</text>\n",
            LEFT + SIDE / 2, TOP + SIDE + 36, TOP + SIDE / 2);
}

static sf_status draw_map(FILE *out, const map *m) {
    level levels[MOST_LEVELS];
    const size_t count = choose_levels(levels, m);
    if (m->surface->not_finite > 0) draw_patterns(out, m);
    fputs("<g shape-rendering=\"crispEdges\">\n", out);
    for (size_t number = 0; number <= COLOURS; number++) draw_cells(out, m, number);
    fputs("</g>\n", out);
    for (size_t i = 0; i < count; i++) SF_TRY(draw_level(out, m, &levels[i]));
    fprintf(out,
            "<path d=\"M%.1f %.1fm-6 0h12m-6 -6v12\" fill=\"none\" stroke=\"#fff\" stroke-width=\"4\"/>"
            "<path d=\"M%.1f %.1fm-6 0h12m-6 -6v12\" fill=\"none\" stroke=\"#d55e00\" stroke-width=\"2\"/>\n",
            sf_scale_place(&m->x, 0), sf_scale_place(&m->y, 0), sf_scale_place(&m->x, 0), sf_scale_place(&m->y, 0));
    draw_ticks(out, m);
    if (!m->is_empty) draw_bar(out, m, levels, count);
    return SF_OK;
}

/* The values of the map, coarser where it is fine, for whoever points at it: rows from the bottom. */
static void print_values(FILE *out, const map *m) {
    const size_t step = 1 + (m->cells - 1) / MOST_READ, side = 1 + (m->cells - 1) / step;
    fprintf(
        out,
        " data-map=\"%zu\" data-left=\"%d\" data-right=\"%d\" data-top=\"%d\" data-bottom=\"%d\" data-extent=\"%g\" "
        "data-unit=\"%s\" data-values=\"",
        side, LEFT, LEFT + SIDE, TOP, TOP + SIDE, m->surface->extent,
        m->quantity == SF_SURFACE_LOSS ? "loss" : "accuracy, %");
    for (size_t row = 0; row < side; row++)
        for (size_t column = 0; column < side; column++) {
            const size_t at = row * step * m->step * m->surface->grid + column * step * m->step;
            const char *gap = row + column > 0 ? " " : "";
            if (isnan(m->surface->losses[at]))
                fprintf(out, "%s-", gap);
            else
                fprintf(out, "%s%.3g", gap, m->values[at]);
        }
    fputc('"', out);
}

static void describe(char out[SF_ABOUT_SIZE], const sf_surface *s, const char *title, sf_surface_quantity quantity) {
    if (quantity == SF_SURFACE_ACCURACY)
        snprintf(out, SF_ABOUT_SIZE, "%s. %.3g %% at the weights themselves.", title, s->centre_accuracy);
    else if (isnan(s->least) || !isfinite(s->centre_loss))
        snprintf(out, SF_ABOUT_SIZE, "%s. The loss at the weights themselves is not finite.", title);
    else
        snprintf(out, SF_ABOUT_SIZE, "%s. %.3g at the weights themselves, from %.3g to %.3g on the plane.", title,
                 s->centre_loss, s->least, s->most);
}

sf_status sf_surface_draw(FILE *out, const sf_landscape *landscape, size_t i, sf_surface_quantity quantity,
                          bool standalone) {
    char name[SF_SURFACE_NAME_SIZE], title[SF_SURFACE_NAME_SIZE + 64];
    map m;
    sf_surface_name(name, landscape, i);
    snprintf(title, sizeof title, "%s: %s", name,
             quantity == SF_SURFACE_LOSS ? "training loss around the weights"
                                         : "training accuracy around the weights (%)");
    sf_status status = open_map(&m, landscape, i, quantity);
    if (status == SF_OK) {
        const int height = HEIGHT + (standalone ? 24 : 0);
        char about[SF_ABOUT_SIZE];
        describe(about, m.surface, title, quantity);
        sf_svg_open(out, WIDTH, height, about, standalone);
        if (!standalone) print_values(out, &m);
        fputs(">\n", out);
        if (standalone) sf_svg_style_alone(out, WIDTH, height);
        status = draw_map(out, &m);
        if (standalone) {
            fprintf(out, "<text class=\"key\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", WIDTH / 2, HEIGHT + 10);
            sf_figure_name(out, title);
            fputs("</text>\n", out);
        }
        fputs("</svg>\n", out);
    }
    sf_release(m.drawn);
    return status;
}
