#include "report/contour.h"

#include <math.h>
#include <stdint.h>

#include "base/memory.h"

/* Every line runs from crossing to crossing; a crossing lies on an edge between two neighbouring grid points, and each
 * edge has at most one. Edge numbers: first the horizontal ones, row by row, then the vertical ones. */
typedef struct field {
    const double *values; /* [rows,columns] */
    size_t rows, columns;
    double level;
} field;

static size_t horizontal_edges(const field *f) {
    return f->rows * (f->columns - 1);
}

static size_t edge_count(const field *f) {
    return horizontal_edges(f) + (f->rows - 1) * f->columns;
}

enum { TOP, RIGHT, BOTTOM, LEFT, NONE = 4 };

/* The number of a side of the square whose first corner is (row, column). */
static size_t edge_of(const field *f, size_t row, size_t column, size_t side) {
    switch (side) {
    case TOP:
        return row * (f->columns - 1) + column;
    case BOTTOM:
        return (row + 1) * (f->columns - 1) + column;
    case LEFT:
        return horizontal_edges(f) + row * f->columns + column;
    default:
        return horizontal_edges(f) + row * f->columns + column + 1;
    }
}

static double share_between(const field *f, size_t from, size_t to) {
    return (f->level - f->values[from]) / (f->values[to] - f->values[from]);
}

static sf_contour_point crossing(const field *f, size_t edge) {
    if (edge < horizontal_edges(f)) {
        const size_t row = edge / (f->columns - 1), column = edge % (f->columns - 1);
        const size_t at = row * f->columns + column;
        return (sf_contour_point){(double)column + share_between(f, at, at + 1), (double)row};
    }
    const size_t at = edge - horizontal_edges(f), row = at / f->columns, column = at % f->columns;
    return (sf_contour_point){(double)column, (double)row + share_between(f, at, at + f->columns)};
}

/* The pairs of sides that a level joins within a square, by which corners lie above it: bit 0 first (row, column),
 * bit 1 (row, column + 1), bit 2 (row + 1, column + 1), bit 3 (row + 1, column). */
typedef struct joints {
    unsigned char sides[4]; /* two pairs; NONE: no second, or no first */
} joints;

static const joints joints_of[16] = {
    {{NONE, NONE, NONE, NONE}},  {{LEFT, TOP, NONE, NONE}},     {{TOP, RIGHT, NONE, NONE}},
    {{LEFT, RIGHT, NONE, NONE}}, {{RIGHT, BOTTOM, NONE, NONE}}, {{LEFT, TOP, RIGHT, BOTTOM}},
    {{TOP, BOTTOM, NONE, NONE}}, {{LEFT, BOTTOM, NONE, NONE}},  {{BOTTOM, LEFT, NONE, NONE}},
    {{BOTTOM, TOP, NONE, NONE}}, {{TOP, RIGHT, BOTTOM, LEFT}},  {{BOTTOM, RIGHT, NONE, NONE}},
    {{RIGHT, LEFT, NONE, NONE}}, {{RIGHT, TOP, NONE, NONE}},    {{TOP, LEFT, NONE, NONE}},
    {{NONE, NONE, NONE, NONE}}};

static joints joints_at(const field *f, size_t row, size_t column) {
    const size_t at = row * f->columns + column;
    const double corners[4] = {f->values[at], f->values[at + 1], f->values[at + f->columns + 1],
                               f->values[at + f->columns]};
    const double mean = 0.25 * (corners[0] + corners[1] + corners[2] + corners[3]);
    if (!isfinite(mean)) return joints_of[0];
    size_t above = 0;
    for (size_t i = 0; i < 4; i++) above |= (size_t)(corners[i] > f->level) << i;
    if ((above == 5 || above == 10) && mean > f->level) above = 15 - above; /* the ridge runs the other way */
    return joints_of[above];
}

typedef struct tracing { /* the up to two neighbours of each crossing */
    size_t (*next)[2];   /* [edges]; SIZE_MAX: none */
    bool *visited;       /* [edges] */
} tracing;

static void join(const tracing *t, size_t a, size_t b) {
    t->next[a][t->next[a][0] == SIZE_MAX ? 0 : 1] = b;
    t->next[b][t->next[b][0] == SIZE_MAX ? 0 : 1] = a;
}

static void join_all(const tracing *t, const field *f) {
    for (size_t edge = 0; edge < edge_count(f); edge++) t->next[edge][0] = t->next[edge][1] = SIZE_MAX;
    for (size_t row = 0; row + 1 < f->rows; row++)
        for (size_t column = 0; column + 1 < f->columns; column++) {
            const joints j = joints_at(f, row, column);
            for (size_t i = 0; i < 4 && j.sides[i] != NONE; i += 2)
                join(t, edge_of(f, row, column, j.sides[i]), edge_of(f, row, column, j.sides[i + 1]));
        }
}

/* Follows a line from one crossing to its end, or around. */
static void follow(sf_contour *out, const tracing *t, const field *f, size_t start) {
    sf_contour_line *line = &out->lines[out->line_count++];
    *line = (sf_contour_line){.first = out->point_count};
    for (size_t edge = start; edge != SIZE_MAX;) {
        t->visited[edge] = true;
        out->points[out->point_count++] = crossing(f, edge);
        const size_t *ways = t->next[edge];
        edge = ways[0] != SIZE_MAX && !t->visited[ways[0]]   ? ways[0]
               : ways[1] != SIZE_MAX && !t->visited[ways[1]] ? ways[1]
                                                             : SIZE_MAX;
    }
    line->count = out->point_count - line->first;
}

static bool is_end(const tracing *t, size_t edge) {
    return t->next[edge][0] != SIZE_MAX && t->next[edge][1] == SIZE_MAX;
}

static void follow_all(sf_contour *out, const tracing *t, const field *f) {
    for (size_t edge = 0; edge < edge_count(f); edge++)
        if (!t->visited[edge] && is_end(t, edge)) follow(out, t, f, edge);
    for (size_t edge = 0; edge < edge_count(f); edge++) { /* what is left goes around */
        if (t->visited[edge] || t->next[edge][0] == SIZE_MAX) continue;
        follow(out, t, f, edge);
        out->lines[out->line_count - 1].closed = true;
    }
}

sf_status sf_contour_trace(sf_contour *out, const double *values /* [rows,columns] */, size_t rows, size_t columns,
                           double level) {
    *out = (sf_contour){0};
    if (rows < 2 || columns < 2) return SF_OK;
    const field f = {.values = values, .rows = rows, .columns = columns, .level = level};
    tracing t = {0};
    sf_status status = SF_NEW(&t.next, edge_count(&f));
    if (status == SF_OK) status = SF_NEW(&t.visited, edge_count(&f));
    if (status == SF_OK) status = SF_NEW(&out->points, edge_count(&f));
    if (status == SF_OK) status = SF_NEW(&out->lines, edge_count(&f));
    if (status == SF_OK) {
        join_all(&t, &f);
        follow_all(out, &t, &f);
    }
    sf_release(t.next);
    sf_release(t.visited);
    if (status != SF_OK) sf_contour_close(out);
    return status;
}

void sf_contour_close(sf_contour *contour) {
    sf_release(contour->points);
    sf_release(contour->lines);
    *contour = (sf_contour){0};
}
