"""The report of runs that did not go the usual way: longer than asked for, stopped, diverged, unfinished."""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as ET

from page import NOT_A_NUMBER, OPTIONS, PROGRAM, STUDY, Case, Page, in_folder, last_wins, read_json, run

DIVERGING = ["--length", "8", "--train-count", "50", "--heldout-count", "20", "--blocks", "1", "--width", "8", "--mlp-width",
             "8", "--epochs", "20", "--optimizer", "sgd", "--clip", "0"]


def wait_until(condition, seconds=60):
    """However slow the machine is: waits for what must come, up to a limit."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


class LongerRuns(Case):
    def test_what_a_longer_study_left_does_not_count(self):
        """The store has more epochs than were asked for: the report is that of a store that has just those."""
        def results(folder, *words):
            rows = read_json(self.good(*STUDY, *words, "--json", "--store", folder / "runs", "--out", folder / "report.html",
                                       "--figures", folder / "figures").out)
            for row in rows:
                del row["epoch_seconds"]
            return rows, {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
        longer, fresh = self.folder / "longer", self.folder / "fresh"
        longer.mkdir()
        results(longer, "--stop-at", "0", "--epochs", "60")
        for words in (["--stop-at", "95"], ["--stop-at", "97"], ["--stop-at", "0", "--epochs", "10"]):
            fresh.mkdir()
            self.assertEqual(results(longer, *words), results(fresh, *words), words)
            shutil.rmtree(fresh)


class Stopped(Case):
    WORDS = ["even-pairs", *OPTIONS, "--attention", "full,topk:2", "--epochs", "60"]

    def test_before_what_is_measured(self):
        self.assertEqual(self.good("compare", *self.WORDS, "--seeds", "2", "--stop-at", "95", "--dry-run").code, 0)
        for stop in ("0.1", "75", "94.99"):
            result = run("compare", *self.WORDS, "--seeds", "2", "--stop-at", stop, cwd=self.folder)
            self.assertEqual((result.code, result.out, os.listdir(self.folder)), (2, "", []), result)
            self.assertRegex(result.err, rf"^semfocus: stop-at is {stop} .* 95 .*\n$")

    def test_a_store_of_such_runs(self):
        """They have not been seen to arrive: that is not the same as never."""
        self.good("train", *self.WORDS, "--seed", "1,2,3,4,5,6", "--stop-at", "60", "--quiet", cwd=self.folder)
        lengths = {}
        for row in read_json(self.good("runs", "--json", cwd=self.folder).out):
            self.assertIsNone(row["converged_epoch"])
            lengths.setdefault(row["attention"], []).append(row["epochs"])
        for epochs in lengths.values():
            self.assertLess(min(epochs), max(epochs))
        table = self.good("report", cwd=self.folder).out
        self.assertNotIn("never reach", table)
        self.assertIn("Neither topk:2 nor full reaches 95 %", table)
        for epochs in lengths.values():
            self.assertIn(f"6 seeds of {min(epochs)} to {max(epochs)} epochs", table)
        for row in read_json(self.good("report", "--json", cwd=self.folder).out):
            self.assertIsNone(row["epochs_median"])
        self.assertNotIn("not reached", "".join("".join(cells) for cells in Page(
            (self.folder / "report.html").read_bytes()).rows("even-pairs")))


class LastEpoch(Case):
    WORDS = ["compare", "even-pairs", "--length", "8", "--blocks", "1", "--train-count", "4", "--batch", "4",
             "--heldout-count", "20", "--width", "8", "--mlp-width", "8", "--lr", "0.5", "--clip", "0", "--attention", "full",
             "--seeds", "1", "--json"]

    def test_an_arrival_in_the_last_epoch_asked_for_is_no_early_stop(self):
        """A run that stopped on arrival may still have generalized; one whose epochs were over then has not."""
        row, = read_json(self.good(*self.WORDS, "--epochs", "60", "--stop-at", "95", cwd=self.folder).out)
        self.assertEqual((row["epochs_known"], row["heldout_epochs_known"]), (True, False))
        last = str(int(row["epochs_median"]))
        row, = read_json(self.good(*self.WORDS, "--epochs", last, cwd=self.folder).out)
        self.assertEqual((row["epochs_known"], row["heldout_epochs_known"]), (True, True))
        self.assertIsNone(row["heldout_epochs_median"])


class Diverged(Case):
    def check_text(self, folder):
        page = Page((folder / "report.html").read_bytes())
        self.assertNotRegex(page.visible_text, NOT_A_NUMBER)
        for element in page.root:
            for name, value in element.attributes.items():
                self.assertNotRegex(value, NOT_A_NUMBER, (element.tag, name))
        for path in (folder / "figures").iterdir():
            self.assertNotRegex(path.read_text(encoding="utf-8"), NOT_A_NUMBER, path.name)
            if path.suffix == ".svg":
                ET.parse(path)
        return page

    def study(self, *words):
        folder = self.folder / str(len(os.listdir(self.folder)))
        folder.mkdir()
        rows = read_json(self.good(*in_folder(folder, ["compare", "even-pairs", *DIVERGING, *words]), "--json", cwd=folder).out)
        return rows, self.check_text(folder)

    def test_some_diverge(self):
        rows, page = self.study("--attention", "full,topk:3", "--seeds", "3", "--lr", "0.1,10000")
        alone, _ = self.study("--attention", "full,topk:3", "--seeds", "3", "--lr", "0.1")
        self.assertEqual([row["diverged"] for row in rows], [0, 3, 0, 3])
        self.assertEqual([row["finished"] for row in rows], [3] * 4)
        def numbers(row):
            return {name: value for name, value in row.items()
                    if name not in ("variant", "compared_with", "verdict", "epoch_seconds", "comparisons", "p_corrected",
                                    "p_accuracy_corrected") and not name.startswith("best_setting")}
        self.assertEqual([numbers(row) for row in rows if row["diverged"] == 0], [numbers(row) for row in alone])
        for row, cells in zip(rows, page.rows("even-pairs")):
            self.assertEqual("3 diverged" in cells[-1], row["diverged"] == 3)
            self.assertEqual("at chance" in cells[-1], row["at_chance"])
            self.assertIsNone(row["epochs_median"])

    def test_all_diverge(self):
        rows, page = self.study("--attention", "full,topk:3", "--seeds", "2", "--lr", "10000")
        self.assertEqual([row["diverged"] for row in rows], [2, 2])
        self.assertEqual([cells[-1] for cells in page.rows("even-pairs")], ["at chance, 2 diverged"] * 2)

    def test_before_the_first_evaluation(self):
        """What was never measured is no accuracy of 0 %, and is not tested against others."""
        words = ["--attention", "full", "--seeds", "6", "--lr", "0.1,10000", "--weight-decay", "0,10000", "--epochs", "3"]
        rows, page = self.study(*words)
        unmeasured = [row for row in rows if row["last_heldout"] is None]
        self.assertEqual([row["variant"] for row in unmeasured], ["full lr=1e+04 weight-decay=1e+04"])
        for row, cells in zip(rows, page.rows("even-pairs")):
            numbers = [row[name] for name in ("last_heldout", "best_heldout", "gap")]
            self.assertIn(numbers.count(None), (0, 3))
            self.assertEqual(row["epoch_seconds"] is None, numbers.count(None) == 3)
            self.assertEqual([cell == "\u2013" for cell in cells[9:12]], [number is None for number in numbers])
        self.assertIsNone(unmeasured[0]["p_accuracy"])
        self.assertIn("diverged before its first evaluation", unmeasured[0]["verdict"])
        table = self.good("compare", "even-pairs", *DIVERGING, *words).out
        line = re.search(r"(?m)^full lr=1e\+04 weight-decay=1e\+04 .*$", table)[0]
        self.assertRegex(line, r"( +-){5}  6 diverged$")
        self.assertNotRegex(table, NOT_A_NUMBER)

    def test_report_says_what_compare_said(self):
        """Whether the others stopped when they got there or trained on, and though the store knows no number of epochs."""
        for stop in ("0", "95"):
            folder = self.folder / ("stop" + stop)
            folder.mkdir()
            said = self.good("compare", "even-pairs", *DIVERGING, "--train-count", "4", "--batch", "4", "--epochs", "40",
                             "--schedule", "constant", "--attention", "full", "--lr", "10000,0.5", "--seeds", "6",
                             "--stop-at", stop, "--json", cwd=folder).out
            rows = read_json(said)
            self.assertEqual(rows, read_json(self.good("report", "--json", cwd=folder).out))
            self.assertEqual((rows[0]["diverged"], rows[1]["speedup_is_at_least"]), (6, True))

    def test_only_within_the_epochs_asked_for(self):
        words = ["even-pairs", *DIVERGING, "--weight-decay", "100", "--momentum", "0.9", "--attention", "topk:3",
                 "--seed", "4,5"]
        def results(folder, *more):
            rows = read_json(self.good("compare", *words, *more, "--json", cwd=folder).out)
            for row in rows:
                del row["epoch_seconds"]
            return rows
        longer, fresh = self.folder / "longer", self.folder / "fresh"
        longer.mkdir()
        fresh.mkdir()
        self.good("train", *words, "--epochs", "40", "--quiet", cwd=longer)
        ends = [row["diverged_epoch"] for row in read_json(self.good("runs", "--json", cwd=longer).out)]
        self.assertGreater(min(ends), 2, "they diverge later than in their second epoch")
        shorter = str(min(ends) - 1)
        self.assertEqual(results(longer, "--epochs", shorter), results(fresh, "--epochs", shorter))
        self.assertEqual(results(longer, "--epochs", shorter)[0]["diverged"], 0)
        self.assertEqual(results(longer, "--epochs", "40")[0]["diverged"], 2)
        self.assertEqual(read_json(self.good("report", "--json", cwd=longer).out)[0]["diverged"], 2)

    def test_in_the_terminal(self):
        result = self.good("compare", "even-pairs", *DIVERGING, "--attention", "full,topk:3", "--seeds", "2", "--lr", "10000",
                           "--plot")
        self.assertEqual(len(re.findall(r"diverged in epoch \d+", result.out)), 4)
        self.assertEqual(len(re.findall(r"(?m)2 diverged$", result.out)), 2)
        self.assertNotRegex(result.out, NOT_A_NUMBER)


class Unfinished(Case):
    WORDS = ["compare", "even-pairs", *OPTIONS, "--stop-at", "0", "--attention", "full,topk:2", "--seeds", "3"]

    def test_one_seed(self):
        rows = read_json(self.good(*self.WORDS, "--seeds", "1", "--json", cwd=self.folder).out)
        self.assertEqual([(row["runs"], row["finished"]) for row in rows], [(1, 1), (1, 1)])
        for row in rows:
            self.assertEqual(row["epochs_q25"], row["epochs_q75"])
        self.assertIn("too few", rows[1]["verdict"])
        self.assertNotRegex(rows[1]["verdict"], "interval|1 seed are|1 seeds")
        self.assertIsNone(rows[1]["speedup_low"])
        page = Page((self.folder / "report.html").read_bytes())
        self.assertNotRegex(page.visible_text, NOT_A_NUMBER)
        self.assertNotIn("(", "".join("".join(cells) for cells in page.rows("even-pairs")), "an interval of one seed")
        self.assertEqual(page.verdicts(), [rows[1]["verdict"] + "."])
        self.assertEqual(page.root.find("path", "band"), [], "a band of one seed")

    def test_one_mechanism(self):
        rows = read_json(self.good(*self.WORDS, "--attention", "topk:2", "--json", cwd=self.folder).out)
        self.assertEqual([(row["baseline"], row["verdict"]) for row in rows], [(True, None)])
        page = Page((self.folder / "report.html").read_bytes())
        self.assertEqual((page.verdicts(), len(page.root.find("p", "none"))), ([], 1))

    def test_interrupted(self):
        words = [*self.WORDS, "--epochs", "100000", "--checkpoint-seconds", "1000", "--json"]
        with subprocess.Popen([PROGRAM, *last_wins(words)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            def under_way():
                result = run("runs", "--store", self.folder / "semfocus-runs", "--json")
                return result.code == 0 and sum(row["epochs"] > 3 for row in read_json(result.out)) > 0
            wait_until(under_way)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (128 + signal.SIGINT, b""), err)
        self.assertEqual(err.count(b"\n"), 1)
        self.assertIn(b"repeat the command to continue", err)
        self.assertEqual(os.listdir(self.folder), ["semfocus-runs"], "half a study has no report of its own")
        rows = read_json(self.good("report", "--json", cwd=self.folder).out)
        self.assertEqual([(row["runs"], row["finished"]) for row in rows], [(3, 0), (3, 0)])
        self.assertEqual({row["epochs_median"] for row in rows} | {row["verdict"] for row in rows}, {None})
        page = Page((self.folder / "report.html").read_bytes())
        told = re.match(r"(?:(\d+) runs? not finished)?(?:, )?(?:(\d+) not run)?:", page.root.find("p", "warning")[0].text)
        begun = sum(row["epochs"] > 0 for row in read_json(self.good("runs", "--json", cwd=self.folder).out))
        self.assertEqual([int(count or 0) for count in told.groups()], [begun, 6 - begun])
        for cells in page.rows("even-pairs"):
            self.assertIn(cells[-1], ("not finished", "not run"))
        self.assertNotRegex(page.visible_text, NOT_A_NUMBER)
        self.good("report", "--plot", "--figures", "figures", cwd=self.folder)
        rows = read_json(self.good(*self.WORDS, "--json", cwd=self.folder).out)  # what a shorter study needs is there
        self.assertEqual([row["finished"] for row in rows], [3, 3])

    def test_a_run_that_fails(self):
        self.good(*self.WORDS, cwd=self.folder)
        victim = next(path for path in sorted((self.folder / "semfocus-runs" / "checkpoints").iterdir())
                      if "best" not in path.name)
        victim.write_bytes(b"damaged")
        result = run(*self.WORDS, "--epochs", "50", "--json", cwd=self.folder)
        self.assertEqual(result.code, 1, result)
        self.assertIn(victim.name[:16], result.err)
        rows = read_json(result.out)
        self.assertEqual(sorted(row["finished"] for row in rows), [2, 3])
        page = Page((self.folder / "report.html").read_bytes())
        self.assertIn("1 run not finished", page.root.find("p", "warning")[0].text)

    def test_exit_codes(self):
        self.assertEqual(run(*self.WORDS, "--epochs", "0").code, 2)
        self.assertEqual(run(*self.WORDS, "--store", self.folder / "no" / "such").code, 1)
        self.assertEqual(run("report", cwd=self.folder).code, 2)


if __name__ == "__main__":
    unittest.main()
