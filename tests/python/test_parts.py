"""Selectors and weightings written in Python, against the built-in ones."""
import subprocess
import threading
import unittest
from pathlib import Path

from place import PROGRAM, SMALL, InFolder, numpy, semfocus


def top(scores, k):
    """the k largest scores; of equal ones, the first"""
    return numpy.argsort(-scores, axis=-1, kind="stable")[..., :k]


def softmax(scores, kept):
    """softmax, over again"""
    shifted = numpy.where(kept, scores - scores.max(-1, keepdims=True, where=kept, initial=-1e300), -numpy.inf)
    weights = numpy.exp(shifted)
    return weights / weights.sum(-1, keepdims=True)


def softmax_backward(dweights, weights, scores, kept):
    return weights * (dweights - (dweights * weights).sum(-1, keepdims=True))


class Selectors(InFolder):
    def test_equal_to_topk_has_the_same_bits(self):
        semfocus.selector("py-topk", keeps_k=True)(top)
        semfocus.selector("py-any")(top)
        shapes = ({"length": 40, "width": 64, "train_count": 100, "batch": 10}, {"heads": 2, "threads": 2}, {"length": 100, "train_count": 20},
                  {"activation": "gelu", "norm": "post"})
        for shape in shapes:
            settings = {"epochs": 2, **shape}
            built_in = self.train("topk:5", **settings)
            self.assertEqual(self.train("py-topk:5", **settings)["weights"], built_in["weights"], shape)
            self.assertEqual(self.train("py-any:5", **settings)["weights"], built_in["weights"], shape)

    def test_one_call_per_batch_block_and_head(self):
        calls = []

        def noted(scores, k):
            calls.append(scores.shape)
            return top(scores, k)
        semfocus.selector("py-noted-k", keeps_k=True, source="k")(noted)
        semfocus.selector("py-noted", source="any")(noted)
        settings = {"heads": 2, "train_count": 58, "batch": 25, "epochs": 1}
        for threads in (1, 2, 3, 8):
            for name in ("py-noted-k", "py-noted"):
                calls.clear()
                self.train(f"{name}:4", threads=threads, store=f"{self.store}-{threads}", **settings)
                counts = {shape: calls.count(shape) for shape in calls}
                # two blocks of two heads: two batches of 25 and one of 8; then the 58 and the 30 held-out ones
                self.assertEqual(counts, {(25, 8, 8): 8, (8, 8, 8): 4, (58, 8, 8): 4, (30, 8, 8): 4}, (name, threads))
        stored = [semfocus.Store(f"{self.store}-{threads}").run(f"py-noted{suffix}:4") for threads in (1, 2, 3, 8) for suffix in ("", "-k")]
        self.assertEqual({run["weights"] for run in stored}, {self.train("topk:4", **settings)["weights"]})

    def test_batches_that_do_not_fit_into_memory_come_in_parts(self):
        sizes = []

        def noted(scores, k):
            sizes.append(len(scores))
            return top(scores, k)
        semfocus.selector("py-parts", source="parts")(noted)
        settings = {"length": 40, "width": 64, "mlp_width": 256, "blocks": 5, "train_count": 400, "batch": 400, "epochs": 1}
        mine, theirs = self.train("py-parts:5", **settings), self.train("topk:5", **settings)
        self.assertLess(max(sizes), 400)
        self.assertEqual(mine["weights"], theirs["weights"])
        self.assertEqual(*[[{**row, "seconds": 0} for row in run._curve_rows()] for run in (mine, theirs)])

    def test_with_transforms_extras_and_in_causal_models(self):

        def causal_top(scores, k):
            """as topk in a causal model: min(k, visible) of the visible keys"""
            visible = numpy.tril(numpy.ones(scores.shape, bool))
            kept = numpy.zeros(scores.shape, bool)
            numpy.put_along_axis(kept, numpy.argsort(numpy.where(visible, -scores, numpy.inf), axis=-1, kind="stable")[..., :k], True, axis=-1)
            return kept & visible
        semfocus.selector("py-causal")(causal_top)
        for suffix, settings in (("", {"causal": True}), ("@alibi", {"causal": True, "heads": 2}), ("@rope@softcap:2", {"causal": True})):
            self.assertEqual(self.train("py-causal:3" + suffix, **settings)["weights"], self.train("topk:3" + suffix, **settings)["weights"], suffix)
        semfocus.selector("py-topk", keeps_k=True)(top)
        for suffix in ("@alibi", "+sink:1", "/sigmoid", "@rope", "+global:1"):
            self.assertEqual(self.train("py-topk:3" + suffix)["weights"], self.train("topk:3" + suffix)["weights"], suffix)

    def test_keys_after_the_query_come_last_in_causal_models(self):
        seen = []

        def noted(scores, k):
            seen.append((numpy.isfinite(scores) == numpy.tri(scores.shape[-1], dtype=bool)).all() and (scores[..., -1, :] > -numpy.inf).all())
            return top(scores, k)
        semfocus.selector("py-topk", keeps_k=True)(top)
        semfocus.selector("py-any")(noted)
        for suffix, settings in (("", {}), ("@alibi", {"heads": 2}), ("/sigmoid", {"threads": 1}), ("@rope@softcap:2", {}), ("+sink:1", {"readout": "last"})):
            theirs = self.train("topk:3" + suffix, causal=True, **settings)
            for name in ("py-topk:3", "py-any:3"):
                mine = self.train(name + suffix, causal=True, **settings)
                self.assertEqual(mine["weights"], theirs["weights"], name + suffix)
                numpy.testing.assert_array_equal(mine.predict([[0, 1, 1], [1]]), theirs.predict([[0, 1, 1], [1]]))
        self.assertGreater(len(seen), 0)
        self.assertTrue(all(seen))
        seen.clear()
        self.train("py-any:3")
        self.assertFalse(any(seen))

    def test_what_a_weighting_sees_of_keys_that_were_not_kept(self):
        seen = []

        def noted(scores, kept):
            seen.append((scores[~kept] == 0).all() and not kept[..., ~numpy.tri(scores.shape[-1], dtype=bool)].any())
            return softmax(scores, kept)
        semfocus.weighting("py-noted-zeros", backward=softmax_backward)(noted)
        self.train("topk:3/py-noted-zeros", causal=True)
        self.assertTrue(seen and all(seen))

    def test_a_mask_of_numbers_is_refused(self):
        semfocus.selector("py-numbers")(lambda scores: (scores > -1e9).astype(int))
        with self.assertRaisesRegex(semfocus.RunFailed, r"a mask of int64; it must be boolean: mask.astype\(bool\)$"):
            self.train("py-numbers")

    def test_a_name_is_needed(self):
        for kind in (semfocus.selector, lambda name: semfocus.weighting(name, backward=softmax_backward)):
            with self.assertRaisesRegex(TypeError, "must be text: @semfocus.*NAME"):
                @kind
                def _(scores):
                    return scores > 0

    def test_a_long_exception_leaves_room_for_the_lines(self):
        def wrong(scores):
            raise ValueError("Größe ungültig 形状が違います " * 20)
        semfocus.selector("py-long")(wrong)
        with self.assertRaises(semfocus.RunFailed):
            self.train("py-long")
        message = semfocus.Store(self.store).run("py-long")["message"]
        self.assertRegex(message, "ValueError: Größe ungültig 形状が違います .*[.]{3} [|] line [0-9]+ of test_parts.py, in wrong: raise")

    def test_an_exception_ends_the_run_with_its_traceback(self):
        calls = [0]

        def breaks(scores):
            calls[0] += 1
            if calls[0] > 60:
                raise KeyError("a bug of mine")
            return numpy.ones(scores.shape, bool)
        semfocus.selector("py-breaks")(breaks)
        with self.assertRaises(semfocus.RunFailed) as caught:
            self.train("py-breaks", epochs=100)
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        stored = semfocus.Store(self.store).run("py-breaks")
        self.assertEqual(stored["status"], "failed")
        for part in ("KeyError", "a bug of mine", "in breaks", "raise KeyError", "test_parts.py"):
            self.assertIn(part, stored["message"])
        self.assertGreater(stored["epochs"], 0)  # what was trained before is there
        self.assertEqual(len(stored._curve_rows()), stored["epochs"])
        calls[0] = -10**9
        again = self.train("py-breaks", epochs=8)
        self.assertEqual((again["status"], again["epochs"]), ("done", 8))
        fresh = semfocus.train("even-pairs", attention="py-breaks", seed=1, store=self.store + "2", **{**SMALL, "epochs": 8})
        self.assertEqual(again["weights"], fresh["weights"])

    def test_wrong_results_are_refused(self):
        for name, result in (("py-short", lambda scores: numpy.ones((2, 2), bool)), ("py-none", lambda scores: numpy.zeros(scores.shape, bool)),
                             ("py-far", lambda scores: numpy.full((*scores.shape[:2], 1), 99)), ("py-text", lambda scores: "all"),
                             ("py-float", lambda scores: scores)):
            semfocus.selector(name, source=name)(result)
            with self.assertRaises(semfocus.RunFailed, msg=name):
                self.train(name)
        semfocus.selector("py-liar", keeps_k=True)(lambda scores, k: top(scores, k + 1))
        with self.assertRaisesRegex(semfocus.RunFailed, "keeps 3"):
            self.train("py-liar:3")

    def test_the_source_is_part_of_the_identity(self):
        ids = set()
        for text in ("one", "two", "one"):
            semfocus.selector("py-text-of", source=text)(top)
            ids.add(self.train("py-text-of:3").id)
        self.assertEqual(len(ids), 2)

    def test_names_and_functions_are_checked(self):
        for name in ("topk", "Upper", "", "a b"):
            with self.assertRaises(ValueError):
                semfocus.selector(name)(top)
        with self.assertRaises(ValueError):
            semfocus.selector("py-max")(max)
        semfocus.selector("py-forward", causal=False)(top)
        with self.assertRaises(ValueError):
            self.train("py-forward:3", causal=True)

    def test_several_runs_at_once_and_python_threads_beside_them(self):
        semfocus.selector("py-any")(top)
        done, counted = threading.Event(), [0]

        def count():
            while not done.is_set():
                counted[0] += 1
        beside = threading.Thread(target=count)
        beside.start()
        try:
            runs = semfocus.train("even-pairs", attention="py-any:3", seed=[1, 2, 3, 4], threads=2, store=self.store, **SMALL)
        finally:
            done.set()
            beside.join()
        theirs = semfocus.train("even-pairs", attention="topk:3", seed=[1, 2, 3, 4], store=self.store, **SMALL)
        self.assertEqual([run["weights"] for run in runs], [run["weights"] for run in theirs])
        self.assertGreater(counted[0], 0)


class Weightings(InFolder):
    def test_softmax_learns_as_the_built_in_one(self):
        semfocus.weighting("py-softmax", backward=softmax_backward)(softmax)
        for selector, settings in (("full", {}), ("topk:3", {}), ("full", {"causal": True}), ("banded:3", {"heads": 2})):
            mine, theirs = self.train(selector + "/py-softmax", **settings), self.train(selector, **settings)
            for name, value in theirs.weights().items():
                numpy.testing.assert_allclose(mine.weights()[name], value, rtol=0, atol=2e-5, err_msg=f"{selector} {name}")

    def test_one_call_per_batch_block_and_head(self):
        calls = []

        def noted(scores, kept):
            calls.append(("forward", len(scores)))
            return softmax(scores, kept)

        def noted_backward(dweights, weights, scores, kept):
            calls.append(("backward", len(scores)))
            return softmax_backward(dweights, weights, scores, kept)
        semfocus.weighting("py-noted", backward=noted_backward)(noted)
        semfocus.selector("py-any")(top)
        weights = set()
        for threads in (1, 2, 8):
            for selector in ("topk:3", "py-any:3"):
                calls.clear()
                run = self.train(f"{selector}/py-noted", threads=threads, store=f"{self.store}-{threads}", train_count=20, batch=20, epochs=1)
                # two blocks: a step computes weights twice, forward and backward; then the evaluations
                self.assertEqual({call: calls.count(call) for call in calls}, {("forward", 20): 6, ("backward", 20): 2, ("forward", 30): 2})
                weights.add(run["weights"])
        self.assertEqual(len(weights), 1)

    def test_an_exception_in_forward_and_in_backward(self):
        def forward(scores, kept):
            raise RuntimeError("no weights")

        def backward(dweights, weights, scores, kept):
            raise RuntimeError("no gradient")
        semfocus.weighting("py-no-weights", backward=softmax_backward)(forward)
        semfocus.weighting("py-no-gradient", backward=backward)(softmax)
        for name, sentence in (("py-no-weights", "no weights"), ("py-no-gradient", "no gradient")):
            with self.assertRaisesRegex(semfocus.RunFailed, sentence):
                self.train("full/" + name)


class Elsewhere(InFolder):
    def test_the_program_shows_runs_of_parts_that_it_does_not_know(self):
        semfocus.selector("py-frag")(top)
        own, plain = self.train("py-frag:3"), self.train("full")
        page = Path(self.folder) / "page.html"
        told = " ".join(self.command("report", "--store", self.store, "--out", page).decode().split())
        note = "py-frag:3 is shown from its stored rows, without what needs its code, because the selector py-frag written in Python (hash "
        for text in (told, page.read_text(encoding="utf-8")):
            self.assertIn(note, text)
        self.command("export", "--where", "1", "--format", "tensorboard", "--out", Path(self.folder) / "boards", "--store", self.store)
        self.assertIn(own["id"].encode(), self.command("export", "--where", "1", "--format", "csv", "--store", self.store))
        checked = subprocess.run([PROGRAM, "check", "--store", self.store], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 1)
        self.assertEqual(checked.stdout, "1 of 2 runs are intact, 1 could not be evaluated because a part that it uses is not loaded "
                                         "(rows and files are as written)\n")
        self.assertIn(f"run {own['id']}: its rows and files are as they were written, but were not evaluated: it uses the selector py-frag "
                      "written in Python", checked.stderr)
        self.assertNotIn("--plugin", checked.stderr)
        self.command("check", plain["id"], "--store", self.store)


if __name__ == "__main__":
    unittest.main()
