"""analyze: tables, JSON, weights at three moments, recorded curves, comparisons, and what it refuses."""
import csv
import io
import json
import math
import re
import unittest

from harness import SMALL, Case, StoreCase, run

PERCENTS = ["0", "1", "5", "10", "25", "50", "75", "90", "95", "99", "100"]
RECORDED = ["delta_s", "delta_h", "separation", "in_degree", "effective_keys", "entropy"]


class Analyze(StoreCase):
    def analyze(self, *words, store=None, **options):
        return json.loads(self.good("analyze", *words, "--json", "--store", store or self.store, **options).out)

    def refuse(self, *words, mentions=(), codes=(2,), **options):
        return self.refused("analyze", *words, "--store", self.store, mentions=mentions, codes=codes, **options)


class Results(Analyze):
    def test_every_mechanism(self):
        names = ["full", "topk:3", "bottomk:3", "random:3", "banded:3", "block:3+global:2"]
        for name, heads, norm in [(name, heads, norm) for name in names for heads, norm in ((1, "pre"), (3, "post"))]:
            run, = self.train(name, "--heads", heads, "--norm", norm)
            row, = self.analyze(run)["runs"]
            queries = 120 * row["positions"] * heads
            self.assertEqual((row["attention"], row["heads"], row["samples"]), (name, heads, 120))
            self.assertEqual(len(row["blocks"]), 2)
            for block in row["blocks"]:
                measures = block["measures"]
                self.assertEqual(measures["delta_s"]["count"], queries)
                self.assertEqual(len(block["heads"]), heads)
                self.assertEqual(max(head["gamma"] for head in block["heads"]), block["norms"]["gamma"])
                self.assertEqual("separation" in measures, name in ("topk:3", "bottomk:3"))
                self.assertEqual(block["holds_w"] is None, "separation" not in measures)
                for values in (entry["quantiles"] for entry in measures.values()):
                    self.assertEqual(list(values), PERCENTS)
                    ordered = list(values.values())
                    self.assertEqual(ordered, sorted(ordered), values)
            total = row["overall"]["measures"]
            self.assertEqual(total["delta_s"]["count"], 2 * queries)
            for m in ("delta_s", "delta_h"):
                self.assertEqual(total[m]["quantiles"]["100"],
                                 max(block["measures"][m]["quantiles"]["100"] for block in row["blocks"]))
            k = row["k"]
            self.assertEqual(k, row["positions"] if name == "full" else 3)
            self.assertAlmostEqual(total["sink_ratio"]["quantiles"]["90"] * k, total["in_degree"]["quantiles"]["90"])
            self.assertAlmostEqual(total["ln_xi_s"]["quantiles"]["100"],
                                   total["delta_s"]["quantiles"]["100"] - math.log(row["positions"]), places=9)

    def test_threads_and_repetition_change_nothing(self):
        run, = self.train("topk:3", "--heldout-count", 500)
        first = self.good("analyze", run, "--store", self.store, "--json", "--threads", 1).raw
        for threads in (1, 2, 5):
            self.assertEqual(self.good("analyze", run, "--store", self.store, "--json", "--threads", threads).raw, first)
        text = self.good("analyze", run, "--store", self.store, "--threads", 1).out
        self.assertEqual(self.good("analyze", run, "--store", self.store, "--threads", 3).out, text)
        for word in ("delta_s", "Delta_h", "in-degree", "beta", "ln xi", "Gamma", "Upsilon", "W < 1 for"):
            self.assertIn(word, text)

    def test_moments_splits_and_samples(self):
        run, = self.train("topk:3")
        last, best, initial = (self.analyze(run, "--at", at)["runs"][0] for at in ("last", "best", "init"))
        self.assertEqual((last["epoch"], initial["epoch"]), (2, 0))
        self.assertIn(best["epoch"], (1, 2))
        self.assertNotEqual(last["overall"], initial["overall"])
        training, = self.analyze(run, "--split", "train")["runs"]
        self.assertEqual(training["samples"], 60)
        few, = self.analyze(run, "--samples", 7)["runs"]
        self.assertEqual((few["samples"], few["overall"]["measures"]["delta_s"]["count"]), (7, 7 * 12 * 2))
        self.assertEqual(self.analyze(run, "--samples", 1000)["runs"], [last])

    def test_initial_weights_are_those_of_any_mechanism(self):
        full, topk = self.train("full,topk:5")
        rows = self.analyze(full, topk, "--at", "init")["runs"]
        self.assertEqual(rows[0]["blocks"][0]["norms"], rows[1]["blocks"][0]["norms"])
        self.assertEqual(rows[0]["positions"], rows[1]["positions"])
        self.assertEqual(rows[0]["blocks"][0]["measures"]["delta_s"], rows[1]["blocks"][0]["measures"]["delta_s"])

    def test_comparison(self):
        runs = self.train("full,topk:3", "--seed", "1,2")
        result = self.analyze(*runs)
        by_id = {row["id"]: row for row in result["runs"]}
        self.assertEqual(len(result["comparisons"]), 2)
        for comparison in result["comparisons"]:
            full, sparse = by_id[comparison["full"]], by_id[comparison["sparse"]]
            self.assertEqual((full["attention"], sparse["attention"]), ("full", "topk:3"))
            self.assertEqual(full["seed"], sparse["seed"])
            self.assertLessEqual({50, 75, 90, 95}, {place["percent"] for place in comparison["quantiles"]})
            for place in comparison["quantiles"]:
                q, other = f"{place['percent']:g}", f"{100 - place['percent']:g}"
                ours, theirs = sparse["overall"]["measures"], full["overall"]["measures"]
                s, h = theirs["delta_s"]["quantiles"][q], ours["delta_h"]["quantiles"][q]
                gap, beta = max(ours["separation"]["quantiles"][other], 1e-9), ours["in_degree"]["quantiles"][q] / 3
                c1, c2 = h / s, gap / s
                w = c1 + math.log(2 * (1 + 1 / (c2 * s))) / s
                x = c1 + math.log(s * (1 + beta) * (1 + 1 / (c2 * s)) + beta) / s - math.log(s + 1) / s
                self.assertAlmostEqual(place["w"], w, delta=1e-8 * abs(w))
                self.assertAlmostEqual(place["x"], x, delta=1e-8 * abs(x))
        self.assertIn("quantile by quantile", self.good("analyze", *runs, "--store", self.store).out)
        self.assertEqual(self.analyze(runs[1], runs[2])["comparisons"], [])
        other, = self.train("topk:3", "--seed", 1, "--lr", "0.2")
        self.assertEqual(self.analyze(runs[0], other)["comparisons"], [])

    def test_comparison_says_what_it_compares(self):
        """Other epochs, and runs that diverged; nothing of it where there is nothing to say."""
        full, = self.train("full", "--seed", 31, "--epochs", 1)
        sparse, = self.train("topk:3", "--seed", 31, "--epochs", 6)
        result, = self.analyze(full, sparse)["comparisons"]
        self.assertEqual([result[key] for key in ("full_epoch", "sparse_epoch", "full_status", "sparse_status")],
                         [1, 6, "done", "done"])
        text = self.good("analyze", full, sparse, "--store", self.store).out
        self.assertIn(f"delta_s of full ({full}, after epoch 1), the rest of topk:3 ({sparse}, after epoch 6), ", text)
        text = self.good("analyze", full, sparse, "--store", self.store, "--at", "init").out
        self.assertIn(f"delta_s of full ({full}), the rest of topk:3 ({sparse}), ", text)
        self.train("full", "--seed", 31, "--epochs", 6)
        text = self.good("analyze", full, sparse, "--store", self.store).out
        self.assertIn(f"delta_s of full ({full}), the rest of topk:3 ({sparse}), ", text)
        self.sql("UPDATE runs SET status = 'diverged', diverged_epoch = 7 WHERE id = ?", sparse)
        result, = self.analyze(full, sparse)["comparisons"]
        self.assertEqual((result["sparse_epoch"], result["sparse_status"]), (6, "diverged"))
        text = self.good("analyze", full, sparse, "--store", self.store).out
        self.assertIn(f"of full ({full}), the rest of topk:3 ({sparse}, after epoch 6, diverged in epoch 7), ", text)

    def test_degenerate_shapes(self):
        run, = self.train("topk:10", "--pad", "none")  # as many as there are: full
        row, = self.analyze(run)["runs"]
        self.assertEqual((row["attention"], row["k"]), ("full", 10))
        self.assertNotIn("separation", row["overall"]["measures"])
        settings = ["--length", "1", "--train-count", "10", "--heldout-count", "10", "--blocks", "1", "--width", "4",
                    "--mlp-width", "4"]
        run, = self.train("topk:1", task="parity", settings=settings)
        row, = self.analyze(run)["runs"]
        self.assertEqual(row["overall"]["measures"]["delta_s"]["quantiles"]["100"], 0)
        self.assertEqual(row["overall"]["measures"]["ln_xi"]["quantiles"]["100"], 0)
        self.assertEqual(row["overall"]["measures"]["in_degree"]["quantiles"]["50"], 1)
        text = self.good("analyze", run, "--samples", 1, "--bounds", "--lipschitz", "--store", self.store).out
        self.assertIn("1 held-out sequence of 1 position, 1 head\n", text)
        self.assertNotRegex(text, r"\b1 (sequences|positions|heads)\b")

    def test_flat_scores(self):
        run, = self.train("topk:3", "--inverse-temperature", 0)  # all scores are 0: no separation at all
        row, = self.analyze(run)["runs"]
        measures = row["overall"]["measures"]
        self.assertEqual(measures["separation"]["quantiles"]["100"], 0)
        self.assertEqual(measures["w"]["quantiles"]["0"], "infinity")
        self.assertEqual((row["overall"]["holds_w"], row["overall"]["holds_x"]), (0, 0))
        self.assertEqual(row["overall"]["norms"]["gamma"], 0)

    def test_another_instruction_set_reads_the_weights(self):
        run, = self.train("topk:3")
        here, = self.analyze(run)["runs"]
        there, = self.analyze(run, env={"SEMFOCUS_ISA": "scalar"})["runs"]
        for q, value in here["overall"]["measures"]["delta_s"]["quantiles"].items():
            self.assertAlmostEqual(there["overall"]["measures"]["delta_s"]["quantiles"][q], value, delta=1e-4 + 1e-3 * value)
        self.assertEqual(here["overall"]["norms"], there["overall"]["norms"])


class Theory(Analyze):
    KINDS = ["published", "proven", "local"]

    def test_bounds(self):
        for name, heads in (("full", 1), ("topk:3", 2), ("banded:3", 1), ("random:3", 1)):
            run, = self.train(name, "--heads", heads)
            row, = self.analyze(run, "--bounds")["runs"]
            bounds = row["bounds"]
            self.assertEqual((bounds["samples"], bounds["positions"], len(bounds["blocks"])), (120, row["positions"], 2))
            for block, measured in zip(bounds["blocks"], row["blocks"]):
                domain, quantiles = block["domain"], measured["measures"]
                self.assertAlmostEqual(domain["dispersion"], quantiles["delta_h"]["quantiles"]["100"], places=5)
                self.assertEqual(domain["separation"] is None, name != "topk:3")
                self.assertAlmostEqual(block["gamma"], measured["norms"]["gamma"], delta=1e-4 * block["gamma"])
                self.assertAlmostEqual(block["w1"], measured["norms"]["w1"], delta=1e-4 * block["w1"])
                for part in ("softmax", "attention_input", "attention_weights", "block_input", "block_weights"):
                    self.assertEqual(list(block[part]), self.KINDS)
                    if name != "random:3":
                        self.assertGreaterEqual(block[part]["proven"], block[part]["local"] * (1 - 1e-9), part)
            self.assertLessEqual(bounds["log10_loss_weights"]["local"], bounds["log10_loss_weights"]["published"] + 1e-9)
            text = self.good("analyze", run, "--bounds", "--store", self.store, "--samples", 30).out
            for word in ("measured on 30 sequences", "published", "proven", "local", "softmax", "loss, all parameters",
                         "Delta >="):
                self.assertIn(word, text)

    def test_infinite_bounds_are_infinity(self):
        """As in the quantiles of one document. Scores that are all equal have a separation of 0."""
        run, = self.train("topk:3", "--inverse-temperature", 0)
        row, = self.analyze(run, "--bounds", "--lipschitz")["runs"]
        self.assertEqual(row["bounds"]["blocks"][0]["domain"]["separation"], 0)
        self.assertEqual(row["bounds"]["blocks"][0]["softmax"]["published"], "infinity")
        self.assertEqual(row["overall"]["measures"]["w"]["quantiles"]["0"], "infinity")
        self.assertRegex(self.good("analyze", run, "--bounds", "--store", self.store).out, r"softmax +0 +inf +inf")

    def test_scores_that_nothing_moves_choose_the_same_keys(self):
        run, = self.train("topk:3", "--inverse-temperature", 0)
        row, = self.analyze(run, "--bounds")["runs"]
        for block in row["bounds"]["blocks"]:
            for part in ("attention_input", "attention_weights", "block_input", "block_weights"):
                published, proven, local = (block[part][kind] for kind in self.KINDS)
                self.assertTrue(math.inf > published >= proven >= local > 0, (part, block[part]))

    def test_local_lipschitz(self):
        for name in ("full", "topk:3"):
            run, = self.train(name)
            row, = self.analyze(run, "--lipschitz", "--bounds", "--samples", 20)["runs"]
            found = row["lipschitz"]
            self.assertEqual((found["samples"], len(found["blocks"])), (20, 2))
            for block, bounds in zip(found["blocks"], row["bounds"]["blocks"]):
                order = [block[key] for key in ("least", "lower_quartile", "median", "upper_quartile", "largest")]
                self.assertEqual(order, sorted(order))
                self.assertGreater(order[0], 0)
                self.assertLessEqual(block["largest"], bounds["attention_input"]["local"])
                self.assertAlmostEqual(block["largest_over_bound"], block["largest"] / bounds["attention_input"]["local"])
                self.assertAlmostEqual(block["largest_over_root"], block["largest"] / math.sqrt(found["positions"]))
                self.assertAlmostEqual(block["largest_over_law"], block["largest"] / bounds["length_law"])
            self.assertEqual(self.analyze(run, "--lipschitz")["runs"][0]["lipschitz"]["samples"], 50)
            self.assertIn("sqrt(T)", self.good("analyze", run, "--lipschitz", "--store", self.store).out)

    def test_mask_stability(self):
        run, = self.train("topk:3")
        row, = self.analyze(run, "--mask-stability")["runs"]
        found = row["mask_stability"]
        self.assertEqual((found["samples"], found["k"], found["fixed"], len(found["blocks"])), (120, 3, False, 2))
        for block in found["blocks"]:
            noises = [scale["noise"] for scale in block]
            self.assertEqual(noises, [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1])
            self.assertGreater(block[0]["keys_unchanged"], block[-1]["keys_unchanged"])
            for scale in block:
                self.assertGreaterEqual(scale["keys_unchanged"], scale["masks_unchanged"])
                self.assertEqual(scale["queries"], 120 * row["positions"])
                self.assertEqual(sum(part["queries"] for part in scale["by_separation"]), scale["queries"])
                same = sum(part["keys_unchanged"] * part["queries"] for part in scale["by_separation"] if part["queries"])
                self.assertAlmostEqual(same / scale["queries"], scale["keys_unchanged"])
        text = self.good("analyze", run, "--mask-stability", "--store", self.store).out
        for word in ("noise", "kept keys", "all the same", "Delta_h from", "120 sequences"):
            self.assertIn(word, text)
        self.assertIn("; 1 sequence\n",
                      self.good("analyze", run, "--mask-stability", "--samples", 1, "--store", self.store).out)
        fixed, = self.train("banded:3")
        self.assertTrue(self.analyze(fixed, "--mask-stability")["runs"][0]["mask_stability"]["fixed"])
        self.assertIn("noise does not change them", self.good("analyze", fixed, "--mask-stability", "--store", self.store).out)

    def test_threads_change_nothing(self):
        runs = self.train("full,topk:3")
        words = ["analyze", *runs, "--store", self.store, "--json", "--bounds", "--lipschitz", "--mask-stability", "--samples",
                 12, "--perturbed", 0.5]
        first = self.good(*words, "--threads", 1).raw
        for threads in (2, 5):
            self.assertEqual(self.good(*words, "--threads", threads).raw, first)

    def test_only_what_is_asked_for(self):
        run, = self.train("topk:3")
        row, = self.analyze(run)["runs"]
        self.assertFalse({"bounds", "lipschitz", "mask_stability", "perturbed"} & set(row))
        self.assertTrue(set(row) < set(self.analyze(run, "--bounds")["runs"][0]))

    def test_perturbed(self):
        full, topk = self.train("full,topk:3")
        plain = self.analyze(full, topk)
        self.assertEqual(self.analyze(full, topk, "--perturbed", 0), plain)
        near, far, other = (self.analyze(full, topk, "--perturbed", *words) for words in
                            ((1e-4,), (1,), (1, "--direction-seed", 7)))
        self.assertEqual((far["runs"][0]["perturbed"], far["runs"][0]["direction_seed"]), (1, 11111))
        self.assertEqual(self.analyze(full, topk, "--perturbed", 1), far)
        self.assertEqual(len(far["comparisons"]), 1)
        for i in range(2):
            def median(result, i=i):
                return result["runs"][i]["overall"]["measures"]["delta_s"]["quantiles"]["50"]
            self.assertAlmostEqual(median(near), median(plain), delta=0.01 * median(plain))
            self.assertNotAlmostEqual(median(far), median(plain), delta=0.01 * median(plain))
            self.assertNotEqual(median(other), median(far))
        text = self.good("analyze", topk, "--perturbed", 0.5, "--store", self.store).out
        self.assertIn("moved by 0.5 along the first direction of seed 11111", text)


class Regions(Analyze):
    def test_files(self):
        runs = self.train("full,topk:3", "--seed", "1,2")
        text = self.good("analyze", *runs, "--store", self.store, "--figures", self.folder / "figures").out
        self.assertTrue(text.endswith(f"\nfigures: {self.folder / 'figures'}\n"), text)
        self.analyze(*runs, "--figures", self.folder / "figures")  # and JSON stays JSON
        self.assertNotIn("figures:", self.good("analyze", *runs, "--store", self.store).out)
        self.assertEqual(sorted(path.name for path in (self.folder / "figures").iterdir()),
                         ["region-w.csv", "region-w.svg", "region-x.csv", "region-x.svg"])

    def test_refusals(self):
        full, topk, banded = self.train("full,topk:3,banded:3")
        for runs in ([full], [topk], [full, banded], [topk, banded]):
            self.refuse(*runs, "--figures", self.folder / "figures", mentions=["--figures", "full attention"])
            self.assertFalse((self.folder / "figures").exists())
        (self.folder / "taken").write_text("")
        self.refuse(full, topk, "--figures", self.folder / "taken", mentions=["taken"], codes=(1, 2))
        self.refuse(full, "--direction-seed", 3, mentions=["--direction-seed", "--perturbed"])
        self.refuse(full, "--perturbed", "far", mentions=["perturbed"])
        for option in ("--bounds", "--lipschitz", "--mask-stability"):
            self.refuse(full, "--curves", option, mentions=[option, "--curves"])

    def test_points_that_cannot_be_drawn(self):
        runs = self.train("full,topk:3", "--inverse-temperature", 0)
        self.refuse(*runs, "--figures", self.folder / "figures", mentions=["delta_s"])


class Refusals(Analyze):
    def test_words_and_options(self):
        first, second = self.train("full,topk:3")
        self.refuse(mentions=("usage",))
        self.refuse("nothing", mentions=("no run begins with",))
        self.refuse(first, "nothing", mentions=("no run begins with",))
        self.refuse("", mentions=("no run begins",))
        self.refuse(first, "--at", "middle", mentions=("at is 'middle'", "last|best|init"))
        self.refuse(first, "--samples", -1, mentions=("samples",))
        self.refuse(first, "--split", "test", mentions=("split",))
        for precision in ("f32", "bf16"):
            self.refuse(first, "--precision", precision, mentions=("--precision", "f32", "leave it out"))
        self.refuse(first, "--curves", "--at", "init", mentions=("--at", "--curves"))
        self.refuse(first, "--curves", mentions=(first, "--every"))
        self.refused("analyze", first, "--store", self.folder / "elsewhere", mentions=("no store",))
        self.assertEqual(self.analyze(second[:10])["runs"][0]["id"], second)

    def test_no_checkpoint(self):
        run, = self.train("topk:3")
        self.sql("UPDATE runs SET checkpoint_epoch = NULL, best_saved_epoch = NULL, status = 'pending'")
        self.refuse(run, mentions=(run, "no checkpoint", "--at init"))
        self.refuse(run, "--at", "best", mentions=("no checkpoint",))
        self.assertEqual(self.analyze(run, "--at", "init")["runs"][0]["epoch"], 0)

    def test_diverged(self):
        run, = self.train("topk:3")
        self.sql("UPDATE runs SET status = 'diverged', diverged_epoch = 3, diverged_step = 1")
        self.assertIn("diverged in epoch 3", self.good("analyze", run, "--store", self.store).out)
        self.sql("UPDATE runs SET checkpoint_epoch = NULL, best_saved_epoch = NULL, diverged_epoch = 1")
        self.refuse(run, mentions=("diverged in epoch 1", "--at init"))
        self.analyze(run, "--at", "init")

    def test_truly_diverged(self):
        result = self.good("train", "even-pairs", "--attention", "topk:3", *SMALL, "--epochs", 3, "--lr", 10000, "--clip",
                           0, "--json", "--store", self.store)
        row, = json.loads(result.out)
        self.assertEqual(row["status"], "diverged", result)
        if row["epochs"] == 0:
            self.refuse(row["id"], mentions=("diverged",))
        else:
            self.assertIn("last finite weights", self.good("analyze", row["id"], "--store", self.store).out)
        self.analyze(row["id"], "--at", "init")

    def test_another_numerics_version(self):
        run, = self.train("topk:3")
        self.sql("UPDATE facts SET value = '0' WHERE name = 'numerics'")
        self.refuse(run, mentions=("numerics version 0",))

    def test_damage(self):
        run, = self.train("topk:3")
        path, = (path for path in (self.store / "checkpoints").iterdir() if "best" not in path.name)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        self.refuse(run, mentions=("damaged",), codes=(1,))
        path.unlink()
        self.refuse(run, mentions=("missing",), codes=(1,))

    def test_changed_data(self):
        path = self.write("mine.tsv", "tokens\tlabel\n" + "0 1 1\t0\n1 0\t1\n1 1 1\t1\n0 0 0\t0\n" * 5)
        run, = self.train("topk:2", task=f"tsv:{path}", settings=["--blocks", "1", "--width", "4", "--mlp-width", "4"])
        self.analyze(run)
        path.write_text("tokens\tlabel\n" + "1 1 1\t0\n1 0\t1\n1 1 1\t1\n0 0 0\t0\n" * 5)
        self.refuse(run, mentions=("not what it was trained on",), codes=(1,))


class Curves(Analyze):
    def curves(self, *words, store=None):
        text = self.good("analyze", *words, "--curves", "--store", store or self.store).out
        return text, list(csv.DictReader(io.StringIO(text)))

    def test_rows(self):
        full, topk = self.train("full,topk:3", "--every", 2, "--epochs", 5)
        text, rows = self.curves(full, topk)
        self.assertEqual(text.splitlines()[0], "run,epoch,block,measure," + ",".join("q" + p for p in PERCENTS))
        self.assertEqual(len(rows), 2 * 3 * 3 * len(RECORDED))  # runs, epochs 0 2 4, blocks 0 1 all, measures
        self.assertEqual({row["epoch"] for row in rows}, {"0", "2", "4"})
        self.assertEqual({row["block"] for row in rows}, {"0", "1", "all"})
        self.assertEqual({row["q50"] == "" for row in rows if row["run"] == full and row["measure"] == "separation"}, {True})
        points = json.loads(self.good("analyze", full, topk, "--curves", "--json", "--store", self.store).out)
        self.assertEqual(len(points), len(rows))
        for point, row in zip(points, rows):
            self.assertEqual((point["run"], point["epoch"], point["measure"]), (row["run"], int(row["epoch"]), row["measure"]))
            for p in PERCENTS:
                value = point["quantiles"][p]
                self.assertEqual(row["q" + p] == "", value is None)
                if value is not None:
                    self.assertAlmostEqual(float(row["q" + p]), value, delta=1e-8 * (1 + abs(value)))

    def test_they_are_what_analyze_says(self):
        run, = self.train("topk:3", "--every", 2, "--threads", 1)
        points = json.loads(self.good("analyze", run, "--curves", "--json", "--store", self.store).out)
        for at, epoch in (("init", 0), ("last", 2)):
            analysis, = self.analyze(run, "--at", at, "--samples", 100)["runs"]
            recorded = [point for point in points if point["epoch"] == epoch]
            self.assertEqual(len(recorded), 3 * len(RECORDED))
            for point in recorded:
                block = analysis["overall"] if point["block"] is None else analysis["blocks"][point["block"]]
                self.assertEqual(point["quantiles"], block["measures"][point["measure"]]["quantiles"])

    def test_measuring_changes_no_run(self):
        plain = json.loads(self.good("train", "even-pairs", "--attention", "topk:3", *SMALL, "--epochs", 3, "--json",
                                     "--store", self.folder / "plain").out)
        measured = json.loads(self.good("train", "even-pairs", "--attention", "topk:3", *SMALL, "--epochs", 3, "--json",
                                        "--every", 1, "--store", self.store).out)
        self.assertEqual(plain, measured)
        self.assertEqual(plain[0]["weights"], measured[0]["weights"])

    def test_resuming_and_crashes_leave_the_same_rows(self):
        undisturbed = self.folder / "undisturbed"
        run, = self.train("topk:3", "--every", 1, "--epochs", 6, store=undisturbed)
        expected, _ = self.curves(run, store=undisturbed)
        self.train("topk:3", "--every", 1, "--epochs", 3)
        # as if the process had died after epoch 4: rows that no checkpoint backs
        self.sql("INSERT INTO epochs VALUES (1, 4, 1, 50, 1, 50, 1)")
        for block in (-1, 0, 1):
            for measure in RECORDED:
                self.sql(f"INSERT INTO measures (run, epoch, block, measure, q0) VALUES (1, 4, {block}, '{measure}', 99)")
        self.sql("UPDATE runs SET status = 'running', epochs = 4")
        self.train("topk:3", "--every", 1, "--epochs", 6)
        self.assertEqual(self.curves(run)[0], expected)
        for path in (self.store / "checkpoints").iterdir():
            path.unlink()  # computed again
        self.train("topk:3", "--every", 1, "--epochs", 6)
        self.assertEqual(self.curves(run)[0], expected)

    def test_studies_record_too(self):
        study = self.write("study.ini", "task = even-pairs\nattention = full, topk:3\nseeds = 2\nevery = 2\n"
                           "length = 8\ntrain-count = 40\nheldout-count = 20\nblocks = 1\nwidth = 8\nmlp-width = 8\nepochs = 2\n")
        self.good("study", study, "--quiet", "--store", self.store, "--threads", 2)
        self.assertEqual(self.sql("SELECT COUNT(*) FROM measures"), [(4 * 2 * 2 * len(RECORDED),)])

    def train_unmeasured(self, attention, *words, mentions=("1 of 1 run ",)):
        result = run("train", "even-pairs", "--attention", attention, *SMALL, "--epochs", 2, *words, "--quiet", "--store",
                     self.store)
        self.assertEqual(result.code, 0, result)
        self.one_sentence(result, "--every", "not measured again", "--store", *mentions)

    def test_what_is_trained_is_not_measured_again(self):
        """And training says so, as often as it is asked to measure what it cannot."""
        done, = self.train("topk:3")
        for _ in range(2):
            self.train_unmeasured("topk:3", "--every", 1)
        self.refuse(done, "--curves", mentions=(done, "not measured again", "another --store", "leave out --curves"))
        self.train("topk:3")  # nothing is asked for
        self.train("topk:3", "--every", 1, "--seed", 8)
        self.train("topk:3", "--every", 1, "--seed", 8)
        self.train("topk:3", "--every", 2, "--seed", 8)
        self.train_unmeasured("topk:3,full", "--every", 1, mentions=("1 of 2 runs",))
        self.train_unmeasured("topk:3", "--every", 3, "--epochs", 4)  # the first row is of the initial weights
        self.assertEqual({row["epoch"] for row in self.curves(done)[1]}, {"3"})

    def test_a_run_that_diverges_is_measured_as_far_as_it_went(self):
        for lr in (2, 4, 10000):  # in the third and second epoch, and at once
            self.good("train", "even-pairs", "--attention", "topk:3", *SMALL, "--epochs", 3, "--lr", lr, "--clip", 0,
                      "--every", 1, "--quiet", "--store", self.store)

    def test_a_store_of_the_schema_before_is_brought_forward(self):
        identity, = self.train("topk:3")
        self.unseal(1)
        result = run("analyze", identity, "--store", self.store)
        self.assertEqual(result.code, 0, result)
        self.one_sentence(result, "no seals")
        self.train_unmeasured("topk:3", "--every", 1, "--epochs", 3)
        _, rows = self.curves(identity)
        self.assertEqual({row["epoch"] for row in rows}, {"3"})  # epochs that were trained before are not measured


class Help(Case):
    def test_help_names_the_settings(self):
        text = self.good("analyze", "--help").out
        for name in ("--at last|best|init", "--split train|heldout", "--samples", "--curves", "--json", "--store",
                     "--bounds", "--lipschitz", "--mask-stability", "--perturbed R", "--direction-seed S", "--figures DIR"):
            self.assertIn(name, text)
        self.assertIn("Measures are computed in f32", text)
        self.assertIn("--every", self.good("train", "--help").out)
        self.assertTrue(re.search(r"^  analyze ", self.good("--help").out, re.M))


if __name__ == "__main__":
    unittest.main()
