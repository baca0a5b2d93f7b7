#include <math.h>

#include "report/figure.h"
#include "report/surface_figure.h"
#include "report/svg.h"

size_t sf_surface_style(const sf_landscape *landscape, size_t i) {
    size_t first = 0;
    while (sf_landscape_surface(landscape, first)->baseline != first) first++;
    return i == first ? 0 : i < first ? i + 1 : i;
}

void sf_surface_open_svg(FILE *out, int width, int height, const char *title, bool standalone) {
    fprintf(out, "<svg class=\"figure\" viewBox=\"0 0 %d %d\" role=\"img\"", width, height);
    if (standalone)
        fprintf(out, " xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\"",
                width, height);
    fputs(" aria-label=\"", out);
    sf_markup_text(out, title);
    fputs("\">\n", out);
    if (standalone)
        fprintf(out,
                "<style>.grid{stroke:#ddd}.tick{fill:#555;font-size:12px}.axis{fill:#222;font-size:13px}"
                ".key{fill:#222;font-size:13px}</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
                width, height);
}

/* Four panels, one a quantile, that share their axes. */
enum {
    PANEL_WIDTH = 300,
    PANEL_HEIGHT = 200,
    PANEL_LEFT = 64,
    PANEL_TOP = 26,
    GAP = 34,
    PANELS_WIDTH = PANEL_LEFT + 2 * PANEL_WIDTH + GAP + 12,
    PANELS_HEIGHT = PANEL_TOP + 2 * PANEL_HEIGHT + GAP + 50,
    KEY_ROW = 24
};

typedef struct panels {
    const sf_landscape *landscape;
    bool is_empty;
    sf_scale x, y;
} panels;

static void scale_panels(panels *p) {
    double low = NAN, high = NAN, least_positive = NAN;
    const sf_surface *first = sf_landscape_surface(p->landscape, 0);
    for (size_t i = 0; i < sf_landscape_count(p->landscape); i++)
        for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++)
            for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
                const double value = sf_landscape_surface(p->landscape, i)->lipschitz.quantiles[r][q];
                low = fmin(low, value);
                high = fmax(high, value);
                if (value > 0) least_positive = fmin(least_positive, value);
            }
    p->is_empty = isnan(low);
    p->x = (sf_scale){.low = 0, .high = 0.7 * first->extent};
    p->y = (sf_scale){.low = 0, .high = high > 0 ? 1.05 * high : 1};
    if (low > 0 && high / low >= 20)
        p->y = (sf_scale){.low = fmax(least_positive, 1e-9 * high) / 1.2, .high = 1.2 * high, .is_log = true};
}

static void draw_curve(FILE *out, const panels *p, size_t i, size_t q, bool standalone) {
    const sf_lipschitz_curves *curves = &sf_landscape_surface(p->landscape, i)->lipschitz;
    const size_t style = sf_surface_style(p->landscape, i);
    double xs[SF_LIPSCHITZ_RADII], ys[SF_LIPSCHITZ_RADII];
    size_t count = 0;
    for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++) {
        if (isnan(curves->quantiles[r][q])) continue;
        xs[count] = curves->radii[r];
        ys[count++] = curves->quantiles[r][q];
    }
    if (count == 0) return;
    fprintf(out, "<g class=\"series c%zu d%zu\" data-series=\"%zu\"><path class=\"line\" d=\"", sf_style_colour(style),
            sf_style_dash(style), i);
    sf_svg_path(out, &p->x, &p->y, xs, ys, count);
    fputc('"', out);
    sf_style_paint(out, style, false, standalone);
    fputs("/></g>\n", out);
}

/* Numbers stand at the left and bottom edges of the whole only. */
static void draw_frame(FILE *out, const panels *p, size_t q) {
    const bool left = q % 2 == 0, bottom = q >= 2;
    for (int horizontal = 0; horizontal < 2; horizontal++) {
        const sf_scale *scale = horizontal ? &p->x : &p->y;
        double ticks[SF_MOST_TICKS];
        const size_t count = sf_scale_ticks(ticks, scale, horizontal ? 7 : 5, false);
        for (size_t i = 0; i < count; i++) {
            const double at = sf_scale_place(scale, ticks[i]);
            if (horizontal)
                fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", at, p->y.from, p->y.to);
            else
                fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->x.from, at, p->x.to);
            if (horizontal ? !bottom : !left) continue;
            if (horizontal)
                fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", at, p->y.from + 18);
            else
                fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", p->x.from - 8, at + 4);
            sf_svg_tick(out, ticks[i], scale->is_log);
            fputs("</text>\n", out);
        }
    }
    fprintf(out, "<text class=\"key\" x=\"%.1f\" y=\"%.1f\">%.0f %%</text>\n", p->x.from, p->y.to - 8,
            100 * sf_lipschitz_shares[q]);
}

static void draw_keys(FILE *out, const sf_landscape *landscape) {
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        char name[SF_SURFACE_NAME_SIZE];
        const int y = PANELS_HEIGHT + 10 + KEY_ROW * (int)i;
        sf_surface_name(name, landscape, i);
        fprintf(out, "<path d=\"M%d %dh26\"", PANEL_LEFT, y);
        sf_style_paint(out, sf_surface_style(landscape, i), false, true);
        fprintf(out, "/><text class=\"key\" x=\"%d\" y=\"%d\">", PANEL_LEFT + 33, y + 4);
        sf_markup_text(out, name);
        fputs("</text>\n", out);
    }
}

sf_status sf_lipschitz_draw(FILE *out, const sf_landscape *landscape, bool standalone) {
    panels p = {.landscape = landscape};
    const size_t count = sf_landscape_count(landscape);
    scale_panels(&p);
    sf_surface_open_svg(out, PANELS_WIDTH, PANELS_HEIGHT + (standalone ? KEY_ROW * (int)count + 10 : 0),
                        "estimated Lipschitz constants of the loss against the radius", standalone);
    for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
        p.x.from = PANEL_LEFT + (double)(q % 2) * (PANEL_WIDTH + GAP);
        p.x.to = p.x.from + PANEL_WIDTH;
        p.y.to = PANEL_TOP + (q < 2 ? 0 : PANEL_HEIGHT + GAP);
        p.y.from = p.y.to + PANEL_HEIGHT;
        draw_frame(out, &p, q);
        for (size_t i = 0; i < count; i++) draw_curve(out, &p, i, q, standalone);
    }
    fprintf(out,
            "<text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">radius: the square |x|, |y| ≤ r</text>"
            "<text class=\"axis\" transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">|difference of "
            "losses| / grid step</text>\n",
            PANEL_LEFT + PANEL_WIDTH + GAP / 2, PANELS_HEIGHT - 10, PANEL_TOP + PANEL_HEIGHT + GAP / 2);
    if (standalone) draw_keys(out, landscape);
    fputs("</svg>\n", out);
    return SF_OK;
}
