"""The page as people see and use it: at the widths of a phone, a tablet and a desk, light and dark. No text on other text,
none too small or too pale, everything within reach of the keyboard, figures that can be read and saved."""
import json
import math
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

from page import OPTIONS, make_up, run
from test_browser import Browser, ActionChains, Keys, contrast
from harness import Case

WIDTHS = (390, 768, 1280)
SCHEMES = ("light", "dark")
MANY = "full,topk:1,topk:2,topk:3,banded:1,banded:3,block:2,bottomk:2,random:2,topp:0.5,within:1,banded:3+global:1," \
       "topk:2+sink:1/entmax15@rope,topk:2+st,blocktopk:2:1"
LONG = "topk:2+sink:1+window:2/entmax15@rope@qknorm:4"

# Every piece of text that is shown: where, how large, in which colour on what. Sizes are those on the screen: the text of
# a drawing is scaled with it. Boxes are cut to the table that scrolls them.
TEXTS = """
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)" && colour !== "transparent") return colour;
  }
  return getComputedStyle(document.body).backgroundColor;
};
const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, element = node.parentElement;
  if (node.textContent.trim() === "" || element.closest("script, style, title, desc, .spoken") || !element.checkVisibility()) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const style = getComputedStyle(element), svg = element.closest("svg.figure");
  const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
  const frame = element.closest(".scroll")?.getBoundingClientRect();
  for (const box of range.getClientRects()) {
    const left = Math.max(box.left, frame?.left ?? -Infinity), right = Math.min(box.right, frame?.right ?? Infinity);
    if (right - left < 1) continue;
    found.push({ text: node.textContent.trim().slice(0, 60), left, right, top: box.top + scrollY, bottom: box.bottom + scrollY,
                 size: parseFloat(style.fontSize) * scale, drawn: svg !== null,
                 ink: svg ? style.fill : style.color, paper: behind(element) });
  }
}
return found;
"""
# Everything that reacts, in the order of the document.
REACTING = """
return [...document.querySelectorAll("a[href], button, summary, [role=button], .scroll, svg.figure")].filter((element) =>
  element.checkVisibility() && !(element.matches("svg.figure") && element !== element.closest("figure").querySelector("svg.figure")));
"""


def overlaps(texts):
    """Pairs that lie on one another by more than a pixel or two; lines of one paragraph touch."""
    texts = sorted(texts, key=lambda text: text["top"])
    for i, one in enumerate(texts):
        for other in texts[i + 1:]:
            if other["top"] >= one["bottom"] - 2:
                break
            wide = min(one["right"], other["right"]) - max(one["left"], other["left"])
            high = min(one["bottom"], other["bottom"]) - other["top"]
            slack = 0.35 * min(one["bottom"] - one["top"], other["bottom"] - other["top"])  # empty rims of line boxes
            if wide > 2 and high > slack:
                yield one, other


def touching(texts):
    """Pairs of texts of drawings whose boxes have a common area: these have no lines that touch."""
    drawn = sorted((text for text in texts if text["drawn"]), key=lambda text: text["top"])
    for i, one in enumerate(drawn):
        for other in drawn[i + 1:]:
            if other["top"] >= one["bottom"] - 0.3:
                break
            if min(one["right"], other["right"]) - max(one["left"], other["left"]) > 0.3:
                yield one, other


# How colours look without one kind of cone: Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISIONS = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def seen(colour, vision):
    """The place of a colour in Oklab (Ottosson 2020), where distances are those that people see; times 100."""
    channels = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    shown = [min(max(value, 0), 1) for value in times(VISIONS[vision], linear)]
    cones = times(((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
                   (0.0883024619, 0.2817188376, 0.6299787005)), shown)
    return [100 * value for value in times(((0.2104542553, 0.7936177850, -0.0040720468),
                                            (1.9779984951, -2.4285922050, 0.4505937099),
                                            (0.0259040371, 0.7827717662, -0.8086757660)), [cone ** (1 / 3) for cone in cones])]


class Pages(Browser, Case):
    """Several tasks, many mechanisms, a grid, and everything a store may know; made once, looked at only."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.open_for_class()
        place = tempfile.TemporaryDirectory(prefix="semfocus-layout-")
        cls.addClassCleanup(place.cleanup)
        cls.place = Path(place.name)
        cls.make("compare", "even-pairs,parity", "--attention", "full,topk:2,banded:3", "--seeds", "8", page="small")
        cls.make("compare", "even-pairs,parity", "--attention", MANY, "--seeds", "2", "--epochs", "6", page="many")
        cls.make("compare", "even-pairs", "--attention", "full,topk:2", "--seeds", "2", "--epochs", "6", "--lr", "0.005,0.02",
                 "--norm", "pre,post", "--activation", "relu,gelu", page="grid")
        cls.make("compare", "even-pairs", "--attention", f"full,topk:2,{LONG},banded:3", "--seeds", "3", "--every", "2", page="theory")
        cls.make("compare", "even-pairs", "--attention", "full,topk:3", "--seeds", "4", "--length", "15", "--train-count", "600",  # far from 1 in c1
                 "--heldout-count", "200", "--blocks", "2", "--width", "32", "--mlp-width", "32", "--batch", "10", "--epochs", "30",
                 "--optimizer", "sgd", "--lr", "0.1", "--every", "15", page="regions")
        store = cls.place / "theory"
        runs = json.loads(run("runs", "--store", store, "--json").out)
        ids = [row["id"] for row in runs if row["seed"] == runs[0]["seed"]]
        assert run("landscape", *ids, "--grid", "9", "--samples", "20", "--quiet", "--store", store, "--out",
                   cls.place / "surfaces.html").code == 0
        assert run("report", "--store", store, "--out", cls.place / "theory.html").code == 0
        cls.pages = sorted(cls.place.glob("*.html"))
        assert len(cls.pages) == 6

    @classmethod
    def make(cls, *words, page):
        options = [*OPTIONS]
        for word in words:  # what is given replaces what is usual
            if word.startswith("--") and word in options:
                del options[options.index(word):options.index(word) + 2]
        result = run(*words, *options, "--store", cls.place / page, "--out", cls.place / f"{page}.html", timeout=300)
        assert result.code == 0, result

    def look(self, path, width, scheme="light"):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.addCleanup(self.command, "Emulation.setEmulatedMedia", features=[])
        self.show(path, width=width, height=900)

    def test_text_can_be_read(self):
        for path in self.pages:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    with self.subTest(page=path.stem, width=width, scheme=scheme):
                        self.look(path, width, scheme)
                        if scheme == "dark":  # what unfolds is looked at in one of them
                            self.js("for (const one of document.querySelectorAll('details')) one.open = true")
                        texts = self.js(TEXTS)
                        self.assertGreater(len(texts), 50)
                        small = [text for text in texts if text["size"] < 11]
                        self.assertEqual(small[:3], [], "smaller than 11 pixels")
                        pale = [text for text in texts if contrast(text["ink"], text["paper"]) < 4.5]
                        self.assertEqual(pale[:3], [], "too little contrast")
                        self.assertEqual([(one["text"], other["text"]) for one, other in overlaps(texts)][:3], [],
                                         "texts lie on one another")
                        self.assertEqual([(one["text"], other["text"]) for one, other in touching(texts)][:3], [],
                                         "texts of drawings touch")
                        beyond = [text["text"] for text in texts if text["right"] > width + 1 or text["left"] < -1]
                        self.assertEqual(beyond[:3], [], "texts are cut off")
                        self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), width)

    def test_small_windows(self):
        """Narrower than any phone that is sold: smaller type, but nothing is lost."""
        for path in self.pages:
            self.look(path, 320)
            self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 320, path.stem)
            self.assertEqual([text for text in self.js(TEXTS) if text["size"] < 10][:3], [])

    def test_everything_is_reached_by_keyboard(self):
        for path in self.pages:
            for width in (390, 1280):
                with self.subTest(page=path.stem, width=width):
                    self.look(path, width)
                    wanted = self.js(REACTING)
                    self.assertGreater(len(wanted), 10)
                    self.js("document.querySelectorAll('[data-got]').forEach((e) => delete e.dataset.got); document.activeElement.blur();"
                            "document.addEventListener('focusin', (event) => { event.target.dataset.got = ''; })")
                    for _ in range(len(wanted) // 20 + 1):
                        ActionChains(self.driver).send_keys(Keys.TAB * 22).perform()
                    missed = self.js("return arguments[0].filter((e) => e.dataset.got === undefined).map((e) => e.outerHTML.slice(0, 90))",
                                     wanted)
                    self.assertEqual(missed, [], "Tab never gets there")

    def test_tables_show_that_they_scroll(self):
        self.look(self.place / "many.html", 390)
        for scroll in self.all(".scroll"):
            label = scroll.get_attribute("aria-label")
            self.assertEqual(scroll.get_attribute("role"), "region", label)
            self.assertTrue(label)
            wide = self.js("return arguments[0].scrollWidth > arguments[0].clientWidth + 1", scroll)
            hint = self.js("return arguments[0].previousElementSibling", scroll)
            self.wait_for(lambda hint=hint, wide=wide: hint.is_displayed() == wide)
            if not wide:
                continue
            self.js("arguments[0].focus()", scroll)
            ActionChains(self.driver).send_keys(Keys.ARROW_RIGHT).perform()
            self.wait_for(lambda scroll=scroll: self.js("return arguments[0].scrollLeft", scroll) > 0)
            name = self.js("return arguments[0].querySelector('tbody th').getBoundingClientRect().left", scroll)
            self.assertGreaterEqual(name, 0, "the names scroll away")

    def test_long_labels_of_axes(self):
        """Losses that differ in their fifth digit: the labels are clear of the axis title, and within the drawing."""
        words = ["even-pairs", "--attention", "full,topk:2", "--seeds", "2", *OPTIONS, "--store", self.folder / "runs"]
        assert run("compare", *words, "--out", self.folder / "page.html").code == 0
        make_up(self.folder / "runs", lambda made: [(0.69314 + 1e-5 * epoch, 50.0, 0.69314, 50.0) for epoch in range(9)])
        assert run("report", "--store", self.folder / "runs", "--out", self.folder / "page.html").code == 0
        for width in WIDTHS:
            self.look(self.folder / "page.html", width)
            texts = self.js(TEXTS)
            self.assertTrue([text for text in texts if re.fullmatch(r"0\.\d{5}", text["text"])], "no long label")
            self.assertEqual([(one["text"], other["text"]) for one, other in touching(texts)][:3], [], width)
            left = self.js("return [...document.querySelectorAll('svg.figure')].map((svg) => svg.getBoundingClientRect().left)")
            self.assertEqual([text["text"] for text in texts if text["drawn"] and text["left"] < min(left) - 1], [])

    def test_paper_does_not_scroll(self):
        """What only helps on a screen is not printed."""
        self.look(self.place / "many.html", 390)
        shown = lambda: [element.get_attribute("class") for element in self.all(".more, .tools, .command button") if element.is_displayed()]
        self.wait_for(lambda: "more there" in shown())
        self.command("Emulation.setEmulatedMedia", media="print")
        self.addCleanup(self.command, "Emulation.setEmulatedMedia", media="")
        self.assertEqual(shown(), [])

    def test_names_are_broken_between_their_parts(self):
        for width in WIDTHS:
            self.look(self.place / "many.html", width)
            broken = self.js("""const found = [], lines = (node, from, to) => {
                const range = document.createRange(); range.setStart(node, from); range.setEnd(node, to);
                return new Set([...range.getClientRects()].map((box) => box.top)).size; };
              for (const name of document.querySelectorAll("tbody th")) for (const node of name.childNodes)
                for (const word of node.textContent.matchAll(/\\S+/g))
                  if (node.nodeType === Node.TEXT_NODE && lines(node, word.index, word.index + word[0].length) > 1) found.push(word[0]);
              return found;""")
            self.assertEqual(broken, [], width)
        high = self.js("""return [...document.querySelectorAll(".matrix tbody th")].map((name) => {
            const range = document.createRange(); range.selectNodeContents(name);
            return new Set([...range.getClientRects()].map((box) => box.top)).size; })""")
        self.assertEqual(set(high), {1}, "a name is broken beside free space")

    def test_panels_are_told_in_words(self):
        """Every panel of a figure says what was found in it."""
        for page in ("many", "theory", "regions"):
            self.look(self.place / f"{page}.html", 1280)
            panels = self.js("""return [...document.querySelectorAll(".panels svg.figure")].map((svg) => ({
                label: svg.getAttribute("aria-label"), title: svg.querySelector("text.key").textContent, map: "map" in svg.dataset,
                points: [svg.querySelectorAll(".mark.holds").length, svg.querySelectorAll(".mark").length],
                ends: [...svg.querySelectorAll("g.series[data-median]")].map((g) =>
                  [g.dataset.part ?? g.dataset.name, Number(g.dataset.median.split(" ").at(-1))]) }))""")
            self.assertGreater(len(panels), 8)
            for panel in panels:
                if panel["map"]:
                    continue
                with self.subTest(page=page, panel=panel["label"]):
                    self.assertTrue(panel["label"].startswith(panel["title"] + ". "))
                    for name, value in panel["ends"]:
                        told = re.search(rf" {re.escape(name)} ([-+.e\d]+?)[,;.]?(?: |$)", panel["label"])
                        self.assertAlmostEqual(float(told[1]), value, delta=6e-3 * abs(value))
                    if panel["points"][1] > 0:
                        self.assertIn("it holds at {} of {} points.".format(*panel["points"]), panel["label"])

    def visible_tip(self, figure):
        tips = [tip for tip in self.all(".tip", figure) if tip.is_displayed()]
        return tips[0] if tips else None

    def test_every_figure_is_read_by_pointer_and_keys(self):
        """Each panel shows a value by the arrow keys, which is also spoken; no value wraps or leaves the window."""
        for path in self.pages:
            for width in (390, 1280):
                self.look(path, width)
                for details in self.all("details"):
                    self.js("arguments[0].open = true", details)
                for number, figure in enumerate(self.all("figure")):
                    with self.subTest(page=path.stem, width=width, figure=number):
                        self.check_reading(figure, width)

    def check_reading(self, figure, width):
        svgs = self.all("svg.figure", figure)
        self.js("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", svgs[0])
        ActionChains(self.driver).send_keys(Keys.ARROW_RIGHT).perform()
        self.wait_for(lambda: self.visible_tip(figure) is not None)
        tip = self.visible_tip(figure)
        self.assertRegex(tip.text, r"\d")
        self.assertEqual(" ".join(tip.text.split()), self.all(".spoken", figure)[0].get_attribute("textContent").strip())
        box, lines = self.js("""const box = arguments[0].getBoundingClientRect();
            return [[box.left, box.right], [...arguments[0].querySelectorAll("td:not(:first-child)")].map((cell) => {
              const range = document.createRange(); range.selectNodeContents(cell);
              return new Set([...range.getClientRects()].map((part) => part.top)).size; })]""", tip)
        self.assertTrue(box[0] >= 0 and box[1] <= width, (box, tip.text))
        self.assertLessEqual(set(lines), {0, 1}, "a value wraps")
        self.assertTrue(self.js("return arguments[0].scrollWidth <= arguments[0].clientWidth", tip), f"cut off: {tip.text}")
        before = tip.text
        ActionChains(self.driver).send_keys(Keys.END).perform()
        after = self.visible_tip(figure)
        self.assertIsNotNone(after, before)
        ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.assertIsNone(self.visible_tip(figure))
        if len(svgs) > 1:  # the other panels are beside it
            self.js("arguments[0].focus()", svgs[0])
            ActionChains(self.driver).send_keys(Keys.ARROW_DOWN, Keys.HOME).perform()
            self.assertEqual(self.driver.switch_to.active_element, svgs[1])
            self.assertIsNotNone(self.visible_tip(figure))
        self.js("document.activeElement.blur()")

    def save(self, button, folder, kind):
        """Name and content of the file, once the browser has written all of it: it may appear before that."""
        button.click()
        end, before = time.monotonic() + 20, None
        while True:
            files = list(folder.iterdir())
            content = files[0].read_bytes() if len(files) == 1 and files[0].suffix == f".{kind}" else None
            if content and content == before:
                break
            before = content
            self.assertLess(time.monotonic(), end, f"no {kind} came, but {files}")
            time.sleep(0.1)
        files[0].unlink()
        return files[0].name, content

    def test_figures_are_saved(self):
        folder = Path(tempfile.mkdtemp(prefix="semfocus-saved-"))
        self.addCleanup(shutil.rmtree, folder)
        self.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        for page, count in (("small", 8), ("theory", 16), ("grid", 7), ("many", 8)):
            self.look(self.place / f"{page}.html", 1280)
            figures = self.all("figure")
            self.assertGreaterEqual(len(figures), count)
            for figure in figures[:4] if page == "many" else figures:
                name = figure.get_attribute("data-file")
                buttons = {button.text: button for button in self.all(".tools button", figure)}
                self.assertEqual(list(buttons), ["SVG", "PDF", "PNG"])
                with self.subTest(page=page, figure=name):
                    saved, svg = self.save(buttons["SVG"], folder, "svg")
                    self.assertIn(name, saved)
                    self.check_svg(svg, figure)
                    self.check_pdf(self.save(buttons["PDF"], folder, "pdf")[1], folder)
                    if figure == figures[0]:
                        self.check_png(self.save(buttons["PNG"], folder, "png")[1], svg)

    def check_svg(self, content, figure):
        root = ET.fromstring(content)
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertNotIn(b"class=", content)  # it stands alone
        self.assertNotIn(b"var(", content)
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        for text in self.all("svg.figure text", figure):
            self.assertIn(text.get_attribute("textContent"), texts)
        self.assertIn(self.all("figcaption b", figure)[0].text.split()[0], " ".join(texts))

    def check_pdf(self, content, folder):
        self.assertTrue(content.startswith(b"%PDF-1.4\n") and content.endswith(b"%%EOF\n"))
        table = int(re.search(rb"startxref\n(\d+)\n", content)[1])
        self.assertTrue(content[table:].startswith(b"xref\n"))
        for number, place in enumerate(re.findall(rb"(\d{10}) 00000 n ", content), 1):
            self.assertTrue(content[int(place):].startswith(b"%d 0 obj" % number))
        stream = re.search(rb"/Length (\d+) >>\nstream\n(.*)\nendstream", content, re.S)
        self.assertEqual(int(stream[1]), len(stream[2]))
        self.assertEqual(stream[2].count(b"q\n"), stream[2].count(b"Q\n") + stream[2].endswith(b"Q"))
        self.assertNotRegex(stream[2], rb"(?i)nan|undefined|infinity")
        for name in set(re.findall(rb"/(G\d+) gs", stream[2])):
            self.assertIn(b"/" + name + b" <<", content)
        if shutil.which("pdftotext"):  # poppler-utils, where it is installed
            path = folder / "read.check"
            path.write_bytes(content)
            read = subprocess.run(["pdftotext", str(path), "-"], capture_output=True, text=True, check=True)
            path.unlink()
            self.assertEqual(read.stderr, "")
            self.assertRegex(read.stdout, r"\w")

    def check_png(self, content, svg):
        """Three times the size of the drawing, and not empty."""
        self.assertTrue(content.startswith(b"\x89PNG\r\n\x1a\n"))
        width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
        root = ET.fromstring(svg)
        self.assertEqual((width, height), (3 * int(float(root.get("width"))), 3 * int(float(root.get("height")))))
        at, data = 8, b""
        while at < len(content):
            size = int.from_bytes(content[at:at + 4], "big")
            data += content[at + 8:at + 8 + size] if content[at + 4:at + 8] == b"IDAT" else b""
            at += 12 + size
        self.assertGreater(len(set(zlib.decompress(data))), 30, "one colour only")

    def test_commands_are_copied(self):
        self.look(self.place / "small.html", 1280)
        self.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        button, = self.all(".command button")
        button.click()
        self.wait_for(lambda: button.text == "Copied")
        self.assertEqual(self.js("return navigator.clipboard.readText()"), self.all(".command code")[0].text)
        self.wait_for(lambda: button.text == "Copy")

    def test_contents_lead_there(self):
        self.look(self.place / "small.html", 1280)
        for link in self.all("nav a"):
            self.js("scrollTo(0, 0)")
            link.click()
            place = self.js("return document.querySelector(arguments[0].getAttribute('href')).getBoundingClientRect().top", link)
            bottom = self.js("return scrollY + innerHeight >= document.documentElement.scrollHeight - 2")
            self.assertTrue(0 <= place < 100 or bottom, (link.text, place))

    def test_colours_differ_to_everybody(self):
        """The distance of two colours of a panel, which has six at most, and of any two; 2 is just noticeable."""
        for scheme in SCHEMES:
            self.look(self.place / "small.html", 1280, scheme)
            colours = [self.js("""const probe = document.body.appendChild(document.createElement("i"));
                                  probe.className = "c" + arguments[0]; probe.style.color = "var(--c)";
                                  const colour = getComputedStyle(probe).color; probe.remove(); return colour;""", i)
                       for i in range(8)]
            for vision in VISIONS:
                places = [seen(colour, vision) for colour in colours]
                for i, one in enumerate(places):
                    for j, other in enumerate(places[:i]):
                        self.assertGreater(math.dist(one, other), 8 if i < 6 else 6, (scheme, vision, colours[i], colours[j]))

    def test_lines_stand_out(self):
        """Lines and dots have a contrast of at least 3 to what is behind them, the large ones of the legend included."""
        for scheme in SCHEMES:
            self.look(self.place / "many.html", 1280, scheme)
            paper = self.js("return getComputedStyle(document.body).backgroundColor")
            inks = self.js("return [...new Set([...document.querySelectorAll('.line')].map((e) => getComputedStyle(e).stroke))]")
            self.assertGreaterEqual(len(inks), 8)
            for ink in inks:
                self.assertGreaterEqual(contrast(ink, paper), 3, (scheme, ink))


if __name__ == "__main__":
    unittest.main()
