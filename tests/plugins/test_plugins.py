"""A selector, a weighting and a task from plug-ins, in every command; what a run says about the file it needs."""
import re
import shutil
import unittest

from building import HERE, PluginCase, build, read_json, run


class Parts(PluginCase):
    def test_listed(self):
        rows = {row["name"]: row for row in read_json(self.good("list", "attention", "--json", "--plugin", self.all).out)}
        self.assertEqual(rows["near"]["spelling"], "near[:T]")
        self.assertEqual(rows["gate"]["spelling"], "gate:B[:M]")
        self.assertEqual(rows["logistic"]["spelling"], ".../logistic[:S]")
        self.assertEqual(rows["strided"]["plugin"], str(self.strided.resolve()))
        self.assertNotIn("plugin", rows["topk"])
        tasks = {row["name"]: row for row in read_json(self.good("list", "tasks", "--json", "--plugin", self.majority).out)}
        self.assertEqual(tasks["majority"]["recipe"], {"length": "40", "epochs": "200"})
        self.assertIn("majority", self.good("list", "tasks", env={"SEMFOCUS_PLUGINS": f"{self.near}:{self.majority}"}).out)
        self.assertNotIn("majority", self.good("list", "tasks").out)
        self.assertIn("near", self.good("complete", "train", "--plugin", self.near, "--attention", "full,n", repeat=True).out)
        self.assertIn("majority", self.good("complete", "train", "m", env={"SEMFOCUS_PLUGINS": str(self.majority)}).out)
        self.assertEqual(self.good("complete", "train", "--plugin", "").out, ":files\n")
        self.assertIn("plug-ins\n  --plugin FILE[,...]", self.good("train", "--help").out)

    def test_spelling(self):
        for given, canonical in (("near", "near"), ("near:1", "near"), ("near:1.0", "near"), ("near:0.50", "near:0.5"),
                                 ("near:1e30", "near:1e30"), ("gate:3:1", "gate:3"), ("gate:3:2", "gate:3:2"),
                                 ("gate:3:2/softmax", "gate:3:2"), ("near:2+global:1/logistic:-1", "near:2+global:1/logistic:-1"),
                                 ("topk:3/logistic:0", "topk:3/logistic"), ("near/logistic", "near/logistic")):
            self.assertEqual(self.run_of(given)["attention"], canonical)
        for given, mention in (("near:-1", "the distance must be a number from 0 to 1e+30"), ("near:x", "the distance"),
                               ("near:1:2", "one number too many for near"), ("gate", "needs the width of a block after gate"),
                               ("gate:1.5", "must be a whole number from 1 to 65536"), ("gate:2:2:2", "one number too many"),
                               ("topk:3/logistic:1000", "the shift must be a number from -100 to 100"),
                               ("topk:3/logistics", "did you mean 'logistic'?"), ("topk:3:4", "takes no number"), ("near:", "the distance"),
                               ("near:0.1234567890123456+global:1000+random:10000+sink:10000+window:10000/logistic:1.23456789012345e-5@qknorm:1.23456789e-5@rope", "longer than 127 characters")):
            self.refused("train", "even-pairs", "--attention", given, "--plugin", self.all, mentions=[mention])

    def test_every_verb(self):
        for attention in ("strided:2", "near:0.5", "near:0.5+global:2", "gate:3:2", "near:0.5/logistic:1", "gate:3/logistic"):
            row = self.run_of(attention, "--every", 1)
            self.assertEqual((row["attention"], row["status"]), (attention, "done"))
            for verb in (["analyze", "--bounds", "--lipschitz", "--mask-stability", "--samples", 5, "--json"],
                         ["analyze", "--bounds", "--lipschitz", "--mask-stability", "--samples", 5], ["evaluate", "--lengths", "7,13"],
                         ["landscape", "--grid", 3, "--samples", 5, "--json"], ["export"], ["check"]):
                self.good(verb[0], row["id"], *verb[1:], "--plugin", self.all, "--store", self.store, cwd=self.folder)
        self.good("compare", "majority", "--attention", "full,near:0.5/logistic,strided:3", "--seeds", 2, *self.settings,
                  "--epochs", 1, "--quiet", "--plugin", self.all, "--store", self.store, cwd=self.folder)
        self.good("report", "--out", "page.html", "--plugin", self.all, "--store", self.store, cwd=self.folder)
        page = (self.folder / "page.html").read_text(encoding="utf-8")
        for name in ("near:0.5/logistic", "majority", "gate:3:2"):
            self.assertIn(name, page)
        study = self.write("study.ini", f"task = majority\nattention = full, strided:3\nseeds = 1\nepochs = 1\n")
        self.good("study", study, *self.settings, "--plugin", self.all, "--store", self.store, cwd=self.folder)

    def test_labels_per_position_and_variants(self):
        library = ["--plugin", build(HERE / "variants.c", self.libraries)]
        tiny = ["--train-count", 40, "--heldout-count", 20, "--width", 8, "--mlp-width", 8, "--blocks", 1, "--quiet"]
        ids = set()
        for task, *words in (["latest"], ["sums"], ["sums", "--vocab", 7]):
            data = self.good("data", task, *words, "--count", 200, *library).raw
            count = 200 * (7 if task == "latest" else 8)
            self.assertEqual(self.good("solve", task, "-", *words, *library, stdin=data).out, f"{count} of {count} labels agree\n")
            ids.add(self.good("train", task, *words, *tiny, *library, "--store", self.store).out.split()[0])
        self.assertEqual(len(ids), 3)
        self.refused("data", "latest", "--vocab", 4, *library, mentions=["vocab is not a setting of the task latest"])
        self.refused("data", "sums", "--vocab", 1, *library, mentions=["a modulus of 1 is too small"])

    def test_limits_are_full_attention(self):
        """A selector that keeps every key through the generic kernel learns what full attention learns."""
        full = self.run_of("full", "--pad", "none")["curve"][0]
        for attention in ("near:1e30", "gate:10", "gate:3:9"):
            row = self.run_of(attention, "--pad", "none")["curve"][0]
            for name in ("tr-ce", "va-ce"):
                self.assertAlmostEqual(row[name], full[name], delta=1e-5)
        self.assertNotEqual(self.run_of("near:0", "--pad", "none")["curve"], self.run_of("full", "--pad", "none")["curve"])

    def test_a_large_k_keeps_the_querys_own_key(self):
        """With k at the length and beyond, strided is the same mechanism as the smallest band, and not full attention."""
        own = self.run_of("banded:1", "--pad", "none")
        for k in (10, 50):
            row = self.run_of(f"strided:{k}", "--pad", "none")
            self.assertEqual((row["attention"], row["weights"]), (f"strided:{k}", own["weights"]))
        self.assertNotEqual(own["weights"], self.run_of("full", "--pad", "none")["weights"])

    def test_same_bits_for_any_number_of_threads_and_sets(self):
        for attention in ("near:0.3/logistic", "gate:3:2", "near:0.3+global:1"):
            words = ["train", "majority", *self.settings, "--epochs", 2, "--attention", attention, "--json", "--plugin", self.all]
            hashes = {read_json(self.good(*words, *more, env=env).out)[0]["weights"]
                      for more, env in ((["--threads", 1], {}), (["--threads", 3], {}), ([], {"SEMFOCUS_ISA": "scalar"}))}
            self.assertEqual(len(hashes), 1, attention)

    def test_the_task_solves_what_it_samples(self):
        path = self.folder / "majority.tsv"
        self.good("data", "majority", "--count", 50, "--out", path, "--plugin", self.majority)
        self.assertIn("50 of 50 labels agree", self.good("solve", "majority", path, "--plugin", self.majority).out)
        path.write_text("tokens\tlabel\n0 1 7\t0\n", encoding="utf-8")
        result = run("solve", "majority", path, "--plugin", self.majority)
        self.assertEqual(result.code, 1 if "agree" in result.out else 2, result)
        self.assertIn("token 7 at position 2 is not a bit", result.err + result.out)


class Theory(PluginCase):
    def test_what_softmax_theory_says_is_not_said_of_another_weighting(self):
        own, soft, full = (self.run_of(name)["id"] for name in ("topk:3/logistic", "topk:3", "full"))
        words = ["--plugin", self.logistic, "--store", self.store]
        both = read_json(self.good("analyze", own, soft, full, "--json", "--bounds", "--lipschitz", "--samples", 5, *words).out)
        other, softmax, _ = both["runs"]
        for name in ("ln_xi", "ln_xi_s", "w", "x"):
            self.assertIn(name, softmax["overall"]["measures"])
            for block in (other["overall"], *other["blocks"]):
                self.assertNotIn(name, block["measures"])
        self.assertEqual(other["not_defined"], {"measures": ["ln_xi", "ln_xi_s", "w", "x"], "for_the_weighting": "logistic"})
        self.assertEqual((other["overall"]["holds_w"], other["overall"]["holds_x"]), (None, None))
        self.assertEqual(other["bounds"], {"not_defined": "Lipschitz bounds are not defined for the weighting logistic"})
        self.assertGreater(other["lipschitz"]["blocks"][0]["largest"], 0)
        self.assertIsNone(other["lipschitz"]["blocks"][0]["largest_over_bound"])
        for name in ("delta_s", "delta_h", "separation", "in_degree"):
            self.assertGreater(other["overall"]["measures"][name]["count"], 0)
        self.assertEqual([pair["sparse"] for pair in both["comparisons"]], [soft])

        text = self.good("analyze", own, full, "--bounds", "--samples", 5, *words).out
        self.assertEqual(len(re.findall("not defined for the weighting logistic", text)), 2, text)
        self.assertNotIn("below 1", text)

    def test_nor_of_a_selector_that_keeps_any_number(self):
        near, gate, full = (self.run_of(name)["id"] for name in ("near:0.05", "gate:2:2", "full"))
        words = ["--bounds", "--mask-stability", "--samples", 5, "--plugin", self.near, "--store", self.store]
        found = read_json(self.good("analyze", near, gate, full, "--json", *words).out)
        for row, name in zip(found["runs"], ("near", "gate")):
            self.assertEqual(row["not_defined"]["for_the_selector"], name)
            self.assertEqual(row["bounds"], {"not_defined": f"Lipschitz bounds are not defined for the selector {name}"})
            self.assertIn(f"not defined for the selector {name}", row["mask_stability"]["not_defined"])
            for measure in ("delta_s", "delta_h", "in_degree"):
                self.assertGreater(row["overall"]["measures"][measure]["count"], 0)
            self.assertNotIn("w", row["overall"]["measures"])
        self.assertIn("separation", found["runs"][0]["overall"]["measures"])
        self.assertNotIn("separation", found["runs"][1]["overall"]["measures"])
        self.assertLessEqual(found["runs"][0]["overall"]["measures"]["delta_h"]["quantiles"]["100"], 0.05 + 1e-6)
        self.assertEqual(found["runs"][1]["overall"]["measures"]["sink_ratio"]["quantiles"]["100"],
                         found["runs"][1]["overall"]["measures"]["in_degree"]["quantiles"]["100"] / 4)
        self.assertEqual(found["comparisons"], [])

    def test_no_regions_of_another_weighting(self):
        for name in ("topk:3/logistic", "near:0.1", "full"):
            self.run_of(name, "--every", 1)
        figures = self.folder / "figures"
        words = ["report", "--out", self.folder / "report.html", "--figures", figures, "--plugin", self.all, "--store", self.store]
        self.good(*words)
        self.assertTrue(any(path.stem.endswith("dispersion") for path in figures.iterdir()))
        self.assertFalse([path for path in figures.iterdir() if "region" in path.name])
        self.run_of("topk:3", "--every", 1)
        self.good(*words)
        regions = [path for path in figures.iterdir() if "region" in path.name and path.suffix == ".csv"]
        self.assertTrue(regions)
        for path in regions:
            self.assertNotIn("logistic", path.read_text(encoding="utf-8"))


class Identity(PluginCase):
    def ids(self, attention, *words, task="even-pairs"):
        return [row["id"] for row in read_json(self.good("train", task, *self.settings, "--epochs", 1, "--json", "--attention",
                                                         attention, *words, "--store", self.store).out)]

    def test_only_runs_that_use_a_part_depend_on_the_file(self):
        plain = self.ids("topk:3")
        self.assertEqual(self.ids("topk:3", "--plugin", self.all), plain)
        other = build(HERE / "near.c", self.folder, "-DANOTHER_BUILD", "-g3", name="near")
        self.assertNotEqual(other.read_bytes(), self.near.read_bytes())
        self.assertNotEqual(self.ids("near:1", "--plugin", self.near), self.ids("near:1", "--plugin", other))
        elsewhere = shutil.copy(self.near, self.folder / "renamed.so")
        self.assertEqual(self.ids("near:1", "--plugin", self.near), self.ids("near:1", "--plugin", elsewhere))
        self.assertEqual(self.sql("SELECT count(*) FROM runs")[0][0], 3)

    def test_a_run_says_what_is_missing(self):
        (own,) = self.ids("near:1/logistic", "--plugin", self.all, task="majority")
        other = build(HERE / "near.c", self.folder, "-g3", name="near")
        rest = f"{self.logistic},{self.majority}"
        for verb in (["analyze", own], ["check", own], ["landscape", own, "--grid", 3], ["evaluate", own]):
            words = [*verb, "--store", self.store]
            for plugins, mentions in (((), ["selector near of the plug-in near.so (hash ", "not loaded; add --plugin"]),
                                      (("--plugin", rest), ["selector near", "not loaded"]),
                                      (("--plugin", self.near), ["weighting logistic of the plug-in logistic.so", "not loaded"]),
                                      (("--plugin", f"{self.near},{self.logistic}"), ["task majority of the plug-in majority.so"]),
                                      (("--plugin", f"{other},{rest}"), ["selector near", "but the file that is loaded has hash "])):
                result = run(*words, *plugins, cwd=self.folder)
                self.assertIn(result.code, (1,) if verb[0] == "check" else (2,), result)
                self.one_sentence(result, own, *mentions)
            self.good(*words, "--plugin", self.all, cwd=self.folder)
        for verb in (["runs"], ["export", own], ["runs", "--json"]):  # what needs no part
            self.good(*verb, "--store", self.store)
        self.refused("train", "majority", "--attention", "near:1", mentions=["unknown attention 'near'"])
        self.refused("train", "majority", mentions=["no task is called 'majority'"])

    def test_rows_need_no_code(self):
        """A store with one run of a plug-in is reported and exported without it."""
        (own,) = self.ids("near:0.5/logistic", "--every", 1, "--plugin", self.all, task="majority")
        (plain,) = self.ids("full", "--every", 1, "--plugin", self.all)
        self.ids("near:0.5", "--every", 1, "--plugin", self.all)
        words = ["--store", self.store]
        missing = "is shown from its stored rows, without what needs its code, because the selector near of the plug-in near.so (hash "
        report = self.good("report", "--out", "page.html", "--figures", "figures", *words, cwd=self.folder).out
        page = (self.folder / "page.html").read_text(encoding="utf-8")
        for text in (" ".join(report.split()), page):
            self.assertIn("near:0.5/logistic " + missing, text)
            self.assertIn("near:0.5 " + missing, text)
            self.assertIn("full", text)
        self.assertNotIn("<dt>near", page)
        rows = {row["variant"]: row for row in read_json(self.good("report", "--json", "--out", "page.html", *words, cwd=self.folder).out)}
        self.assertIn(missing, rows["near:0.5"]["note"])
        self.assertIsNone(rows["full"]["note"])
        loaded = self.good("report", "--out", "page.html", "--plugin", self.all, *words, cwd=self.folder).out
        self.assertNotIn("not loaded", loaded)
        self.assertIn("<dt>near", (self.folder / "page.html").read_text(encoding="utf-8"))
        for output, format_ in (("curves.csv", "csv"), ("boards", "tensorboard")):
            self.good("export", "--where", "1", "--format", format_, "--out", output, *words, cwd=self.folder)
        self.assertIn(own, (self.folder / "curves.csv").read_text(encoding="utf-8"))
        self.assertTrue(list((self.folder / "boards" / "majority").rglob("median/events*")))
        checked = run("check", *words)
        self.assertEqual(checked.code, 1, checked)
        self.assertEqual(checked.out, "1 of 3 runs are intact, 2 could not be evaluated because a part that they use is not loaded "
                                      "(rows and files are as written)\n")
        self.assertIn(f"run {own}: its rows and files are as they were written, but were not evaluated: it uses the selector near", checked.err)
        rows = {row["id"]: row["whole"] for row in read_json(run("check", "--json", *words).out)}
        self.assertEqual((rows[own], rows[plain]), (None, True))
        self.good("check", plain, *words)
        self.good("check", "--plugin", self.all, *words)
        next((self.store / "checkpoints").glob(own + "*")).write_bytes(b"damaged")
        damaged = run("check", own, *words)
        self.assertEqual((damaged.code, damaged.out), (1, "0 of 1 runs are intact\n"), damaged)

    def test_runs_of_other_code_are_another_group(self):
        other = build(HERE / "near.c", self.folder, "-DANOTHER_BUILD", "-g3", name="near")
        self.ids("near:1", "--plugin", self.near)
        self.ids("near:1", "--plugin", other)
        self.ids("full")
        for words in ([], ["--plugin", self.near]):
            done = self.good("report", "--json", "--out", "page.html", *words, "--store", self.store, cwd=self.folder)
            rows = read_json(done.out)
            names = [row["variant"] for row in rows]
            self.assertEqual(len(set(names)), 3, names)
            self.assertEqual({row["runs"] for row in rows}, {1})
            self.assertEqual(len([name for name in names if re.fullmatch(r"near \(hash [0-9a-f]{8}\)", name)]), 2, names)
            self.assertEqual(sum(row["note"] is not None for row in rows), 1 if words else 2)
        self.good("export", "--where", "1", "--format", "tensorboard", "--out", "boards", "--store", self.store, cwd=self.folder)
        self.assertEqual(len(list((self.folder / "boards").rglob("median/events*"))), 3)

    def test_it_goes_on_with_a_run(self):
        words = ["train", "majority", *self.settings, "--attention", "gate:3:2", "--json", "--plugin", self.all, "--store",
                 self.store]
        first = read_json(self.good(*words, "--epochs", 1).out)[0]
        third = read_json(self.good(*words, "--epochs", 3).out)[0]
        alone = read_json(self.good(*words[:-1], self.folder / "other", "--epochs", 3).out)[0]
        self.assertEqual((third["id"], third["curve"], third["weights"]), (first["id"], alone["curve"], alone["weights"]))


if __name__ == "__main__":
    unittest.main()
