"""semfocus paper: verdicts from a store at laptop scale, without its hours of training."""
import math
import random
import re
import statistics
import unittest

from paper_case import StoredRuns


class Verdicts(StoredRuns):
    """Laptop scale without its hours of training: runs and measurements are written into a store by hand."""

    def faster(self, converged, seeds="8", **options):
        self.make_store()
        planned = self.plan(",".join(self.EPOCHS), "--attention", "full,topk:5", "--seeds", seeds)
        self.assertEqual(len(planned), 6 * int(seeds))
        self.enter(planned, converged, **options)
        return self.status("--scale", "laptop")["claim-topk-faster", "laptop"]

    def test_agrees(self):
        row = self.faster(lambda task, mechanism, i: 10 + i if mechanism == "topk:5" else 40 + i)
        self.assertEqual(row["verdict"], "agrees", row)
        self.assertEqual(len(row["comparisons"]), 6)
        for comparison in row["comparisons"]:
            self.assertAlmostEqual(comparison["p"], 2 / 2**8)
            self.assertAlmostEqual(comparison["p_corrected"], 6 * 2 / 2**8)
            self.assertEqual(comparison["together"], 6)
            self.assertIn("Holm's correction over 6 comparisons", comparison["numbers"])
        status = self.status()
        self.assertEqual(status["claim-topk-generalizes", "laptop"]["verdict"], "agrees")
        self.assertEqual(status["claim-full-fits-all", "laptop"]["verdict"], "agrees")
        self.assertEqual(status["claim-topk-faster", "paper"]["verdict"], "not enough runs")
        self.assertEqual(status["claim-topk-faster", "paper"]["finished"], 48)
        self.assertEqual({scale for _, scale in self.status("--scale", "smoke")}, {"smoke"})
        out = self.paper("status").out
        self.assertRegex(out, r"claim-topk-faster +laptop +agrees ")
        path = self.folder / "paper.md"
        self.paper("status", "--out", path)
        self.assertIn("**agrees at scale laptop** (48 of 48 runs", path.read_text())

    def test_mixed_where_one_task_is_the_other_way(self):
        row = self.faster(lambda task, mechanism, i:
                          (30 if task == "stack-manipulation" else 10) + i if mechanism == "topk:5" else 25 + i)
        self.assertEqual(row["verdict"], "mixed", row)
        self.assertIn("first: stack-manipulation topk:5: training loss", row["sentence"])
        self.assertEqual([c["verdict"] for c in row["comparisons"]], 2 * ["agrees", "agrees", "disagrees"])

    def test_what_is_not_significant_does_not_disagree(self):
        """Later for five seeds of eight on one task, as a first version of this catalogue called disagreement."""
        row = self.faster(lambda task, mechanism, i:
                          25 if mechanism == "full" else 10 + i if task != "stack-manipulation" else 28 + i if i < 5 else 20 - i)
        self.assertEqual([c["verdict"] for c in row["comparisons"]], 2 * ["agrees", "agrees", "no difference found"])
        self.assertEqual(row["verdict"], "agrees")
        self.assertIn("2 show no difference", row["sentence"])

    def test_no_difference_at_all(self):
        row = self.faster(lambda task, mechanism, i: 25 + (i % 2 if mechanism == "full" else (i + 1) % 2))
        self.assertEqual({c["verdict"] for c in row["comparisons"]}, {"no difference found"})
        self.assertEqual(row["verdict"], "no difference found")

    def test_not_enough_runs(self):
        row = self.faster(lambda task, mechanism, i: 10 + i if mechanism == "topk:5" else 40 + i, seeds="6")
        self.assertEqual((row["verdict"], row["finished"], row["runs"]), ("not enough runs", 36, 48), row)
        for comparison in row["comparisons"]:
            self.assertEqual(comparison["verdict"], "not enough runs")
            self.assertIn("6 seeds: too few for a test of 6 comparisons", comparison["numbers"])

    def test_never_reached_and_not_run(self):
        self.make_store()
        planned = self.plan("even-pairs", "--attention", "full,banded:5", "--seeds", "8")
        self.enter(planned, lambda task, mechanism, i: None if mechanism == "banded:5" else 40 + i)
        rows = {c["what"]: c for c in self.status("--scale", "laptop")["claim-fixed-no-benefit", "laptop"]["comparisons"]}
        band = rows["even-pairs banded:5: epochs to 95 % training accuracy"]
        self.assertEqual(band["verdict"], "agrees")
        self.assertIn("this never reached, full in 43.5 epochs", band["numbers"])
        block = rows["even-pairs block:5: epochs to 95 % training accuracy"]
        self.assertEqual(block["verdict"], "not run")
        self.assertIn("this not run, full in 43.5 epochs", block["numbers"])
        self.assertNotIn("never", block["numbers"])
        some = rows["some bands or blocks: never reach 100 % training accuracy"]
        self.assertEqual(some["verdict"], "agrees")
        self.assertIn("1 of 1 never reach 99 % with any seed: even-pairs banded:5", some["numbers"])

    def test_speedup_in_loss(self):
        """Against a brute force over the median curves."""
        draws = random.Random(5)
        curves = {}

        def loss(task, mechanism, i):
            rate = 0.05 if mechanism == "topk:5" else 0.02
            curve = [math.exp(-rate * e) + 0.1 * draws.random() for e in range(self.EPOCHS[task])]
            curves[task, mechanism, i] = curve
            return curve
        row = self.faster(lambda *_: 30, loss=loss)
        rows = {c["what"]: c for c in row["comparisons"]}
        for task, epochs in self.EPOCHS.items():
            ours, full = ([statistics.median(curves[task, mechanism, i][e] for i in range(8)) for e in range(epochs)]
                          for mechanism in ("topk:5", "full"))
            self.check_speedup_in_loss(rows[f"{task} topk:5: training loss"]["speedup_in_loss"], ours, full)
            # and the paired measure: epochs to the lowest loss that both runs of a seed reach
            ratios = []
            for i in range(8):
                a, b = curves[task, "topk:5", i], curves[task, "full", i]
                both = max(min(a), min(b))
                ratios.append(next(e for e in range(1, epochs + 1) if b[e - 1] <= both) /
                              next(e for e in range(1, epochs + 1) if a[e - 1] <= both))
            middle = math.exp(statistics.median(math.log(ratio) for ratio in ratios))
            self.assertIn(f"paired by seed (median ratio): {middle:.3g} times as fast", rows[f"{task} topk:5: training loss"]["numbers"])

    def test_k_sweep_judges_accuracy_too(self):
        """A k that is fast and inaccurate does not agree."""
        self.make_store()
        planned = self.plan("even-pairs,stack-manipulation", "--attention",
                            "topk:1,topk:3,topk:5,topk:9,topk:15,topk:25,full", "--seeds", "9")
        self.enter(planned, lambda task, mechanism, i: 10 + i if mechanism != "full" else 40 + i,
                   heldout=lambda task, mechanism, i: 60.0 + i if mechanism == "topk:1" else 99.0 - i / 10)
        row = self.status("--scale", "laptop")["follow-k-sweep", "laptop"]
        self.assertEqual(row["verdict"], "mixed")
        verdicts = {c["what"]: c["verdict"] for c in row["comparisons"]}
        self.assertEqual(verdicts["even-pairs topk:1: epochs to 95 % training accuracy"], "agrees")
        self.assertEqual(verdicts["even-pairs topk:1: held-out accuracy"], "disagrees")
        self.assertEqual(verdicts["even-pairs topk:3: held-out accuracy"], "agrees")
        self.assertEqual({c["together"] for c in row["comparisons"] if c["judged"]}, {12})
        shown = row["comparisons"][0]
        self.assertEqual(shown["verdict"], "shown")
        self.assertIn("topk:1 14 epochs, 64.0 %; topk:3 14 epochs, 98.6 %", shown["numbers"])

    PERCENTS = (75, 90, 95, 100)
    # delta_s (full), delta_h, Delta_h, in-degree, W, X at 75, 90, 95, 100 %, as published
    TABLE = {"even-pairs": ((2.03, 4.73, 9.44, 14.6), (1.03, 2.84, 5.50, 8.25), (.009, .003, .002, 3e-8), (6, 17, 26, 40),
                            (3.17, 1.98, 1.31, 1.80), (3.02, 2.10, 1.42, 1.90)),
             "missing-duplicate": ((4.63, 9.25, 17.1, 23.9), (2.36, 4.25, 4.88, 10.5), (.018, .006, .003, 1e-7), (7, 15, 21, 40),
                                   (1.53, 1.09, .67, 1.14), (1.53, 1.15, .72, 1.20))}

    def published(self, factor):
        """The published quantiles, with delta_s of full too large by a factor."""
        def values(task, mechanism):
            full, kept, separation, degree, *_ = self.TABLE[task]
            out = {"scores.last.train1000.delta_s.q50": 1.0}
            for q, s, h, gap, d in zip(self.PERCENTS, full, kept, separation, degree):
                if mechanism == "full":
                    out[f"scores.last.train1000.delta_s.q{q}"] = s * factor
                else:
                    out[f"scores.last.train1000.delta_h.q{q}"] = h
                    out[f"scores.last.train1000.separation.q{100 - q}"] = gap
                    out[f"scores.last.train1000.in_degree.q{q}"] = d
            return out
        return values

    def table(self, factor):
        self.make_store()
        planned = self.plan("even-pairs,missing-duplicate", "--attention", "full,topk:5", "--seed", "140439608")
        self.enter(planned, lambda *_: 10)
        before = self.status("--scale", "laptop")["tab-6", "laptop"]
        self.assertEqual(before["verdict"], "not enough runs")
        self.assertIn("still to be measured", before["sentence"])
        self.measure(planned, self.published(factor))
        return self.status("--scale", "laptop")["tab-6", "laptop"]

    def test_the_published_table_agrees_with_itself(self):
        row = self.table(1)
        self.assertEqual(row["verdict"], "agrees", row)
        numbers = {c["what"]: c["numbers"] for c in row["comparisons"]}
        self.assertEqual(len(numbers), 14)
        # the left sides come out of the published quantiles to the digits printed
        for task, columns in self.TABLE.items():
            for side, values in zip("WX", columns[4:]):
                shown = re.findall(r"([0-9.e+-]+) \(published ([0-9.e+-]+)\)",
                                   numbers[f"{task} topk:5: left side of {side} at 75, 90, 95, 100 %"])
                self.assertEqual([float(b) for _, b in shown], list(values))
                for ours, value in zip(shown, values):
                    self.assertAlmostEqual(float(ours[0]), value, delta=0.015)
        lower = [c for c in row["comparisons"] if "delta_h against" in c["what"]]
        self.assertEqual([c["verdict"] for c in lower], ["shown", "shown"])  # one seed is no test

    def test_a_table_that_is_not_the_published_one(self):
        """One run on either side: it cannot be decided."""
        row = self.table(3)
        self.assertEqual(row["verdict"], "not enough runs")
        self.assertNotIn("disagrees", {c["verdict"] for c in row["comparisons"]})
        self.assertIn("one run on either side cannot decide", str(row["comparisons"]))

    def test_points_of_dispersion_and_speed(self):
        self.make_store()
        planned = self.plan(",".join(self.EPOCHS), "--attention", "full,topk:5", "--seeds", "7")
        speed = {"even-pairs": 5, "missing-duplicate": 2, "stack-manipulation": 1}
        self.enter(planned, lambda task, mechanism, i: 10 if mechanism == "topk:5" else 10 * speed[task])

        def values(task, mechanism):
            out = {}
            for at, ratio in (("init", 4 - speed[task] / 2), ("last", speed[task] + 1)):
                out[f"scores.{at}.train1000.delta_s.q50"] = 1.0
                out[f"scores.{at}.train1000.delta_s.q95"] = 2 * ratio
                out[f"scores.{at}.train1000.delta_h.q95"] = 2.0
            return out
        self.measure(planned, values)
        row = self.status("--scale", "laptop")["follow-delta-speedup", "laptop"]
        self.assertEqual(row["verdict"], "not enough runs")  # of three points none can be significant
        self.assertEqual([(p["series"], p["name"], p["x"], p["y"]) for p in row["points"]],
                         [("initial weights", "even-pairs", 1.5, 5.0), ("initial weights", "missing-duplicate", 3.0, 2.0),
                          ("initial weights", "stack-manipulation", 3.5, 1.0), ("trained weights", "even-pairs", 6.0, 5.0),
                          ("trained weights", "missing-duplicate", 3.0, 2.0), ("trained weights", "stack-manipulation", 2.0, 1.0)])
        numbers = [c["numbers"] for c in row["comparisons"]]
        self.assertIn("tau -1 over 3 points", numbers[0])
        self.assertIn("tau +1 over 3 points", numbers[1])
        self.assertIn("3 points: too few for a test", numbers[0])
        path = self.folder / "paper.md"
        self.paper("status", "--out", path)
        self.assertIn("| trained weights | even-pairs | 6 | 5 |", path.read_text())


if __name__ == "__main__":
    unittest.main()
