"""One model over several ranks: the bits of one process, whatever the number of ranks and whatever happens to them."""
import os
import random
import shutil
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins"))
from building import HERE as PLUGINS, build  # noqa: E402  pylint: disable=wrong-import-position
from launching import OTHER, RanksCase, has_instruction_set, ranks_with, read_json, run  # noqa: E402  pylint: disable=wrong-import-position

MODEL = ["--length", 12, "--blocks", 2, "--width", 16, "--mlp-width", 24, "--heldout-count", 30, "--threads", 1]
# Two chunks of the last batch, eight of the others; five chunks; one sequence; more than an evaluation batch of 512.
SIZES = [["--train-count", 52, "--batch", 25], ["--train-count", 23, "--batch", 5], ["--train-count", 3, "--batch", 1],
         ["--train-count", 530, "--heldout-count", 521, "--batch", 67, "--epochs", 1]]
OPTIMIZERS = [["--optimizer", "sgd", "--momentum", 0.9], ["--optimizer", "adam", "--lr", 0.01],
              ["--optimizer", "adamw", "--lr", 0.01, "--weight-decay", 0.1], ["--optimizer", "sgd", "--norm", "post"]]
MECHANISMS = "full,topk:3,banded:3,block:4+global:1,random:3,bottomk:2"
ENDLESS = 100_000  # epochs: more than any test waits for
LONG = ["--blocks", 1, "--train-count", 2, "--heldout-count", 1, "--length", 65536, "--width", 16, "--mlp-width", 16,
        "--attention", "full", "--quiet"]


def lines(period):
    """A file of 40 sequences."""
    return "tokens\tlabel\n" + "".join(f"{n % 3} {n % 5} {n % period} 1\t{n % 2}\n" for n in range(40))


class DataParallel(RanksCase):
    interrupted_size = ["--train-count", 400, "--blocks", 3]  # an epoch takes a while

    def words(self, *more, store=None, task="even-pairs", attention="full,topk:3", epochs=3):
        return ["train", task, "--attention", attention, *MODEL, "--epochs", epochs, *more, "--store",
                store or self.store]

    def expect(self, *more, **options):
        """What one process computes."""
        store = self.folder / f"alone-{random.getrandbits(32):x}"
        self.good(*self.words(*more, store=store, **options))
        return self.contents(store)

    def together(self, ranks, *more, **options):
        store = self.folder / f"together-{random.getrandbits(32):x}"
        self.launched(ranks, *self.words(*more, "--data-parallel", "--quiet", store=store, **options))
        return self.contents(store)

    def test_same_bits(self):
        for number, (size, optimizer) in enumerate(zip(SIZES, OPTIMIZERS)):
            expected = self.expect(*size, *optimizer, attention=MECHANISMS)
            for ranks in ((2, 3), (4, 1), (2, 5), (3, 9))[number]:
                self.assertEqual(self.together(ranks, *size, *optimizer, attention=MECHANISMS), expected, (ranks, size))

    def test_same_bits_of_short_batches(self):
        """Every number of chunks, with fewer and with more ranks than chunks."""
        for batch in (1, 2, 3, 4, 5, 6, 7, 8, 9):
            size = ["--train-count", 2 * batch + 1, "--batch", batch, "--dropout", 0.2]
            expected = self.expect(*size)
            for ranks in (2, 4, 8) if batch in (3, 8) else (3,):
                self.assertEqual(self.together(ranks, *size), expected, (ranks, batch))

    def test_threads_and_bf16(self):
        sizes = ["--train-count", 40, "--length", 150, "--batch", 9]
        for more in ([], ["--precision", "bf16"]):
            if more and not has_instruction_set("avx512"):
                continue
            expected = self.expect(*sizes, *more, epochs=1)
            self.assertEqual(self.together(2, *sizes, *more, "--threads", 2, epochs=1), expected)

    def test_every_readout(self):
        size = ["--train-count", 23, "--batch", 5]
        for readout in ("last", "cls"):
            expected = self.expect(*size, "--readout", readout)
            self.assertEqual(self.together(3, *size, "--readout", readout), expected, readout)
        rows = [f"{n % 3} {n % 5} {n % 7} 1" + "\t" + ("- 1 - 0" if n % 4 else "- - - -") for n in range(40)]
        path = self.folder / "each.tsv"
        path.write_text("tokens\tlabel\n" + "\n".join(rows) + "\n")
        words = ["train", f"tsv:{path}", "--readout", "each", "--causal", "--batch", 3, "--epochs", 3, "--blocks", 2, "--width", 16,
                 "--threads", 1, "--quiet"]
        self.good(*words, "--store", self.folder / "alone")
        self.launched(3, *words, "--data-parallel", "--store", self.folder / "together")
        self.assertEqual(self.contents(self.folder / "together"), self.contents(self.folder / "alone"))

    def test_divergence(self):
        wild = ["--train-count", 30, "--lr", 10000, "--clip", 0, "--optimizer", "sgd"]
        expected = self.expect(*wild, attention="full", epochs=9)
        self.assertEqual(self.together(3, *wild, attention="full", epochs=9), expected)
        self.assertEqual([row["status"] for row in expected[0].values()], ["diverged"])

    def test_one_process_alone(self):
        expected = self.expect("--train-count", 30)
        self.good(*self.words("--train-count", 30, "--data-parallel"))
        self.assertEqual(self.contents(self.store), expected)

    def test_measures(self):
        words = self.words("--train-count", 30, "--every", 1, "--quiet")
        self.launched(2, *words, "--data-parallel")
        alone = self.folder / "alone"
        self.good(*words, "--store", alone)
        for name in self.contents(alone)[0]:
            curves = [run("analyze", name, "--curves", "--store", store).out for store in (self.store, alone)]
            self.assertEqual(*curves)
            self.assertGreater(curves[0].count("\n"), 4)

    def test_compare(self):
        words = ["compare", "even-pairs", "--attention", "full,topk:3", "--seeds", 2, *MODEL, "--train-count", 30, "--epochs", 2,
                 "--json"]
        results = []
        for ranks in (None, 3):
            out = self.folder / f"{ranks}.html"
            store = self.folder / f"store-{ranks}"
            if ranks is None:
                self.good(*words, "--store", store, "--out", out)
            else:
                self.launched(ranks, *words, "--data-parallel", "--store", store, "--out", out)
            results.append(self.contents(store))
        self.assertEqual(*results)

    def test_continued_with_another_number_of_ranks(self):
        size = ["--train-count", 52, "--optimizer", "adam", "--lr", 0.01]
        expected = self.expect(*size, epochs=5)
        for ranks, epochs in ((3, 1), (2, 3), (None, 4), (4, 5)):
            words = self.words(*size, "--data-parallel", "--quiet", epochs=epochs)
            if ranks is None:
                self.good(*words)
            else:
                self.launched(ranks, *words)
        runs, curves, files = self.contents(self.store)
        self.assertEqual((runs, curves), expected[:2])
        self.assertEqual(files, expected[2])

    def interrupted(self, hurt, ranks=3):
        """Interrupts runs that would never end, and completes them with another number of ranks."""
        size = [*self.interrupted_size, "--batch", 10, "--checkpoint-seconds", 0, "--quiet"]
        results = []
        for attention in ("full", "topk:3", "full"):
            before = self.rows()
            process = self.start(ranks, *self.words(*size, "--data-parallel", epochs=ENDLESS, attention=attention))
            self.wait_for(lambda least=before + 2: self.rows() >= least, process)
            hurt(process)
            results.append(self.end_of(process))
            ranks = 5 - ranks
        epochs = self.rows() + 2
        self.launched(ranks, *self.words(*size, "--data-parallel", epochs=epochs))
        self.assertEqual(self.contents(self.store), self.expect(*size, epochs=epochs))
        self.good("check", "--store", self.store)
        return results

    def kill(self, rank, number):
        os.kill(ranks_with(self.store, self.program)[rank], number)

    def test_killed(self):
        for rank in (0, 1):
            for result in self.interrupted(lambda _, rank=rank: self.kill(rank, signal.SIGKILL)):
                self.assertNotEqual(result.code, 0, result)
            shutil.rmtree(self.store)

    def test_stopped(self):
        """By a signal that reaches rank 0, or another one."""
        for rank, number in ((0, signal.SIGINT), (1, signal.SIGTERM)):
            for result in self.interrupted(lambda _, rank=rank, number=number: self.kill(rank, number)):
                self.assertEqual(result.code, 128 + number, result)
                self.assertEqual(len(self.sentences(result)), 1, result)
                self.assertIn("repeat the command to continue", result.err)
            shutil.rmtree(self.store)

    def test_stopped_by_all(self):
        """As launchers do it: every rank gets the signal, and rank 0 still stops in order."""
        def stop_all(_):
            for number in ranks_with(self.store, self.program).values():
                os.kill(number, signal.SIGTERM)
        for result in self.interrupted(stop_all):
            self.assertEqual(result.code, 128 + signal.SIGTERM, result)
            self.assertIn("repeat the command to continue", result.err)

    def test_stopped_inside_a_long_step(self):
        """A step takes minutes, and rank 0 computes no part of it if the batch is one sequence."""
        for batch, rank in ((1, 0), (2, 0), (1, 2)):
            process = self.start(3, "train", "even-pairs", *LONG, "--batch", batch, "--threads", 1, "--data-parallel", "--store",
                                 self.store)
            self.wait_for(lambda: "running" in self.status(), process)
            time.sleep(2)
            self.kill(rank, signal.SIGTERM)
            result = self.end_of(process, timeout=60)
            self.assertEqual(result.code, 128 + signal.SIGTERM, result)
            self.assertEqual(set(self.status()), {"pending"})

    def status(self):
        result = run("runs", "--store", self.store, "--json")
        return [row["status"] for row in read_json(result.out)] if result.code == 0 and result.out else []

    def test_a_rank_that_hangs(self):
        size = [*self.interrupted_size, "--batch", 10, "--checkpoint-seconds", 0, "--quiet"]
        process = self.start(3, *self.words(*size, "--data-parallel", "--rank-timeout", 3, epochs=ENDLESS, attention="full"))
        self.wait_for(lambda: self.rows() >= 2, process)
        self.kill(2, signal.SIGSTOP)
        result = self.end_of(process)
        self.assertNotEqual(result.code, 0, result)
        said = self.sentences(result)
        self.assertEqual(len(said), 1, result)
        self.assertIn(f"rank 2 on {os.uname().nodename} has not answered for 3 seconds", said[0])
        self.assertIn("the same command continues", said[0])
        epochs = self.rows() + 2
        self.launched(2, *self.words(*size, "--data-parallel", epochs=epochs, attention="full"))
        self.assertEqual(self.contents(self.store), self.expect(*size, epochs=epochs, attention="full"))

    def test_bad_input(self):
        """Said once, not by every rank."""
        for more, mention in ((["--width", 0], "width is '0'"), (["--attention", "fulll"], "fulll"),
                              (["--data-parallel=maybe"], "yes or no")):
            result = self.launch(3, *self.words("--data-parallel"), *more)
            self.assertEqual(result.code, 2, result)
            self.assertEqual(len(self.sentences(result)), 1, result)
            self.assertIn(mention, result.err)
        blocked = self.write("file", "x")
        result = self.launch(2, *self.words("--data-parallel", store=blocked))
        self.assertNotEqual(result.code, 0, result)
        self.assertEqual(len(self.sentences(result)), 1, result)

    def test_own_files(self):
        path = self.write("train.tsv", lines(7))
        words = ["train", f"tsv:{path.name}", "--blocks", 1, "--width", 8, "--epochs", 2, "--quiet"]
        self.launched(2, *words, "--data-parallel", "--store", self.store, cwd=self.folder)
        self.good(*words, "--store", self.folder / "alone", cwd=self.folder)
        self.assertEqual(self.contents(self.store), self.contents(self.folder / "alone"))

    def test_files_that_differ(self):
        """A rank that reads something else, as on a machine with other files, is named."""
        path, other = self.write("train.tsv", lines(7)), self.write("other.tsv", lines(6))
        library = build(Path(__file__).parent / "other_file.c", self.folder, "-D_GNU_SOURCE", "-ldl")
        words = ["train", f"tsv:{path}", "--blocks", 1, "--width", 8, "--epochs", 2, "--quiet", "--data-parallel", "--store",
                 self.store]
        result = self.launch(3, *words, LD_PRELOAD=str(library), OTHER_FILE=str(path), OTHER_CONTENT=str(other), OTHER_RANK="2")
        self.assertEqual(result.code, 1, result)
        self.assertEqual(len(self.sentences(result)), 1, result)
        self.assertIn(f"rank 2 on {os.uname().nodename}: the data of 'tsv:{path}", result.err)

    def test_plugins(self):
        """Every rank loads them; a rule that is broken at any rank is the run's failure, said once."""
        near, bad = (build(PLUGINS / name, self.folder) for name in ("near.c", "misbehaving.c"))
        words = self.words("--train-count", 30, "--plugin", near, attention="near:3")
        self.good(*words, "--store", self.folder / "alone")
        self.launched(2, *words, "--data-parallel", "--quiet")
        self.assertEqual(self.contents(self.store), self.contents(self.folder / "alone"))
        words = self.words("--train-count", 1, "--plugin", bad, "--data-parallel", "--quiet", attention="none", epochs=2)
        result = self.launch(3, *words)
        self.assertEqual(result.code, 1, result)
        self.assertEqual(len(self.sentences(result)), 1, result)
        self.assertIn("the selector none kept no key", result.err)

    def test_a_store_that_cannot_be_written(self):
        """Rank 0 fails in the middle of a run: the other ranks end, too."""
        process = self.start(2, *self.words("--train-count", 400, "--quiet", "--data-parallel", "--checkpoint-seconds", 0,
                                            attention="full", epochs=ENDLESS))
        self.wait_for(lambda: self.rows() >= 1, process)
        (self.store / "checkpoints").rename(self.folder / "elsewhere")
        result = self.end_of(process)
        self.assertEqual(result.code, 1, result)
        self.assertEqual(len(self.sentences(result)), 1, result)


class DataParallelMpich(DataParallel):
    library = OTHER


if __name__ == "__main__":
    unittest.main()
