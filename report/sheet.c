#include "report/sheet.h"

enum { RIGHT = 12, TOP = 14, TITLE = 20, BOTTOM = 42, GAP = 14 };

void sf_svg_open(FILE *out, int width, int height, const char *about, bool standalone) {
    fprintf(out, "<svg class=\"figure\" viewBox=\"0 0 %d %d\" role=\"img\"", width, height);
    if (standalone)
        fprintf(out, " xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\"",
                width, height);
    fputs(" aria-label=\"", out);
    sf_markup_text(out, about);
    fputc('"', out);
}

void sf_svg_style_alone(FILE *out, int width, int height) {
    fprintf(out,
            "<style>.grid{stroke:#ddd}.tick{fill:#555;font-size:12px}.axis{fill:#222;font-size:12px}"
            ".threshold{stroke:#777;stroke-dasharray:5 4}.chance{stroke:#222;stroke-dasharray:1 4}"
            ".key{fill:#222;font-size:12px}.small{paint-order:stroke;stroke:#fff;stroke-width:3px}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            width, height);
}

static int whole_width(const sf_sheet *s) {
    return (int)s->columns * s->width + (int)(s->columns - 1) * GAP;
}

static int panels_height(const sf_sheet *s) {
    const int rows = (int)((s->panels + s->columns - 1) / s->columns);
    return rows * s->height + (rows - 1) * GAP;
}

int sf_sheet_bottom(const sf_sheet *s) {
    return panels_height(s) + sf_keys_height(s->keys, s->key_count, whole_width(s));
}

void sf_sheet_open(sf_sheet *s) {
    s->columns = s->panels < 2 ? 1 : s->panels < 5 ? 2 : 3;
    if (!s->standalone) {
        if (s->panels > 1)
            fputs(s->width < SF_PANEL_WIDTH ? "<div class=\"panels narrow\">\n" : "<div class=\"panels\">\n", s->out);
        return;
    }
    const int width = whole_width(s), height = sf_sheet_bottom(s) + s->below;
    sf_svg_open(s->out, width, height, s->about, true);
    fputs(">\n", s->out);
    sf_svg_style_alone(s->out, width, height);
}

void sf_sheet_panel(sf_sheet *s, sf_frame *frame, size_t i, const char *title) {
    const size_t row = i / s->columns, column = i % s->columns;
    frame->left = s->standalone ? (double)column * (s->width + GAP) : 0;
    frame->top = s->standalone ? (double)row * (s->height + GAP) : 0;
    frame->y.from = frame->top + s->height - BOTTOM;
    frame->y.to = frame->top + TOP + (*title != '\0' ? TITLE : 0);
    frame->x.from = frame->left + sf_svg_axis_room(&frame->y);
    frame->x.to = frame->left + s->width - RIGHT;
    if (s->standalone) {
        if (s->panels > 1) fputs("<g class=\"panel\">\n", s->out);
        return;
    }
    fprintf(s->out, "<svg class=\"figure\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", s->width, s->height);
    if (*title != '\0') {
        sf_markup_text(s->out, title);
        fputs(". ", s->out);
    }
    sf_markup_text(s->out, s->about);
    fputc('"', s->out);
}

void sf_sheet_begin(const sf_sheet *s, const sf_frame *frame, const char *title) {
    if (!s->standalone)
        fprintf(s->out, " data-left=\"%.1f\" data-right=\"%.1f\" data-top=\"%.1f\" data-bottom=\"%.1f\">\n",
                frame->x.from, frame->x.to, frame->y.to, frame->y.from);
    if (*title == '\0') return;
    fprintf(s->out, "<text class=\"key\" x=\"%.1f\" y=\"%.1f\">", frame->left + 12, frame->top + 14);
    sf_figure_name_within(s->out, title, s->width - 12);
    fputs("</text>\n", s->out);
}

void sf_sheet_end_panel(const sf_sheet *s) {
    if (!s->standalone || s->panels > 1) fputs(s->standalone ? "</g>\n" : "</svg>\n", s->out);
}

void sf_sheet_close(const sf_sheet *s) {
    if (!s->standalone) {
        if (s->panels > 1) fputs("</div>\n", s->out);
        return;
    }
    sf_keys_draw(s->out, s->keys, s->key_count, whole_width(s), panels_height(s));
    fputs("</svg>\n", s->out);
}
