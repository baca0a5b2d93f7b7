/* Maps of the loss for the terminal: the denser the mark, the higher the loss. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "report/svg.h"
#include "semfocus/landscape.h"

enum { MOST_ROWS = 25, MARKS = 10 };
static const char marks[MARKS + 1] = " .:-=+*#%@";

static sf_scale scale_of(const sf_landscape *landscape) {
    double low = NAN, high = NAN;
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        low = fmin(low, sf_landscape_surface(landscape, i)->least);
        high = fmax(high, sf_landscape_surface(landscape, i)->most);
    }
    if (!(high > low)) high = low + 1;
    return (sf_scale){.low = low, .high = high, .is_log = low > 0 && high / low >= 20, .from = 0, .to = MARKS};
}

/* Row or column `i` of `rows`, on the grid. */
static size_t on_grid(size_t i, size_t rows, size_t grid) {
    return rows > 1 ? (size_t)((double)i / (double)(rows - 1) * (double)(grid - 1) + 0.5) : 0;
}

static void print_map(FILE *out, const sf_surface *surface, const sf_scale *scale) {
    const size_t rows = surface->grid < MOST_ROWS ? surface->grid : MOST_ROWS;
    for (size_t row = 0; row < rows; row++) {
        const size_t i = on_grid(rows - 1 - row, rows, surface->grid);
        fprintf(out, "%6.2g |", sf_surface_coordinate(surface, i));
        for (size_t column = 0; column < rows; column++) {
            const double loss = surface->losses[i * surface->grid + on_grid(column, rows, surface->grid)];
            const size_t mark = isnan(loss) ? 0 : (size_t)fmin(sf_scale_place(scale, loss), MARKS - 1);
            const char shown = isnan(loss) ? '?' : marks[mark];
            fprintf(out, "%c%c", shown, shown);
        }
        fputs("|\n", out);
    }
}

sf_status sf_landscape_plot(char **out, const sf_landscape *landscape) {
    size_t size;
    *out = NULL;
    FILE *text = open_memstream(out, &size);
    if (text == NULL) return sf_fail(SF_NO_MEMORY, "no memory left to plot");
    const sf_scale scale = scale_of(landscape);
    for (size_t i = 0; i < sf_landscape_count(landscape); i++) {
        char name[SF_SURFACE_NAME_SIZE];
        sf_surface_name(name, landscape, i);
        fprintf(text, "\n%s: training loss from %.3g (blank) to %.3g (@)%s\n", name, scale.low, scale.high,
                scale.is_log ? ", logarithmic" : "");
        print_map(text, sf_landscape_surface(landscape, i), &scale);
    }
    fputc('\n', text);
    const bool failed = ferror(text) != 0;
    if (fclose(text) == 0 && !failed) return SF_OK;
    free(*out);
    *out = NULL;
    return sf_fail(SF_NO_MEMORY, "no memory left to plot");
}
