#include <math.h>

#include "report/figure.h"
#include "report/panels.h"
#include "report/surface_figure.h"
#include "report/svg.h"

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

enum { KEY_ROW = 24 };

typedef struct panels {
    const sf_landscape *landscape;
    sf_panels frame;
} panels;

static void scale_panels(panels *p) {
    double low = NAN, high = NAN;
    const sf_surface *first = sf_landscape_surface(p->landscape, 0);
    for (size_t i = 0; i < sf_landscape_count(p->landscape); i++)
        for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++)
            for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
                const double value = sf_landscape_surface(p->landscape, i)->lipschitz.quantiles[r][q];
                low = fmin(low, value);
                high = fmax(high, value);
            }
    p->frame.x = (sf_scale){.low = 0, .high = 0.7 * first->extent};
    p->frame.y = (sf_scale){.low = 0, .high = high > 0 ? 1.05 * high : 1};
    if (low > 0 && high / low >= 20) p->frame.y = (sf_scale){.low = low / 1.2, .high = 1.2 * high, .is_log = true};
}

static void draw_curve(FILE *out, const panels *p, size_t i, size_t q, bool standalone) {
    const sf_surface *surface = sf_landscape_surface(p->landscape, i);
    const sf_lipschitz_curves *curves = &surface->lipschitz;
    double xs[SF_LIPSCHITZ_RADII], ys[SF_LIPSCHITZ_RADII];
    size_t count = 0;
    for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++) {
        if (isnan(curves->quantiles[r][q])) continue;
        xs[count] = curves->radii[r];
        ys[count++] = curves->quantiles[r][q];
    }
    if (count == 0) return;
    fprintf(out, "<g class=\"series c%zu d%zu\" data-series=\"%zu\"><path class=\"line\" d=\"",
            sf_style_colour(surface->style), sf_style_dash(surface->style), surface->series);
    sf_svg_path(out, &p->frame.x, &p->frame.y, xs, ys, count);
    fputc('"', out);
    sf_style_paint(out, surface->style, false, standalone);
    fputs("/></g>\n", out);
}

static void draw_keys(FILE *out, const sf_landscape *landscape) {
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        char name[SF_SURFACE_NAME_SIZE];
        const int y = SF_PANELS_HEIGHT + 10 + KEY_ROW * (int)i;
        sf_surface_name(name, landscape, i);
        fprintf(out, "<path d=\"M%d %dh26\"", SF_PANELS_LEFT, y);
        sf_style_paint(out, sf_landscape_surface(landscape, i)->style, false, true);
        fprintf(out, "/><text class=\"key\" x=\"%d\" y=\"%d\">", SF_PANELS_LEFT + 33, y + 4);
        sf_markup_text(out, name);
        fputs("</text>\n", out);
    }
}

bool sf_lipschitz_is_there(const sf_landscape *landscape) {
    for (size_t i = 0; i < sf_landscape_count(landscape); i++)
        for (size_t r = 0; r < SF_LIPSCHITZ_RADII; r++)
            if (sf_landscape_surface(landscape, i)->lipschitz.pairs[r] > 0) return true;
    return false;
}

sf_status sf_lipschitz_draw(FILE *out, const sf_landscape *landscape, bool standalone) {
    panels p = {.landscape = landscape};
    const size_t count = sf_landscape_count(landscape);
    scale_panels(&p);
    sf_surface_open_svg(out, SF_PANELS_WIDTH, SF_PANELS_HEIGHT + (standalone ? KEY_ROW * (int)count + 10 : 0),
                        "estimated Lipschitz constants of the loss against the radius", standalone);
    for (size_t q = 0; q < SF_LIPSCHITZ_QUANTILES; q++) {
        char title[16];
        snprintf(title, sizeof title, "%.0f %%", 100 * sf_lipschitz_shares[q]);
        sf_panels_frame(out, &p.frame, q, title, false);
        for (size_t i = 0; i < count; i++) draw_curve(out, &p, i, q, standalone);
    }
    sf_panels_axes(out, "radius: the square |x|, |y| ≤ r", "|difference of losses| / grid step");
    if (standalone) draw_keys(out, landscape);
    fputs("</svg>\n", out);
    return SF_OK;
}
