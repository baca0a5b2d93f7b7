"""Where runs are computed, and what becomes of them when a GPU is missing, too small, too old or lost: the program on the
emulator of CUDA, whose failures are environment variables.

$SEMFOCUS is build/tests/cuda/semfocus_emulated."""
import sqlite3
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tests/plugins")]
from building import build, example  # noqa: E402  pylint: disable=wrong-import-position
from harness import Case, has_instruction_set, read_json, run  # noqa: E402  pylint: disable=wrong-import-position

MODEL = ["--length", "8", "--blocks", "1", "--width", "16", "--mlp-width", "16", "--train-count", "40",
         "--heldout-count", "20", "--batch", "10"]
SIX = ["--attention", "full,topk:3,block:3", "--seed", "1,2", "--epochs", "3"]  # three lengths: 8, 8 and 9
NO_GPU = {"SEMFOCUS_EMULATE_NO_DEVICE": "1"}
OLD_DRIVER = {"SEMFOCUS_EMULATE_OLD_DRIVER": "1"}


def memory(size):
    return {"SEMFOCUS_EMULATE_MEMORY": str(size)}


def lost_after(kernels, devices=1):
    return {"SEMFOCUS_EMULATE_LOST_AFTER": str(kernels), "SEMFOCUS_EMULATE_DEVICES": str(devices)}


class DeviceCase(Case):
    def setUp(self):
        super().setUp()
        self.store = self.folder / "runs"

    def command(self, *words, store=None, **options):
        return run("train", "even-pairs", *MODEL, *words, "--json", "--checkpoint-seconds", "0",
                   "--store", store or self.store, **options)

    def train(self, *words, **options):
        """Its runs by id: weights and curve."""
        result = self.command(*words, **options)
        self.assertEqual(result.code, 0, result)
        return self.read(result)

    @staticmethod
    def read(result):
        return {row["id"]: (row["weights"], row["curve"]) for row in read_json(result.out)}

    def whole(self, *words):
        """The same runs, uninterrupted, in a store of their own."""
        return self.train(*words, store=self.folder / "whole")

    def check(self, count, **options):
        self.assertIn(f"{count} of {count} runs are intact", self.good("check", "--store", self.store, **options).out)

    def environment(self, attention):
        with sqlite3.connect(self.store / "runs.db") as database:
            (text,), = database.execute("SELECT environment FROM runs WHERE attention = ?", (attention,))
        return read_json(text)

    def settings(self):
        with sqlite3.connect(self.store / "runs.db") as database:
            return [read_json(text) for text, in database.execute("SELECT settings FROM runs ORDER BY number")]


class Devices(DeviceCase):
    def test_the_same_runs_on_both(self):
        on_cpu = self.train(*SIX, "--device", "cpu")
        on_gpu = self.train(*SIX, "--device", "cuda", store=self.folder / "gpu")
        self.assertEqual(on_cpu, on_gpu)
        self.assertEqual(len(on_cpu), 6)

    def test_a_run_goes_from_one_to_the_other_and_back(self):
        whole = self.whole(*SIX)
        for epochs, device in ((1, "cpu"), (2, "cuda"), (3, "cpu")):
            last = self.train(*SIX, "--epochs", epochs, "--device", device)
        self.assertEqual(whole, last)
        self.check(6)

    def test_members_leave_at_different_times(self):
        words = ["--attention", "full,topk:3,block:3", "--seed", "1,2,3,4", "--epochs", "12", "--stop-at", "62",
                 "--lr", "0.3"]
        on_cpu = self.train(*words, "--device", "cpu")
        self.assertGreater(len({len(curve) for _, curve in on_cpu.values()}), 2)
        for size in (2**30, 2500000):
            self.assertEqual(self.train(*words, "--device", "cuda", store=self.folder / str(size), env=memory(size)), on_cpu)

    def test_without_a_gpu_nothing_is_written(self):
        for env, reason in ((NO_GPU, "no GPU was found"), (OLD_DRIVER, "it supports CUDA 11.0 but this program needs")):
            result = self.command(*SIX, "--device", "cuda", env=env)
            self.assertEqual((result.code, result.out), (2, ""), result)
            self.one_sentence(result, "device is cuda but", reason, "use cpu or auto")
            self.assertFalse(self.store.exists())

    def test_commands_that_evaluate_refuse_it_too(self):
        run_id = list(self.train("--epochs", "1"))[0]
        for words in (["analyze", run_id], ["landscape", run_id], ["evaluate", run_id], ["bench"],
                      ["parity", "missing.safetensors"], ["paper", "list"]):
            self.refused(*words, "--device", "cuda", "--store", self.store, env=NO_GPU, cwd=self.folder,
                         mentions=["device is cuda but no GPU was found"])

    def test_a_study_file_is_named_with_its_line(self):
        path = self.write("study.ini", "task = even-pairs\nlength = 8\ndevice = cuda\n")
        self.refused("study", path, env=NO_GPU, mentions=[f"{path}:3: device is cuda"])
        path = self.write("study.ini", "task = even-pairs\nprecision = tf32\nlength = 8\n")
        self.refused("study", path, env=NO_GPU, mentions=[f"{path}:2: precision is tf32"])

    def test_what_has_no_kernel_runs_on_the_cpu_with_a_note(self):
        plugin = ["--plugin", build(ROOT / "tests/plugins/near.c", self.folder), "--epochs", "2"]
        for attention, part in (("near:2", "the selector near"), ("topk:3/logistic", "the weighting logistic")):
            if "logistic" in attention:
                plugin[1] = f"{plugin[1]},{build(ROOT / 'tests/plugins/logistic.c', self.folder)}"
            words = [*plugin, "--attention", "full," + attention]
            result = self.command(*words, "--device", "cuda")
            self.one_sentence(result, "note: ", part, "no CUDA kernel; it is computed on the CPU instead")
            self.assertEqual(self.read(result), self.whole(*words, "--device", "cpu"))

    def test_parts_and_settings_beyond_the_paper_have_kernels(self):
        for words in (["topp:0.8"], ["topk:3+global:1"], ["topk:3+st"], ["full/entmax15"], ["full@rope@alibi"], ["kmeans:2:1"], ["lsh:2:1"], ["blocktopk:2:2"],
                      ["full/doubly"], ["full/fastmax", "--head-width", "4", "--dropout", "0"],
                      ["topk:3", "--causal"], ["full", "--readout", "last"], ["full", "--readout", "cls", "--min-length", "5"],
                      ["full", "--head-width", "9"], ["topk:3", "--tie-weights"]):
            with self.subTest(words):
                words = ["--attention", *words, "--epochs", "1"]
                result = self.command(*words, "--device", "cuda")
                self.assertNotIn("note: ", result.err)
                self.assertEqual(self.read(result), self.whole(*words, "--device", "cpu"))

    def test_parts_beyond_the_paper_have_no_tensor_cores(self):
        for attention, part in (("topp:0.8", "the selector topp"), ("topk:3+sink:1", "the extra sink"), ("topk:3+st", "the extra st"),
                                ("full/sigmoid", "the weighting sigmoid"), ("full@rope", "the score transform rope")):
            with self.subTest(attention):
                self.refused("train", "even-pairs", "--attention", attention, "--device", "cuda", "--precision", "tf32", "--store", self.store,
                             mentions=[part, "no CUDA kernel"], codes=(1,))

    def test_a_plug_in_that_selects_by_position_has_a_kernel(self):
        source = self.write("strided.c", example("strided.c"))
        (self.folder / "built").mkdir()
        words = ["--plugin", build(source, self.folder / "built"), "--attention", "strided:3", "--epochs", "2"]
        result = self.command(*words, "--device", "cuda")
        self.assertEqual((result.code, result.err), (0, ""), result)
        self.assertEqual(self.read(result), self.whole(*words, "--device", "cpu"))


class Automatic(DeviceCase):
    LARGE = ["--length", "16", "--width", "64", "--mlp-width", "64", "--train-count", "64", "--batch", "64", "--epochs", "100000",
             "--stop-at", "1"]  # far more epochs are asked for than are needed

    def test_small_work_stays_on_the_cpu_without_noise(self):
        for env in ({}, NO_GPU, OLD_DRIVER):
            result = self.command(*SIX, env=env)
            self.assertEqual((result.code, result.err), (0, ""), result)

    def test_large_work_goes_to_the_gpu_and_says_so_once(self):
        words = [*self.LARGE, "--attention", "full,topk:3"]
        result = self.command(*words)
        self.assertEqual(result.code, 0, result)
        self.one_sentence(result, "note: computing on the GPU (", "--device cpu")
        self.assertEqual(self.environment("full")["backend"], "cuda")
        for env, device in ((NO_GPU, "auto"), (OLD_DRIVER, "auto"), ({}, "cpu")):
            store = self.folder / (device + str(len(env)))
            alone = self.command(*words, "--device", device, env=env, store=store)
            self.assertEqual((alone.code, alone.err), (0, ""), alone)
            self.assertEqual(self.read(alone), self.read(result))

    def test_what_is_done_is_no_work(self):
        self.train(*self.LARGE)
        again = self.command(*self.LARGE)
        self.assertEqual((again.code, again.err), (0, ""), again)

    def test_a_surface_too(self):
        run_id = list(self.train("--epochs", "1", "--device", "cpu", "--length", "40", "--width", "64", "--mlp-width", "64",
                                 "--blocks", "2", "--train-count", "600"))[0]
        result = run("landscape", run_id, "--grid", "1001", "--samples", "600", "--store", self.store, "--out", self.folder / "s.html",
                     env=lost_after(1))
        self.assertEqual(result.code, 1, result)
        self.assertIn("note: computing on the GPU (", result.err)


class Precisions(DeviceCase):
    def test_named_with_the_architecture(self):
        ids = {}
        for words in (["f32"], ["tf32"], ["bf16"], ["tf32", "--architecture", "sm_80"]):
            result = self.command("--epochs", "1", "--device", "cuda", "--precision", *words)
            ids[" ".join(words)] = result
        foreign = ids.pop("tf32 --architecture sm_80")
        self.assertEqual((foreign.code, foreign.out), (2, ""), foreign)
        self.one_sentence(foreign, "nothing here computes tf32-sm_80: device cuda computes tf32-sm_90")
        self.assertEqual(len({list(self.read(result))[0] for result in ids.values()}), 3)
        self.assertEqual({row["precision"]: row["architecture"] for row in self.settings()},
                         {"f32": "", "tf32": "sm_90", "bf16": "sm_90"})

    def test_bf16_of_the_cpu_and_of_the_gpu_are_two_runs(self):
        if not has_instruction_set("avx512"):
            self.skipTest("neither AMX nor AVX-512")
        both = [self.train("--epochs", "1", "--precision", "bf16", "--device", device) for device in ("cpu", "cuda", "cpu", "cuda")]
        self.assertEqual(both[:2], both[2:])
        self.assertFalse(both[0].keys() & both[1].keys())
        self.assertEqual([row["architecture"] for row in self.settings()], ["", "sm_90"])
        self.check(2)

    def test_auto_takes_the_gpu_for_them(self):
        for precision, notes in (("tf32", 0), ("bf16", 1)):  # bf16 of the CPU would be other runs
            words = ["--epochs", "1", "--precision", precision]
            result = self.command(*words)
            self.assertEqual((result.code, result.err.count("note: computing on the GPU (")), (0, notes), result)
            self.assertEqual(self.train(*words, "--device", "cuda", store=self.folder / "explicit"), self.read(result))
            again = self.command(*words)
            self.assertEqual((again.code, again.err), (0, ""), again)

    def test_the_same_bits_alone_among_others_and_resumed(self):
        weights = set()
        for precision in ("f32", "tf32", "bf16"):
            words = ["--device", "cuda", "--precision", precision]
            fleet = self.train(*SIX, *words)
            for seed in (1, 2):
                for attention in ("full", "topk:3", "block:3"):
                    store = self.folder / f"{precision}-{seed}-{attention}"
                    for epochs in (1, 3):
                        alone = self.train("--attention", attention, "--seed", seed, "--epochs", epochs, *words, store=store)
                    self.assertLessEqual(alone.items(), fleet.items())
            weights.add(tuple(weights for weights, _ in fleet.values()))
        self.assertEqual(len(weights), 3)

    def test_plans_and_estimates(self):
        study = ["compare", "even-pairs", *MODEL, "--seeds", "2", "--epochs", "2", "--dry-run", "--store", self.store]
        self.good(*study, "--precision", "tf32", "--device", "cuda")
        self.good(*study, "--precision", "tf32", "--architecture", "sm_80", env=NO_GPU)
        self.good("paper", "status", "--scale", "smoke", "--precision", "tf32", "--architecture", "sm_90",
                  "--store", self.store, env=NO_GPU)

    def test_tf32_without_a_gpu(self):
        for env, reason in ((NO_GPU, "no GPU was found"), (OLD_DRIVER, "driver")):
            result = self.command("--precision", "tf32", env=env)
            self.assertEqual((result.code, result.out), (2, ""), result)
            self.one_sentence(result, "precision is tf32, which needs a GPU, but", reason)
        result = self.command("--precision", "tf32", "--device", "cpu")
        self.assertEqual(result.code, 2, result)
        self.one_sentence(result, "precision is tf32", "needs a GPU")
        self.assertFalse(self.store.exists())

    def test_stored_results_are_shown_anywhere(self):
        words = ["--epochs", "2", "--precision", "tf32", "--architecture", "sm_90"]
        trained = self.train(*words)
        self.assertEqual(self.train(*words, env=NO_GPU), trained)
        longer = self.command("--epochs", "3", *words[2:], env=NO_GPU)
        self.assertEqual((longer.code, longer.out), (2, ""), longer)
        self.one_sentence(longer, list(trained)[0], "nothing here computes tf32-sm_90: no GPU was found")
        checked = run("check", "--store", self.store, env=NO_GPU)
        self.assertEqual(checked.code, 1, checked)
        self.assertIn("0 of 1 runs are intact, 1 could not be evaluated on this machine", checked.out)
        self.one_sentence(checked, "rows and files are as they were written", "tf32-sm_90")
        self.refused("evaluate", list(trained)[0], "--store", self.store, env=NO_GPU, mentions=["tf32-sm_90"])
        self.good("analyze", list(trained)[0], "--store", self.store, env=NO_GPU)
        self.check(1)

    def test_not_pooled_in_one_comparison(self):
        store = ["--store", self.store, "--out", self.folder / "report.html"]
        for precision in ("f32", "tf32"):
            self.good("compare", "even-pairs", *MODEL, "--seeds", "2", "--epochs", "1", "--precision", precision, "--quiet", *store)
        groups = read_json(self.good("report", "--json", *store).out)
        text = str(groups)
        for name in ("full precision=f32 architecture=", "full precision=tf32 architecture=sm_90",
                     "topk:5 precision=tf32 architecture=sm_90"):
            self.assertIn(name, text)


class Memory(DeviceCase):
    def test_fleets_become_smaller(self):
        whole = self.whole(*SIX)
        for size in (700000, 1200000, 2500000):
            with self.subTest(memory=size):
                store = self.folder / str(size)
                result = self.command(*SIX, "--device", "cuda", store=store, env=memory(size))
                self.assertEqual((result.code, result.err), (0, ""), result)
                self.assertEqual(self.read(result), whole)

    def test_a_model_that_does_not_fit(self):
        words = ["--epochs", "2", "--device", "cuda"]
        result = self.command(*words, env=memory(100000))
        self.assertEqual(result.code, 0, result)
        self.one_sentence(result, "note: a model of 8 positions needs 0.4 MiB", "0.1 MiB are free", "on the CPU instead")
        self.assertEqual(self.read(result), self.whole(*words))
        other_bits = self.command(*words, "--precision", "tf32", env=memory(100000))
        self.assertEqual(other_bits.code, 1, other_bits)
        self.one_sentence(other_bits, "needs 0.4 MiB", "0.1 MiB are free")
        self.train(*words, "--precision", "tf32")
        self.check(2)

    def test_evaluators_go_to_the_cpu(self):
        golden = ROOT / "tests/golden/topk5-heads2.safetensors"
        result = run("parity", golden, "--device", "cuda", env=memory(60000))
        self.assertEqual(result.code, 0, result)
        self.one_sentence(result, "note: ", "out of memory; it is computed on the CPU instead")


class Lost(DeviceCase):
    def test_f32_continues_on_the_cpu(self):
        whole = self.whole(*SIX)
        for kernels in (0, 10, 90, 200):
            with self.subTest(kernels=kernels):
                self.store = self.folder / str(kernels)
                result = self.command(*SIX, "--device", "cuda", env=lost_after(kernels))
                self.assertEqual(result.code, 0, result)
                self.one_sentence(result, "note: backend 'cuda' failed: ", "continue on the CPU from their checkpoints")
                self.assertEqual(self.read(result), whole)
                self.check(6)

    def test_other_bits_stay_resumable(self):
        words = [*SIX, "--precision", "tf32"]
        whole = self.whole(*words)
        for kernels in (0, 10, 200):
            with self.subTest(kernels=kernels):
                self.store = self.folder / str(kernels)
                result = self.command(*words, env=lost_after(kernels))
                self.assertEqual(result.code, 1, result)
                self.one_sentence(result, "backend 'cuda' failed: ", "6 runs were not finished",
                                  "the same command continues from the checkpoints")
                rows = read_json(self.good("runs", "--store", self.store, "--json").out)
                self.assertEqual({row["status"] for row in rows}, {"pending"})
                self.assertEqual(self.train(*words), whole)
                self.check(6)

    def test_finished_runs_are_kept(self):
        self.train("--seed", "1", "--epochs", "3", "--precision", "tf32")
        result = self.command("--seed", "1,2", "--epochs", "3", "--precision", "tf32", env=lost_after(5))
        self.one_sentence(result, "1 run was not finished")
        rows = read_json(self.good("runs", "--store", self.store, "--json").out)
        self.assertEqual([row["status"] for row in rows], ["done", "pending"])

    def test_a_loss_surface_continues(self):
        run_id = list(self.train("--epochs", "1"))[0]
        words = ["landscape", run_id, "--grid", "7", "--samples", "40", "--store", self.store, "--out", self.folder / "s.html"]
        result = run(*words, "--device", "cuda", env=lost_after(3))
        self.assertEqual(result.code, 1, result)
        self.one_sentence(result, "GPU failed")
        self.good(*words, "--device", "cpu", "--quiet")


class SeveralGpus(DeviceCase):
    def test_runs_are_dealt_to_all(self):
        whole = self.whole(*SIX)
        for devices in (2, 3):
            for size in (2**30, 700000):  # the latter has room for one model at a time
                store = self.folder / f"{devices}-{size}"
                env = {"SEMFOCUS_EMULATE_DEVICES": str(devices), **memory(size)}
                self.assertEqual(self.train(*SIX, "--device", "cuda", store=store, env=env), whole)

    def test_all_are_lost(self):
        whole = self.whole(*SIX)
        result = self.command(*SIX, "--device", "cuda", env=lost_after(20, devices=2))
        self.assertEqual(result.code, 0, result)
        self.assertIn("its runs continue on the other devices", result.err)
        self.assertIn("its runs continue on the CPU", result.err)
        self.assertEqual(self.read(result), whole)


class Evaluators(DeviceCase):
    def test_the_same_numbers_on_both(self):
        ids = list(self.train("--attention", "full,topk:3", "--epochs", "2"))
        for words in (["analyze", *ids, "--bounds", "--mask-stability", "--lipschitz", "--samples", "5"],
                      ["evaluate", *ids, "--lengths", "8,11"]):
            with self.subTest(command=words[0]):
                outputs = set()
                for device in ("cpu", "cuda"):
                    outputs.add(self.good(*words, "--json", "--device", device, "--store", self.store).out)
                self.assertEqual(len(outputs), 1)

    def test_surfaces_are_the_same_when_computed_anew(self):
        outputs = set()
        for device in ("cpu", "cuda"):
            self.store = self.folder / device
            run_id = list(self.train("--attention", "topk:3", "--epochs", "2"))[0]
            outputs.add(self.good("landscape", run_id, "--grid", "5", "--samples", "30", "--json", "--device", device,
                                  "--store", self.store, "--out", self.folder / "page.html").out)
        self.assertEqual(len(outputs), 1)


if __name__ == "__main__":
    unittest.main()
