"""semfocus paper: the catalogue, runs that go on after a kill, verdicts from a store, Markdown, refusals."""
import json
import re
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, StoreCase, run, seal

WORDS = {"agrees", "disagrees", "not enough runs"}
EXPECTED = ("fig-1 fig-2 fig-3a fig-3b fig-3c fig-3d fig-3e fig-5 fig-7-8 fig-9-12 fig-13-14 fig-15-16 fig-17-18 fig-19-20 fig-21 "
            "fig-22 fig-23-26 fig-27 table-dispersion claim-full-fits-all claim-generalizes-on-four claim-parity-chance "
            "claim-topk-sooner claim-topk-generalizes claim-fixed-no-better claim-robust claim-delta-smaller "
            "claim-lipschitz-lower follow-k-sweep follow-delta-speedup follow-mask-stability follow-length "
            "follow-algorithmic-stability").split()


class Paper(StoreCase):
    def paper(self, *words, **options):
        return self.good("paper", *words, "--store", self.store, **options)

    def status(self, *words):
        rows = json.loads(self.paper("status", "--json", *words).out)
        return {(row["id"], row["scale"]): row for row in rows}


class EmptyStore(Paper):
    def test_list(self):
        for scale in ("smoke", "laptop", "paper"):
            rows = json.loads(self.paper("list", "--json", "--scale", scale).out)
            self.assertEqual([row["id"] for row in rows], EXPECTED)
            for row in rows:
                self.assertEqual(row["finished"], 0)
                self.assertEqual(row["seconds_left"] is None, row["unavailable"] is not None, row)
                self.assertGreater(len(row["says"]), 20)
                if row["unavailable"] is None:
                    self.assertGreater(row["runs"], 1)
                    self.assertGreater(row["seconds_left"], 0)
        self.assertIn("not available", {row["id"]: row["unavailable"] for row in rows}["fig-19-20"])
        self.assertFalse(self.store.exists())

    def test_larger_scales_cost_more(self):
        left = {}
        for scale in ("smoke", "laptop", "paper"):
            rows = json.loads(self.paper("list", "--json", "--scale", scale).out)
            left[scale] = {row["id"]: row["seconds_left"] for row in rows if row["seconds_left"] is not None}
        for entry, seconds in left["laptop"].items():
            self.assertLess(left["smoke"][entry], seconds, entry)
            self.assertLess(seconds, left["paper"][entry], entry)

    def test_list_into_a_closed_pipe(self):
        with subprocess.Popen([PROGRAM, "paper", "list", "--scale", "smoke", "--store", self.store], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.close()
            self.assertIn(process.wait(timeout=60), (1, -signal.SIGPIPE))

    def test_status(self):
        rows = self.status()
        self.assertEqual([entry for entry, _ in rows], EXPECTED)
        for (entry, scale), row in rows.items():
            self.assertEqual((scale, row["verdict"], row["finished"]), ("laptop", "not enough runs", 0), entry)
            self.assertTrue(row["sentence"])
        self.assertFalse(self.store.exists())
        out = self.paper("status").out
        self.assertEqual(len(out.splitlines()), len(EXPECTED))

    def test_markdown(self):
        path = self.folder / "paper.md"
        self.paper("status", "--out", path)
        text = path.read_text()
        for entry in EXPECTED:
            self.assertIn(f"\n## {entry}: ", text)
        self.assertEqual(text.count("none was trained yet"), len(EXPECTED) - 1)
        self.paper("status", "--out", path)  # its own file is replaced
        self.assertEqual(path.read_text(), text)
        other = self.write("other.md", "# mine\n")
        self.refused("paper", "status", "--out", other, "--store", self.store, mentions=("other.md", "not made by"))
        self.assertEqual(other.read_text(), "# mine\n")

    def test_refusals(self):
        for words, mentions in ((["run", "table-dispersoin"], ["table-dispersoin", "table-dispersion"]),
                                (["run", "fig-1", "nothing-like-it"], ["nothing-like-it", "paper list"]),
                                (["run", "fig-19-20"], ["fig-19-20", "not available"]),
                                (["run"], ["ID"]),
                                (["run", "fig-1", "--scale", "huge"], ["huge", "smoke|laptop|paper"]),
                                (["run", "fig-1", "--epochs", "3"], ["epochs"]),
                                (["list", "fig-1"], ["fig-1"]),
                                (["status", "fig-1"], ["fig-1"]),
                                (["list", "--out", "x"], ["out"]),
                                (["everything"], ["everything", "list, run or status"]),
                                ([], ["usage"])):
            with self.subTest(words):
                self.refused("paper", *words, "--store", self.store, mentions=mentions)
        self.assertFalse(self.store.exists())


class Smoke(Paper):
    def run_smoke(self, *entries, **options):
        return json.loads(self.paper("run", *entries, "--scale", "smoke", "--json", **options).out)

    def test_every_entry(self):
        entries = [entry for entry in EXPECTED if entry != "fig-19-20"]
        results = self.run_smoke(*entries, timeout=300)
        self.assertEqual([row["id"] for row in results], entries)
        for row in results:
            self.assertEqual((row["verdict"], row["scale"]), ("not enough runs", "smoke"), row["id"])
            self.assertEqual(row["finished"], row["runs"])
            self.assertTrue(row["comparisons"], row["id"])
            for comparison in row["comparisons"]:
                self.assertIn(comparison["verdict"], WORDS)
                self.assertNotRegex(comparison["numbers"], "nan", row["id"])
        status = self.status()
        for row in results:
            self.assertEqual(status[row["id"], "smoke"], row)
        # a store that is complete is not touched, and every run is there once
        before = self.sql("SELECT id, weights, epochs FROM runs ORDER BY id"), self.sql("SELECT * FROM findings")
        self.assertEqual(self.run_smoke(*entries, timeout=300), results)
        after = self.sql("SELECT id, weights, epochs FROM runs ORDER BY id"), self.sql("SELECT * FROM findings")
        self.assertEqual(before, after)
        rows = json.loads(self.paper("list", "--json", "--scale", "smoke").out)
        self.assertEqual([row["seconds_left"] for row in rows if row["unavailable"] is None], [0] * len(entries))

    def test_the_table_agrees_with_analyze(self):
        row, = self.run_smoke("table-dispersion")
        ids = {(r["task"], r["attention"], r["seed"]): r["id"]
               for r in json.loads(self.good("runs", "--store", self.store, "--json").out)}
        found = {c["what"]: c["numbers"] for c in row["comparisons"]}
        for task in ("even-pairs", "missing-duplicate"):
            full, topk = ids[task, "full", 153476998], ids[task, "topk:5", 153476998]
            analysis = json.loads(self.good("analyze", full, topk, "--store", self.store, "--json").out)
            places = {place["percent"]: place for place in analysis["comparisons"][0]["quantiles"]}
            for side in ("w", "x"):
                shown = re.findall(r"([-0-9.e]+) \(published", found[f"{task} topk:5: left side of {side.upper()} at 75, 90, 95 %"])
                self.assertEqual(len(shown), 3, found)
                for number, percent in zip(shown, (75, 90, 95)):
                    self.assertAlmostEqual(float(number) / places[percent][side], 1, delta=0.005)

    def test_kill_and_go_on(self):
        command = [PROGRAM, "paper", "run", "fig-7-8", "table-dispersion", "fig-5", "--scale", "smoke",
                   "--checkpoint-seconds", "0", "--threads", "1"]
        clean = subprocess.run([*command, "--json", "--store", self.folder / "clean"], capture_output=True, check=True,
                               timeout=120)
        for pause in (0.05, 0.2, 0.4, 0.8):
            with subprocess.Popen([*command, "--quiet", "--store", self.store], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                time.sleep(pause)
                process.kill()
            self.paper("status")
        resumed = subprocess.run([*command, "--json", "--store", self.store], capture_output=True, check=True, timeout=120)
        self.assertEqual(json.loads(resumed.stdout), json.loads(clean.stdout))

    def test_interrupt_keeps_what_is_done(self):
        command = [PROGRAM, "paper", "run", *(e for e in EXPECTED if e.startswith("fig") and e != "fig-19-20"), "--scale",
                   "smoke", "--quiet", "--threads", "1", "--store", self.store]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            while process.poll() is None and not self.finished():
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            err = process.stderr.read().decode()
            code = process.wait(timeout=60)
        self.assertEqual(code, 1, err)
        self.assertIn("the same command goes on", err)
        done = self.finished()
        json.loads(self.paper("run", "fig-1", "--scale", "smoke", "--json").out)
        self.assertLessEqual(done, self.finished())

    def finished(self):
        """Weights of the runs that are done, by id; none before there is a store."""
        rows = run("runs", "--store", self.store, "--json")
        return {(row["id"], row["weights"]) for row in json.loads(rows.out) if row["status"] == "done"} if rows.code == 0 else set()


class Verdicts(Paper):
    """Laptop scale without its hours of training: runs and measurements are written into a store by hand."""

    def plan(self, *words):
        """id, task, mechanism and seed of every run, as compare plans them."""
        out = self.good("compare", *words, "--dry-run", "--store", self.folder / "none").out
        return re.findall(r"^([0-9a-f]{16})  (\S+) +(\S+) +seed (\d+)", out, re.M)

    def make_store(self):
        self.good("train", "even-pairs", "--length", "4", "--train-count", "4", "--heldout-count", "4", "--blocks", "1",
                  "--width", "4", "--mlp-width", "4", "--epochs", "1", "--quiet", "--store", self.store)

    def enter(self, planned, epochs, converged, heldout=99.0):
        """Runs that reach 100 % training accuracy at converged(task, mechanism, number of its seed)."""
        seeds = sorted({seed for *_, seed in planned})
        with seal.changed(self.store) as database:
            for run_id, task, mechanism, seed in planned:
                cursor = database.execute(
                    "INSERT INTO runs (id, task, attention, seed, status, settings, epochs, checkpoint_epoch, weights)"
                    " VALUES (?, ?, ?, ?, 'done', '{}', ?, ?, '00000000000000ab')",
                    (run_id, task, mechanism, int(seed), epochs[task], epochs[task]))
                at = converged(task, mechanism, seeds.index(seed))
                database.executemany("INSERT INTO epochs VALUES (?, ?, 1, ?, 1, ?, 1)",
                                     [(cursor.lastrowid, e, 100.0 if at and e >= at else 50.0, heldout)
                                      for e in range(1, epochs[task] + 1)])

    EPOCHS = {"even-pairs": 100, "missing-duplicate": 250, "stack-manipulation": 200}

    def sooner(self, converged, seeds="6"):
        self.make_store()
        planned = self.plan(",".join(self.EPOCHS), "--attention", "full,topk:5", "--seeds", seeds)
        self.assertEqual(len(planned), 6 * int(seeds))
        self.enter(planned, self.EPOCHS, converged)
        return self.status()["claim-topk-sooner", "laptop"]

    def test_agrees(self):
        row = self.sooner(lambda task, mechanism, i: 10 + i if mechanism == "topk:5" else 40 + i)
        self.assertEqual(row["verdict"], "agrees", row)
        self.assertEqual(len(row["comparisons"]), 3)
        self.assertIn("p = 0.031", row["comparisons"][0]["numbers"])  # 2 / 2^6
        status = self.status()
        self.assertEqual(status["claim-topk-generalizes", "laptop"]["verdict"], "agrees")
        self.assertEqual(status["claim-full-fits-all", "laptop"]["verdict"], "agrees")
        self.assertEqual(status["claim-topk-sooner", "paper"]["verdict"], "not enough runs")
        self.assertEqual(status["claim-topk-sooner", "paper"]["finished"], 36)
        out = self.paper("status").out
        self.assertRegex(out, r"claim-topk-sooner +laptop +agrees ")
        path = self.folder / "paper.md"
        self.paper("status", "--out", path)
        self.assertIn("**agrees at scale laptop** (36 of 36 runs", path.read_text())

    def test_disagrees_where_one_task_does(self):
        row = self.sooner(lambda task, mechanism, i:
                          (30 if task == "stack-manipulation" else 10) + i if mechanism == "topk:5" else 25 + i)
        self.assertEqual(row["verdict"], "disagrees", row)
        self.assertIn("stack-manipulation", row["sentence"])
        self.assertEqual([c["verdict"] for c in row["comparisons"]], ["agrees", "agrees", "disagrees"])

    def test_not_enough_runs(self):
        row = self.sooner(lambda task, mechanism, i: 10 + i if mechanism == "topk:5" else 40 + i, seeds="5")
        self.assertEqual((row["verdict"], row["finished"], row["runs"]), ("not enough runs", 30, 36), row)

    def measure(self, planned, values):
        with seal.changed(self.store) as database:
            for run_id, task, mechanism, _ in planned:
                number, = database.execute("SELECT number FROM runs WHERE id = ?", (run_id,)).fetchone()
                for name, value in values(task, mechanism).items():
                    database.execute("INSERT INTO findings VALUES (?, '00000000000000ab', ?, ?)", (number, name, value))

    def published(self, factor):
        """The published quantiles, as SPEC §4 has them, with delta_s of full too large by a factor."""
        table = {"even-pairs": ((2.03, 4.73, 9.44), (1.03, 2.84, 5.50), (.009, .003, .002), (6, 17, 26)),
                 "missing-duplicate": ((4.63, 9.25, 17.1), (2.36, 4.25, 4.88), (.018, .006, .003), (7, 15, 21))}

        def values(task, mechanism):
            full, kept, separation, degree = table[task]
            out = {"scores.delta_s.q50": 1.0}
            for q, s, h, gap, d in zip((75, 90, 95), full, kept, separation, degree):
                if mechanism == "full":
                    out[f"scores.delta_s.q{q}"] = s * factor
                else:
                    out[f"scores.delta_h.q{q}"] = h
                    out[f"scores.separation.q{100 - q}"] = gap
                    out[f"scores.in_degree.q{q}"] = d
            return out
        return values

    def dispersion(self, factor):
        self.make_store()
        planned = self.plan("even-pairs,missing-duplicate", "--attention", "full,topk:5", "--seed", "140439608")
        self.enter(planned, self.EPOCHS, lambda *_: 10)
        before = self.status()["table-dispersion", "laptop"]
        self.assertEqual(before["verdict"], "not enough runs")
        self.assertIn("still to be measured", before["sentence"])
        self.measure(planned, self.published(factor))
        return self.status()

    def test_the_published_table_agrees_with_itself(self):
        status = self.dispersion(1)
        row = status["table-dispersion", "laptop"]
        self.assertEqual(row["verdict"], "agrees", row)
        numbers = {c["what"]: c["numbers"] for c in row["comparisons"]}
        # the left sides come out of the published quantiles to the digits printed
        self.assertIn("1.53 (published 1.53), 1.09 (published 1.09), 0.666 (published 0.67)",
                      {c["what"]: c["numbers"] for c in status["fig-21", "laptop"]["comparisons"]}[
                          "missing-duplicate topk:5: left side of W at 75, 90, 95 %"])
        self.assertEqual(len(numbers), 14)
        for entry in ("fig-21", "fig-22"):
            self.assertEqual(status[entry, "laptop"]["verdict"], "agrees")

    def test_a_table_that_is_not_the_published_one(self):
        status = self.dispersion(3)
        self.assertEqual(status["table-dispersion", "laptop"]["verdict"], "disagrees")
        self.assertEqual(status["fig-21", "laptop"]["verdict"], "disagrees")


if __name__ == "__main__":
    unittest.main()
