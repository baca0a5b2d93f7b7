"""Readouts on the command line: training, resuming, evaluators, export, refusals."""
import random
import unittest

from harness import StoreCase, read_json

SMALL = ["--train-count", 60, "--heldout-count", 30, "--blocks", 1, "--width", 8, "--mlp-width", 8, "--batch", 9, "--length", 10]
MODEL = ["--blocks", 2, "--width", 24, "--mlp-width", 24, "--batch", 16]


def previous_token(count, seed, shortest=3):
    """Every position asks for the token before it; some are not asked."""
    draw = random.Random(seed)
    lines = ["tokens\tlabel"]
    for _ in range(count):
        tokens = [draw.randrange(4) for _ in range(draw.randint(shortest, 12))]
        labels = ["-"] + [str(tokens[i - 1]) if draw.random() < 0.8 else "-" for i in range(1, len(tokens))]
        lines.append(" ".join(map(str, tokens)) + "\t" + " ".join(labels))
    return "\n".join(lines) + "\n"


def last_line(out):
    return out.strip().splitlines()[-1]


class Readouts(StoreCase):
    def setUp(self):
        super().setUp()
        self.each = f"tsv:{self.write('train.tsv', previous_token(200, 1))},{self.write('heldout.tsv', previous_token(90, 2))}"

    def one_run(self):
        (run,) = read_json(self.good("runs", "--json", "--store", self.store).out)
        return run

    def test_every_readout_trains_resumes_and_is_checked(self):
        for readout in (["mean"], ["last"], ["cls"], ["mean", "--causal"], ["last", "--causal"]):
            with self.subTest(readout):
                words = ["train", "even-pairs", "--readout", *readout, "--attention", "topk:3", *SMALL]
                store = self.folder / "-".join(readout)
                self.good(*words, "--epochs", 1, "--store", store)
                resumed = self.good(*words, "--epochs", 3, "--threads", 2, "--store", store).out
                whole = self.good(*words, "--epochs", 3, "--threads", 1, "--store", self.folder / "whole").out
                self.assertEqual(last_line(resumed), last_line(whole))
                self.good("check", "--store", store)

    def test_each_learns_and_is_evaluated(self):
        words = ["train", self.each, "--readout", "each", "--causal", *MODEL, "--lr", 0.3, "--quiet", "--store", self.store]
        self.good(*words, "--epochs", 5)
        resumed = self.good(*words, "--epochs", 30, "--threads", 1).out
        run = self.one_run()
        self.assertGreater(run["heldout_accuracy"], 90)
        whole = self.good(*words[:-1], self.folder / "other", "--epochs", 30, "--threads", 2).out
        self.assertEqual(last_line(resumed), last_line(whole))
        self.good("check", "--store", self.store)
        (evaluated,) = read_json(self.good("evaluate", run["id"], "--json", "--store", self.store).out)
        self.assertEqual(evaluated["accuracy"], run["heldout_accuracy"])
        (analyzed,) = read_json(self.good("analyze", run["id"], "--json", "--store", self.store).out)["runs"]
        self.assertIn("effective_keys", analyzed["overall"]["measures"])
        surface = read_json(self.good("landscape", run["id"], "--grid", 3, "--samples", 0, "--extent", 0.01, "--json", "--store",
                                      self.store, "--out", self.folder / "surface.html").out)[0]
        self.assertAlmostEqual(surface["centre_accuracy"], run["train_accuracy"], delta=0.5)  # in steps of 1/200
        weights = self.good("export", run["id"], "--format", "safetensors", "--out", self.folder / "w.safetensors", "--store", self.store)
        self.assertEqual(weights.err, "")

    def test_the_number_of_labels_of_a_batch_may_be_zero(self):
        """Sequences with one token have no label, and come in batches of their own."""
        lone = "tokens\tlabel\n" + "1 2\t- 1\n" + "3 1\t- -\n" * 30
        path = self.write("lone.tsv", lone)
        out = self.good("train", f"tsv:{path},{path}", "--readout", "each", *MODEL, "--batch", 2, "--epochs", 3, "--optimizer", "adamw",
                        "--weight-decay", 0.1, "--quiet", "--store", self.store).out
        self.assertNotIn("nan", out)
        self.assertEqual(self.one_run()["status"], "done")

    def test_other_lengths(self):
        for readout in (["mean"], ["last"], ["cls"], ["last", "--causal"]):
            store = self.folder / "-".join(readout)
            self.good("train", "even-pairs", "--readout", *readout, *SMALL, "--epochs", 1, "--store", store)
            (run,) = read_json(self.good("runs", "--json", "--store", store).out)
            rows = read_json(self.good("evaluate", run["id"], "--lengths", "10,20,40", "--json", "--store", store).out)
            self.assertEqual([row["length"] for row in rows], [10, 20, 40])
            self.assertEqual(rows[0]["accuracy"], run["heldout_accuracy"])

    def test_head_width(self):
        words = ["train", "even-pairs", "--heads", 2, "--attention", "topk:3", *SMALL, "--epochs", 2]
        parameters = {}
        for width in (0, 3, 8, 21):
            store = self.folder / str(width)
            out = self.good(*words, "--head-width", width, "--threads", 1 + width % 2, "--store", store).out
            (run,) = read_json(self.good("runs", "--json", "--store", store).out)
            parameters[width] = run["id"], last_line(out).split()[-1]
            self.good("check", "--store", store)
            self.good("analyze", run["id"], "--bounds", "--lipschitz", "--samples", 2, "--store", store)
        self.assertEqual(parameters[0], parameters[8])  # the model's width
        self.assertEqual(len(set(parameters.values())), 3)
        self.refused(*words, "--head-width", 5000, mentions=["head-width"])

    def test_drawn_lengths(self):
        words = ["train", "even-pairs", *SMALL, "--min-length", 3, "--epochs", 1]
        for readout in ("mean", "last", "cls"):
            self.good(*words, "--readout", readout, "--store", self.store)
        runs = read_json(self.good("runs", "--json", "--store", self.store).out)
        self.assertEqual(len(runs), 3)
        self.good("check", "--store", self.store)
        for run in runs:  # as trained, then at one length
            (own,) = read_json(self.good("evaluate", run["id"], "--json", "--store", self.store).out)
            self.assertEqual(own["accuracy"], run["heldout_accuracy"])
            (fixed,) = read_json(self.good("evaluate", run["id"], "--lengths", 10, "--json", "--store", self.store).out)
            self.assertNotEqual(own["loss"], fixed["loss"])
        lengths = [len(line.split("\t")[0].split()) for line in
                   self.good("data", "even-pairs", "--length", 10, "--min-length", 3, "--count", 2000).out.splitlines()[1:]]
        self.assertEqual(set(lengths), set(range(3, 11)))
        self.assertLess(max(abs(lengths.count(n) - 250) for n in range(3, 11)), 80)  # five deviations
        self.refused(*words[:-4], "--min-length", 11, mentions=["min-length"])

    def test_part_of_the_training_set_is_evaluated(self):
        words = ["train", "even-pairs", *SMALL, "--epochs", 2]
        whole = self.good(*words, "--store", self.folder / "whole").out
        part = self.good(*words, "--evaluate-count", 20, "--store", self.store).out
        self.assertEqual(last_line(whole).split()[-1], last_line(part).split()[-1])  # the weights
        runs = [read_json(self.good("runs", "--json", "--store", store).out)[0] for store in (self.folder / "whole", self.store)]
        self.assertNotEqual(runs[0]["id"], runs[1]["id"])
        self.assertEqual(runs[0]["heldout_accuracy"], runs[1]["heldout_accuracy"])
        self.assertAlmostEqual(runs[1]["train_accuracy"] / 5, round(runs[1]["train_accuracy"] / 5), places=6)  # of 20
        self.good("check", "--store", self.store)
        more = self.good(*words, "--evaluate-count", 1000, "--store", self.folder / "more").out
        self.assertEqual(last_line(more).split(" after ")[-1], last_line(whole).split(" after ")[-1])

    def test_tied_weights(self):
        words = ["train", self.each, "--readout", "each", "--causal", *MODEL, "--lr", 0.3, "--epochs", 12, "--tie-weights", "--quiet"]
        resumed = self.good(*words, "--store", self.store).out
        self.assertEqual(last_line(resumed), last_line(self.good(*words, "--threads", 1, "--store", self.folder / "other").out))
        self.assertGreater(self.one_run()["heldout_accuracy"], 60)
        self.good("check", "--store", self.store)
        many = self.write("many.tsv", "tokens\tlabel\n0 1\t9\n1 0\t3\n")
        self.refused("train", f"tsv:{many}", "--tie-weights", mentions=["tie-weights", "10 labels"])

    def test_warmup_in_steps(self):
        words = ["train", "even-pairs", *SMALL, "--epochs", 2, "--schedule", "cosine"]
        epoch = self.good(*words, "--warmup", 1, "--store", self.folder / "epoch").out
        steps = self.good(*words, "--warmup-steps", 7, "--store", self.folder / "steps").out  # 60 / 9 rounded up
        self.assertEqual(last_line(epoch).split()[-1], last_line(steps).split()[-1])
        self.refused(*words, "--warmup-steps", 14, mentions=["warmup-steps", "14"])
        self.refused(*words, "--warmup-steps", 3, "--warmup", 1, mentions=["warmup"])
        self.refused(*words[:-2], "--warmup-steps", 3, mentions=["warmup-steps", "cosine"])

    def test_refusals(self):
        self.refused("train", self.each, *MODEL, mentions=["readout", "each"])
        self.refused("train", self.each, "--readout", "last", *MODEL, mentions=["readout", "each"])
        self.refused("train", "even-pairs", "--readout", "each", *SMALL, mentions=["readout", "one label per sequence"])
        self.refused("train", "even-pairs", "--readout", "cls", "--causal", *SMALL, mentions=["readout", "cls"])
        without = self.write("without.tsv", "tokens\tlabel\n1 2\t- -\n1 2\t- -\n")
        some = self.write("some.tsv", "tokens\tlabel\n1 2\t- 1\n1 2\t- -\n")
        self.refused("train", f"tsv:{some},{without}", "--readout", "each", mentions=["without.tsv", "no label at all"])
        self.refused("train", f"tsv:{without},{some}", "--readout", "each", mentions=["some.tsv:2", "not in the training rows"])


if __name__ == "__main__":
    unittest.main()
