"""Figures of long runs and of many groups: thinned curves, small multiples, colours and dashes."""
import math
import unittest
import xml.etree.ElementTree as ET

from page import CURVES, OPTIONS, SVG, Axis, Case, Page, points, read_csv, series_of


class LongRuns(Case):
    def test_long_curves_are_thinned_but_keep_their_ends(self):
        for epochs in (399, 400, 401, 801):
            words = ["compare", "even-pairs", "--attention", "full", "--seeds", "2", *OPTIONS, "--stop-at", "0", "--width", "2",
                     "--mlp-width", "2", "--train-count", "4", "--heldout-count", "4", "--epochs", epochs, "--store",
                     self.folder / "runs", "--figures", self.folder / f"figures-{epochs}", "--quiet"]
            self.good(*words, timeout=300)
            rows = read_csv(self.folder / f"figures-{epochs}" / "even-pairs-training-loss.csv")
            self.assertEqual([int(row["epoch"]) for row in rows], list(range(1, epochs + 1)))
            svg = ET.parse(self.folder / f"figures-{epochs}" / "even-pairs-training-loss.svg").getroot()
            x, y = Axis(svg, True), Axis(svg, False)
            line = next(path for path in svg.iter(f"{SVG}path") if path.get("class") == "line")
            drawn = points(line.get("d"))
            self.assertLessEqual(len(drawn), 401)
            self.assertEqual(len({place for place, _ in drawn}), len(drawn), "a point is drawn twice")
            for point, row in ((drawn[0], rows[0]), (drawn[-1], rows[-1])):
                self.assertLess(math.dist(point, (x.place(int(row["epoch"])), y.place(float(row["median"])))), 0.3)


class ManyGroups(Case):
    def test_more_groups_than_a_figure_holds(self):
        rates = [f"{0.01 * i:.3g}" for i in range(1, 21)]
        self.good("compare", "even-pairs", "--attention", "full,topk:2", "--seeds", "2", *OPTIONS, "--epochs", "3", "--lr",
                  ",".join(rates), "--out", self.folder / "report.html", "--figures", self.folder / "figures", "--plot")
        page = Page((self.folder / "report.html").read_bytes())
        names = [f"{mechanism} lr={rate}" for mechanism in ("full", "topk:2") for rate in rates]
        self.assertEqual([row[0] for row in page.rows("even-pairs")], names)
        self.assertEqual(len(page.verdicts()), len(rates))
        section = page.sections["even-pairs"]
        legend = [item.text for item in section.find("ul", "legend")[0].find("li")]
        self.assertEqual(legend, names[:len(legend)])
        self.assertIn(f"first {len(legend)} of {len(names)}", section.text)
        for figure in section.find("figure"):
            if not figure.attributes["id"].startswith("epochs-by-"):
                self.assertEqual([group.attributes["data-name"] for group in figure.find("g", "series")], legend)
        for figure in CURVES:
            rows = read_csv(self.folder / "figures" / f"even-pairs-{figure}.csv")
            self.assertEqual(list(dict.fromkeys(row["variant"] for row in rows)), names)
            svg = ET.parse(self.folder / "figures" / f"even-pairs-{figure}.svg").getroot()
            panels = [group for group in svg.iter(f"{SVG}g") if group.get("class") == "panel"]
            self.assertEqual(len(panels), len(legend))
            self.check_looks(panels)

    def test_labels_of_chance_are_clear_of_the_curves(self):
        self.good("compare", "even-pairs", "--attention", "full,topk:1,topk:2,banded:1,banded:3,block:1,block:2,bottomk:1", "--seeds", "2", *OPTIONS,
                  "--train-count", "30", "--stop-at", "0", "--epochs", "12", "--out", self.folder / "report.html", "--figures", self.folder / "figures")
        checked = 0
        for figure in ("training-accuracy", "heldout-accuracy"):
            svg = ET.parse(self.folder / "figures" / f"even-pairs-{figure}.svg").getroot()
            panels = [group for group in svg.iter(f"{SVG}g") if group.get("class") == "panel"]
            self.assertEqual(len(panels), 7)
            for panel in panels:
                level = next(float(line.get("y1")) for line in panel.iter(f"{SVG}line") if line.get("class") == "chance")
                lines = [points(path.get("d")) for path in panel.iter(f"{SVG}path") if path.get("class") == "line"]
                label, = (text for text in panel.iter(f"{SVG}text") if (text.text or "").startswith("chance"))
                right = float(label.get("x")) + (0 if label.get("text-anchor") == "end" else 76)
                below = float(label.get("y")) > level
                if below == any(y > level for line in lines for _, y in line):
                    continue  # among the curves, where fewest cross it
                checked += 1
                for line in lines:
                    for (x, y), (_, then) in zip(line, line[1:] + line[-1:]):
                        inside = max(y, then) > float(label.get("y")) - 10 and min(y, then) < float(label.get("y")) + 2
                        self.assertFalse(right - 76 < x < right and inside, (figure, label.text, x, y))
        self.assertGreater(checked, 3)

    def check_looks(self, panels):
        """No two series of a panel look the same."""
        for panel in panels:
            looks = [(path.get("stroke"), path.get("stroke-dasharray")) for path in panel.iter(f"{SVG}path")
                     if path.get("class") == "line"]
            self.assertTrue(0 < len(looks) == len(set(looks)) <= 6, looks)

    def compare(self, *words):
        self.good("compare", "even-pairs", "--seeds", "2", *OPTIONS, "--epochs", "3", *words, "--out", self.folder / "report.html",
                  "--figures", self.folder / "figures", "--store", self.folder / "runs")
        svg = ET.parse(self.folder / "figures" / "even-pairs-training-loss.svg").getroot()
        return [group for group in svg.iter(f"{SVG}g") if group.get("class") == "panel"]

    def test_many_mechanisms_have_a_panel_each(self):
        """Beside the baseline, which is in all of them."""
        names = ["full", "topk:1", "topk:2", "topk:3", "banded:1", "banded:3", "block:2", "bottomk:2"]
        panels = self.compare("--attention", ",".join(names))
        self.check_looks(panels)
        self.assertEqual([list(series_of(panel)) for panel in panels], [["full", name] for name in names[1:]])
        shown = Page((self.folder / "report.html").read_bytes()).root.find("figure", id="training-loss-0")[0].find("svg", "figure")
        self.assertEqual([[g.attributes["data-name"] for g in svg.find("g", "series")] for svg in shown],
                         [["full", name] for name in names[1:]])

    def test_a_grid_has_a_panel_for_each_comparison(self):
        panels = self.compare("--attention", "full,topk:2", "--lr", "0.01,0.02", "--norm", "pre,post")
        self.check_looks(panels)
        self.assertEqual(len(panels), 4)
        for panel in panels:
            names = list(series_of(panel))
            self.assertEqual(names[1], names[0].replace("full", "topk:2"))

    def test_colour_is_the_mechanism_and_dashes_are_settings(self):
        self.compare("--attention", "full,topk:2,banded:3", "--lr", "0.01,0.02")
        svg = ET.parse(self.folder / "figures" / "even-pairs-training-loss.svg").getroot()
        looks = {name: (path.get("stroke"), path.get("stroke-dasharray")) for name, group in series_of(svg).items()
                 for path in group.iter(f"{SVG}path") if path.get("class") == "line"}
        self.assertEqual(len(looks), 6)
        for name, (colour, dashes) in looks.items():
            for other, (their_colour, their_dashes) in looks.items():
                self.assertEqual(colour == their_colour, name.split()[0] == other.split()[0], (name, other))
                self.assertEqual(dashes == their_dashes, name.split()[1] == other.split()[1], (name, other))


if __name__ == "__main__":
    unittest.main()
