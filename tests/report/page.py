"""What the tests of the report share: a small real study, and the page as a tree of elements."""
import csv
import json
import math
import re
import sqlite3
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from harness import PROGRAM, ROOT, Case, Result, last_wins, read_json, run, seal  # noqa: E402  pylint: disable=wrong-import-position,unused-import

SVG = "{http://www.w3.org/2000/svg}"
NOT_A_NUMBER = re.compile(r"(?i)(?<![a-z])(nan|inf|infinity)(?![a-z])")
TASKS = ["even-pairs", "parity"]
MECHANISMS = ["full", "topk:2", "banded:3"]
# Small enough for seconds, large enough that some runs stop early and others never do.
SETTINGS = {"length": "4", "train-count": "60", "heldout-count": "40", "blocks": "1", "width": "16", "mlp-width": "16",
            "optimizer": "adam", "lr": "0.02", "epochs": "40", "stop-at": "95"}
OPTIONS = [word for name, value in SETTINGS.items() for word in (f"--{name}", value)]
STUDY = ["compare", ",".join(TASKS), "--attention", ",".join(MECHANISMS), "--seeds", "6", *OPTIONS]
CURVES = {"training-loss": "tr-ce", "training-accuracy": "tr-ac", "heldout-accuracy": "va-ac"}
FIGURES = [*CURVES, "convergence"]
SWEEPS = ["epochs-by-SETTING"]  # only where a setting varies
# What a report shows only where the store knows it: recorded measures, and loss surfaces.
MEASURED = {"dispersion": "delta_s", "kept-dispersion": "delta_h", "separation": "separation", "in-degree": "in_degree",
            "effective-keys": "effective_keys", "entropy": "entropy"}
REGIONS = ["region-w", "region-x"]
SURFACES = ["surface-loss", "surface-accuracy", "lipschitz"]

VOID = {"meta", "br", "hr", "img", "link", "input", "col", "wbr"}
TIME = re.compile(rb'<span class="time">[^<]*</span>')


def without_times(content):
    """A page without what may differ between two that say the same."""
    return TIME.sub(b"", content)


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def tick_value(label):
    """The number that a label of an axis shows: 0.5, 10\u207b\u00b3, 5\u00b710\u207b\u00b3."""
    power = re.fullmatch("(?:([25])\u00b7)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", label)
    if power is None:
        return float(label.replace("\u2212", "-"))
    return float(power[1] or 1) * 10.0 ** int(power[2].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))


class Axis:
    """Places and values of an axis, from what a reader sees: its ticks. Linear or logarithmic, whichever fits."""

    def __init__(self, svg, horizontal):
        same, place = ("x1", "x2") if horizontal else ("y1", "y2"), "x1" if horizontal else "y1"
        children = list(svg)
        self.ticks = [(float(line.get(place)), tick_value(label.text)) for line, label in zip(children, children[1:])
                      if line.get("class") == "grid" and line.get(same[0]) == line.get(same[1])]
        assert len(self.ticks) >= 2, "fewer than two ticks"
        for self.scale in (float, math.log10):
            if all(tick > 0 or self.scale is float for _, tick in self.ticks) and \
               all(abs(self.place(tick) - at) < 0.2 for at, tick in self.ticks):
                return
        raise AssertionError(f"the ticks are neither linear nor logarithmic: {self.ticks}")

    def place(self, value):
        (first, low), (last, high) = self.ticks[0], self.ticks[-1]
        low, high = self.scale(low), self.scale(high)
        return first + (self.scale(value) - low) / (high - low) * (last - first)


def points(path):
    """M62.0 10.5L70.0 20.0 as pairs of numbers."""
    return [tuple(map(float, pair.split())) for pair in re.findall(r"[ML]([^MLZ]+)", path)]


def series_of(svg):
    return {group.get("data-name"): group for group in svg.iter(f"{SVG}g") if "series" in group.get("class", "").split()}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children = []

    def __iter__(self):
        """Itself and everything inside, in the order of the document."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    def find(self, tag, name=None, **attributes):
        """Elements inside of this tag, class name and attributes."""
        return [element for element in self
                if element.tag == tag and (name is None or name in element.attributes.get("class", "").split())
                and all(element.attributes.get(key) == value for key, value in attributes.items())]

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Reader(HTMLParser):
    """Builds the tree and refuses what a browser would have to repair."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = self.current = Element("", {}, None)

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self.current)
        self.current.children.append(element)
        if tag not in VOID:
            self.current = element

    def handle_startendtag(self, tag, attrs):
        within = self.current
        while within is not None and within.tag != "svg":
            within = within.parent
        assert within is not None or tag in VOID, f"<{tag}/> does not end itself outside of svg, {self.getpos()}"
        self.handle_starttag(tag, attrs)
        self.current = self.current.parent if tag not in VOID else self.current

    def handle_endtag(self, tag):
        assert tag == self.current.tag, f"</{tag}> ends <{self.current.tag}>, {self.getpos()}"
        self.current = self.current.parent

    def handle_data(self, data):
        self.current.children.append(data)


class Page:
    """A report, taken apart."""

    def __init__(self, content):
        reader = Reader()
        self.content = content
        reader.feed(content.decode("utf-8"))  # fails where it is not UTF-8
        reader.close()
        assert reader.current is reader.root, f"<{reader.current.tag}> is not closed"
        self.root = reader.root
        ids = [element.attributes["id"] for element in self.root if "id" in element.attributes]
        assert len(ids) == len(set(ids)), f"two elements share an id: {ids}"

    @property
    def sections(self):
        """For each task, by its name."""
        sections = self.root.find("section", "task")
        by_task = {section.find("h2")[0].text: section for section in sections}
        assert len(by_task) == len(sections), "two sections of one task"
        return by_task

    def verdicts(self):
        return [item.find("p")[0].text for item in self.root.find("ul", "verdicts") for item in item.find("li")]

    def rows(self, task):
        """The table of a task without its head: the texts of its cells, but for times."""
        body, = self.sections[task].find("tbody")
        return [["" if cell.find("span", "time") else cell.text for cell in row.children
                 if isinstance(cell, Element)] for row in body.find("tr")]

    @property
    def command(self):
        return self.root.find("code")[0].text

    @property
    def visible_text(self):
        """Everything but style and script."""
        def text(element):
            if element.tag in ("style", "script"):
                return ""
            return "".join(child if isinstance(child, str) else text(child) for child in element.children)
        return text(self.root)


def in_folder(folder, words):
    """The same relative places in any folder."""
    return [*words, "--store", "runs", "--out", "report.html", "--figures", "figures"]


class StudyCase(Case):
    """Tests of one small study, which is run once; none of them changes it."""

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="semfocus-report-")
        cls.addClassCleanup(place.cleanup)
        cls.study = Path(place.name)
        cls.words = in_folder(cls.study, STUDY) + ["--json"]
        result = run(*cls.words, cwd=cls.study, timeout=300)
        assert (result.code, result.err) == (0, ""), result
        cls.groups = read_json(result.out)
        cls.content = (cls.study / "report.html").read_bytes()
        cls.page = Page(cls.content)

    def curves(self):
        """Rows of every run, as `export` writes them, by task and mechanism."""
        curves = {}
        for row in read_json(self.good("runs", "--store", self.study / "runs", "--json").out):
            lines = self.good("export", row["id"], "--store", self.study / "runs", "--format", "csv").out.splitlines()
            curve = [{name: float(value) for name, value in point.items()} for point in csv.DictReader(lines)]
            curves.setdefault((row["task"], row["attention"]), {})[row["seed"]] = curve
        return curves


def make_up(store, curve):
    """Replaces the curves of a store's runs: curve(run) gives rows (tr-ce, tr-ac, va-ce, va-ac), one per epoch. `run` has the
    columns of the table, its settings and the number of its seed, from 0."""
    with seal.changed(store) as database:
        database.row_factory = sqlite3.Row
        runs = [dict(row) for row in database.execute("SELECT * FROM runs ORDER BY number")]
        seeds = sorted({run["seed"] for run in runs})
        for run in runs:
            run.update(settings=json.loads(run["settings"]), place=seeds.index(run["seed"]))
            rows = curve(run)
            if rows is None:
                continue
            database.execute("DELETE FROM epochs WHERE run = ?", (run["number"],))
            database.executemany("INSERT INTO epochs VALUES (?, ?, ?, ?, ?, ?, 0.01)",
                                 [(run["number"], epoch, *row) for epoch, row in enumerate(rows, 1)])
            best = max(range(len(rows)), key=lambda i: rows[i][3])  # pylint: disable=cell-var-from-loop
            arrived = [epoch for epoch, row in enumerate(rows, 1) if row[1] >= 95]
            database.execute("UPDATE runs SET status = 'done', epochs = ?, checkpoint_epoch = ?, converged_epoch = ?,"
                             " train_accuracy = ?, heldout_accuracy = ?, best_epoch = ?, best_accuracy = ? WHERE number = ?",
                             (len(rows), len(rows), arrived[0] if arrived else None, rows[-1][1], rows[-1][3], best + 1,
                              rows[best][3], run["number"]))


def jump(epoch, epochs, before=50.0, after=100.0, heldout=None):
    """A curve that goes from `before` to `after` percent at an epoch (None: never); its loss from 1 to 0.01."""
    rows = []
    for e in range(1, epochs + 1):
        there = epoch is not None and e >= epoch
        accuracy = after if there else before
        rows.append((0.01 if there else 1.0, accuracy, 0.01 if there else 1.0, accuracy if heldout is None else heldout))
    return rows
