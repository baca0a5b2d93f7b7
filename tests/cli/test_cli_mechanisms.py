"""Mechanisms beyond the paper on the command line: spellings, settings, resuming, measures."""
import unittest

from harness import StoreCase, read_json

SMALL = ["--length", 12, "--train-count", 40, "--heldout-count", 20, "--blocks", 2, "--width", 8, "--mlp-width", 8, "--batch", 8,
         "--pad", "none"]


class Mechanisms(StoreCase):
    def test_bad_spellings_are_refused_in_one_sentence(self):
        for attention in ("topp:0", "topp:nan", "within:-1", "blocktopk:0:2", "kmeans:99999:1", "full+st/sigmoid", "full@@rope", "lsh:3:1",
                          "topk:5+sinks:1", "full/sigmoids", "full@ropes", "a" * 10000):
            with self.subTest(attention[:40]):
                self.refused("train", "even-pairs", "--attention", attention, *SMALL, mentions=["attention"])
        for attention in ("topk:5/doubly", "kmeans:4:2", "topk:5+global:1"):
            with self.subTest(attention):
                self.refused("train", "even-pairs", "--causal", "--attention", attention, *SMALL, mentions=["later tokens"])
        self.refused("train", "even-pairs", "--readout", "first", *SMALL, mentions=["mean|last|cls|each"])

    def test_listed_with_formula_cost_and_source(self):
        rows = read_json(self.good("list", "attention", "--json").out)
        self.assertEqual({row["kind"] for row in rows}, {"selector", "extra", "weighting", "scores"})
        for row in rows:
            self.assertTrue(row["formula"] and row["cost"] and row["source"], row)
        self.assertIn("whole matrix", next(row["cost"] for row in rows if row["name"] == "doubly"))

    def test_in_words(self):
        out = self.good("list", "attention", "topk:5+sink:1/softmax@rope", "full").out.splitlines()
        self.assertEqual(out[0], "topk:5+sink:1@rope: each query keeps the keys with the 5 largest scores and the first key, weighted "
                         "by softmax; queries and keys are rotated by their positions beforehand")
        self.assertEqual(out[1], "full: each query keeps every key, weighted by softmax")
        self.refused("list", "attention", "topq:5", mentions=["topq", "topk"])
        self.refused("list", "tasks", "topk:5", mentions=["takes no further words"])

    def test_more_epochs_continue_the_run(self):
        for settings in (["--attention", "topp:0.8+sink:1/entmax15@rope"], ["--attention", "lsh:4:2@alibi", "--causal", "--readout", "last"]):
            with self.subTest(settings):
                self.good("train", "even-pairs", *settings, "--epochs", 1, *SMALL, "--store", self.folder / "one")
                resumed = self.good("train", "even-pairs", *settings, "--epochs", 2, *SMALL, "--store", self.folder / "one", "--threads", 2).out
                whole = self.good("train", "even-pairs", *settings, "--epochs", 2, *SMALL, "--store", self.folder / "two", "--threads", 1).out
                self.assertEqual(resumed.strip().splitlines()[-1].split()[-1], whole.strip().splitlines()[-1].split()[-1])

    def test_what_is_not_proved_is_not_defined(self):
        self.good("train", "even-pairs", "--attention", "within:0.1/sigmoid,topp:0.8,full", "--epochs", 1, *SMALL, "--every", 1,
                  "--store", self.store)
        runs = {run["attention"]: run for run in read_json(self.good("runs", "--json", "--store", self.store).out)}
        for attention, lacks in (("within:0.1/sigmoid", {"for_the_weighting": "sigmoid"}), ("topp:0.8", {"for_the_selector": "topp"}), ("full", None)):
            (row,) = read_json(self.good("analyze", runs[attention]["id"], "--json", "--store", self.store).out)["runs"]
            measures = row["overall"]["measures"]
            self.assertIn("effective_keys", measures)
            self.assertIn("entropy", measures)
            self.assertEqual("ln_xi" in measures, lacks is None)
            self.assertEqual("separation" in measures, lacks is not None)
            if lacks:
                self.assertLessEqual(lacks.items(), row["not_defined"].items())
            at = measures["effective_keys"]["quantiles"]
            self.assertTrue(1 <= at["0"] <= at["100"] <= 12)
            if attention == "within:0.1/sigmoid":  # its kept scores lie within 0.1
                self.assertLessEqual(measures["delta_h"]["quantiles"]["100"], 0.1)


if __name__ == "__main__":
    unittest.main()
