"""train, compare, stores, weights, logits, interruptions: the package against the program."""
import doctest
import html
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from place import ROOT, SMALL, InFolder, numpy, semfocus

from semfocus import _parts, _store, _study


class Documented(unittest.TestCase):
    def test_examples_of_docstrings(self):
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made"
            semfocus.train("even-pairs", attention=["full", "topk:3"], seed=1, store=made, **SMALL)
            finder, seen = doctest.DocTestFinder(exclude_empty=True), 0
            for module in (semfocus, _store, _study, _parts):
                for test in finder.find(module, extraglobs={**vars(semfocus), "SMALL": SMALL}):
                    if not test.examples or test.filename != module.__file__:
                        continue
                    store = Path(folder) / test.name
                    shutil.copytree(made, store)
                    test.globs["STORE"] = str(store)
                    out = []
                    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS)
                    self.assertEqual(runner.run(test, out=out.append).failed, 0, "".join(out))
                    seen += 1
            self.assertGreaterEqual(seen, 9)


class Documents(InFolder):
    def test_the_code_of_the_document(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            torch = None
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed, which the document assumes")
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL | re.MULTILINE)
        self.assertEqual(len(blocks), 4)
        for i, block in enumerate(blocks):
            if "torch" in block and torch is None:
                continue
            script = Path(self.folder) / f"block{i}.py"
            script.write_text(block)
            done = subprocess.run([sys.executable, str(script)], cwd=self.folder, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(Path(semfocus.__file__).parents[1])})
            self.assertEqual(done.returncode, 0, block + done.stderr)


class Training(InFolder):
    def test_the_same_runs_as_the_program(self):
        run = self.train()
        words = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
        self.command("train", "even-pairs", "--attention", "topk:3", "--seed", 1, *words, "--store", self.store + "2")
        theirs = json.loads(self.command("runs", "--store", self.store + "2", "--json"))[0]
        for name in ("id", "weights", "train_accuracy", "heldout_accuracy", "epochs"):
            self.assertEqual(run[name], theirs[name], name)
        csv = self.command("export", run.id, "--store", self.store).decode().splitlines()[1:]
        for row, line in zip(run._curve_rows(), csv):
            self.assertEqual("%d,%.9g,%.9g,%.9g,%.9g" % tuple(row[name] for name in _store.CURVE[:5]), line)

    def test_a_finished_run_is_not_trained_again(self):
        self.train()
        events = []
        self.train(callback=events.append)
        self.assertEqual([event["kind"] for event in events], ["finished"])

    def test_bad_settings_get_the_sentence_of_the_library(self):
        for settings, sentence in (({"wdth": 3}, "did you mean"), ({"width": 0}, "width"), ({"attention": "topq:3"}, "topk"),
                                   ({"heads": "x"}, "heads")):
            with self.assertRaises(ValueError) as caught:
                self.train(**settings)
            self.assertIn(sentence, str(caught.exception))
        with self.assertRaises(ValueError):
            semfocus.train("odd-pairs", store=self.store)
        with self.assertRaises(ValueError):
            semfocus.Store(self.store + "-missing")

    def test_values_that_are_none_of_a_setting(self):
        for task, settings, sentence in (
                (None, {}, "task is None but must be a number, text, or a list of them"), ([], {}, "task is an empty list"),
                ("even-pairs", {"seed": {1, 2}}, "seed is {1, 2} but must be"), ("even-pairs", {"lr": None}, "lr is None but"),
                ("even-pairs", {"mlp_width": []}, "mlp_width is an empty list; give at least one value"),
                ("even-pairs", {"seed": (seed for seed in (1, 2))}, "seed is <generator")):
            with self.assertRaisesRegex(ValueError, sentence):
                semfocus.train(task, store=self.store, **settings)
        self.assertFalse(os.path.exists(self.store))

    def test_settings_without_an_effect_are_refused(self):
        for name, value in (("tensorboard", "boards"), ("figures", "figures"), ("where", "epochs > 0"), ("dry_run", True), ("shard", "1/2"), ("archived", True),
                            ("out", "page.html"), ("plot", True), ("json", True), ("quiet", True), ("keep_going", True), ("fail_fast", True),
                            ("data_parallel", True), ("rank_timeout", 5), ("port", 0), ("grid", 3)):
            with self.subTest(name=name):
                for command in (semfocus.train, semfocus.compare):
                    with self.assertRaisesRegex(ValueError, f"^{name} is not a setting of {command.__name__}"):
                        command("even-pairs", store=self.store, **SMALL, **{name: value})
        for name, value in (("seeds", 3), ("add_seeds", 3), ("converged_at", 90)):
            with self.assertRaisesRegex(ValueError, f"^{name} is not a setting of train"):
                self.train(**{name: value})
        self.assertFalse(Path(self.store).exists())
        known = {row["name"] for row in semfocus.settings() if row["in"] == "study"}
        obeyed, refused = _study._OBEYED["compare"] | {"store", "converged-at"}, set(_study._INSTEAD)
        self.assertLessEqual(obeyed | refused, known)
        self.assertLessEqual({row["name"] for row in semfocus.settings() if row["in"] == "study" and row["of_studies"]}, obeyed | refused)

    def test_the_name_of_runs(self):
        run = self.train(name="first, but named")
        self.assertEqual(run["name"], "first, but named")
        self.assertEqual(self.train(name="second")["name"], "second")
        self.assertEqual(self.train()["name"], "second")
        semfocus.compare("even-pairs", attention=["full", "topk:3"], seed=1, name="both", store=self.store, **SMALL)
        self.assertEqual([row["name"] for row in semfocus.Store(self.store)._rows("")], ["both", "both"])
        for name in (["a", "b"], None, 3, "two\nlines", "x" * 200):
            with self.assertRaisesRegex(ValueError, "^name is"):
                self.train(name=name)

    def test_seeds_are_added(self):
        settings = {"attention": ["full", "topk:3"], "store": self.store, **SMALL}
        for added, count in ((2, 2), (1, 3)):
            result = semfocus.compare("even-pairs", add_seeds=added, **settings)
            self.assertEqual([row["finished"] for row in result.rows], [count, count])
        with self.assertRaisesRegex(ValueError, "leave out seeds"):
            semfocus.compare("even-pairs", add_seeds=1, seeds=3, **settings)

    def test_plug_ins(self):
        with self.assertRaisesRegex(ValueError, "plug-in '/missing.so' cannot be opened"):
            self.train(plugin=Path("/missing.so"))

    def test_values_of_numpy(self):
        plain = self.train(["full", "topk:3"], lr=[0.1, 0.25], causal=True, seed=[0, 1], width=16, clip=1.5, mlp_width=[4, 8])
        for lr in (numpy.array([0.1, 0.25]), list(numpy.array([0.1, 0.25])), (numpy.float64(0.1), numpy.float32(0.25))):
            runs = self.train(numpy.array(["full", "topk:3"]), lr=lr, causal=numpy.bool_(True), seed=numpy.arange(2), width=numpy.int64(16),
                              clip=numpy.array(1.5), mlp_width=[numpy.uint8(4), numpy.int16(8)])
            self.assertEqual([run.id for run in runs], [run.id for run in plain])
        self.assertEqual(_study._spell("lr", list(numpy.array([0.01, 0.1]))), "0.01,0.1")
        self.assertEqual(_study._spell("readout", [numpy.bool_(False), numpy.str_("cls")]), "no,cls")
        result = semfocus.compare("even-pairs", attention=numpy.array(["full", "topk:3"]), seeds=numpy.int64(1), converged_at=numpy.float64(90),
                                  store=self.store, **SMALL)
        self.assertEqual([row["converged_at"] for row in result.rows], ["90 % training accuracy"] * 2)

    def test_exceptions_of_a_callback_come_through_and_nothing_is_lost(self):
        class Mine(Exception):
            pass

        def stop_at_three(event):
            if event["kind"] == "epoch" and event["epoch"] == 3:
                raise Mine("enough")
        with self.assertRaisesRegex(Mine, "enough"):
            self.train(epochs=400, callback=stop_at_three)
        stored = semfocus.Store(self.store).run("topk")
        self.assertGreaterEqual(stored["epochs"], 3)
        self.assertLess(stored["epochs"], 400)
        whole = self.train(epochs=400)
        fresh = semfocus.train("even-pairs", attention="topk:3", seed=1, store=self.store + "2", **{**SMALL, "epochs": 400})
        self.assertEqual(whole["weights"], fresh["weights"])

    def test_interrupt_checkpoints_and_raises(self):
        script = Path(self.folder) / "long.py"
        script.write_text(f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which Python does not do where a shell started it in the background
sys.path.insert(0, {str(Path(semfocus.__file__).parents[1])!r})
import semfocus
def tell(event):
    if event["kind"] == "epoch" and event["epoch"] == 2: print("two", flush=True)
    if event["kind"] == "started" and event["epoch"] >= 2: print("again", flush=True)
try:
    semfocus.train("even-pairs", attention="topk:3", seed=1, store={self.store!r}, callback=tell, **{dict(SMALL, epochs=100000)!r})
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", flush=True)
""")
        for times in (1, 4):  # who presses Ctrl-C again does not wait for what it did
            process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "two\n" if times == 1 else "again\n")
            for _ in range(times):
                process.send_signal(signal.SIGINT)
                time.sleep(0.002)
            out, _ = process.communicate(timeout=60)
            self.assertEqual((out, process.returncode), ("interrupted\n", 0))
        row = semfocus.Store(self.store).run("topk")
        self.assertGreaterEqual(row["epochs"], 2)
        self.assertEqual(row.weights()["linear.bias"].shape, (2,))


class Comparing(InFolder):
    def assert_same(self, mine, theirs, name):
        """The program prints numbers with 12 digits."""
        if isinstance(mine, dict) and isinstance(theirs, dict):
            self.assertEqual(sorted(mine), sorted(theirs), name)
            for key, value in mine.items():
                self.assert_same(value, theirs[key], f"{name}: {key}")
        elif isinstance(mine, float) and theirs is not None:
            self.assertAlmostEqual(mine, theirs, delta=1e-9, msg=name)
        else:
            self.assertEqual(mine, theirs, name)

    def test_results_are_those_of_the_program(self):
        settings = {**SMALL, "epochs": 4}
        result = semfocus.compare("even-pairs", attention=["full", "topk:3", "banded:3"], seeds=3, store=self.store, **settings)
        words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
        rows = json.loads(self.command("compare", "even-pairs", "--attention", "full,topk:3,banded:3", "--seeds", 3, *words,
                                       "--store", self.store, "--json", "--out", Path(self.folder) / "r.html"))
        self.assertEqual(len(rows), 3)
        for mine, theirs in zip(result.rows, rows):
            for name, value in mine.items():
                if name in theirs and name not in ("epoch_seconds",):
                    self.assert_same(value, theirs[name], name)
        self.assertEqual(len(result.runs()), 9)
        self.assertEqual(len(result.curves()), 36)
        self.assertIn("<table>", result._repr_html_())
        self.assertIn("topk:3", repr(result))
        page = Path(result.report(Path(self.folder) / "page.html")).read_text()
        self.assertIn("semfocus compare even-pairs", page)

    def test_the_command_of_a_report_repeats_it(self):
        store = str(Path(self.folder) / "it's a store")
        result = semfocus.compare("even-pairs", attention=["full", "topk:3"], seeds=2, name="first try", causal=True, tie_weights=False, lr=[0.1, 0.2],
                                  converged_at=90, store=store, **SMALL)
        page = html.unescape(Path(result.report(Path(self.folder) / "page.html")).read_text())
        command = next(line for line in re.findall(r"semfocus compare [^<\n]*", page))
        self.assertIn("--name 'first try'", command)
        self.assertIn("it'\\''s a store'", command)
        words = [*shlex.split(command)[1:], "--json", "--out", str(Path(self.folder) / "theirs.html")]
        again = json.loads(self.command(*words))
        self.assertEqual([row["variant"] for row in again], [row["variant"] for row in result.rows])
        self.assertEqual(len(semfocus.Store(store).runs()), 8)
        theirs = html.unescape((Path(self.folder) / "theirs.html").read_text())
        self.assertIn(command + " --json", theirs)

    def test_verdicts_end_as_those_of_the_program(self):
        result = semfocus.compare("even-pairs", attention=["full", "topk:3"], seeds=2, store=self.store, **SMALL)
        printed = self.command("compare", "even-pairs", "--attention", "full,topk:3", "--seeds", 2, "--store", self.store, "--quiet", "--out",
                               Path(self.folder) / "r.html", *[word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", value)])
        self.assertEqual(len(result.verdicts()), 1)
        self.assertIn(result.verdicts()[0], " ".join(printed.decode().split()))
        for shown in (result.verdicts()[0], repr(result)):
            self.assertRegex(shown, r"[^.]\.$")

    def test_columns_of_tables_without_rows(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("pandas is not installed")
        self.train(every=1)
        store = semfocus.Store(self.store)
        result = semfocus.compare("even-pairs", attention="topk:3", seed=1, store=self.store, **SMALL)
        for read in (store.runs, store.curves, store.measures):
            self.assertGreater(len(read()), 0)
            self.assertEqual(list(read("epochs > 99").columns), list(read().columns))
        self.assertEqual(list(self.train("full").measures().columns), list(store.run("topk").measures().columns))
        columns = list(result.curves().columns)
        result.rows = []
        self.assertEqual(list(result.curves().columns), columns)

    def test_html_is_escaped(self):
        rows = semfocus._table.Rows([{"a": "<script>", "b": None, "c": 0.123456}])
        self.assertIn("&lt;script&gt;", rows._repr_html_())
        self.assertNotIn("<script>", rows._repr_html_())

    def test_without_pandas(self):
        self.train()
        code = ("import sys; sys.modules['pandas'] = None; sys.modules['tqdm'] = None; "
                f"sys.path.insert(0, {str(Path(semfocus.__file__).parents[1])!r}); import semfocus; "
                f"s = semfocus.Store({self.store!r}); r = s.runs(); assert isinstance(r, list) and r[0]['width'] == 16; "
                "assert s.curves()[1]['epoch'] == 2; assert '<table>' in r._repr_html_()")
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_figure(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("matplotlib is not installed")
        matplotlib.use("Agg")
        result = semfocus.compare("even-pairs", attention=["full", "topk:3"], seeds=2, store=self.store, **SMALL)
        axes = result.plot("train_loss")
        self.assertEqual([text.get_text() for text in axes.get_legend().get_texts()], ["full", "topk:3"])
        axes.figure.savefig(Path(self.folder) / "figure.png")
        with self.assertRaises(ValueError):
            result.plot("accuracy")


class Labels(InFolder):
    def test_archived_runs(self):
        result = semfocus.compare("even-pairs", attention=["full", "topk:3"], seed=1, store=self.store, **SMALL)
        first, store = self.train(), semfocus.Store(self.store)
        self.command("runs", "archive", first.id, "--store", self.store)
        again = self.train()
        self.assertEqual((again.id, again["archived"], again["weights"]), (first.id, True, first["weights"]))
        self.assertEqual([run.id for run in self.train(["full", "topk:3"])][1], first.id)
        self.assertEqual(len(result.runs()), 2)
        self.assertEqual(len(result.curves()), 4)
        self.assertEqual([run["attention"] for run in store], ["full"])
        for where, archived, count in (("", False, 1), ("", True, 2), ("archived = 1", False, 1), ("ARCHIVED", False, 1), ("attention = 'topk:3'", False, 0),
                                       ("attention = 'topk:3'", True, 1), ("attention != 'archived'", False, 1), ("NOT archived", True, 1)):
            with self.subTest(where=where, archived=archived):
                self.assertEqual(len(store.runs(where, archived=archived)), count)
                self.assertEqual(len(store.select(where, archived=archived)), count)
                self.assertEqual(len(store.curves(where, archived=archived)), 2 * count)
                self.assertEqual(len(store.measures(where, archived=archived)), 0)
        self.assertEqual(store.run(first.id).id, first.id)
        with self.assertRaisesRegex(ValueError, "0 runs"):
            store.run("topk")

    def test_what_people_wrote_on_runs(self):
        self.train()
        run = self.train("full")
        for words in (("name", run.id, "a <name>"), ("tag", run.id, "one"), ("tag", run.id, "other"), ("note", run.id, 'a "note"')):
            self.command("runs", *words, "--store", self.store)
        store = semfocus.Store(self.store)
        rows = {row["attention"]: row for row in store._rows("")}
        self.assertEqual([rows["full"][name] for name in ("name", "tags", "note", "archived")], ["a <name>", "one, other", 'a "note"', False])
        self.assertEqual([rows["topk:3"][name] for name in ("name", "tags", "note", "archived")], [None, None, None, False])
        self.assertEqual(store.run("full")["name"], "a <name>")
        self.assertLessEqual({"name", "tags", "note", "archived"}, set(getattr(store.runs(), "columns", rows["full"])))
        for page in (store._repr_html_(), store.run("full")._repr_html_()):
            for text in ("a &lt;name&gt;", "one, other", "a &quot;note&quot;", "<th>archived</th>"):
                self.assertIn(text, page)


class Models(InFolder):
    def training_set(self):
        lines = self.command("data", "even-pairs", "--length", 8, "--count", 60, "--seed", 1).decode().splitlines()[1:]
        return ([[int(t) for t in line.split("\t")[0].split()] for line in lines], [int(line.split("\t")[1]) for line in lines])

    def test_logits_give_the_stored_accuracy_and_loss(self):
        for attention in ("full", "topk:3", "topk:3+global:2", "banded:3"):
            run = self.train(attention)
            tokens, labels = self.training_set()
            logits = run.predict(tokens).astype(float)
            accuracy = 100 * (logits.argmax(1) == labels).mean()
            losses = numpy.log(numpy.exp(logits).sum(1)) - logits[numpy.arange(len(labels)), labels]
            last = run._curve_rows()[-1]
            self.assertAlmostEqual(accuracy, last["train_accuracy"], delta=1e-9)
            self.assertAlmostEqual(losses.mean(), last["train_loss"], delta=1e-5)
            self.assertTrue((run.predict(tokens[:7]) == run.predict(tokens)[:7]).all())

    def test_logits_in_a_forked_process(self):
        run = self.train("topk:3")
        tokens = [[0, 1, 1], [1, 0]] * 40
        expected = run.predict(tokens)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends a child that waits for threads it does not have
            os._exit(0 if (run.predict(tokens) == expected).all() and len(run.store.select()) == 1 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue((run.predict(tokens) == expected).all())

    def test_text_with_a_zero(self):
        for settings in ({"attention": "topk:3\0"}, {"name": "one\0two"}):
            with self.assertRaisesRegex(ValueError, "code 0"):
                self.train(**settings)
        with self.assertRaisesRegex(ValueError, "code 0"):
            semfocus.Store(self.store + "\0")

    def test_weights_are_those_of_the_program(self):
        run = self.train()
        path = Path(self.folder) / "w.safetensors"
        self.command("export", run.id, "--format", "safetensors", "--store", self.store, "--out", path)
        theirs, metadata = semfocus.read_safetensors(path)
        for name, value in run.weights().items():
            self.assertTrue((value == theirs[name]).all(), name)
        described = run.describe()
        for name in ("attention", "width", "embedding-scale", "readout", "epsilon", "epsilon-first-attention-norm",
                     "positions", "head-width", "score-scale", "pad", "norm", "activation", "causal"):
            self.assertEqual(metadata[name], described[name], name)

    def test_head_width_and_the_scale_of_scores(self):
        for settings, facts in (({}, ("16", 0.25)), ({"heads": 2, "head_width": 4}, ("4", 0.5)), ({"head_width": 64, "inverse_temperature": 3}, ("64", 0.375))):
            run = self.train(**settings)
            for about in (run.describe(), run.export()[1]):
                self.assertEqual((about["head-width"], float(about["score-scale"])), facts)

    def test_positions_where_sequences_are_shorter_than_the_length(self):
        run = semfocus.train("binary-addition", attention="topk:3", seed=1, store=self.store, **{**SMALL, "length": 9})
        self.assertEqual(run.lay_out([[0, 1]]).shape, (1, 8))
        self.assertEqual((run.describe()["positions"], run.export()[1]["positions"]), ("8", "8"))

    def test_tokens_are_checked(self):
        run = self.train()
        for tokens in ([[0, 9]], [[-1]], [[]], [[0.5]], [[0] * 9], [[[0]]], [[2**40]]):
            with self.assertRaises(ValueError):
                run.predict(tokens)
        self.assertEqual(run.predict([]).shape, (0, 2))
        with self.assertRaises(ValueError):
            run.predict([[0]], at="first")


if __name__ == "__main__":
    unittest.main()
