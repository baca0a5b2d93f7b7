"""The page in a real browser: drawn, readable, and usable with pointer and keyboard. Debian's chromium, chromium-driver and
python3-selenium; skipped where they are not installed."""
import base64
import json
import math
import re
import shutil
import sys
import time
import unittest

from page import CURVES, FIGURES, MEASURED, MECHANISMS, OPTIONS, REGIONS, SETTINGS, TASKS, Case, StudyCase, read_csv

DRIVER = shutil.which("chromedriver")
CHROMIUM = shutil.which("chromium")
try:
    try:
        from selenium import webdriver
    except ImportError:  # Debian's packages are there for its own python; another one can read them as well
        sys.path.append("/usr/lib/python3/dist-packages")
        from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = ActionChains = By = Keys = None

# What is drawn of every series: sizes, the numbers of its paths, and whether it lies within its figure.
DRAWN = """
return [...document.querySelectorAll("svg.figure")].map((svg) => {
  const view = svg.viewBox.baseVal, box = svg.getBoundingClientRect();
  return {
    width: box.width, height: box.height, viewWidth: view.width, viewHeight: view.height,
    series: [...svg.querySelectorAll("g.series")].map((g) => {
      const own = g.getBBox();
      return { name: g.dataset.name, shown: getComputedStyle(g).display !== "none",
               left: own.x, top: own.y, right: own.x + own.width, bottom: own.y + own.height,
               paths: [...g.querySelectorAll("path")].map((path) => path.getAttribute("d")) };
    }),
  };
});
"""
# Every element with text of its own: its colour and what is behind it.
COLOURS = """
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)" && colour !== "transparent") return colour;
  }
  return "none";
};
return [...document.body.querySelectorAll("*")].filter((element) =>
  element.getClientRects().length > 0 &&
  [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== "")
).map((element) => {
  const style = getComputedStyle(element);
  return { tag: element.tagName + "." + element.getAttribute("class"),
           ink: element instanceof SVGElement ? style.fill : style.color, paper: behind(element) };
});
"""
# Boxes of all texts of a drawing, in its own units.
TEXTS = """
const svg = arguments[0];
return [...svg.querySelectorAll("text")].map((text) => {
  const box = text.getBBox(), at = text.getCTM(), whole = svg.getCTM() || svg.createSVGMatrix();
  const matrix = whole.inverse().multiply(at);
  const corners = [[box.x, box.y], [box.x + box.width, box.y + box.height]].map(([x, y]) =>
    [matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f]);
  const xs = corners.map((corner) => corner[0]), ys = corners.map((corner) => corner[1]);
  return { text: text.textContent, key: text.classList.contains("key"), left: Math.min(...xs), right: Math.max(...xs),
           top: Math.min(...ys), bottom: Math.max(...ys) };
});
"""
# Place and label of the ticks of the horizontal axis, in pixels of the window.
TICKS = """
const svg = arguments[0], box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
return [...svg.querySelectorAll("line.grid")].filter((line) => line.getAttribute("x1") === line.getAttribute("x2"))
  .map((line) => [Number(line.getAttribute("x1")) * scale, Number(line.nextElementSibling.textContent)]);
"""
# Cells of the values that are shown over a figure.
TIP = """
return [...arguments[0].parentElement.querySelectorAll(".tip")].filter((tip) => tip.checkVisibility() && tip.offsetWidth > 0)
  .map((tip) => [...tip.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.innerText)));
"""


def luminance(colour):
    """Relative luminance as the accessibility guidelines define it."""
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def open_browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=options)


@unittest.skipIf(webdriver is None or DRIVER is None or CHROMIUM is None,
                 "needs the packages chromium, chromium-driver and python3-selenium")
class Browser:
    """A browser for the tests of a class; console errors fail the test they happen in."""

    @classmethod
    def open_for_class(cls):
        cls.driver = open_browser()
        cls.addClassCleanup(cls.driver.quit)

    def show(self, path, width=1200, height=900):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.addCleanup(self.command, "Emulation.clearDeviceMetricsOverride")
        self.driver.get("file://" + str(path))
        self.addCleanup(self.check_console)

    def check_console(self):
        errors = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(errors, [])

    def command(self, name, **options):
        return self.driver.execute_cdp_cmd(name, options)

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def all(self, selector, within=None):
        return (within or self.driver).find_elements(By.CSS_SELECTOR, selector)

    def wait_for(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.02)

    def point_at(self, svg, epoch):
        """Moves the pointer to where the axis has this epoch."""
        self.js("arguments[0].scrollIntoView({block: 'center'})", svg)
        ticks = self.js(TICKS, svg)
        (first, low), (last, high) = ticks[0], ticks[-1]
        x = first + (epoch - low) / (high - low) * (last - first)
        box = svg.rect
        ActionChains(self.driver).move_to_element_with_offset(svg, round(x - box["width"] / 2), 0).perform()

    def leave(self):
        heading = self.all("h1")[0]
        self.js("arguments[0].scrollIntoView()", heading)
        ActionChains(self.driver).move_to_element(heading).perform()

    def tip(self, svg):
        """Epoch and rows of the values shown over a figure, None where none are."""
        shown = self.js(TIP, svg)
        self.assertLessEqual(len(shown), 1)
        return (int(re.fullmatch(r"epoch (\d+)", shown[0][0][0])[1]), shown[0][1:]) if shown else None

    def check_tip(self, svg, rows):
        """What is shown belongs to the epoch that is named; gives that epoch."""
        self.wait_for(lambda: self.tip(svg) is not None)
        epoch, shown = self.tip(svg)
        wanted = {row["variant"]: row for row in rows if int(row["epoch"]) == epoch}
        self.assertEqual({name for name, _, _ in shown}, wanted.keys(), epoch)
        for name, median, spread in shown:
            low, high = spread.split(" \u2013 ")
            for told, column in ((low, "q25"), (median, "median"), (high, "q75")):
                value = float(wanted[name][column])
                self.assertAlmostEqual(float(told), value, delta=1e-4 * max(abs(value), 1e-3), msg=(epoch, name, column))
        medians = [float(median) for _, median, _ in shown]
        self.assertEqual(medians, sorted(medians, reverse=True), "not in the order of the lines")
        return epoch


class SmallStudy(Browser, StudyCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.open_for_class()

    def setUp(self):
        super().setUp()
        self.show(self.study / "report.html")

    def rows(self, task, figure):
        return read_csv(self.study / "figures" / f"{task}-{figure}.csv")

    def section(self, task):
        return next(section for section in self.all("section.task") if self.all("h2", section)[0].text == task)

    def figure(self, task, figure):
        return self.all("svg.figure", self.section(task))[FIGURES.index(figure)]

    def test_every_figure_is_drawn(self):
        drawn = self.js(DRAWN)
        self.assertEqual(len(drawn), len(TASKS) * len(FIGURES))
        for figure in drawn:
            self.assertGreater(figure["width"], 200)
            self.assertGreater(figure["height"], 50)
            self.assertAlmostEqual(figure["width"] / figure["height"], figure["viewWidth"] / figure["viewHeight"], delta=0.02)
            self.assertEqual([series["name"] for series in figure["series"]], MECHANISMS)
            for series in figure["series"]:
                self.assertTrue(series["shown"])
                self.assertGreater(series["right"] - series["left"], 1)
                self.assertTrue(series["left"] >= 0 and series["top"] >= 0 and series["right"] <= figure["viewWidth"]
                                and series["bottom"] <= figure["viewHeight"], series)
                for path in series["paths"]:
                    numbers = re.findall(r"[^MLVHZhv\s]+", path)
                    self.assertGreaterEqual(len(numbers), 3)
                    self.assertTrue(all(math.isfinite(float(number)) for number in numbers), path)
        for figure in drawn[:3]:
            self.assertTrue(all(series["paths"] for series in figure["series"]))

    def test_nothing_is_loaded(self):
        self.assertEqual(self.js("return performance.getEntriesByType('resource').map((entry) => entry.name)"), [])

    def test_values_under_the_pointer(self):
        for task in TASKS:
            for figure in CURVES:
                svg, rows = self.figure(task, figure), self.rows(task, figure)
                last = max(int(row["epoch"]) for row in rows)
                for epoch in (1, 7, last):
                    with self.subTest(task=task, figure=figure, epoch=epoch):
                        self.point_at(svg, epoch)
                        self.assertEqual(self.check_tip(svg, rows), epoch)
                self.leave()
                self.wait_for(lambda svg=svg: self.tip(svg) is None)
        self.assertEqual([line for line in self.all(".cursor") if line.is_displayed()], [])

    def shown(self):
        """For every task: the series that each of its figures shows."""
        figures = [[series["name"] for series in figure["series"] if series["shown"]] for figure in self.js(DRAWN)]
        return {task: figures[i * len(FIGURES):(i + 1) * len(FIGURES)] for i, task in enumerate(TASKS)}

    def test_legend_hides_a_series_in_its_task(self):
        everything = {task: [MECHANISMS] * len(FIGURES) for task in TASKS}
        self.assertEqual(self.shown(), everything)
        for task in TASKS:
            for mechanism in MECHANISMS:
                item, = [item for item in self.all(".legend li", self.section(task)) if item.text == mechanism]
                item.click()
                rest = [name for name in MECHANISMS if name != mechanism]
                self.assertEqual(self.shown(), {**everything, task: [rest] * len(FIGURES)})
                self.assertEqual(item.get_attribute("aria-pressed"), "false")
                self.point_at(self.figure(task, "training-loss"), 2)
                self.check_tip(self.figure(task, "training-loss"),
                               [row for row in self.rows(task, "training-loss") if row["variant"] != mechanism])
                self.js("arguments[0].scrollIntoView({block: 'center'})", item)
                item.click()
                self.assertEqual(self.shown(), everything)
                self.assertEqual(item.get_attribute("aria-pressed"), "true")

    def test_keyboard(self):
        item = self.all(".legend li", self.section(TASKS[1]))[1]
        for _ in range(100):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            if self.driver.switch_to.active_element == item:
                break
        self.assertEqual(self.driver.switch_to.active_element, item, "Tab never gets there")
        hidden = [name for name in MECHANISMS if name != MECHANISMS[1]]
        for key, wanted in ((Keys.ENTER, hidden), (Keys.ENTER, MECHANISMS), (Keys.SPACE, hidden), (Keys.SPACE, MECHANISMS)):
            scrolled = self.js("return scrollY")
            ActionChains(self.driver).send_keys(key).perform()
            self.assertEqual(self.shown()[TASKS[1]], [wanted] * len(FIGURES))
            self.assertEqual(self.shown()[TASKS[0]], [MECHANISMS] * len(FIGURES))
            self.assertEqual(self.js("return scrollY"), scrolled, "the key also scrolled the page")

    def test_colours(self):
        papers = {}
        for scheme in ("light", "dark"):
            self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.addCleanup(self.command, "Emulation.setEmulatedMedia", features=[])
            papers[scheme] = self.js("return getComputedStyle(document.body).backgroundColor")
            texts = self.js(COLOURS)
            self.assertGreater(len(texts), 100)
            for text in texts:
                paper = text["paper"] if text["paper"] != "none" else papers[scheme]
                self.assertGreaterEqual(contrast(text["ink"], paper), 4.5, (scheme, text))
            # lines and dots need less, but not nothing: 3 is what the guidelines ask for
            for number in range(8):
                colour = self.js("""const probe = document.body.appendChild(document.createElement("i"));
                                    probe.className = "c" + arguments[0]; probe.style.color = "var(--c)";
                                    const colour = getComputedStyle(probe).color; probe.remove(); return colour;""", number)
                self.assertGreaterEqual(contrast(colour, papers[scheme]), 3, (scheme, number, colour))
        self.assertGreater(luminance(papers["light"]), 0.8)
        self.assertLess(luminance(papers["dark"]), 0.05)

    def test_without_script(self):
        self.command("Emulation.setScriptExecutionDisabled", value=True)
        self.addCleanup(self.command, "Emulation.setScriptExecutionDisabled", value=False)
        self.driver.get("file://" + str(self.study / "report.html"))
        self.assertEqual(self.all(".legend [role=button]"), [], "a script ran")
        verdicts = [item.text for item in self.all(".verdicts li p")]
        self.assertEqual(verdicts, [row["verdict"] + "." for row in self.groups if row["verdict"]])
        self.assertEqual([cell.text for cell in self.all(".task tbody th")], MECHANISMS * len(TASKS))
        self.assertEqual([cell.text for cell in self.all(".matrix tbody th")], MECHANISMS)
        figures = self.all("svg.figure")
        self.assertEqual(len(figures), len(TASKS) * len(FIGURES))
        for figure in figures:
            self.assertTrue(figure.is_displayed() and figure.size["width"] > 200 and figure.size["height"] > 50)
            self.assertTrue(all(path.is_displayed() for path in self.all("path.line", figure)))

    def test_print(self):
        pdf = base64.b64decode(self.command("Page.printToPDF")["data"])
        self.assertTrue(pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF"))
        pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
        self.assertTrue(2 <= pages <= 12, pages)
        self.assertGreater(len(pdf), 20000)

    def test_narrow_window(self):
        for width in (320, 400, 800):
            self.show(self.study / "report.html", width=width, height=800)
            wide = self.js("""return [...document.querySelectorAll("body *")].filter((element) =>
                              !element.closest(".scroll *") && element.getBoundingClientRect().right > innerWidth + 1)
                              .map((element) => element.outerHTML.slice(0, 80))""")
            self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), width + 1, (width, wide[:5]))

    def test_values_fit_into_a_narrow_window(self):
        self.show(self.study / "report.html", width=400, height=800)
        svg = self.figure(TASKS[0], "training-loss")
        last = max(int(row["epoch"]) for row in self.rows(TASKS[0], "training-loss"))
        for epoch in (2, last // 2 - 1, last // 2 + 2, last - 1):
            self.point_at(svg, epoch)
            self.wait_for(lambda: self.tip(svg) is not None)
            box = self.js("""const box = document.querySelector(".tip:not(.hidden)").getBoundingClientRect();
                             return [box.left, box.right, document.documentElement.scrollWidth]""")
            self.assertTrue(box[0] >= 0 and box[1] <= 400 and box[2] <= 401, f"epoch {epoch}: left, right, page: {box}")


class OddStudies(Browser, Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.open_for_class()

    def test_long_curves(self):
        """What is shown belongs to the epoch that is named, also where not every epoch is drawn."""
        settings = {**SETTINGS, "width": "2", "mlp-width": "2", "train-count": "4", "heldout-count": "4", "epochs": "1001",
                    "stop-at": "0", "lr": "0.0005"}
        self.good("compare", "even-pairs", "--attention", "full,topk:2", "--seeds", "2", "--out", self.folder / "report.html",
                  "--figures", self.folder / "figures", *(f"--{name}={value}" for name, value in settings.items()), timeout=300)
        self.show(self.folder / "report.html")
        svg = self.all("svg.figure")[0]
        rows = read_csv(self.folder / "figures" / "even-pairs-training-loss.csv")
        for epoch in (3, 250, 252, 254, 401, 600, 998, 1001):  # a pixel is about two of them
            with self.subTest(epoch):
                self.point_at(svg, epoch)
                self.assertAlmostEqual(self.check_tip(svg, rows), epoch, delta=3)

    def test_one_epoch(self):
        self.good("compare", "even-pairs", "--attention", "full,topk:2", "--seeds", "2", *OPTIONS, "--epochs", "1", "--out",
                  self.folder / "report.html", "--figures", self.folder / "figures")
        self.show(self.folder / "report.html")
        svg = self.all("svg.figure")[0]
        self.point_at(svg, 1)
        self.assertEqual(self.check_tip(svg, read_csv(self.folder / "figures" / "even-pairs-training-loss.csv")), 1)

    def test_long_names(self):
        """For several settings: within the drawing, and not over one another."""
        self.good("compare", "even-pairs", "--attention", "full,banded:3+global:1", "--seeds", "2", *OPTIONS, "--epochs", "3",
                  "--activation", "relu,gelu", "--lr", "0.02,0.005", "--norm", "pre,post", "--out", self.folder / "report.html",
                  "--figures", self.folder / "figures")
        self.show(self.folder / "report.html")
        for figure, svg in zip(FIGURES, self.all("svg.figure")):
            with self.subTest(figure):
                self.check_texts(svg)
        for figure in FIGURES:
            with self.subTest(f"{figure}.svg"):
                self.show(self.folder / "figures" / f"even-pairs-{figure}.svg")
                self.check_texts(self.all("svg")[0])

    def test_measures_regions_and_surfaces(self):
        """Texts lie within their drawings and not over one another; the legend hides curves and points."""
        self.good("compare", "even-pairs", "--attention", "full,topk:2,banded:3", "--seeds", "2", *OPTIONS, "--epochs", "3",
                  "--every", "1", "--store", self.folder / "runs", "--out", self.folder / "report.html")
        runs = [row["id"] for row in json.loads(self.good("runs", "--store", self.folder / "runs", "--json").out)]
        self.good("landscape", *runs[:4:2], "--grid", "5", "--samples", "10", "--quiet", "--store", self.folder / "runs",
                  "--out", self.folder / "landscape.html")
        self.good("report", "--store", self.folder / "runs", "--out", self.folder / "report.html", "--figures",
                  self.folder / "figures")
        for width in (1200, 420):
            self.show(self.folder / "report.html", width=width)
            self.assertFalse(self.js("return document.documentElement.scrollWidth > document.documentElement.clientWidth"))
        self.show(self.folder / "report.html")
        names = [figure.get_attribute("id") for figure in self.all("figure")]
        self.assertEqual(names[:12], [f"{name}-0" for name in [*FIGURES, *MEASURED, *REGIONS]])
        self.assertGreater(len(names), 12)
        for name, figure in zip(names, self.all("figure")):
            self.assertGreater(len(self.all("svg.figure", figure)), 0)
            for svg in self.all("svg.figure", figure):
                with self.subTest(name):
                    self.check_texts(svg)
        hidden = "return [...document.querySelectorAll('g.series.hidden')].map((g) => g.closest('figure').id)"
        self.all(".legend li")[1].click()  # topk:2
        for name in ("dispersion-0", "separation-0", "region-w-0", "region-x-0", "lipschitz-0"):
            self.assertIn(name, self.js(hidden))
        for path in sorted((self.folder / "figures").glob("*.svg")):
            with self.subTest(path.name):
                self.show(path)
                self.check_texts(self.all("svg")[0])

    def check_texts(self, svg):
        width, height = self.js("return [arguments[0].viewBox.baseVal.width, arguments[0].viewBox.baseVal.height]", svg)
        texts = self.js(TEXTS, svg)
        self.assertGreater(len(texts), 3)
        for text in texts:
            self.assertTrue(text["left"] >= -1 and text["right"] <= width + 1 and text["top"] >= -1
                            and text["bottom"] <= height + 1, f"cut off: {text}")
        for i, one in enumerate(texts):
            for other in texts[:i]:
                apart = (one["right"] <= other["left"] + 1 or other["right"] <= one["left"] + 1
                         or one["bottom"] <= other["top"] + 1 or other["bottom"] <= one["top"] + 1)
                self.assertTrue(apart, f"one over the other: {one['text']}, {other['text']}")


if __name__ == "__main__":
    unittest.main()
