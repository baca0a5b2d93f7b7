/* Figures of loss surfaces: a map with contour lines for each, and the estimated Lipschitz constants of all. Inside a
 * page the page's style colours axes and text; alone they have their own. */
#ifndef SF_REPORT_SURFACE_FIGURE_H
#define SF_REPORT_SURFACE_FIGURE_H

#include <stdio.h>

#include "base/status.h"
#include "semfocus/landscape.h"

typedef enum sf_surface_quantity { SF_SURFACE_LOSS, SF_SURFACE_ACCURACY } sf_surface_quantity;

/* All maps of one quantity share their scale. */
sf_status sf_surface_draw(FILE *out, const sf_landscape *landscape, size_t i, sf_surface_quantity quantity,
                          bool standalone);
bool sf_lipschitz_is_there(const sf_landscape *landscape); /* whether any curve has a point */
sf_status sf_lipschitz_draw(FILE *out, const sf_landscape *landscape, bool standalone);

/* Every figure as SVG and its data as CSV; the folder is there. */
sf_status sf_surfaces_write(const sf_landscape *landscape, const char *folder, const char *prefix);

/* The beginning of an SVG image, with the style that a separate file needs. */
void sf_surface_open_svg(FILE *out, int width, int height, const char *title, bool standalone);

#endif
