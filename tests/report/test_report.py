"""The report: figures and tables against the curves they show, the page as a document, and where it is written."""
import math
import os
import re
import shlex
import shutil
import statistics
import unittest
import xml.etree.ElementTree as ET

from page import (CURVES, FIGURES, MEASURED, MECHANISMS, NOT_A_NUMBER, OPTIONS, REGIONS, SETTINGS, STUDY, SURFACES, SWEEPS,
                  SVG, TASKS, Axis, Case, Page, StudyCase, in_folder, points, read_csv, read_json, run, series_of, without_times)

MINUS = "\u2212"


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def value_at(curve, epoch, column):
    """A run that has stopped keeps its last value."""
    return curve[min(epoch, len(curve)) - 1][column]


class Figures(StudyCase):
    def path(self, task, figure, kind):
        return self.study / "figures" / f"{task}-{figure}.{kind}"

    def test_files(self):
        self.assertEqual(sorted(os.listdir(self.study / "figures")),
                         sorted(f"{task}-{figure}.{kind}" for task in TASKS for figure in FIGURES for kind in ("csv", "svg")))
        self.assertEqual([*FIGURES, *SWEEPS, *MEASURED, *REGIONS, *SURFACES],
                         [row["name"] for row in read_json(self.good("list", "figures", "--json").out)])

    def test_curves_are_medians_and_quartiles_of_the_runs(self):
        curves = self.curves()
        lengths = {key: {len(curve) for curve in runs.values()} for key, runs in curves.items()}
        self.assertTrue(any(len(several) > 1 for several in lengths.values()), "the test's runs all stop together")
        for task in TASKS:
            for figure, column in CURVES.items():
                wanted = []
                for mechanism in MECHANISMS:
                    runs = list(curves[task, mechanism].values())
                    for epoch in range(1, max(map(len, runs)) + 1):
                        wanted.append((mechanism, epoch, len(runs),
                                       *quartiles([value_at(curve, epoch, column) for curve in runs])))
                rows = read_csv(self.path(task, figure, "csv"))
                self.assertEqual(len(rows), len(wanted), (task, figure))
                for row, (mechanism, epoch, runs, *values) in zip(rows, wanted):
                    self.assertEqual((row["variant"], int(row["epoch"]), int(row["runs"])), (mechanism, epoch, runs))
                    for name, value in zip(("q25", "median", "q75"), values):
                        self.assertAlmostEqual(float(row[name]), value, delta=1e-7 * max(1, abs(value)),
                                               msg=(task, figure, row))

    def arrivals(self):
        """For every run: the first epoch with 95 % training accuracy, or None."""
        return {(*key, seed): next((int(point["epoch"]) for point in curve if point["tr-ac"] >= 95), None)
                for key, runs in self.curves().items() for seed, curve in runs.items()}

    def test_convergence_is_that_of_the_runs(self):
        arrivals = self.arrivals()
        self.assertGreater(sum(epoch is None for epoch in arrivals.values()), 0)
        self.assertGreater(sum(epoch is not None for epoch in arrivals.values()), 0)
        found = {(task, row["variant"], int(row["seed"])): int(row["epochs"]) if row["epochs"] else None
                 for task in TASKS for row in read_csv(self.path(task, "convergence", "csv"))}
        self.assertEqual(found, arrivals)

    def test_lines_and_bands_are_where_the_axes_say(self):
        for task in TASKS:
            for figure in CURVES:
                svg = ET.parse(self.path(task, figure, "svg")).getroot()
                x, y = Axis(svg, True), Axis(svg, False)
                self.assertIs(x.scale, float)
                drawn = series_of(svg)
                self.assertEqual(list(drawn), MECHANISMS)
                rows = read_csv(self.path(task, figure, "csv"))
                for mechanism, group in drawn.items():
                    ours = [row for row in rows if row["variant"] == mechanism]
                    def places(column, ours=ours):
                        return [(x.place(float(row["epoch"])), y.place(float(row[column]))) for row in ours]
                    wanted = {"line": places("median"), "band": places("q75") + places("q25")[::-1]}
                    paths = {path.get("class"): points(path.get("d")) for path in group.iter(f"{SVG}path")}
                    self.assertEqual(paths.keys(), wanted.keys())
                    for name, found in paths.items():
                        self.assertEqual(len(found), len(wanted[name]), (task, figure, mechanism, name))
                        for one, other in zip(found, wanted[name]):
                            self.assertLess(math.dist(one, other), 0.3, (task, figure, mechanism, name, one, other))

    def test_dots_are_where_the_axis_says(self):
        arrivals = self.arrivals()
        for task in TASKS:
            svg = ET.parse(self.path(task, "convergence", "svg")).getroot()
            x = Axis(svg, True)
            labels = [float(label.get("x")) for label in svg.iter(f"{SVG}text") if label.text == "not reached"]
            rightmost = max(float(line.get("x1")) for line in svg.iter(f"{SVG}line"))
            self.assertEqual(len(labels), any(epoch is None for run, epoch in arrivals.items() if run[0] == task))
            never = max(labels, default=None)
            self.assertTrue(never is None or never - 34 > rightmost + 12, "labels of the axis overlap")
            found = {}
            for mechanism, group in series_of(svg).items():
                absent = []
                for dot in group.iter(f"{SVG}circle"):
                    seed, told, tried = re.fullmatch(r"seed (\d+): (?:epoch (\d+)|not reached in (\d+) epochs)",
                                                     dot.find(f"{SVG}title").text).groups()
                    found[task, mechanism, int(seed)] = int(told) if told else None
                    self.assertIn(tried, (None, SETTINGS["epochs"]))
                    if told:
                        self.assertAlmostEqual(float(dot.get("cx")), x.place(int(told)), delta=0.3)
                    else:
                        absent.append(float(dot.get("cx")))
                if absent:  # side by side around their label
                    self.assertEqual(len(set(absent)), len(absent))
                    self.assertGreater(min(absent), rightmost)
                    self.assertAlmostEqual(statistics.mean(absent), never, delta=0.6)
                reached = [epoch for (of, name, _), epoch in arrivals.items() if (of, name) == (task, mechanism)]
                middle = statistics.median(math.inf if epoch is None else epoch for epoch in reached)
                bars = [points(path.get("d").split("V")[0])[0][0] for path in group.iter(f"{SVG}path")]
                if math.isfinite(middle):
                    self.assertEqual(len(bars), 1)
                    self.assertAlmostEqual(bars[0], x.place(middle), delta=0.3)
                else:
                    self.assertEqual(bars, [])
            self.assertEqual(found, {key: epoch for key, epoch in arrivals.items() if key[0] == task})

    def test_drawn_within_the_frame(self):
        for path in (self.study / "figures").glob("*.svg"):
            svg = ET.parse(path).getroot()
            _, _, width, height = map(float, svg.get("viewBox").split())
            for drawn in svg.iter(f"{SVG}path"):
                for x, y in points(re.sub(r"[hV][-\d.]+", "", drawn.get("d"))):
                    self.assertTrue(0 <= x <= width and 0 <= y <= height, (path.name, x, y))
            for text in svg.iter(f"{SVG}text"):
                if text.get("x"):
                    self.assertTrue(0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height, path.name)

    def test_the_page_shows_the_same_drawings(self):
        for number, (task, section) in enumerate(self.page.sections.items()):
            shown = section.find("svg", "figure")
            self.assertEqual(len(shown), len(FIGURES))
            for figure, svg in zip(FIGURES, shown):
                alone = ET.parse(self.path(task, figure, "svg")).getroot()
                for group in svg.find("g", "series"):
                    other = series_of(alone)[group.attributes["data-name"]]
                    self.assertEqual([path.attributes["d"] for path in group.find("path")],
                                     [path.get("d") for path in other.iter(f"{SVG}path")])
                    if figure == "convergence":
                        continue
                    rows = [row for row in read_csv(self.path(task, figure, "csv"))
                            if row["variant"] == group.attributes["data-name"]]
                    for name, column in (("low", "q25"), ("median", "median"), ("high", "q75")):
                        told = list(map(float, group.attributes[f"data-{name}"].split()))
                        self.assertEqual(len(told), len(rows))
                        for one, row in zip(told, rows):
                            self.assertAlmostEqual(one, float(row[column]), delta=1e-4 * max(1, abs(one)))
            self.assertEqual(number, TASKS.index(task))


MARKS = {"nothing to compare": "–", "too few seeds": "?", "no difference found": "○", "equal": "=", "better": "▲", "worse": "▼",
         "both at chance": "–"}


def check_summary(case, page, groups):
    """The matrix says of every comparison what its verdict says, with a mark besides the colour."""
    table, = page.root.find("table", "matrix")
    tasks = list(page.sections)
    case.assertEqual([cell.text for cell in table.find("thead")[0].find("th")], ["mechanism", *tasks])
    told = {}
    for row in table.find("tbody")[0].find("tr"):
        for task, cell in zip(tasks, row.find("td"), strict=True):
            told[task, row.find("th")[0].text] = cell
    case.assertEqual(sorted(told), sorted((row["task"], row["variant"]) for row in groups))
    for row in groups:
        cell = told[row["task"], row["variant"]]
        if row["baseline"]:
            case.assertIn("baseline", cell.text)
            continue
        case.assertEqual([mark.text for mark in cell.find("i")], [MARKS[row["speed"]], MARKS[row["accuracy"]]])
        for word, p in ((row["speed"], row["p_corrected"]), (row["accuracy"], row["p_accuracy_corrected"])):
            if word in ("better", "worse", "no difference found"):
                case.assertIn(f"p\u00a0=\u00a0{p:.2g}", cell.text, row)
        if row["accuracy"] in ("better", "worse"):
            case.assertIn(f"{abs(row['accuracy_difference']):.3g} points {'more' if row['accuracy'] == 'better' else 'less'}", cell.text)
        if row["speed"] in ("better", "worse") and row["converged"] > 0:
            case.assertRegex(cell.text, r"[\d.]+× " + ("faster" if row["speed"] == "better" else "slower"))


class Document(StudyCase):
    def test_verdicts(self):
        verdicts = [row["verdict"] for row in self.groups if row["verdict"] is not None]
        self.assertEqual(len(verdicts), len(TASKS) * (len(MECHANISMS) - 1))
        self.assertEqual(self.page.verdicts(), [verdict + "." for verdict in verdicts])
        for task, section in self.page.sections.items():
            for row in self.groups:
                if row["task"] == task and row["verdict"]:
                    self.assertIn(row["verdict"], section.text)

    def test_summary(self):
        check_summary(self, self.page, self.groups)

    def test_contents(self):
        links = [link.attributes["href"] for link in self.page.root.find("nav")[0].find("a")]
        self.assertEqual(links[0], "#summary")
        for section in self.page.root.find("section"):
            self.assertIn("#" + section.attributes["id"], links)

    def test_figures_are_told_in_words(self):
        """The name of a figure ends with what was found, for those who do not see it."""
        for task in TASKS:
            groups = [row for row in self.groups if row["task"] == task]
            labels = [svg.attributes["aria-label"] for svg in self.page.sections[task].find("svg", "figure")]
            self.assertEqual(len(labels), len(FIGURES))
            for label in labels:
                self.assertTrue(label.startswith(task) and all(name in label for name in MECHANISMS), label)
            for row in groups:
                epochs = "not reached" if row["epochs_median"] is None else f"{row['epochs_median']:.4g}"
                self.assertIn(f"{row['variant']} {epochs}", labels[-1])

    def test_tables(self):
        def number(text):
            return None if text in ("not reached", "\u2013") else float(text)
        curves = self.curves()
        for task in TASKS:
            groups = [row for row in self.groups if row["task"] == task]
            rows = self.page.rows(task)
            self.assertEqual([row[0] for row in rows], MECHANISMS)
            for row, group in zip(rows, groups):
                self.assertEqual(row[1:3], [f"{group['finished']}/{group['runs']}", str(group["converged"])])
                for text, name in zip(row[3:7], ("epochs_q25", "epochs_median", "epochs_q75", "heldout_epochs_median")):
                    if group[name] is None:  # these runs stop when they have learned the training set
                        runs = curves[task, group["variant"]].values()
                        stopped = name.startswith("heldout") and any(curve[-1]["tr-ac"] >= 95 for curve in runs)
                        self.assertIn(text, ("not reached", "\u2013") if stopped else ("not reached",))
                    else:
                        self.assertAlmostEqual(number(text), group[name], delta=1e-3 * group[name])
                if group["baseline"]:
                    self.assertEqual(row[7], "baseline")
                elif group["speedup"] is not None:
                    self.assertIn(f"{group['speedup']:.3g}", row[7])
                for text, name in zip(row[9:12], ("last_heldout", "best_heldout", "gap")):
                    self.assertAlmostEqual(float(text.replace(MINUS, "-")), group[name], delta=0.06)

    def test_mechanisms_in_words(self):
        """What `list attention` says of each spelling, once per task."""
        rows = read_json(run("list", "attention", *MECHANISMS, "--json").out)
        for section in self.page.sections.values():
            shown, = section.find("details", "words")
            self.assertEqual([item.text for item in shown.find("dt")], MECHANISMS)
            self.assertEqual([item.text for item in shown.find("dd")], [row["words"] for row in rows])

    def test_the_numbers_are_those_of_the_runs(self):
        curves = self.curves()
        for group in self.groups:
            runs = curves[group["task"], group["variant"]].values()
            arrivals = [next((point["epoch"] for point in curve if point["tr-ac"] >= 95), math.inf) for curve in runs]
            self.assertEqual(group["converged"], sum(map(math.isfinite, arrivals)))
            middle = statistics.median(arrivals)
            self.assertEqual(group["epochs_median"], middle if math.isfinite(middle) else None)
            for name, value in (("last_heldout", lambda curve: curve[-1]["va-ac"]),
                                ("best_heldout", lambda curve: max(point["va-ac"] for point in curve)),
                                ("gap", lambda curve: curve[-1]["tr-ac"] - curve[-1]["va-ac"])):
                self.assertAlmostEqual(group[name], statistics.median(map(value, runs)), places=6)

    def test_no_network(self):
        for path in (self.study / "report.html", *(self.study / "figures").glob("*.svg")):
            content = path.read_text(encoding="utf-8")
            rest = content.replace("http://www.w3.org/2000/svg", "")  # a name, not an address to load
            self.assertNotRegex(rest, r"(?i)https?:|ftp:|[\"'(]//|\burl\(|@import|\bfetch\(|XMLHttpRequest|\bimport\b|eval\(")
        for element in self.page.root:
            for name in element.attributes:
                self.assertNotIn(name, ("src", "xlink:href", "srcset", "action", "data", "background", "style"))
                self.assertFalse(name.startswith("on"), name)
            if "href" in element.attributes:  # only to places of the page, and these exist
                self.assertTrue(element.tag == "a" and element.attributes["href"].startswith("#"), element.attributes)
                self.assertIn(element.attributes["href"][1:], [other.attributes.get("id") for other in self.page.root])

    def test_the_command(self):
        self.assertEqual(shlex.split(self.page.command), ["semfocus", *self.words])

    def test_settings_that_are_not_the_recipe(self):
        usual = {row["name"]: row["default"] for row in read_json(self.good("list", "settings", "--json").out)}
        recipes = {row["name"]: row["recipe"] for row in read_json(self.good("list", "tasks", "--json").out)}
        for task, section in self.page.sections.items():
            note = next(note.text for note in section.find("p", "note") if "recipe" in note.text)
            told = {name: (value, instead) for name, value, instead in
                    re.findall(r"([a-z0-9-]+) (\S+) instead of ([^\s,]*[^\s,.])", note.split(":", 1)[1])}
            recipe = {**usual, **recipes[task]}
            self.assertEqual(told, {name: (value, recipe[name]) for name, value in SETTINGS.items()
                                    if value != recipe[name] and name != "stop-at"})  # when to stop looking is no recipe
            listed = {entry.find("dt")[0].text: entry.find("dd")[0].text for dl in section.find("dl") for entry in dl.find("div")}
            for name, value in SETTINGS.items():
                self.assertEqual(listed[name], value)
            self.assertEqual(listed["attention"], "varies")
            self.assertEqual(listed["dropout"], recipe["dropout"])
            self.assertNotIn("seed", listed)

    def test_where_it_was_computed(self):
        row = read_json(self.good("runs", "--store", self.study / "runs", "--json").out)[0]
        section = next(section for section in self.page.root.find("section")
                       if section.find("h2") and "computed" in section.find("h2")[0].text)
        told = {entry.find("dt")[0].text: entry.find("dd")[0].text for entry in section.find("div")}
        self.assertEqual((told["runs"], told["isa"]), (str(len(TASKS) * len(MECHANISMS) * 6), row["isa"]))
        self.assertLessEqual({"version", "compiler", "cpu", "threads", "precision"}, told.keys())

    def test_no_numbers_that_are_none(self):
        for path in (self.study / "figures").iterdir():
            self.assertNotRegex(path.read_text(encoding="utf-8"), NOT_A_NUMBER, path.name)
        self.assertNotRegex(self.page.visible_text, NOT_A_NUMBER)


class Findings(Case):
    def test_summary_of_significant_differences(self):
        """Both ways: the baseline is the first mechanism where full attention is not among them."""
        found = set()
        for mechanisms in ("full,banded:1", "banded:1,topk:3"):
            out = self.folder / "report.html"
            groups = read_json(self.good("compare", "even-pairs,parity", "--attention", mechanisms, "--seeds", "8", *OPTIONS, "--out", out,
                                         "--store", self.folder / "runs", "--json", timeout=300).out)
            check_summary(self, Page(out.read_bytes()), groups)
            found |= {row["speed"] for row in groups}
        self.assertLessEqual({"better", "worse"}, found)


class Escaping(Case):
    def test_a_name_with_markup_and_bytes_that_are_no_text(self):
        data = os.fsencode(self.folder) + b"/a<b>&\"'\xff\xc3\xa9.tsv"
        self.good("data", "parity", "--length", 5, "--count", 60, "--out", data)
        self.good("compare", b"tsv:" + data, "--quiet", "--attention", "full,topk:2", "--seeds", "2", "--width", "8", "--mlp-width", "8",
                  "--blocks", "1", "--epochs", "2", "--out", self.folder / "report.html", "--figures", self.folder / "figures")
        page = Page((self.folder / "report.html").read_bytes())
        (task, section), = page.sections.items()
        self.assertTrue(task.endswith("/a<b>&\"'?\u00e9.tsv"), task)
        self.assertEqual(section.find("h2")[0].find("b"), [])
        self.assertIn("a<b>&\"", page.command)
        for svg in section.find("svg", "figure"):
            self.assertIn("a<b>&\"'?\u00e9.tsv", svg.attributes["aria-label"])
        files = os.listdir(os.fsencode(self.folder / "figures"))
        self.assertEqual(len(files), 2 * len(FIGURES))
        for name in files:
            if name.endswith(b".svg"):
                with open(os.fsencode(self.folder) + b"/figures/" + name, "rb") as file:
                    svg = ET.parse(file).getroot()
                self.assertIn("a<b>&\"'?\u00e9.tsv", svg.get("aria-label"))

    def test_variants_named_like_markup(self):
        study = self.write("study.ini", "task = even-pairs\nseeds = 1\nattention = full\n" +
                           "".join(f"{name} = {value}\n" for name, value in SETTINGS.items()) +
                           "[<script>alert(1)</script>]\n[a \"quoted\" & 'other']\nlr = 0.01\n")
        self.good("study", study, "--out", self.folder / "report.html", "--figures", self.folder / "figures")
        names = ["<script>alert(1)</script>", "a \"quoted\" & 'other'"]
        page = Page((self.folder / "report.html").read_bytes())
        self.assertEqual(len(page.root.find("script")), 1)
        self.assertEqual([row[0] for row in page.rows("even-pairs")], names)
        self.assertEqual([item.text for item in page.root.find("ul", "legend")[0].find("li")], names)
        for figure in CURVES:
            path = self.folder / "figures" / f"even-pairs-{figure}"
            self.assertEqual(list(dict.fromkeys(row["variant"] for row in read_csv(f"{path}.csv"))), names)
            self.assertEqual(list(series_of(ET.parse(f"{path}.svg").getroot())), names)

    def test_every_task_has_files_of_its_own(self):
        """Also where names differ only in characters that a file's name cannot have, or only near the end."""
        (self.folder / "a").mkdir()
        long = "n" * 150
        paths = ["a/b.tsv", "a-b.tsv", f"{long}1.tsv", f"{long}2.tsv"]
        for seed, path in enumerate(paths):
            self.good("data", "parity", "--length", 5, "--count", 60, "--seed", seed, "--out", self.folder / path)
            self.good("compare", f"tsv:{self.folder / path}", "--quiet", "--attention", "full,topk:2", "--seeds", "1", "--width", "8",
                      "--mlp-width", "8", "--blocks", "1", "--epochs", "2", "--store", self.folder / "runs", "--figures",
                      self.folder / f"alone-{seed}")
        self.good("report", "--store", self.folder / "runs", "--figures", self.folder / "figures")
        together = {path.read_bytes() for path in (self.folder / "figures").iterdir()}
        for seed, path in enumerate(paths):
            for file in (self.folder / f"alone-{seed}").iterdir():
                self.assertTrue(file.read_bytes() in together, f"{path}: {file.name} is lost among the figures of all tasks")


class ReportVerb(StudyCase):
    def report(self, *words, **options):
        return self.good("report", "--store", self.study / "runs", *words, **options)

    def test_says_what_compare_says(self):
        self.assertEqual(read_json(self.report("--json").out), self.groups)
        self.report("--out", self.folder / "page.html")
        page = Page((self.folder / "page.html").read_bytes())
        self.assertEqual(page.verdicts(), self.page.verdicts())
        for task in TASKS:
            self.assertEqual(page.rows(task), self.page.rows(task))
        def table(text):
            return [line for line in text.splitlines() if re.match(r"(full|topk:2|banded:3) +6/6 ", line)]
        again = self.good(*in_folder(self.study, STUDY), "--quiet", "--out", self.folder / "again.html", cwd=self.study)
        self.assertEqual(table(self.report().out), table(again.out))
        self.assertEqual(len(table(again.out)), len(self.groups))

    def test_figures(self):
        self.report("--figures", self.folder / "figures")
        for path in (self.study / "figures").iterdir():
            self.assertEqual((self.folder / "figures" / path.name).read_bytes(), path.read_bytes(), path.name)

    def test_where(self):
        self.report("--where", "task = 'parity' AND attention <> 'banded:3'", "--out", self.folder / "page.html")
        page = Page((self.folder / "page.html").read_bytes())
        self.assertEqual(list(page.sections), ["parity"])
        self.assertEqual(page.rows("parity"), self.page.rows("parity")[:2])
        rows = read_json(self.report("--where", "seed = 153476998", "--json").out)
        self.assertEqual([row["runs"] for row in rows], [1] * len(self.groups))
        for where in ("0", "task = 'absent'"):
            self.refused("report", "--store", self.study / "runs", "--where", where, mentions=["where"])
        self.refused("report", "--store", self.study / "runs", "--where", "seed >", mentions=["where"])
        self.refused("report", "--store", self.folder / "absent", mentions=["absent"])

    def test_to_standard_output(self):
        for words in ([], ["--plot"], ["--quiet"]):
            page = Page(self.report("--out", "-", *words, cwd=self.folder).raw)
            self.assertTrue(page.content.startswith(b"<!DOCTYPE html>") and page.content.endswith(b"</html>\n"))
            self.assertEqual(page.verdicts(), self.page.verdicts())
        self.assertEqual(os.listdir(self.folder), [])
        self.refused(*in_folder(self.study, STUDY), "--out", "-", cwd=self.study, mentions=["out"])

    def test_quiet_and_json(self):
        """Results are what is left when nothing else is printed."""
        page = ["--out", self.folder / "page.html"]
        for words in ([], ["--json"]):
            self.assertEqual(self.report("--quiet", *words, *page).out, self.report(*words, *page).out)
        self.assertNotIn("report:", self.report("--json").out)

    def test_plot(self):
        out = self.report("--plot").out
        plots = re.findall(r"(?m)^(\S+): (Training|Held-out) accuracy \(%\), median over seeds$", out)
        self.assertEqual(plots, [(task, which) for task in TASKS for which in ("Training", "Held-out")])
        plot = out[out.index(f"{TASKS[0]}: Training accuracy"):out.index("report:")]
        self.assertLessEqual(max(map(len, plot.splitlines())), 80)
        for mark, name in zip("ox+", MECHANISMS):
            self.assertEqual(len(re.findall(rf"(?m)^ +{re.escape(mark)} {name}$", plot)), 4)

    def test_plot_is_where_its_axis_says(self):
        """Every mark is within a row of its value."""
        out = self.report("--plot", "--where", "attention = 'topk:2' AND task = 'even-pairs'").out
        for title, figure in (("Training", "training-accuracy"), ("Held-out", "heldout-accuracy")):
            lines = out[out.index(f"{title} accuracy"):].splitlines()[1:]
            rows = lines[:next(i for i, line in enumerate(lines) if line.strip().startswith("+--"))]
            labels = [(i, float(row.split("|")[0])) for i, row in enumerate(rows) if row.split("|")[0].strip()]
            (first, high), (last, low) = labels[0], labels[-1]
            columns = len(lines[len(rows)].strip()) - 1
            values = [float(row["median"]) for row in read_csv(self.study / "figures" / f"even-pairs-{figure}.csv")
                      if row["variant"] == "topk:2"]
            self.assertRegex(lines[len(rows) + 1], rf"^ +1 +{len(values)}  epoch$")
            for column in range(columns):
                marks = [i for i, row in enumerate(rows) if row.split("|")[1].ljust(columns)[column] == "o"]
                self.assertEqual(len(marks), 1)
                told = high + (low - high) * (marks[0] - first) / (last - first)
                epoch = round(column / (columns - 1) * (len(values) - 1))
                near = values[max(0, epoch - 1):epoch + 2]
                step = (high - low) / (last - first)
                self.assertTrue(min(near) - step <= told <= max(near) + step, (column, told, near))


class Places(StudyCase):
    WORDS = ["compare", "even-pairs", "--attention", "full,topk:2", "--seeds", "2", *OPTIONS, "--epochs", "3"]

    def test_a_file_of_somebody_else(self):
        for content in (b"mine", b"<!DOCTYPE html>\n<html><head><title>mine</title></head></html>\n", b"\0" * 5000):
            path = self.write("report.html", content)
            for words in (self.WORDS, ["report", "--store", self.study / "runs"]):
                self.refused(*words, mentions=["report.html", "--out"], cwd=self.folder)
                self.assertEqual(path.read_bytes(), content)
                self.assertEqual(os.listdir(self.folder), ["report.html"], "it trained before it looked")

    def test_an_earlier_report_is_replaced(self):
        shutil.copy(self.study / "report.html", self.folder)
        self.good(*self.WORDS, cwd=self.folder)
        page = Page((self.folder / "report.html").read_bytes())
        self.assertEqual(list(page.sections), ["even-pairs"])
        self.good("report", "--store", self.study / "runs", cwd=self.folder)
        self.assertEqual(len(Page((self.folder / "report.html").read_bytes()).sections), 2)
        self.assertEqual(sorted(os.listdir(self.folder)), ["report.html", "semfocus-runs"])

    def test_places_where_nothing_can_be_written(self):
        self.write("file", "")
        (self.folder / "folder").mkdir()
        before = sorted(os.listdir(self.folder))
        for out in ("absent/report.html", "file/report.html", "folder", "x" * 300 + ".html"):
            with self.subTest(out[:40]):
                result = run("report", "--store", self.study / "runs", "--out", out, cwd=self.folder)
                self.assertIn(result.code, (1, 2), result)
                self.one_sentence(result, out[:40])
                self.assertEqual(sorted(os.listdir(self.folder)), before)
        for out in ("absent/report.html", "file/report.html", "folder", "x" * 300 + ".html"):
            shutil.rmtree(self.folder / "semfocus-runs", ignore_errors=True)
            with self.subTest(out[:40]):  # before hours of work, not after
                result = run(*self.WORDS, "--out", out, cwd=self.folder)
                self.assertIn(result.code, (1, 2), result)
                self.one_sentence(result, out[:40])
                self.assertEqual(sorted(os.listdir(self.folder)), before, f"it trained first{result}")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_folder_without_permission(self):
        (self.folder / "closed").mkdir(mode=0o500)
        result = run("report", "--store", self.study / "runs", "--out", "closed/report.html", cwd=self.folder)
        self.assertEqual(result.code, 1, result)
        self.one_sentence(result, "closed/report.html")

    def test_figures_where_none_can_be_written(self):
        self.write("file", "mine")
        for figures in ("file", "absent/figures", "file/figures"):
            with self.subTest(figures):
                result = run("report", "--store", self.study / "runs", "--figures", figures, cwd=self.folder)
                self.assertEqual(result.code, 1, result)
                self.one_sentence(result, figures)
                self.assertEqual((self.folder / "file").read_text(), "mine")

    @unittest.skipUnless(os.path.exists("/dev/full"), "this system has no /dev/full")
    def test_full_disk(self):
        for words in (["report", "--store", "runs"], ["report", "--store", "runs", "--json"],
                      ["report", "--store", "runs", "--out", "-"], ["report", "--store", "runs", "--plot", "--quiet"],
                      in_folder(self.study, STUDY)):
            places = ["--out", self.folder / "report.html"] if "-" not in words else []
            with self.subTest(words), open("/dev/full", "wb") as full:
                result = run(*words, *places, stdout=full, cwd=self.study)
                self.assertEqual(result.code, 1, result)
                self.one_sentence(result, "No space left")


class Determinism(StudyCase):
    def test_twice(self):
        before = {path.name: path.read_bytes() for path in (self.study / "figures").iterdir()}
        self.good(*self.words, cwd=self.study)
        self.assertEqual(without_times((self.study / "report.html").read_bytes()), without_times(self.content))
        self.assertEqual({path.name: path.read_bytes() for path in (self.study / "figures").iterdir()}, before)

    def test_threads(self):
        """The number of threads is in the study file and not in the command, so that only the table of the environment
        may show it; everything else is the same."""
        pages, figures = [], []
        for threads in (1, 2):
            folder = self.folder / str(threads)
            folder.mkdir()
            (folder / "study.ini").write_text(
                f"task = {', '.join(TASKS)}\nattention = {', '.join(MECHANISMS)}\nseeds = 3\nthreads = {threads}\n" +
                "".join(f"{name} = {value}\n" for name, value in SETTINGS.items()))
            self.good(*in_folder(folder, ["study", "study.ini"]), cwd=folder)
            page = without_times((folder / "report.html").read_bytes())
            pages.append(re.sub(rb"<div><dt>threads</dt><dd>\d+</dd></div>", b"", page))
            figures.append({path.name: path.read_bytes() for path in (folder / "figures").iterdir()})
        self.assertEqual(pages[0], pages[1])
        self.assertEqual(figures[0], figures[1])


if __name__ == "__main__":
    unittest.main()
