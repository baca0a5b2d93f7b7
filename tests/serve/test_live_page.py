"""The live page in Chromium: a study watched until its end, runs looked at, and how it looks at the widths of a phone, a tablet and
a desk. Debian's chromium, chromium-driver and python3-selenium; skipped where they are not installed."""
import os
import subprocess
import sys
import time
import unittest

from serving import PROGRAM, ROOT, TINY, ServeCase, needs_server

sys.path += [str(ROOT / "tests" / "report"), str(ROOT / "tests" / "cli")]
import test_browser  # pylint: disable=wrong-import-position
import test_layout  # pylint: disable=wrong-import-position

SCREENSHOTS = os.environ.get("SEMFOCUS_SCREENSHOTS")  # a folder, to look at them


@needs_server
@unittest.skipUnless(test_browser.webdriver and test_browser.DRIVER and test_browser.CHROMIUM, "chromium, chromium-driver and python3-selenium are not installed")
class LivePage(ServeCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = test_browser.open_browser()
        cls.addClassCleanup(cls.browser.quit)

    def js(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def size(self, width, height=900, scheme="light"):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def check_console(self):
        problems = [entry for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(problems, [])

    def open(self):
        self.size(1280)
        self.browser.get("about:blank")
        self.browser.get_log("browser")  # what the page of an earlier test said when its server ended
        self.browser.get(self.url)
        self.wait_for("the first answer", lambda: "Reading" not in self.text("#state"))

    def test_a_study_of_fifty_runs_watched_until_its_end(self):
        self.serve()
        self.open()
        self.assertIn("no runs yet", self.text("#state"))
        self.js("window.neverReloaded = true")
        seeds = ",".join(str(seed) for seed in range(1, 26))
        words = [PROGRAM, "train", "even-pairs", *TINY, "--epochs", "600", "--attention", "full,topk:3", "--seed", seeds, "--threads", "1", "--store",
                 str(self.store), "--quiet", "--name", "fifty <x-runs>", "--json"]
        seen, bars, queues, rest, wrapped = set(), [], [], [], []
        self.size(250)  # where a name takes two lines
        self.addCleanup(self.size, 1280)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as training:
            deadline = time.monotonic() + 300
            while time.monotonic() < deadline and training.poll() is None:
                seen.add(self.text("#state"))
                bars += self.js("return [...document.querySelectorAll('#running progress')].map((bar) => bar.value / bar.max)")
                wrapped += self.js("""return [...document.querySelectorAll("#queue-list li")].map((item) => {
                    const text = document.createRange();
                    text.selectNodeContents(item.querySelector("button") ?? item);
                    const lines = [...text.getClientRects()];
                    return [lines.length, lines.at(-1).left - lines[0].left, lines[0].top - item.getBoundingClientRect().top];
                }).filter(([lines]) => lines > 1)""")
                queues.append(self.js("return document.querySelectorAll('#queue-list li').length"))
                rest.append(self.js("""const more = document.getElementById("queue-more"), items = [...document.querySelectorAll("#queue-list li")];
                    return [items.length, items.filter((item) => item.querySelector("button")).length, more.hidden ? "" : more.textContent]"""))
                time.sleep(0.1)
            self.assertEqual(training.wait(timeout=60), 0)
        self.wait_for("the end of the study on the page", lambda: self.text("#state").startswith("50 of 50 runs are over"))
        self.assertGreater(len(seen), 4, seen)
        self.assertTrue(any("under way" in text and "waiting" in text for text in seen), seen)
        self.assertTrue(any(0 < bar < 1 for bar in bars), bars)
        self.assertGreater(max(queues), 10)
        for numbered, waiting, more in rest:
            self.assertEqual(numbered, waiting, "what is numbered is not a run")
            self.assertRegex(more, r"^(and [1-9]\d* more)?$" if numbered == 20 else "^$")
        self.assertTrue(any(more for _, _, more in rest), "more than 20 were waiting")
        self.assertGreater(len(wrapped), 0)
        self.assertEqual([line for line in wrapped if line[1] != 0 or line[2] > 4][:3], [], "lines that do not begin below each other, beside the number")
        self.wait_for("the report of the whole study",
                      lambda: "25" in self.text("#report-parts") and self.js("return document.querySelectorAll('#report-parts svg.figure').length") > 0)
        self.assertTrue(self.js("return window.neverReloaded"))
        self.assertEqual(self.js("return document.querySelectorAll('x-runs').length"), 0)
        self.assertIn("fifty <x-runs>", self.text("#runs tbody"))
        self.check_console()

    def test_filters_and_one_run(self):
        runs = self.train("--attention", "full,topk:3", "--seed", "1,2,3", "--tensorboard", self.folder / "board")
        self.train("--attention", "banded:3", "--seed", "9")
        self.serve()
        self.open()
        self.wait_for("all runs", lambda: self.js("return document.querySelectorAll('#runs tbody tr').length") == 7)
        search = self.browser.find_element("id", "filter-text")
        search.send_keys("topk seed")
        self.assertEqual(self.js("return document.querySelectorAll('#runs tbody tr').length"), 0)
        search.clear()
        search.send_keys("TOPK:3")
        self.wait_for("the filter", lambda: self.js("return document.querySelectorAll('#runs tbody tr').length") == 3)
        self.assertIn("3 of 7 runs", self.text("#filter-count"))
        run = next(run for run in runs if run["attention"] == "topk:3")
        button = self.browser.find_element("css selector", f"#runs button[data-run='{run['id']}']")
        button.send_keys(test_browser.Keys.ENTER)
        self.wait_for("its curve", lambda: self.js("return document.querySelectorAll('#one-curves svg').length") == 2)
        self.assertIn("topk:3", self.text("#one-title"))
        settings = self.js("return Object.fromEntries([...document.querySelectorAll('#one tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)))")
        self.assertEqual((settings["length"], settings["width"], settings["seed"]), ("8", "8", str(run["seed"])))
        drawing = self.browser.find_element("css selector", "#one-curves svg")
        drawing.send_keys(test_browser.Keys.HOME)
        reading = self.text("#one-curves .reading")
        self.assertIn("epoch 1: ", reading)
        self.assertIn(f"{run['curve'][0]['tr-ac']:g} %", reading)
        low, _, high = self.js("return [...document.querySelectorAll('#one-curves svg')[0].querySelectorAll('text')].slice(0, 3).map((text) => Number(text.textContent))")
        values = [row[name] for row in run["curve"] for name in ("tr-ac", "va-ac")]
        self.assertEqual((low, high), (min(values) // 10 * 10, max(-(-max(values) // 10) * 10, min(values) // 10 * 10 + 10)))
        self.check_console()

    def test_closing_leads_back(self):
        """A run that is closed gives the focus back to the row it was opened from, or where that is filtered out to the heading."""
        run, other = self.train("--attention", "full,topk:3", "--seed", "1")
        self.serve()
        self.open()
        focus = "return document.activeElement.dataset.run ?? document.activeElement.id"
        for closed, filtered, back in ((run, "", run["id"]), (other, "", other["id"]), (other, "nothing has this", "runs-title")):
            self.wait_for("the row", lambda closed=closed: self.js("return document.querySelector(arguments[0])", f"#runs button[data-run='{closed['id']}']"))
            self.browser.find_element("css selector", f"#runs button[data-run='{closed['id']}']").send_keys(test_browser.Keys.ENTER)
            self.wait_for("the run", lambda closed=closed: closed["id"] in self.text("#one-title") and self.js(focus) == "one-title")
            self.browser.find_element("id", "filter-text").send_keys(filtered)
            self.browser.find_element("id", "one-close").send_keys(test_browser.Keys.ENTER)
            self.assertEqual(self.js(focus), back)
            self.assertTrue(self.js("const box = document.activeElement.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight"))
        self.check_console()

    def test_text_can_be_read(self):
        self.train("--attention", "full,topk:3,banded:3", "--seed", "1,2", "--name", "a name that is rather long, as names are")
        self.serve()
        self.open()
        self.wait_for("the report", lambda: self.js("return document.querySelectorAll('#report-parts svg.figure').length") > 0)
        self.js("document.querySelector('#runs button.link').click()")
        self.wait_for("a curve", lambda: self.js("return document.querySelectorAll('#one-curves svg').length") == 2)
        for width in test_layout.WIDTHS:
            for scheme in test_layout.SCHEMES:
                with self.subTest(width=width, scheme=scheme):
                    self.size(width, scheme=scheme)
                    time.sleep(0.3)
                    texts = self.js(test_layout.TEXTS)
                    self.assertGreater(len(texts), 50)
                    self.assertEqual([text for text in texts if text["size"] < 11][:3], [], "smaller than 11 pixels")
                    self.assertEqual([text for text in texts if test_browser.contrast(text["ink"], text["paper"]) < 4.5][:3], [], "too little contrast")
                    self.assertEqual([(one["text"], other["text"]) for one, other in test_layout.overlaps(texts)][:3], [])
                    self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), width)
                    if SCREENSHOTS:
                        height = self.js("return document.documentElement.scrollHeight")
                        self.size(width, height, scheme)
                        self.browser.save_screenshot(f"{SCREENSHOTS}/live-{width}-{scheme}.png")
        self.check_console()

    def test_everything_is_reached_by_keyboard(self):
        self.train("--attention", "full,topk:3", "--seed", "1,2")
        self.serve()
        self.open()
        self.wait_for("the report", lambda: self.js("return document.querySelectorAll('#report-parts svg.figure').length") > 0)
        self.js("""window.reacting = [...document.querySelectorAll("a[href], button, input, select, .scroll, summary")]
                   .filter((element) => element.checkVisibility()); window.reached = new Set();
                   document.addEventListener("focusin", (event) => window.reached.add(event.target));""")
        count = self.js("return window.reacting.length")
        self.js("document.activeElement.blur(); window.scrollTo(0, 0)")
        actions = test_browser.ActionChains(self.browser)
        for _ in range(3 * count):
            actions.send_keys(test_browser.Keys.TAB)
        actions.perform()
        missed = self.js("return window.reacting.filter((element) => !window.reached.has(element)).map((element) => element.outerHTML.slice(0, 100))")
        self.assertEqual(missed, [])

    def test_a_server_that_is_gone_is_said(self):
        self.train("--seed", "1")
        self.serve()
        self.open()
        self.wait_for("the run", lambda: self.text("#state").startswith("1 of 1"))
        self.end()
        self.wait_for("the sentence", lambda: "does not answer" in self.text("#connection"))
        self.assertTrue(self.text("#state").startswith("1 of 1"))


if __name__ == "__main__":
    unittest.main()
