"""semfocus paper: the questions about recall and length, judged on made-up worlds in which each answer is known, and run
at smoke scale."""
import csv
import itertools
import json
import unittest

from paper_case import StoredRuns

RECALLING = ("full", "topk:5", "within:1", "banded:9")
CARRYING = ("full", "topk:5", "within:1", "full/entmax15@logn")


class Recall(StoredRuns):
    """Stores at laptop scale; heldout(mechanism) is the accuracy of all its runs, but for a little that the seed adds."""

    EPOCHS = {"recall": 6}

    def world(self, heldout):
        self.make_store()
        for pairs, width in itertools.product((4, 8, 16), (16, 64)):
            planned = self.plan("recall", "--attention", ",".join(RECALLING), "--pairs", str(pairs), "--width", str(width),
                                "--epochs", "6", "--heldout-count", "1000", "--seeds", "10")
            self.assertEqual(len(planned), 40)
            self.enter(planned, lambda *_: None, lambda task, mechanism, i: heldout(mechanism) + 0.01 * i)
        row, = json.loads(self.paper("status", "open-recall", "--json", "--scale", "laptop").out)
        self.assertEqual((row["finished"], row["runs"]), (240, 240))
        self.assertEqual(len(row["comparisons"]), 18)
        return row, {mechanism: {c["verdict"] for c in row["comparisons"] if f" {mechanism} " in c["what"]}
                     for mechanism in RECALLING[1:]}

    def test_where_scores_recall_and_windows_do_not(self):
        row, verdicts = self.world(lambda mechanism: 2.0 if mechanism == "banded:9" else 99.0)
        self.assertEqual(row["verdict"], "agrees", row)
        self.assertEqual(verdicts, {mechanism: {"agrees"} for mechanism in RECALLING[1:]})

    def test_where_five_keys_are_too_few_and_the_window_recalls(self):
        row, verdicts = self.world(lambda mechanism: {"topk:5": 80.0, "banded:9": 99.5}.get(mechanism, 99.0))
        self.assertEqual(row["verdict"], "mixed", row)
        self.assertEqual(verdicts, {"topk:5": {"disagrees"}, "within:1": {"agrees"}, "banded:9": {"disagrees"}})


class Length(StoredRuns):
    EPOCHS = {"recall": 8, "flip-flop": 8}

    def world(self, error):
        """error(mechanism) at twice the length, which doubles with the length."""
        self.make_store()
        for task in ("flip-flop", "recall"):
            planned = self.plan(task, "--attention", ",".join(CARRYING), "--length", "33", "--epochs", "8",
                                "--heldout-count", "500", "--seeds", "8")
            self.assertEqual(len(planned), 32)
            self.enter(planned, lambda *_: 3)
            self.measure(planned, lambda task, mechanism: {f"length.x{factor}.error": factor / 2 * error(mechanism)
                                                           for factor in (2, 4, 8, 16)})
        row, = json.loads(self.paper("status", "open-length", "--json", "--scale", "laptop").out)
        self.assertEqual((row["finished"], row["runs"], len(row["comparisons"])), (64, 64, 6))
        return row

    def test_where_full_attention_spreads(self):
        row = self.world(lambda mechanism: 4.0 if mechanism == "full" else 1.0)
        self.assertEqual(row["verdict"], "agrees", row)
        self.assertIn("3.75 against 15", row["comparisons"][0]["numbers"])

    def test_where_full_attention_carries_farthest(self):
        row = self.world(lambda mechanism: 1.0 if mechanism == "full" else 4.0)
        self.assertEqual(row["verdict"], "disagrees", row)


class Smoke(StoredRuns):
    def test_figures(self):
        folder = self.folder / "figures"
        row, = json.loads(self.paper("run", "open-recall", "--scale", "smoke", "--json", "--figures", folder).out)
        self.assertEqual((row["finished"], row["runs"]), (32, 32))
        for width in (4, 8):
            with open(folder / "open-recall" / f"width-{width}.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([(r["series"], r["point"]) for r in rows],
                             [(mechanism, f"{pairs} pairs") for mechanism in RECALLING for pairs in (2, 4)])
        row, = json.loads(self.paper("run", "open-length", "--scale", "smoke", "--json", "--figures", folder).out)
        self.assertEqual((row["finished"], row["runs"]), (16, 16))
        for task in ("flip-flop", "recall"):
            run_id = self.sql("SELECT id FROM runs JOIN findings ON findings.run = runs.number WHERE name = 'length.x2.error' "
                              f"AND task = '{task}' AND attention = 'topk:5'")[0][0]
            evaluated = json.loads(self.good("evaluate", run_id, "--lengths", "66,528", "--store", self.store, "--json").out)
            stored = dict(self.sql("SELECT name, value FROM findings JOIN runs ON findings.run = runs.number "
                                   f"WHERE runs.id = '{run_id}'"))
            rows = evaluated["runs"] if isinstance(evaluated, dict) else evaluated
            errors = [100 - r["accuracy"] for r in rows]
            self.assertAlmostEqual(stored["length.x2.error"], errors[0], 9)
            self.assertAlmostEqual(stored["length.x16.error"], errors[1], 9)
            with open(folder / "open-length" / f"length-{task}.csv", newline="") as file:
                self.assertEqual(len(list(csv.DictReader(file))), 16)


if __name__ == "__main__":
    unittest.main()
