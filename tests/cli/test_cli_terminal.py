"""What a terminal shows that a pipe does not: a bar that moves, colours, paragraphs broken between words. And plots, which
show the most different curves where there are too many."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
import unittest

from harness import PROGRAM, Case

TINY = ["--length", "4", "--train-count", "60", "--heldout-count", "40", "--blocks", "1", "--width", "16", "--mlp-width", "16",
        "--optimizer", "adam", "--lr", "0.02"]
ESCAPES = re.compile(r"\x1b\[[\d;]*[a-zA-Z]")


class Terminal(Case):
    def on_terminal(self, *words, columns=100, streams=("stdout", "stderr"), seconds=None, **environment):
        """What the program prints on a terminal of this width; interrupted after so many seconds."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        given = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG", "TERM")}
        given.update({"TERM": "xterm", "LANG": "C.UTF-8", **environment})
        process = subprocess.Popen([PROGRAM, *map(str, words)], env=given, stdin=subprocess.DEVNULL, cwd=self.folder,
                                   **{name: theirs if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr")})
        os.close(theirs)
        self.addCleanup(os.close, ours)
        shown, end = b"", None if seconds is None else time.monotonic() + seconds
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
            if end is not None and time.monotonic() > end:
                process.terminate()
                end = None
        process.wait(60)
        return shown.decode("utf-8").replace("\r\n", "\n")

    def progress(self, columns=100, seeds=2, epochs=20000, seconds=1, **environment):
        """The states of the line that moves, without what is said at the end."""
        shown = self.on_terminal("compare", "even-pairs", "--attention", "full,topk:2", "--seeds", seeds, *TINY, "--epochs", epochs,
                                 "--store", self.folder / f"runs{len(os.listdir(self.folder))}", columns=columns, streams=("stderr",),
                                 seconds=seconds, **environment)
        lines = [line for line in shown.split("\r\x1b[K")[1:] if line]
        self.assertGreater(len(lines), 3)
        if seconds is not None:
            self.assertIn("semfocus: ", lines.pop())
        return lines

    def test_bar(self):
        shares = []
        for line in self.progress(seeds=40, epochs=100, seconds=None):
            bar, share = re.match("\x1b\\[36m([█▏▎▍▌▋▊▉░]+)\x1b\\[0m +(\\d+) %  \\d+/80 runs  ", line).groups()
            self.assertEqual(len(bar), 24)
            shares.append(int(share))
            self.assertTrue(int(share) * 24 // 100 <= bar.count("█") <= (int(share) + 1) * 24 // 100, line)
            self.assertLess(len(ESCAPES.sub("", line)), 100)
            self.assertIn(" epochs/s  at most ", line)
        self.assertEqual(shares, sorted(shares))
        self.assertGreater(shares[-1], shares[0], "nothing moves")
        self.assertGreater(shares[-1], 50)

    def test_no_colour(self):
        for line in self.progress(NO_COLOR="1"):
            self.assertNotIn("\x1b", line)
            self.assertRegex(line, r"^[█▏▎▍▌▋▊▉░]{24} +\d+ %  ")
        self.assertIn("\x1b[36m", "".join(self.progress(NO_COLOR="")))  # as if it were not there

    def test_terminals_without_blocks(self):
        for locale in ({"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LANG": ""}):
            line = self.progress(**locale)[0]
            self.assertRegex(line, "^\x1b\\[36m\\[[#.]{24}\\]\x1b\\[0m +\\d+ %  ", locale)
            self.assertTrue(line.isascii())

    def test_narrow_terminals(self):
        parts = [r"(\d+ %  )?\d+/4 runs", r"[\d.]+ epochs/s", r"at most \d+:\d\d left", r"\S+ \d+ epoch \d+", r"train [\d.]+%",
                 r"held-out [\d.]+%", r"loss [\d.]+"]
        for columns, bar in ((80, 19), (60, 14), (41, 10), (40, 9), (33, 8), (30, 0)):
            for line in self.progress(columns=columns):
                plain = ESCAPES.sub("", line)
                self.assertLess(len(plain), columns)
                self.assertEqual(len(re.match("[█▏▎▍▌▋▊▉░]*", plain)[0]), bar)
                text, count = plain[bar:].strip(), len(re.findall(r"(?<!%)  (?=\S)", plain[bar:].strip())) + 1
                self.assertRegex(text, "^" + "  ".join(parts[:count]) + "$")  # whole parts only

    def test_elsewhere_it_is_plain(self):
        words = ["compare", "even-pairs", "--attention", "full,topk:2", "--seeds", 2, *TINY, "--epochs", 4]
        result = self.good(*words, "--store", self.folder / "a")
        self.assertNotIn("\x1b", result.out + result.err)
        shown = self.on_terminal(*words, "--store", self.folder / "b", TERM="dumb")
        self.assertNotIn("\x1b", shown)
        self.assertNotIn("\r", shown)

    def test_one_epoch_is_no_plural(self):
        store = self.folder / "one"
        trained = self.good("train", "even-pairs", *TINY, "--epochs", 1, "--store", store)
        self.assertRegex(trained.out, r"^even-pairs: 1 run, .*, up to 1 epoch\n")
        shown = self.good("compare", "even-pairs", "--attention", "full", "--seeds", 1, *TINY, "--epochs", 1, "--store", store)
        self.assertIn(">1: not reached in 1 epoch.", shown.out)

    def test_paragraphs_are_broken_between_words(self):
        words = ["--store", self.folder / "runs", "--out", self.folder / "page.html"]
        self.good("compare", "even-pairs,parity", "--attention", "full,topk:2,banded:3", "--seeds", 2, *TINY, "--epochs", 4, *words)
        piped = self.good("report", *words).out
        sentences = [line for line in piped.splitlines() if re.search(r"(seeds|too few|corrected).*\.$", line)]
        self.assertGreater(len(sentences), 3)
        self.assertGreater(max(map(len, sentences)), 140)
        for columns in (40, 80, 133):
            shown = self.on_terminal("report", *words, columns=columns, streams=("stdout",))
            lines = shown.splitlines()
            # tables, whose lines begin with spaces or have some behind the name, are another matter
            text, wanted = ([word for line in some.splitlines() if not re.match(r" |\S+  ", line) for word in line.split()] for some in (shown, piped))
            self.assertEqual(text, wanted, "words were lost")
            for sentence in sentences:
                broken = self.paragraph(lines, sentence)
                self.assertLessEqual(max(map(len, broken)), columns)
                self.assertGreater(len(broken), len(sentence) // columns)
                for line, after in zip(broken, broken[1:]):  # no line ends before it must
                    self.assertGreater(len(line) + 1 + len(re.match(r"\S+( %\S*)?", after)[0]), columns)
                    self.assertFalse(after.startswith("%") or line.endswith(" "), (line, after))

    def test_wide_tables_come_in_two_parts(self):
        words = ("compare", "even-pairs", "--attention", "full,topk:2", "--seeds", "2", *TINY, "--epochs", "3", "--store", self.folder / "runs")
        wide, narrow = (self.on_terminal(*words, columns=columns, streams=("stdout",)).split("\n") for columns in (130, 80))
        self.assertLessEqual(max(map(len, narrow)), 80)
        rows = [line.split() for line in wide if line.startswith("topk:2 ")][:1] + [line.split() for line in narrow if line.startswith("topk:2 ")][:2]
        self.assertEqual(rows[1] + rows[2][1:], rows[0])
        plain = self.good(*words).out.splitlines()
        self.assertIn(rows[0], [line.split() for line in plain])  # a pipe has no width

    def check_width(self, shown, columns):
        wide = [line for line in shown.split("\n") if len(line) > columns]
        self.assertEqual(wide, [], f"wider than {columns}")

    def test_long_names_fit(self):
        """Run lines, tables, the footnote, the plot and its names: no line is wider than the terminal, and nothing is lost."""
        names = ["full", "topk:5+sink:1/entmax15@rope"]
        words = ["compare", "even-pairs", "--attention", ",".join(names), "--seeds", "2", *TINY, "--length", "8", "--epochs", "3",
                 "--plot"]
        del words[words.index("--length"):words.index("--length") + 2]  # that of TINY

        def cells(text):
            """What the tables say of each name, in order, however many tables there are; without times."""
            found, name = {name: [] for name in names}, None
            for line in text[:text.index("* best epoch")].splitlines():
                name = next((name for name in names if line.split()[:1] == [name]), name if line.startswith(" ") else None)
                if name:
                    found[name] += line.replace(name, "").split()
            return {name: row[:-1] for name, row in found.items()}

        plain = self.good(*words, "--store", self.folder / "plain", "--out", self.folder / "page.html").out
        wanted = cells(plain)
        self.assertEqual([len(row) for row in wanted.values()], [10, 10])
        for columns in (40, 60, 80, 100):
            shown = self.on_terminal(*words, "--store", str(columns), columns=columns, streams=("stdout",))  # short paths
            self.check_width(shown, columns)
            self.assertEqual(len(re.findall(r"(?m)^ +\d/4  \S+\s+\d+\s+95 % not reached\s+held-out\s+[\d.]+ % after 3$", shown)), 4, shown)
            self.assertEqual(cells(shown), wanted)
            self.assertIn("* best epoch: chosen on held-out data. >3: not reached in 3 epochs.", " ".join(shown.split()))
            self.assertIn("even-pairs: Training accuracy (%), median over seeds 100 |", " ".join(shown.split()))

    def test_epochs_fit(self):
        for mechanism, seed in (("full", "1"), ("topk:2+sink:1/entmax15@rope", "1"), ("topk:2+sink:1/entmax15@rope", "1,2")):
            words = ["train", "even-pairs", "--attention", mechanism, "--seed", seed, *TINY, "--epochs", "2"]
            for columns in (40, 60, 80, 100):
                store = self.folder / f"{mechanism[:4]}-{seed}-{columns}"
                shown = self.on_terminal(*words, "--store", store, columns=columns, streams=("stdout",))
                self.check_width(shown, columns)
                runs = self.read_runs(store)
                self.assertEqual(len(re.findall(r"(?m) {5}[12] .*%$", shown)), 2 * len(runs), shown)
                for run in runs:
                    self.assertIn(f"{run['train_accuracy']:.2f}%", shown)
                    self.assertIn(f"{run['heldout_accuracy']:.2f}%", shown)
                    self.assertIn(f"weights {run['weights']}", " ".join(shown.split()))

    def read_runs(self, store):
        return json.loads(self.good("runs", "--store", store, "--json").out)

    def test_lists_fit(self):
        """'runs' and 'doctor' say the same in the same order, in lines that fit."""
        store = ["--store", self.folder / "runs"]
        self.good("train", "even-pairs", "--attention", "full,topk:2+sink:1/entmax15@rope", "--seed", "1", *TINY, "--epochs", "2", *store)
        first, second = (run["id"] for run in self.read_runs(self.folder / "runs"))
        self.good("runs", "name", first, "a name of some length", *store)
        self.good("runs", "tag", first, "good", *store)
        self.good("runs", "note", second, "this is a note that is longer than most terminals are wide, as some are, and says little", *store)
        for command in ("runs", "doctor"):
            plain = self.good(command, *store).out
            self.assertGreater(max(map(len, plain.splitlines())), 80)
            for columns in (40, 60, 80, 100, 130, 300):
                shown = self.on_terminal(command, *store, columns=columns, streams=("stdout",))
                self.check_width(shown, columns)
                said, wanted = (re.sub(r"[\d.]+ GiB", "", text).split() for text in (shown, plain))  # the disk is not ours alone
                self.assertEqual(said, wanted)

    def test_help_is_broken_between_words(self):
        for command in ("train", "runs", "export"):
            plain = self.good(command, "--help").out
            for columns in (60, 80, 200):
                shown = self.on_terminal(command, "--help", columns=columns)
                longest = max(len(word) for word in plain.split())
                self.assertLessEqual(max(map(len, shown.split("\n"))), max(columns, 35 + longest))
                self.assertEqual(shown.split(), plain.split())

    def paragraph(self, lines, sentence):
        """The lines that make up a sentence."""
        for first in range(len(lines)):
            for last in range(first + 1, first + 20):
                if " ".join(lines[first:last]) == sentence:
                    return lines[first:last]
        self.fail(f"not found: {sentence}")


class Plots(Case):
    def plots(self, mechanisms):
        out = self.good("compare", "even-pairs", "--attention", mechanisms, "--seeds", 2, *TINY, "--epochs", 20, "--store",
                        self.folder / "runs", "--out", self.folder / "page.html", "--plot", "--figures", self.folder / "figures").out
        return [(re.findall(r"(?m)^ {9}([ox+*#@]) (\S+)$", part), part) for part in out.split(", median over seeds\n")[1:]]

    def test_six_are_all_shown(self):
        names = ["full", "topk:1", "topk:2", "topk:3", "banded:1", "banded:3"]
        for shown, part in self.plots(",".join(names)):
            self.assertEqual(shown, list(zip("ox+*#@", names)))
            self.assertNotIn("differ most", part)

    def test_the_most_different_are_shown(self):
        """The baseline, and those that stay farthest from all others shown: found again from the figures' numbers."""
        names = ["full", "topk:1", "topk:2", "topk:3", "banded:1", "banded:3", "block:2", "bottomk:2", "random:2", "within:1"]
        plots = self.plots(",".join(names))
        for (shown, part), figure in zip(plots, ("training-accuracy", "heldout-accuracy"), strict=True):
            curves = {name: [] for name in names}
            for line in (self.folder / "figures" / f"even-pairs-{figure}.csv").read_text().splitlines()[1:]:
                name, _, _, _, median, _ = line.split(",")
                curves[name.strip('"')].append(float(median))
            longest = max(map(len, curves.values()))
            padded = {name: curve + [curve[-1]] * (longest - len(curve)) for name, curve in curves.items()}
            def distance(one, other, curves=curves, padded=padded):
                epochs = max(len(curves[one]), len(curves[other]))
                return sum(abs(a - b) for a, b in zip(padded[one][:epochs], padded[other])) / epochs
            wanted = ["full"]
            while len(wanted) < 6:
                rest = [name for name in names if name not in wanted]
                wanted.append(max(rest, key=lambda name: min(distance(name, other) for other in wanted)))
            self.assertEqual([name for _, name in shown], [name for name in names if name in wanted])
            self.assertIn("the 6 of 10 that differ most", part)


if __name__ == "__main__":
    unittest.main()
