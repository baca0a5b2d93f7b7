#include "report/panels.h"

static void draw_grid(FILE *out, const sf_panels *p, bool horizontal, bool numbered, bool whole) {
    const sf_scale *scale = horizontal ? &p->x : &p->y;
    double ticks[SF_MOST_TICKS];
    const size_t count = sf_scale_ticks(ticks, scale, horizontal ? 7 : 5, whole);
    for (size_t i = 0; i < count; i++) {
        const double at = sf_scale_place(scale, ticks[i]);
        if (horizontal)
            fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", at, p->y.from, p->y.to);
        else
            fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", p->x.from, at, p->x.to);
        if (!numbered) continue;
        if (horizontal)
            fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", at, p->y.from + 18);
        else
            fprintf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", p->x.from - 8, at + 4);
        sf_svg_tick(out, ticks[i], scale->is_log);
        fputs("</text>\n", out);
    }
}

void sf_panels_frame(FILE *out, sf_panels *p, size_t i, const char *title, bool whole_x) {
    p->x.from = SF_PANELS_LEFT + (double)(i % 2) * (SF_PANEL_WIDTH + SF_PANELS_GAP);
    p->x.to = p->x.from + SF_PANEL_WIDTH;
    p->y.to = SF_PANELS_TOP + (i < 2 ? 0 : SF_PANEL_HEIGHT + SF_PANELS_GAP);
    p->y.from = p->y.to + SF_PANEL_HEIGHT;
    draw_grid(out, p, false, i % 2 == 0, false);
    draw_grid(out, p, true, i >= 2, whole_x);
    fprintf(out, "<text class=\"key\" x=\"%.1f\" y=\"%.1f\">", p->x.from, p->y.to - 8);
    sf_markup_text(out, title);
    fputs("</text>\n", out);
}

void sf_panels_axes(FILE *out, const char *x, const char *y) {
    fprintf(out, "<text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
            SF_PANELS_LEFT + SF_PANEL_WIDTH + SF_PANELS_GAP / 2, SF_PANELS_HEIGHT - 10);
    sf_markup_text(out, x);
    fprintf(out, "</text><text class=\"axis\" transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">",
            SF_PANELS_TOP + SF_PANEL_HEIGHT + SF_PANELS_GAP / 2);
    sf_markup_text(out, y);
    fputs("</text>\n", out);
}
