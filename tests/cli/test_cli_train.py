"""semfocus train: what it prints, that its bits do not depend on threads or other runs, and how it reports divergence."""
import json
import os
import signal
import subprocess
import unittest

from harness import INSTRUCTION_SETS, PROGRAM, TINY, Case, has_instruction_set, last_wins, read_json, run

MECHANISMS = ["full", "banded:3", "banded:3+global:1", "block:3", "block:3+global:2", "topk:3", "bottomk:3", "random:3"]
ODD = [*TINY, "--length", "7", "--width", "17", "--mlp-width", "19", "--heads", "2", "--blocks", "2", "--batch", "7"]
FIELDS = {"task", "attention", "seed", "status", "epochs", "converged_epoch", "train_accuracy", "heldout_accuracy",
          "weights", "curve"}
DIVERGING = [*TINY, "--optimizer", "sgd", "--lr", "10000", "--clip", "0", "--epochs", "20"]


class Train(Case):
    def runs(self, *words, base=TINY, task="even-pairs", **options):
        return read_json(self.good("train", task, *base, *words, "--json", **options).out)

    def weights(self, *words, **options):
        return {(row["attention"], row["seed"]): row["weights"] for row in self.runs(*words, **options)}


class Output(Train):
    def test_json(self):
        rows = self.runs("--seed", "5,6", "--attention", "topk:3,full")
        self.assertEqual([(row["attention"], row["seed"]) for row in rows],
                         [("topk:3", 5), ("topk:3", 6), ("full", 5), ("full", 6)])
        for row in rows:
            self.assertLessEqual(FIELDS, row.keys())
            self.assertEqual((row["task"], row["status"], row["epochs"]), ("even-pairs", "done", 2))
            self.assertRegex(row["weights"], "^[0-9a-f]{16}$")
            self.assertEqual([point["epoch"] for point in row["curve"]], [1, 2])
            last = row["curve"][-1]
            self.assertEqual((row["train_accuracy"], row["heldout_accuracy"]), (last["tr-ac"], last["va-ac"]))
            for point in row["curve"]:
                self.assertEqual(set(point), {"epoch", "tr-ce", "tr-ac", "va-ce", "va-ac"})
                self.assertAlmostEqual(point["tr-ac"] * 50 / 100, round(point["tr-ac"] * 50 / 100), 6)
                self.assertAlmostEqual(point["va-ac"] * 20 / 100, round(point["va-ac"] * 20 / 100), 6)
                self.assertGreater(point["tr-ce"], 0)
            reached = [point["epoch"] for point in row["curve"] if point["tr-ac"] >= 95]
            self.assertEqual(row["converged_epoch"], reached[0] if reached else None)

    def test_text_and_quiet_tell_the_same_weights(self):
        row = self.runs()[0]
        text = self.good("train", "even-pairs", *TINY).out
        quiet = self.good("train", "even-pairs", *TINY, "--quiet").out
        self.assertEqual(quiet.count("\n"), 1, quiet)
        for output in (text, quiet):
            self.assertIn(row["weights"], output)
            self.assertIn(f'{row["heldout_accuracy"]:.2f}', output)
        for point in row["curve"]:
            self.assertRegex(text, rf'\b{point["epoch"]} +{point["tr-ce"]:.4f} +{point["tr-ac"]:.2f}%')

    def test_quiet_fleet_prints_a_line_a_model(self):
        out = self.good("train", "even-pairs", *TINY, "--quiet", "--seed", "1,2,3", "--attention", "full,topk:3").out
        self.assertEqual(out.count("\n"), 6, out)

    def test_every_task_trains(self):
        for task in json.loads(self.good("list", "tasks", "--json").out):
            with self.subTest(task["name"]):
                short = ["--pairs", "2"] if task["name"] == "recall" else []  # eight pairs need more than eight tokens
                self.assertEqual(self.runs("--attention", "topk:3", *short, task=task["name"])[0]["status"], "done")

    def test_stop_at(self):
        row = self.runs("--epochs", "400", "--stop-at", "60", "--lr", "0.5")[0]
        self.assertEqual(row["status"], "done")
        self.assertGreaterEqual(row["train_accuracy"], 60)
        self.assertTrue(all(point["tr-ac"] < 60 for point in row["curve"][:-1]))

    def test_converged_epoch_is_the_first_at_95_percent(self):
        row = self.runs("--length", "2", "--epochs", "60", "--lr", "0.5", "--width", "16")[0]
        reached = [point["epoch"] for point in row["curve"] if point["tr-ac"] >= 95]
        self.assertTrue(reached, "the test's settings no longer converge")
        self.assertEqual((row["converged_epoch"], row["epochs"]), (reached[0], 60))

    def test_odd_shapes(self):
        for words in (["--length", "1"], ["--length", "1", "--attention", "topk:1"],
                      ["--length", "13", "--attention", "block:5"], ["--width", "1"], ["--mlp-width", "1"],
                      ["--heads", "3"], ["--train-count", "1"], ["--batch", "1"], ["--batch", "65536"],
                      ["--heldout-count", "1"], ["--norm", "post"], ["--activation", "mish"], ["--optimizer", "adam"],
                      ["--optimizer", "adamw", "--weight-decay", "0.1"], ["--momentum", "0.9"],
                      ["--schedule", "cosine", "--warmup", "1"], ["--dropout", "0.99"], ["--inverse-temperature", "0"],
                      ["--lr", "0"], ["--gamma", "0"], ["--attention", "topk:3/softmax"], ["--pad", "none"],
                      ["--attention", "random:1"], ["--attention", "banded:1+global:40"], ["--lr=0.2", "--quiet=yes"]):
            with self.subTest(words):
                self.assertEqual(self.runs(*words)[0]["status"], "done")


class SameBits(Train):
    def test_threads_do_not_matter(self):
        for mechanism in MECHANISMS:
            for base in (TINY, ODD):
                with self.subTest(mechanism=mechanism, base=base):
                    rows = [self.runs("--attention", mechanism, "--threads", threads, base=base)
                            for threads in (1, 2, 3)]
                    self.assertEqual(rows[0], rows[1])
                    self.assertEqual(rows[0], rows[2])

    def test_company_does_not_matter(self):
        everyone = ",".join(MECHANISMS)
        for threads in (1, 3):
            together = self.weights("--attention", everyone, "--seed", "11,12,13", "--threads", threads, base=ODD)
            self.assertEqual(len(together), 3 * len(MECHANISMS))
            self.assertEqual(len(set(together.values())), 3 * len(MECHANISMS), "two models have the same weights")
            for mechanism in MECHANISMS:
                alone = self.weights("--attention", mechanism, "--seed", "12", "--threads", 1, base=ODD)
                self.assertEqual(alone[mechanism, 12], together[mechanism, 12], mechanism)

    def test_order_in_the_lists_does_not_matter(self):
        forth = self.weights("--attention", "full,topk:3", "--seed", "1,2,3")
        back = self.weights("--attention", "topk:3,full", "--seed", "3,2,1")
        self.assertEqual(forth, back)

    def test_seeds_matter(self):
        self.assertEqual(len(set(self.weights("--seed", "0,1,2,3,4294967295").values())), 5)
        first, second = (self.weights("--seed", "1", "--data-seed", seed) for seed in (8, 9))
        self.assertNotEqual(first, second)
        self.assertEqual(self.weights("--seed", "1", "--data-seed", 1), self.weights("--seed", "1"))

    def test_keeping_every_key_is_full_attention(self):
        full = self.runs("--attention", "full")
        for mechanism in ("topk:999", "topk:8", "bottomk:8", "random:9", "banded:8", "block:8", "topk:65536"):
            with self.subTest(mechanism):
                self.assertEqual(self.runs("--attention", mechanism), full)

    def test_instruction_sets(self):
        for isa in INSTRUCTION_SETS:
            with self.subTest(isa):
                if not has_instruction_set(isa):
                    self.skipTest(f"this CPU lacks {isa}")
                env = {"SEMFOCUS_ISA": isa}
                fleet = self.weights("--attention", "full,topk:3", base=ODD, env=env)
                self.assertEqual(self.weights("--attention", "topk:3", "--threads", 2, base=ODD, env=env).items()
                                 - fleet.items(), set())
        self.refused("train", "even-pairs", *TINY, env={"SEMFOCUS_ISA": "bogus"}, mentions=["SEMFOCUS_ISA", "bogus"])


class Precision(Train):
    """bf16 rounds the factors of matrix products; its bits are as dependable as those of f32."""

    def setUp(self):
        super().setUp()
        if not has_instruction_set("avx512"):
            self.refused("train", "even-pairs", *TINY, "--precision", "bf16", mentions=["bf16", "f32"])
            self.skipTest("neither AMX nor AVX-512")

    def test_another_run_of_other_bits(self):
        f32, bf16 = self.weights(), self.weights("--precision", "bf16")
        self.assertNotEqual(f32, bf16)
        for threads in ("1", "3"):
            self.assertEqual(bf16, self.weights("--precision", "bf16", "--threads", threads))
        self.assertEqual(bf16, self.weights("--precision", "bf16", env={"SEMFOCUS_ISA": "avx512"}))
        store = str(self.folder / "both")
        for precision in ("f32", "bf16"):
            self.good("train", "even-pairs", *TINY, "--precision", precision, "--store", store)
        rows = json.loads(self.good("runs", "--store", store, "--json").out)
        self.assertEqual(len({row["id"] for row in rows}), 2)
        self.assertIn("2 of 2", self.good("check", "--store", store).out)

    def test_close_to_f32(self):
        last = [self.runs("--precision", precision)[0]["curve"][-1] for precision in ("f32", "bf16")]
        losses = [row["tr-ce"] for row in last]
        self.assertAlmostEqual(losses[0], losses[1], delta=0.1 * losses[0])

    def test_resumed(self):
        whole = self.weights("--precision", "bf16", "--epochs", "4")
        store = str(self.folder / "parts")
        for epochs in ("2", "4"):
            parts = self.weights("--precision", "bf16", "--epochs", epochs, "--store", store)
        self.assertEqual(whole, parts)

    def test_sets_without_it(self):
        for isa in ("scalar", "avx2"):
            result = run("train", "even-pairs", *TINY, "--precision", "bf16", env={"SEMFOCUS_ISA": isa})
            self.assertEqual(result.code, 2, result)
            self.one_sentence(result, "bf16")


class Devices(Train):
    """On a machine without a GPU, or in a build without CUDA. tests/cuda has the rest."""
    HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}

    def test_a_gpu_that_is_not_there(self):
        store = self.folder / "runs"
        for words, mentions in ((["--device", "cuda"], ["device is cuda but", "use cpu or auto"]),
                                (["--precision", "tf32"], ["precision is tf32, which needs a GPU, but", "use f32"]),
                                (["--precision", "tf32", "--device", "cpu"], ["precision is tf32", "needs a GPU"])):
            self.refused("train", "even-pairs", *TINY, *words, "--store", store, env=self.HIDDEN, mentions=mentions)
        self.assertFalse(store.exists())

    def test_auto_is_the_cpu(self):
        self.assertEqual(self.weights(env=self.HIDDEN), self.weights("--device", "cpu"))

    def test_architecture_is_for_tensor_cores(self):
        self.refused("train", "even-pairs", *TINY, "--architecture", "sm_90", mentions=["architecture", "f32", "leave it out"])
        for name in ("90", "sm_", "sm_9x", "SM_90"):
            self.refused("train", "even-pairs", *TINY, "--precision", "tf32", "--architecture", name,
                         mentions=["architecture", name, "sm_90"])


class Tsv(Train):
    def setUp(self):
        super().setUp()
        self.train, self.heldout = self.folder / "train.tsv", self.folder / "heldout.tsv"
        self.good("data", "cycle-navigation", "--length", 6, "--count", 40, "--out", self.train)
        self.good("data", "cycle-navigation", "--length", 5, "--count", 10, "--seed", 1, "--out", self.heldout)
        self.base = ["--blocks", "1", "--width", "8", "--mlp-width", "8", "--epochs", "2"]

    def test_two_files(self):
        rows = self.runs("--attention", "topk:2", base=self.base, task=f"tsv:{self.train},{self.heldout}")
        self.assertEqual((rows[0]["status"], rows[0]["epochs"]), ("done", 2))
        self.assertAlmostEqual(rows[0]["heldout_accuracy"] / 10, round(rows[0]["heldout_accuracy"] / 10), 6)

    def test_one_file_is_split_by_the_data_seed(self):
        task = f"tsv:{self.train}"
        first, again, other = (self.runs("--data-seed", seed, base=self.base, task=task)[0] for seed in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first["weights"], other["weights"])

    def test_same_as_the_built_in_task(self):
        """A run on the rows of a built-in task, with its vocabulary and classes, is the run on the task."""
        settings = ["--seed", "9", "--attention", "topk:3"]
        built_in = self.runs(*settings, "--length", "6", "--train-count", "40", "--heldout-count", "10", "--pad",
                             "none",
                             "--epochs", "2", base=self.base, task="cycle-navigation")[0]
        self.good("data", "cycle-navigation", "--length", 6, "--count", 40, "--seed", 9, "--out", self.train)
        self.good("data", "cycle-navigation", "--length", 6, "--count", 10, "--out", self.heldout)
        own = self.runs(*settings, "--vocab", "3", "--classes", "5", base=self.base,
                        task=f"tsv:{self.train},{self.heldout}")[0]
        self.assertEqual(own["weights"], built_in["weights"])

    def test_vocab_and_classes(self):
        task = f"tsv:{self.train},{self.heldout}"
        self.runs("--vocab", "3", "--classes", "5", base=self.base, task=task)
        self.runs("--vocab", "70", "--classes", "100", base=self.base, task=task)
        self.refused("train", task, *self.base, "--vocab", "2", mentions=["vocab", "2"])
        self.refused("train", task, *self.base, "--classes", "4", mentions=["classes", "4"])
        self.refused("train", "parity", "--vocab", "3", mentions=["vocab"])
        self.refused("train", task, "--length", "5", mentions=["length"])

    def test_bad_names_and_files(self):
        empty, bad = self.write("empty.tsv", ""), self.write("bad.tsv", "tokens\tlabel\n0 1\t1\n0 x\t1\n")
        for task, mention in [("tsv:", "tsv:"), ("tsv:,", "tsv:"), (f"tsv:{self.train},", "tsv:"),
                              (f"tsv:,{self.train}", "tsv:"), (f"tsv:{empty}", empty), (f"tsv:{bad}", f"{bad}:3:"),
                              (f"tsv:{self.train},{bad}", f"{bad}:3:"), (f"tsv:{self.folder}", self.folder),
                              ("tsv:absent.tsv", "absent.tsv"), ("tsv:" + "n" * 5000, "")]:
            with self.subTest(task[:60]):
                self.refused("train", task, *self.base, mentions=[mention])

    def test_a_file_of_one_row(self):
        one = self.write("one.tsv", "tokens\tlabel\n0 1\t1\n")
        self.refused("train", f"tsv:{one}", *self.base, mentions=[one])
        self.runs(base=self.base, task=f"tsv:{one},{one}")

    def test_a_sequence_is_at_most_as_long_as_length_allows(self):
        long = self.write("long.tsv", "tokens\tlabel\n" + " ".join("0" * 65537) + "\t1\n")
        self.refused("train", f"tsv:{self.train},{long}", *self.base, mentions=["65537", "65536"])

    def test_file_name_that_is_not_utf8(self):
        name = os.fsencode(self.folder) + b"/na\xffme.tsv"
        os.rename(self.train, name)
        rows = json.loads(self.good("train", b"tsv:" + name, *self.base, "--json").out)
        self.assertEqual([row["status"] for row in rows], ["done"])


class Events(Train):
    def test_divergence_is_a_result(self):
        for mechanism in MECHANISMS:
            with self.subTest(mechanism):
                row = self.runs("--attention", mechanism, base=DIVERGING)[0]
                self.assertEqual(row["status"], "diverged")
                self.assertGreaterEqual(row["diverged_epoch"], 1)
                self.assertEqual((row["epochs"], len(row["curve"])), (row["diverged_epoch"] - 1,) * 2)
                self.assertGreaterEqual(row["diverged_step"], 0)
                text = self.good("train", "even-pairs", *DIVERGING, "--attention", mechanism).out
                self.assertRegex(text, rf'diverged.* epoch {row["diverged_epoch"]}\b')
                if row["diverged_step"] > 0:
                    self.assertRegex(text, rf'step {row["diverged_step"]}\b')
                self.assertNotRegex(text.lower(), r"\bnan\b|\binf\b")

    def test_table_keeps_its_columns(self):
        for words in ([*TINY], DIVERGING, [*TINY, "--attention", "banded:5+global:1,topk:3", "--seed", "1,4294967295"]):
            with self.subTest(words):
                text = self.good("train", "even-pairs", *words).out
                table = text.split("\n\n")[1].splitlines()
                self.assertEqual({len(line) for line in table}, {len(table[0])}, text)

    def test_interrupt_ends_a_long_training(self):
        words = [PROGRAM, *last_wins(["train", "even-pairs", *TINY, "--epochs", "1000000"]), "--threads", "1", "--store",
                 str(self.folder / "runs")]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)  # a million epochs take longer
            self.assertEqual(process.returncode, 128 + signal.SIGINT)
            self.assertIn(b"repeat the command to continue", err)

    @unittest.skipUnless(os.path.exists("/dev/full"), "this system has no /dev/full")
    def test_full_disk_stops_a_long_run(self):
        words = [PROGRAM, *last_wins(["train", "even-pairs", *TINY, "--epochs", "1000000"]), "--threads", "1", "--store",
                 str(self.folder / "runs")]
        with open("/dev/full", "wb") as full, subprocess.Popen(words, stdout=full, stderr=subprocess.PIPE) as process:
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                self.fail("it goes on training though its curve cannot be written: " + " ".join(words))
            self.assertEqual(process.returncode, 1)

    @unittest.skipUnless(os.path.exists("/dev/full"), "this system has no /dev/full")
    def test_full_disk(self):
        for words in ([], ["--json"], ["--quiet"]):
            with self.subTest(words), open("/dev/full", "wb") as full:
                result = run("train", "even-pairs", *TINY, *words, stdout=full)
                self.assertEqual(result.code, 1, result)
                self.one_sentence(result, "No space left")


if __name__ == "__main__":
    unittest.main()
