"""One model over the GPUs of several ranks: the bits of one CPU, over MPI and over NCCL, whatever happens to the ranks.

$SEMFOCUS is the program, $SEMFOCUS_EMULATED the same with emulated GPUs, $SEMFOCUS_FAKE_NCCL what stands in for NCCL between
them (tests/cuda/fake_nccl.c). Beside the program with MPICH, both are in tests/cuda/."""
import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from launching import MPIRUN, OTHER  # noqa: E402  pylint: disable=wrong-import-position
import test_data_parallel as on_cpus  # noqa: E402  pylint: disable=wrong-import-position

EMULATED, FAKE = (os.environ.get(name) for name in ("SEMFOCUS_EMULATED", "SEMFOCUS_FAKE_NCCL"))
WITH_MPICH = (Path(OTHER[0]).parent if OTHER[0] else Path("nowhere")) / "tests/cuda/semfocus_emulated"
MPICH = (str(WITH_MPICH) if WITH_MPICH.exists() else None, OTHER[1])
OVER_MPI = {"SEMFOCUS_NCCL": "no"}
OVER_NCCL = {"SEMFOCUS_NCCL": FAKE or "", "SEMFOCUS_EMULATE_DEVICES": "16"}
ONE_PROCESSOR = {"SEMFOCUS_EMULATE_PROCESSORS": "1"}  # so few that every chunk has a wave of its own
SIZE = ["--train-count", 52, "--batch", 25]
NOT_OVER_NCCL = "note: gradients go over MPI and not over NCCL: "
SIZES = [(2, ["--train-count", 52, "--batch", 25, "--optimizer", "sgd", "--momentum", 0.9]),
         (3, ["--train-count", 52, "--batch", 25, "--optimizer", "adam", "--lr", 0.01, "--dropout", 0.2]),
         (4, ["--train-count", 23, "--batch", 5, "--optimizer", "adamw", "--lr", 0.01, "--weight-decay", 0.1]),
         (5, ["--train-count", 23, "--batch", 3, "--norm", "post"]),
         (2, ["--train-count", 3, "--batch", 1]),
         (3, ["--train-count", 46, "--batch", 23, "--width", 64, "--mlp-width", 64]),  # the kernels for whole sequences
         (2, ["--train-count", 21, "--batch", 10, "--width", 64, "--mlp-width", 64, "--length", 70])]  # those of the paper's shape


class Cuda:
    """Commands for ranks compute on emulated GPUs, others on the CPU. Tests that are None say nothing about GPUs."""
    library = EMULATED, MPIRUN
    interrupted_size = ["--train-count", 80, "--blocks", 2]  # emulated GPUs are slow
    test_threads_and_bf16 = test_every_readout = test_one_process_alone = test_own_files = test_files_that_differ = None
    test_plugins = test_a_store_that_cannot_be_written = test_stopped_inside_a_long_step = test_bad_input = None
    test_same_bits_of_short_batches = None

    def setUp(self):
        super().setUp()
        self.place = self.folder / "nccl"
        self.place.mkdir()
        self.environment = {**self.environment, "FAKE_NCCL": str(self.place)}

    def command(self, ranks, words):
        return super().command(ranks, [*words, "--device", "cuda"] if "--data-parallel" in words else words)

    def contents(self, store):
        """Without the instruction set."""
        runs, *rest = super().contents(store)
        return ({name: {**row, "isa": None} for name, row in runs.items()}, *rest)

    def floats(self):
        """How many went over NCCL since the last call."""
        total = 0
        for path in self.place.glob("*.sent"):
            total += int(path.read_text().split()[3])
            path.unlink()
        return total

    def talkative(self, ranks, *more, store=None, epochs=3, **environment):
        """With notes."""
        words = self.words(*SIZE, *more, "--data-parallel", attention="full", store=store, epochs=epochs)
        return self.launch(ranks, *words, **environment)

    def test_same_bits(self):
        for ranks, size in SIZES:
            expected = self.expect(*size, attention=on_cpus.MECHANISMS, epochs=2)
            self.assertEqual(self.together(ranks, *size, attention=on_cpus.MECHANISMS, epochs=2), expected, (ranks, size))

    def test_same_bits_of_readouts_and_parts(self):
        """Sequences with one label that is read at one position, or with many labels."""
        parts = "topk:3+sink:1/entmax15@rope,full/doubly@qknorm:3,topp:0.5@alibi"
        for task, readout in (("even-pairs", ["--readout", "cls"]), ("reverse-string", ["--tie-weights"])):
            words = [*SIZE, *readout]
            expected = self.expect(*words, task=task, attention=parts, epochs=2)
            self.assertEqual(self.together(3, *words, task=task, attention=parts, epochs=2), expected, task)

    def test_same_bits_in_one_wave(self):
        expected = self.expect(*SIZE)
        self.environment["SEMFOCUS_EMULATE_PROCESSORS"] = "132"
        self.assertEqual(self.together(3, *SIZE), expected)


class OverMpi(Cuda, on_cpus.DataParallel):
    environment = {**OVER_MPI, **ONE_PROCESSOR}
    test_compare = None  # it has a note on standard error

    def test_the_gpu_computes(self):
        """One that is lost is noticed, at whatever rank, and the same command continues."""
        expected = self.expect(*SIZE, attention="full", epochs=6)
        for rank in (0, 1, 2):
            store = self.folder / f"without-{rank}"
            words = self.words(*SIZE, "--data-parallel", "--checkpoint-seconds", 0, attention="full", epochs=6, store=store)
            command = self.command(3, words)
            program = command.index(self.program)
            loses = ["env", "SEMFOCUS_EMULATE_LOST_AFTER=130", *command[program:]]
            parts = [["-n", "1", *(loses if r == rank else command[program:])] for r in range(3)]
            joined = [word for part in parts for word in (":", *part)][1:]
            done = self.finish([self.launcher, *joined])
            self.assertEqual(done.code, 1, done)
            said = [line for line in self.sentences(done) if "note: " not in line]
            self.assertEqual(len(said), 1, done)
            self.assertRegex(said[0], rf"backend 'cuda' failed: rank {rank} on \S+: .* on the GPU failed: .*; 1 run was not finished"
                                      ": the same command continues from the checkpoints")
            self.assertGreater(self.rows(store), 0)
            self.launched(2, *words, "--quiet")
            self.assertEqual(self.contents(store), expected)

    def test_where_it_is_computed(self):
        """What has no CUDA kernel, and what is not f32."""
        store = self.folder / "mixed"
        some = ("--evaluate-count", "20")
        words = self.words(*SIZE, *some, "--data-parallel", attention="full", store=store)
        done = self.launch(2, *words)
        self.assertEqual(done.code, 0, done)
        self.assertIn("note: there is no CUDA kernel for the setting evaluate-count; it is computed on the CPUs instead", done.err)
        self.assertEqual(self.contents(store), self.expect(*SIZE, *some, attention="full"))
        for precision in ("bf16", "tf32"):
            done = self.talkative(2, "--precision", precision)
            self.assertEqual(done.code, 2, done)
            self.assertEqual(len(self.sentences(done)), 1, done)
            self.assertIn("GPUs train one model together (--data-parallel) in f32 alone", done.err)

    def test_no_gpu(self):
        done = self.talkative(2, SEMFOCUS_EMULATE_NO_DEVICE="1")
        self.assertEqual(done.code, 2, done)
        self.assertEqual(len(self.sentences(done)), 1, done)
        self.assertIn("device is cuda but no GPU was found; use cpu or auto", done.err)
        done = self.talkative(2, SEMFOCUS_EMULATE_MEMORY="200000")
        self.assertEqual(done.code, 1, done)
        self.assertRegex(done.err, r"the model needs \d+\.\d MiB of a GPU's memory and 0\.\d MiB are free")

    def test_no_nccl(self):
        done = self.talkative(2, "--seed", "1,2")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.sentences(done), [f"semfocus: {NOT_OVER_NCCL}rank 0 on {os.uname().nodename}: SEMFOCUS_NCCL is no"])


class OverNccl(Cuda, on_cpus.DataParallel):
    environment = {**OVER_NCCL, **ONE_PROCESSOR}
    # What does not depend on how gradients travel.
    test_divergence = test_measures = test_stopped_by_all = None

    def test_it_was_taken(self):
        """The numbers that it passed on are those of docs/cluster.md."""
        sizes = []
        for ranks, factor in ((2, 5 + 5 + 2), (4, 9 + 9 + 4)):  # steps of 8, 8 and 2 chunks
            store = self.folder / f"on-{ranks}"
            self.launched(ranks, *self.words(*SIZE, "--data-parallel", "--quiet", attention="full", store=store, epochs=2))
            floats = self.floats()
            self.assertEqual(floats % (2 * factor), 0)
            sizes.append(floats // (2 * factor))
        self.assertEqual(sizes[0], sizes[1])
        self.assertGreater(sizes[0], 3000)

    def test_failures(self):
        """One sentence, and what was stored continues, over NCCL or over MPI."""
        expected = self.expect(*SIZE, attention="full", epochs=6)
        for rank, failure, why in ((0, "call", "unhandled system error"), (1, "call", "unhandled system error"),
                                   (2, "async", "remote process exited or there was a network error"), (1, "hang", "")):
            store = self.folder / f"{failure}-{rank}"
            more = ["--rank-timeout", 3, "--checkpoint-seconds", 0]
            done = self.talkative(3, *more, store=store, epochs=6, FAKE_NCCL_RANK=str(rank), FAKE_NCCL_FAILURE=failure)
            self.assertEqual(done.code, 1, done)
            said = self.sentences(done)
            self.assertEqual(len(said), 1, done)
            named = rf"rank {rank} on \S+: exchanging gradients over NCCL failed: {why}" if why else \
                r"rank \d on \S+: exchanging gradients over NCCL has not ended after 3 seconds"
            self.assertRegex(said[0], f"backend 'cuda' failed: {named} " + re.escape(
                "(SEMFOCUS_NCCL=no exchanges gradients over MPI); 1 run was not finished: the same command continues"))
            self.assertEqual(self.contents(store)[0].keys(), expected[0].keys())
            again = self.talkative(2, *more, store=store, epochs=6, **(OVER_MPI if rank == 0 else {}))
            self.assertEqual(again.code, 0, again)
            self.assertEqual(self.contents(store), expected, failure)

    def test_over_mpi_instead(self):
        """Where ranks cannot connect; it is tried once."""
        expected = self.expect(*SIZE, "--seed", "1,2", attention="full")
        for number, (why, environment) in enumerate((
                ("rank 2 on .*: it shares its GPU with another rank", {"SEMFOCUS_EMULATE_DEVICES": "2"}),
                ("rank 1 on .* is older than NCCL 2.14", {"FAKE_NCCL_RANK": "1", "FAKE_NCCL_FAILURE": "missing"}),
                ("rank 0 on .*: /nowhere/libnccl.so was not found", {"SEMFOCUS_NCCL": "/nowhere/libnccl.so"}),
                ("rank 2 on .*: connecting over NCCL failed: unhandled system error",
                 {"FAKE_NCCL_RANK": "2", "FAKE_NCCL_FAILURE": "init"}),
                ("rank 0 on .*: connecting over NCCL has not ended after 3 seconds",
                 {"FAKE_NCCL_RANK": "1", "FAKE_NCCL_FAILURE": "absent"}))):
            store = self.folder / f"instead-{number}"
            done = self.talkative(3, "--seed", "1,2", "--rank-timeout", 3, store=store, **environment)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(len(self.sentences(done)), 1, done)
            self.assertRegex(self.sentences(done)[0], f"^semfocus: {NOT_OVER_NCCL}{why}$")
            self.assertEqual(self.contents(store), expected)
            self.assertEqual(self.floats(), 0)


class Mpich(Cuda, on_cpus.DataParallel):
    """The bits alone."""
    library = MPICH
    environment = {**OVER_NCCL, **ONE_PROCESSOR, "SEMFOCUS_NCCL": str(WITH_MPICH.parent / "libfake_nccl.so")}
    test_divergence = test_measures = test_compare = test_stopped = test_killed = test_a_rank_that_hangs = None

    def test_over_mpi(self):
        expected = self.expect(*SIZE)
        self.environment |= OVER_MPI
        for ranks in (2, 3):
            self.assertEqual(self.together(ranks, *SIZE), expected)
        self.assertEqual(self.floats(), 0)


if __name__ == "__main__":
    unittest.main()
