/* The panels of a figure. On a page each is a drawing of its own, so that the browser can set as many side by side as
 * there is room for and the text keeps its size; in a file they are one drawing with the names of the series below. */
#ifndef SF_REPORT_SHEET_H
#define SF_REPORT_SHEET_H

#include "report/style.h"
#include "report/svg.h"

enum { SF_PANEL_WIDTH = 340, SF_PANEL_HEIGHT = 236, SF_MOST_PANELS = 16 };

typedef struct sf_sheet {
    FILE *out;
    bool standalone;
    size_t panels, columns; /* of a file */
    int width, height;      /* of a panel */
    const char *about;      /* what a file, or the next panel of a page, shows and what was found, in words */
    const sf_key *keys;     /* [key_count], under a file */
    size_t key_count;
    int below; /* pixels at the end of a file for the caller's own remarks */
} sf_sheet;

/* Fill in everything but the columns; a lone panel needs no more. */
void sf_sheet_open(sf_sheet *sheet);
/* Where the frame of panel i lies: scales get their places from it, below its title and right of the labels of y. */
typedef struct sf_frame {
    double left, top; /* of the whole panel */
    sf_scale x, y;
} sf_frame;
/* The beginning of a panel, up to and without '>' of its svg on a page: more attributes may follow. */
void sf_sheet_panel(sf_sheet *sheet, sf_frame *frame, size_t i, const char *title);
/* The rest of the beginning, and the panel's title; "" for none. */
void sf_sheet_begin(const sf_sheet *sheet, const sf_frame *frame, const char *title);
void sf_sheet_end_panel(const sf_sheet *sheet);
void sf_sheet_close(const sf_sheet *sheet);
int sf_sheet_bottom(const sf_sheet *sheet); /* of the panels and names: where remarks may begin */

/* The beginning of an SVG image, up to and without its '>'. */
void sf_svg_open(FILE *out, int width, int height, const char *about, bool standalone);
/* The style that a separate file needs, and its background. */
void sf_svg_style_alone(FILE *out, int width, int height);

#endif
