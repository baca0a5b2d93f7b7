"""Measures over training, regions of the conditions and loss surfaces: in a report where the store has them, and right."""
import math
import os
import random
import re
import shutil
import statistics
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

from page import FIGURES, MEASURED, REGIONS, Case, Page, read_csv, read_json, run, seal, tick_value

SVG = "{http://www.w3.org/2000/svg}"
TINY = ["--length", "8", "--train-count", "60", "--heldout-count", "40", "--blocks", "2", "--width", "8", "--mlp-width", "8",
        "--epochs", "4", "--batch", "10"]
STUDY = ["compare", "even-pairs", "--attention", "full,topk:2,topk:3,banded:3", "--seeds", "3", *TINY]
SHOWN = {"separation": ["50", "25", "10", "5"]}
UPPER = ["50", "75", "90", "95"]


def left_side(condition, delta_s, beta, c1, c2):
    """The conditions as they are published."""
    if condition == "w":
        return c1 + math.log(2 * (1 + 1 / (c2 * delta_s))) / delta_s
    return c1 + math.log(delta_s * (1 + beta) * (1 + 1 / (c2 * delta_s)) + beta) / delta_s - math.log(delta_s + 1) / delta_s


def polygon(path):
    return [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([^MLZ]+)", path)]


def is_inside(corners, x, y):
    """By crossings of a ray."""
    inside = False
    for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1]):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
            inside = not inside
    return inside


def third_panel(svg):
    """Functions from c1 and c2 to places in the third panel, from the numbers at its axes."""
    panel = [group for group in svg.iter(f"{SVG}g") if group.get("class") == "panel"][2]
    labels = [label for label in panel.iter(f"{SVG}text") if label.get("class") == "tick" and label.get("text-anchor")]
    xs = sorted((float(label.get("x")), tick_value(label.text)) for label in labels if label.get("text-anchor") == "middle")
    ys = sorted((float(label.get("y")) - 4, tick_value(label.text)) for label in labels if label.get("text-anchor") == "end")
    (x1, v1), (x2, v2), (y1, u1), (y2, u2) = xs[0], xs[-1], ys[0], ys[-1]
    u1, u2 = math.log10(u1), math.log10(u2)
    return (lambda c1: x1 + (c1 - v1) / (v2 - v1) * (x2 - x1),
            lambda c2: y1 + (math.log10(c2) - u1) / (u2 - u1) * (y2 - y1))


class Measured(Case):
    """One small study that records measures; none of the tests changes it."""

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="semfocus-evidence-")
        cls.addClassCleanup(place.cleanup)
        cls.study = Path(place.name)
        done = run(*STUDY, "--every", "2", "--figures", "figures", "--out", "report.html", "--store", "runs",
                   cwd=cls.study, timeout=300)
        assert (done.code, done.err) == (0, ""), done
        cls.page = Page((cls.study / "report.html").read_bytes())
        listed = run("runs", "--store", cls.study / "runs", "--json")
        cls.runs = {(row["attention"], row["seed"]): row["id"] for row in read_json(listed.out)}

    def measures(self):
        """Recorded quantiles over all blocks: by mechanism, seed, epoch and measure."""
        found = {}
        for (attention, seed), name in self.runs.items():
            for row in read_json(self.good("analyze", name, "--curves", "--json", "--store", self.study / "runs").out):
                if row["block"] is None:
                    found[attention, seed, row["epoch"], row["measure"]] = row["quantiles"]
        return found

    def test_files_and_page(self):
        wanted = [*FIGURES, *MEASURED, *REGIONS]
        self.assertEqual(sorted(os.listdir(self.study / "figures")),
                         sorted(f"even-pairs-{figure}.{kind}" for figure in wanted for kind in ("csv", "svg")))
        section, = self.page.sections.values()
        self.assertEqual([figure.attributes["id"] for figure in section.find("figure")], [f"{name}-0" for name in wanted])

    def test_curves_are_medians_of_what_analyze_tells(self):
        measures = self.measures()
        seeds = sorted({seed for _, seed in self.runs})
        for figure, measure in MEASURED.items():
            percents = SHOWN.get(figure, UPPER)
            rows = read_csv(self.study / "figures" / f"even-pairs-{figure}.csv")
            mechanisms = ["topk:2", "topk:3"] if figure == "separation" else ["full", "topk:2", "topk:3", "banded:3"]
            self.assertEqual([(row["variant"], row["epoch"], row["runs"]) for row in rows],
                             [(name, str(epoch), "3") for name in mechanisms for epoch in (0, 2, 4)])
            for row in rows:
                for percent in percents:
                    values = [measures[row["variant"], seed, int(row["epoch"]), measure][percent] for seed in seeds]
                    self.assertAlmostEqual(float(row["q" + percent]), statistics.median(values),
                                           delta=1e-8 * (1 + max(values)), msg=(figure, row))

    def test_every_series_is_drawn_once_a_panel(self):
        for figure in MEASURED:
            svg = ET.parse(self.study / "figures" / f"even-pairs-{figure}.svg").getroot()
            names = [group.get("data-name") for group in svg.iter(f"{SVG}g") if group.get("data-name")]
            mechanisms = ["topk:2", "topk:3"] if figure == "separation" else ["full", "topk:2", "topk:3", "banded:3"]
            self.assertEqual(names, 4 * mechanisms, figure)

    def test_points_are_those_of_analyze(self):
        """The held-out set is smaller than what is recorded of: the last recorded epoch is what analyze sees."""
        result = read_json(self.good("analyze", *self.runs.values(), "--json", "--store", self.study / "runs", "--figures",
                                     self.folder / "figures").out)
        names = {name: key for key, name in self.runs.items()}
        self.assertEqual(len(result["comparisons"]), 6)
        wanted = {(*names[c["sparse"]], place["percent"]): place for c in result["comparisons"] for place in c["quantiles"]}
        for condition in ("w", "x"):
            for path in (self.study / "figures" / f"even-pairs-region-{condition}.csv",
                         self.folder / "figures" / f"region-{condition}.csv"):
                rows = [row for row in read_csv(path) if row["kind"] == "point"]
                self.assertEqual(len(rows), 6 * 4)
                for row in rows:
                    place = wanted[row["variant"], int(row["seed"]), float(row["percent"])]
                    k = int(row["variant"][-1])
                    for name, value in (("delta_s", place["delta_s"]), ("beta", place["in_degree"] / k),
                                        ("c1", place["delta_h"] / place["delta_s"]),
                                        ("c2", place["separation"] / place["delta_s"]), ("left_side", place[condition])):
                        self.assertAlmostEqual(float(row[name]), value, delta=1e-8 * abs(value), msg=(path, row, name))

    def test_edges_are_where_the_condition_is_one(self):
        for condition in ("w", "x"):
            rows = read_csv(self.study / "figures" / f"even-pairs-region-{condition}.csv")
            edges = [{name: float(row[name]) for name in ("delta_s", "beta", "c1", "c2")} for row in rows
                     if row["kind"] != "point"]
            self.assertEqual({row["kind"] for row in rows}, {"point", "area", "line"})
            for edge in edges:
                side = left_side(condition, **edge)
                self.assertTrue(abs(side - 1) < 1e-7 if edge["c1"] > 0 else side >= 1 - 1e-7, (condition, edge, side))

    def check_drawing(self, path, condition):
        """How many of the random places are inside."""
        draws, inside = random.Random(5), 0
        svg = ET.parse(path).getroot()
        areas = [area for area in svg.iter(f"{SVG}path") if area.get("class") == "area"]
        self.assertEqual(len(areas), 4)
        area, (x_of, y_of) = areas[2], third_panel(svg)
        corners = polygon(area.get("d"))
        delta_s, beta = float(area.get("data-dispersion")), float(area.get("data-sink-ratio"))
        for _ in range(2000):
            c1, c2 = draws.uniform(0.005, 1.2), 10 ** draws.uniform(-4, 0)
            side = left_side(condition, delta_s, beta, c1, c2)
            if abs(side - 1) > 0.03:  # the edge is drawn to a pixel
                self.assertEqual(is_inside(corners, x_of(c1), y_of(c2)), side < 1, (condition, c1, c2, side))
                inside += side < 1
        rows = [row for row in read_csv(path.with_suffix(".csv")) if row["kind"] == "point"]
        marks = [mark for mark in svg.iter(f"{SVG}path") if mark.get("class", "").startswith("mark")]
        rows.sort(key=lambda row: float(row["percent"]))  # stable: within a panel in the order of the file
        self.assertEqual([mark.get("class") == "mark holds" for mark in marks],
                         [left_side(condition, *(float(row[name]) for name in ("delta_s", "beta", "c1", "c2"))) < 1
                          for row in rows])
        for mark, row in zip(marks, rows):
            if row["percent"] == "95":
                x, y = map(float, re.match(r"M(\S+) ([\d.]+)", mark.get("d")).groups())
                self.assertAlmostEqual(x, x_of(float(row["c1"])), delta=0.2)
                self.assertAlmostEqual(y, y_of(float(row["c2"])), delta=0.2)
        return inside

    def test_inside_by_the_formula_is_inside_the_drawing(self):
        """As measured, and with a delta_s like that of trained models."""
        self.copy_store()
        self.sql("UPDATE measures SET q75 = 5, q90 = 9, q95 = 12, q100 = 25 WHERE measure = 'delta_s' AND block = -1")
        self.good("report", "--store", self.folder / "runs", "--figures", self.folder / "figures")
        for condition in ("w", "x"):
            name = f"even-pairs-region-{condition}.svg"
            self.check_drawing(self.study / "figures" / name, condition)
            self.assertGreater(self.check_drawing(self.folder / "figures" / name, condition), 500)

    def test_both_sides_of_an_edge_are_drawn(self):
        """A point that holds and one that does not: delta_s is set large in a copy of the store."""
        self.copy_store()
        seed = min(seed for _, seed in self.runs)
        self.sql("UPDATE measures SET q75 = 60, q90 = 60, q95 = 60 WHERE measure = 'delta_s' AND block = -1 AND run ="
                 f" (SELECT number FROM runs WHERE attention = 'full' AND seed = {seed})")
        self.good("report", "--store", self.folder / "runs", "--figures", self.folder / "figures")
        for condition in ("w", "x"):
            svg = ET.parse(self.folder / "figures" / f"even-pairs-region-{condition}.svg").getroot()
            marks = [mark.get("class") for mark in svg.iter(f"{SVG}path") if mark.get("class", "").startswith("mark")]
            self.assertGreaterEqual(marks.count("mark holds"), 6)  # two mechanisms at three quantiles
            self.assertGreaterEqual(marks.count("mark"), 6)

    def copy_store(self):
        shutil.copytree(self.study / "runs", self.folder / "runs")

    def sql(self, text):
        with seal.changed(self.folder / "runs") as database:
            database.execute(text)

    def test_values_that_are_none(self):
        """Measures that are not defined anywhere leave their figures out; the rest stays."""
        self.copy_store()
        self.sql("UPDATE measures SET q0 = NULL, q5 = NULL, q10 = NULL, q25 = NULL, q50 = NULL WHERE measure = 'separation'")
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html")
        page = Page((self.folder / "report.html").read_bytes())
        names = {figure.attributes["id"] for figure in page.root.find("figure")}
        self.assertIn("dispersion-0", names)
        self.assertFalse(names & {"separation-0", "region-w-0", "region-x-0"})

    def test_surfaces_appear_with_the_runs_they_belong_to(self):
        self.copy_store()
        seed = min(seed for _, seed in self.runs)
        chosen = [self.runs["topk:3", seed], self.runs["full", seed]]
        self.good("landscape", *chosen, "--grid", 5, "--samples", 20, "--store", self.folder / "runs", "--quiet", "--out",
                  self.folder / "landscape.html")
        self.good("landscape", chosen[0], "--grid", 7, "--samples", 20, "--store", self.folder / "runs", "--quiet", "--out",
                  self.folder / "landscape.html", "--at", "init")  # not of the newest weights
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html", "--figures",
                  self.folder / "figures")
        page = Page((self.folder / "report.html").read_bytes())
        names = [figure.attributes["id"] for figure in page.root.find("figure")]
        self.assertEqual(names[-3:], [f"surface-loss-{chosen[1]}-0", f"surface-loss-{chosen[0]}-0", "lipschitz-0"])
        curves, = (figure for figure in page.root.find("figure") if figure.attributes["id"] == "lipschitz-0")
        legend = {item.text.strip(): item.attributes for item in page.root.find("li") if "data-series" in item.attributes}
        series = {(g.attributes["data-series"], g.attributes["class"].split()[1]) for g in curves.find("g", "series")}
        self.assertEqual(series, {(legend[name]["data-series"], legend[name]["class"].split()[0])
                                  for name in ("full", "topk:3")})
        self.good("landscape", *chosen, "--grid", 5, "--samples", 20, "--store", self.folder / "runs", "--quiet", "--out",
                  self.folder / "landscape.html", "--figures", self.folder / "alone")
        for name in os.listdir(self.folder / "alone"):
            if name.endswith(".csv"):
                mine = sorted((self.folder / "figures" / f"even-pairs-{name}").read_text().splitlines())
                self.assertEqual(mine, sorted((self.folder / "alone" / name).read_text().splitlines()), name)

    def survey(self, grid, *mechanisms):
        seed = min(seed for _, seed in self.runs)
        chosen = [self.runs[name, seed] for name in mechanisms]
        self.good("landscape", *chosen, "--grid", grid, "--samples", 20, "--store", self.folder / "runs", "--quiet")

    def shown_surfaces(self):
        """Points along a side and mechanisms shown, and whether their constants are, in page and files alike."""
        figures = self.folder / "figures"
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html", "--figures", figures)
        ids = {name: mechanism for (mechanism, _), name in self.runs.items()}
        page = Page((self.folder / "report.html").read_bytes())
        names = [figure.attributes["id"][:-2] for figure in page.root.find("figure")]
        shown = [name.removeprefix("surface-loss-") for name in names if name.startswith("surface-loss-")]
        files = {name: len(read_csv(figures / f"even-pairs-surface-{name}.csv")) for name in shown}
        self.assertEqual({path.stem for path in figures.glob("*surface-loss*")},
                         {f"even-pairs-surface-loss-{name}" for name in shown})
        for kind in ("svg", "csv"):
            self.assertEqual((figures / f"even-pairs-lipschitz.{kind}").exists(), "lipschitz" in names)
        points, = set(files.values())
        shutil.rmtree(figures)
        return math.isqrt(points), {ids[name] for name in shown}, "lipschitz" in names

    def test_the_finest_plane_that_two_share_is_shown(self):
        """However many mechanisms a coarser one has; without slopes only where there is no other."""
        self.copy_store()
        self.survey(3, "full", "topk:3", "banded:3")
        self.assertEqual(self.shown_surfaces(), (3, {"full", "topk:3", "banded:3"}, False))
        self.survey(6, "full")
        self.assertEqual(self.shown_surfaces(), (6, {"full"}, True))
        self.survey(4, "full", "topk:2", "topk:3", "banded:3")
        self.assertEqual(self.shown_surfaces(), (4, {"full", "topk:2", "topk:3", "banded:3"}, True))
        self.survey(5, "full", "topk:3")
        self.assertEqual(self.shown_surfaces(), (5, {"full", "topk:3"}, True))
        self.sql("UPDATE surface_points SET loss = NULL")
        self.assertEqual(self.shown_surfaces(), (5, {"full", "topk:3"}, False))

    def test_unfinished_surfaces_are_not_shown(self):
        self.copy_store()
        name = self.runs["full", min(seed for _, seed in self.runs)]
        self.good("landscape", name, "--grid", 3, "--samples", 20, "--store", self.folder / "runs", "--quiet", "--out",
                  self.folder / "landscape.html")
        self.sql("DELETE FROM surface_points WHERE point = 2")
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html")
        self.assertNotIn(b"surface-loss", (self.folder / "report.html").read_bytes())


class Partly(Case):
    def figures(self, *words):
        self.good("compare", "even-pairs", "--seeds", 2, *TINY, "--store", self.folder / "runs", "--out",
                  self.folder / "report.html", *words)
        page = Page((self.folder / "report.html").read_bytes())
        return [figure.attributes["id"][:-2] for figure in page.root.find("figure")]

    def test_one_mechanism(self):
        self.assertEqual(self.figures("--attention", "full", "--every", 4),
                         [*FIGURES, "dispersion", "kept-dispersion", "in-degree", "effective-keys", "entropy"])

    def test_pairs_need_the_same_settings(self):
        self.good("train", "even-pairs", "--attention", "full", *TINY, "--lr", "0.3", "--every", 4, "--store",
                  self.folder / "runs")
        self.good("train", "even-pairs", "--attention", "topk:3", *TINY, "--every", 4, "--store", self.folder / "runs")
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html")
        page = Page((self.folder / "report.html").read_bytes())
        self.assertEqual([figure.attributes["id"][:-2] for figure in page.root.find("figure")], [*FIGURES, *MEASURED])

    def test_without_measures(self):
        self.assertEqual(self.figures("--attention", "full,topk:3"), FIGURES)

    def test_epochs_that_the_command_leaves_out(self):
        """A study that asks for fewer epochs than the store holds shows no later measures."""
        self.figures("--attention", "full,topk:3", "--every", 1)
        self.figures("--attention", "full,topk:3", "--epochs", 2, "--figures", self.folder / "figures")
        rows = read_csv(self.folder / "figures" / "even-pairs-dispersion.csv")
        self.assertEqual({row["epoch"] for row in rows}, {"0", "1", "2"})

    def test_pairs_are_of_one_epoch(self):
        """Full attention was measured at 0, 2 and 4, its partner at 0, 1 and 2: both at 2."""
        words = ["train", "even-pairs", *TINY, "--store", self.folder / "runs"]
        self.good(*words, "--attention", "full", "--every", 2)
        self.good(*words, "--attention", "topk:3", "--every", 1, "--epochs", 2)
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html", "--figures",
                  self.folder / "figures")
        values = {}
        for row in read_json(self.good("runs", "--store", self.folder / "runs", "--json").out):
            for point in read_json(self.good("analyze", row["id"], "--curves", "--json", "--store", self.folder / "runs").out):
                if point["block"] is None:
                    values[row["attention"], point["measure"], point["epoch"]] = point["quantiles"]
        rows = [row for row in read_csv(self.folder / "figures" / "even-pairs-region-w.csv") if row["kind"] == "point"]
        self.assertEqual(len(rows), 4)
        for row in rows:
            delta_s, delta_h = values["full", "delta_s", 2][row["percent"]], values["topk:3", "delta_h", 2][row["percent"]]
            self.assertAlmostEqual(float(row["delta_s"]), delta_s, delta=1e-8 * delta_s)
            self.assertAlmostEqual(float(row["c1"]), delta_h / delta_s, delta=1e-8)

    def test_runs_measured_at_other_epochs(self):
        """Each run counts with its last measurement."""
        words = ["even-pairs", "--attention", "full", *TINY, "--store", self.folder / "runs"]
        self.good("train", *words, "--seed", 1, "--every", 1)
        self.good("train", *words, "--seed", 2, "--every", 3)
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html", "--figures",
                  self.folder / "figures")
        values = {}
        for row in read_json(self.good("runs", "--store", self.folder / "runs", "--json").out):
            for point in read_json(self.good("analyze", row["id"], "--curves", "--json", "--store", self.folder / "runs").out):
                if point["block"] is None and point["measure"] == "delta_s":
                    values[row["seed"], point["epoch"]] = point["quantiles"]["90"]
        rows = read_csv(self.folder / "figures" / "even-pairs-dispersion.csv")
        self.assertEqual([row["epoch"] for row in rows], ["0", "1", "2", "3", "4"])
        for row in rows:
            epoch = int(row["epoch"])
            wanted = (values[1, epoch] + values[2, 3 * (epoch // 3)]) / 2
            self.assertAlmostEqual(float(row["q90"]), wanted, delta=1e-8 * wanted)


if __name__ == "__main__":
    unittest.main()
