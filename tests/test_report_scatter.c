/* Scatter figures: every point is drawn where its values are, under its name, and the data are beside it as CSV. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/scatter_figure.h"

static const sf_paper_point points[] = {{"even-pairs", "initial weights", 1, 10, false},
                                        {"stack", "initial weights", 2, 1, false},
                                        {"even-pairs", "trained weights", 3, 10, false},
                                        {"a <b> & c", "trained weights", 5, 1, false}};
static const sf_paper_scatter scatter = {
    .name = "scatter", .points = points, .count = 4, .x_title = "across", .y_title = "up, and \"quoted\""};

static char *written(void (*write)(FILE *out, const sf_paper_scatter *scatter), const sf_paper_scatter *of) {
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    write(out, of);
    assert_int_equal(fclose(out), 0);
    return text;
}

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) count++;
    return count;
}

typedef struct circle {
    double x, y;
} circle;

static size_t circles_of(circle *out, const char *svg) {
    size_t count = 0;
    for (const char *at = svg; (at = strstr(at, "<circle cx=\"")) != NULL; at++) {
        char *end;
        out[count].x = strtod(at + strlen("<circle cx=\""), &end);
        assert_int_equal(strncmp(end, "\" cy=\"", 6), 0);
        out[count].y = strtod(end + 6, &end);
        assert_int_equal(*end, '"');
        count++;
    }
    return count;
}

static void points_lie_where_they_belong(void **state) {
    (void)state;
    char *svg = written(sf_scatter_draw, &scatter);
    circle c[8];
    /* point, point, key of its series, ...: 4 points and 2 keys, a key after the first point of its series */
    assert_int_equal(circles_of(c, svg), 6);
    const circle first = c[0], second = c[2], third = c[3], fourth = c[5];
    assert_true(first.x < second.x && second.x < third.x && third.x < fourth.x);
    assert_true(fabs((third.x - first.x) / (second.x - first.x) - 2) < 0.02);      /* 1, 2, 3 are as far apart */
    assert_true(first.y == third.y && second.y == fourth.y && first.y < second.y); /* upward is less */
    assert_int_equal(count_of(svg, ">even-pairs</text>"), 2);
    assert_int_equal(count_of(svg, ">initial weights</text>"), 1);
    assert_int_equal(count_of(svg, ">trained weights</text>"), 1);
    assert_int_equal(count_of(svg, "a &lt;b&gt; &amp; c"), 1);
    assert_int_equal(count_of(svg, "nan"), 0);
    free(svg);
}

static void one_point_has_room(void **state) {
    (void)state;
    sf_paper_scatter one = scatter;
    one.count = 1;
    char *svg = written(sf_scatter_draw, &one);
    circle c[2];
    assert_int_equal(circles_of(c, svg), 2);
    assert_int_equal(count_of(svg, "nan"), 0);
    assert_int_equal(count_of(svg, "inf"), 0);
    free(svg);
}

/* A run that never got there is no circle at the epochs it was trained for. */
static void censored_points_look_different(void **state) {
    (void)state;
    sf_paper_point some[4];
    memcpy(some, points, sizeof some);
    some[0].censored = some[2].censored = true;
    sf_paper_scatter censored = scatter;
    censored.points = some;
    char *svg = written(sf_scatter_draw, &censored), *plain = written(sf_scatter_draw, &scatter);
    circle c[8];
    assert_int_equal(circles_of(c, svg), 4); /* two points and the keys of two series */
    assert_int_equal(count_of(svg, "<path d=\"M"), count_of(plain, "<path d=\"M") + 3); /* two points and a key */
    assert_int_equal(count_of(svg, "median not reached in so many epochs"), 1);
    assert_int_equal(count_of(plain, "median not reached"), 0);
    free(svg);
    free(plain);
    char *csv = written(sf_scatter_write_csv, &censored);
    assert_int_equal(count_of(csv, ",no\n"), 2);
    assert_non_null(strstr(csv, "\"even-pairs\",1,10,no\n"));
    free(csv);
}

static void as_csv(void **state) {
    (void)state;
    char *csv = written(sf_scatter_write_csv, &scatter);
    assert_string_equal(csv, "series,point,\"across\",\"up, and \"\"quoted\"\"\",reached\n"
                             "\"initial weights\",\"even-pairs\",1,10,yes\n\"initial weights\",\"stack\",2,1,yes\n"
                             "\"trained weights\",\"even-pairs\",3,10,yes\n"
                             "\"trained weights\",\"a <b> & c\",5,1,yes\n");
    free(csv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_lie_where_they_belong),
        cmocka_unit_test(one_point_has_room),
        cmocka_unit_test(censored_points_look_different),
        cmocka_unit_test(as_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
