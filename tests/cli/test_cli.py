"""The command line as a whole: usage, help, listings, refusals, and requests too large for any machine."""
import json
import os
import unittest
from pathlib import Path

from harness import TINY, Case, has_instruction_set, run

VERBS = ["train", "compare", "study", "report", "analyze", "landscape", "paper", "evaluate", "generate", "distance",
         "runs", "export", "check", "merge", "data", "solve", "parity", "bench", "list", "doctor", "serve", "man",
         "completion"]
GIB = 1 << 30
BAD_NUMBERS = ["", " ", "-", "+", ".", "x", "nan", "NaN", "-nan", "inf", "-inf", "Infinity", "1e999", "-1e999", "0x10",
               "0x1p3",
               "5x", "5 5", " 5", "5 ", "1,000", "--5", "1e", "5\n", "\u0665", "99999999999999999999999999", "\x1b[31m"]
BAD_ATTENTION = ["", " ", "topk", "topk:", "topk:0", "topk:x", "topk:-1", "topk:5.0", "topk: 5", "topk:5 5",
                 "topk:99999999999999", "topk:99999999999999999999999", "topk:65537", "topk:5:5", "topk:0x5", "TOPK:5",
                 "topk5", "top-k:5", "bogus", "full:3", "full+st/sigmoid", "topk:5+sink:0", "random:3@@rope",
                 "banded:5+global:0", "banded:5+global:-1", "banded:5+global:x", "banded:5+global:", "banded:5+global",
                 "banded:5+", "banded:5+foo:1", "banded+global:1", "banded:5+global:1025", "banded:5+global:1+global:1",
                 "topk:5/", "topk:5/bogus", "/softmax", "full/bogus", "topk:5/softmax/softmax", ":5", "+global:1",
                 "full,", ",full", "full,,full", "full,bogus", "x" * 60, "x" * 100, "x" * 200,
                 "topk:" + "0" * 300 + "5", "full\n", "\xff"]

TASK_OF = {"pairs": "recall", "noise": "noisy-recall", "writes": "flip-flop", "group": "word-problem"}  # settings of one task


class Cli(Case):
    def setUp(self):
        super().setUp()
        self.train_help = self.good("train", "--help").out

    def settings(self):
        return json.loads(self.good("list", "settings", "--json").out)

    def verb_of(self, name):
        """A command that takes the setting, and would run quickly if it were valid."""
        if name == "context":
            return ["data", self.some_text(), "--describe"]
        if name in ("new-tokens", "temperature", "top"):
            return ["generate", *self.text_run()]
        if name in TASK_OF:
            return ["data", TASK_OF[name], "--count", "5"]
        if f"--{name} " in self.train_help:
            return ["train", "even-pairs", *TINY, "--epochs", "1"]
        if name in ("seeds", "add-seeds", "dry-run", "fail-fast"):
            return ["compare", "even-pairs", *TINY, "--epochs", "1", "--quiet"]
        if name in ("at", "split", "samples", "perturbed"):
            return ["analyze", *self.trained_run()]
        if name == "port":
            return ["serve", "--store", self.folder / "none"]
        if name in ("archived", "where"):
            return ["runs", *self.trained_run()[1:]]
        if name == "models":
            return ["bench", "nnch", "full"]
        if name == "scale":
            return ["paper", "status", "--store", self.folder / "none"]
        if name in ("grid", "direction-seed", "extent"):
            return ["landscape", *self.trained_run(), "--grid", "2"]
        return ["export", "0", "--store", "nowhere"] if name in ("format", "best") else ["data", "even-pairs"]


    def some_text(self):
        return self.write("some.txt", "a line\na line of text, and more of it\n" * 20)

    def text_run(self):
        """The same of a causal model of text."""
        store = self.folder / "text"
        if not store.exists():
            self.good("train", f"text:{self.some_text()}", "--readout", "each", "--causal", "--context", "8", "--blocks", "1",
                      "--width", "8", "--mlp-width", "8", "--epochs", "1", "--quiet", "--store", store)
        return json.loads(self.good("runs", "--store", store, "--json").out)[0]["id"], "--store", store

    def trained_run(self):
        """The id of a run, and where it is."""
        store = self.folder / "trained"
        if not store.exists():
            self.good("train", "even-pairs", *TINY, "--epochs", "1", "--quiet", "--store", store)
        return json.loads(self.good("runs", "--store", store, "--json").out)[0]["id"], "--store", store


class Help(Cli):
    def test_version(self):
        self.assertRegex(self.good("--version").out, r"^semfocus \d+\.\d+\.\d+\n$")

    def test_program_help_names_every_verb(self):
        out = self.good("--help").out
        for verb in VERBS:
            self.assertRegex(out, rf"(?m)^ +{verb} ")

    def test_verb_help_names_every_setting_it_takes(self):
        named = set()
        for verb in VERBS:
            out = self.good(verb, "--help").out
            self.assertTrue(out.startswith(f"usage: semfocus {verb}"), out)
            for setting in self.settings():
                name = setting["name"]
                takes = "unknown setting" not in run(verb, f"--{name}=\x01", "a", "b", "c", "d").err
                self.assertEqual(f"  --{name} " in out, takes, f"{verb} --help and --{name}")
                if takes:
                    named.add(name)
        self.assertEqual(named, {setting["name"] for setting in self.settings()})

    def test_help_wins_over_anything_else(self):
        for words in (["train", "--bogus", "--help"], ["train", "--help", "nonsense"],
                      ["data", "--count", "x", "--help"]):
            self.good(*words)


class List(Cli):
    def test_listings(self):
        everything = json.loads(self.good("list", "--json").out)
        text = self.good("list").out
        for name in ("tasks", "attention", "settings", "figures", "backends"):
            rows = json.loads(self.good("list", name, "--json").out)
            self.assertEqual(rows, everything[name])
            lines = self.good("list", name).out.splitlines()
            if name == "tasks":
                lines = lines[::2]  # each is followed by its recipe
            if name == "attention":
                lines = lines[::4]  # each is followed by its formula, cost and source
            self.assertEqual(len(lines), len(rows))
            for row, line in zip(rows, lines):
                self.assertIn(row["name"], line)
                self.assertIn(line, text)

    def test_recipes_are_those_of_the_paper(self):
        epochs = {"even-pairs": 100, "stack-manipulation": 200, "missing-duplicate": 250, "listops": 200,
                  "parity": 1000,
                  "modular-arithmetic-brackets": 600, "solve-equation": 600, "cycle-navigation": 750}
        defaults = {setting["name"]: setting["default"] for setting in self.settings()}
        for name, value in {"width": 64, "mlp-width": 64, "heads": 1, "dropout": 0.01, "batch": 25, "clip": 0.5,
                            "momentum": 0, "weight-decay": 0, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
                            "train-count": 5000, "heldout-count": 2000, "inverse-temperature": 1}.items():
            self.assertEqual(float(defaults[name]), value, name)
        self.assertEqual([defaults[name] for name in ("activation", "norm", "optimizer")], ["relu", "pre", "sgd"])
        for task in json.loads(self.good("list", "tasks", "--json").out):
            recipe = {**defaults, **task["recipe"]}
            if task["name"] not in epochs:
                continue
            self.assertEqual((int(recipe["epochs"]), recipe["pad"]), (epochs[task["name"]], "mask"), task["name"])
            wanted = (10, 1.0, 0.99) if task["name"] == "listops" else (5, 0.1, 0.9995)
            self.assertEqual((int(recipe["blocks"]), float(recipe["lr"]), float(recipe["gamma"])), wanted, task["name"])

    def test_recipes_are_listed_as_options_and_in_the_guide(self):
        listed = self.good("list", "tasks").out.splitlines()
        guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
        defaults = {setting["name"]: setting["default"] for setting in self.settings()}
        tasks = json.loads(self.good("list", "tasks", "--json").out)
        self.assertEqual(len(listed), 2 * len(tasks))
        for i, task in enumerate(tasks):
            self.assertEqual(listed[2 * i].split()[0], task["name"])
            options = "".join(f" --{name} {value}" for name, value in task["recipe"].items())
            self.assertEqual(listed[2 * i + 1].strip(), options.strip())
            recipe = {**defaults, **task["recipe"]}
            row = [task["name"], task["summary"]] + [recipe[name] for name in
                                                     ("length", "epochs", "blocks", "lr", "gamma", "pad")]
            if recipe["readout"] == "each":  # in a table of their own, without recipes
                self.assertRegex(guide, rf"\n\|[^|]*\b{task['name']}\b[^|]*\|")
            else:
                self.assertIn("| " + " | ".join(row) + " |\n", guide)


class BadUsage(Cli):
    def test_no_arguments_shows_the_verbs(self):
        result = run()
        self.assertEqual((result.code, result.out), (2, ""), result)
        self.assertIn("usage: semfocus", result.err)

    def test_unknown_words(self):
        for words in (["bogus"], [""], ["-x"], ["--bogus"], ["Train"], ["train"], ["data"], ["solve"],
                      ["solve", "parity"], ["parity"], ["train", "parity", "parity"], ["data", "parity", "more"],
                      ["solve", "parity", "a", "b"], ["list", "bogus"], ["list", "tasks", "attention"],
                      ["train", "parity", "-e", "5"], ["train", "parity", "-5"], ["train", ""], ["train", "--"],
                      ["list", "--"], ["train", "parity", "--=5"], ["data", "parity", "--json", "--out", "x"],
                      ["x" * 5000], ["train", "x" * 5000], ["train", "parity", "--" + "x" * 5000],
                      ["list", "y" * 5000]):
            with self.subTest(" ".join(words)[:60]):
                self.refused(*words)

    def test_messages_stay_on_one_line_whatever_was_typed(self):
        for words in (["a\nb"], ["list", "a\nb"], ["train", "a\nb"], ["train", "-a\nb"], ["train", "parity", "--a\nb"],
                      ["train", "parity", "--lr", "a\nb"], ["train", "parity", "--attention", "a\nb"],
                      ["solve", "parity", "a\nb"], ["parity", "a\nb"], ["train", "tsv:a\nb"],
                      ["data", "parity", "--out", "a\nb/c"], ["\x1b[31mred"], ["train", "-\x1b[31mred"],
                      ["parity", "\x1b[31mred"], ["der\u202ef\u2066gh\u009bi"]):
            with self.subTest(words):
                result = self.refused(*words, codes=(1, 2) if "--out" in words else (2,))
                for control in "\x1b\u202e\u2066\u009b":
                    self.assertNotIn(control, result.err)

    def test_nearest_name(self):
        for typed, meant in [("even-pair", "even-pairs"), ("evenpairs", "even-pairs"), ("list-ops", "listops"),
                             ("paritty", "parity"), ("stack", None), ("qqqqqq", None),
                             ("modular-arithmetic-bracket", "modular-arithmetic-brackets")]:
            for verb in (["train", typed], ["data", typed], ["solve", typed, "-"]):
                self.refused(*verb, mentions=[typed, *([meant] if meant else [])])
        for typed, meant in [("lenght", "length"), ("atention", "attention"), ("epoch", "epochs"),
                             ("dropuot", "dropout"),
                             ("learning-rate", "'lr'"), ("frobnication", "--help"), ("heldout_count", "heldout-count"), ("Seed", "seed")]:
            self.refused("train", "parity", f"--{typed}", "5", mentions=[typed, meant])
        self.refused("train", "parity", "--attention", "topl:5", mentions=["topk"])

    def test_settings_of_other_verbs(self):
        for words in (["data", "parity", "--lr", "1"], ["list", "--count", "5"], ["train", "parity", "--out", "x"],
                      ["solve", "parity", "-", "--length", "5"]):
            self.refused(*words, mentions=[words[-2].lstrip("-")])

    NEEDS = {"warmup": ["--schedule", "cosine"], "warmup-steps": ["--schedule", "cosine"], "beta1": ["--optimizer", "adam"], "beta2": ["--optimizer", "adamw"],
             "epsilon": ["--optimizer", "adam"]}

    def test_settings_without_effect(self):
        for name, value, other in (("warmup", "1", "schedule"), ("beta1", "0.5", "optimizer"), ("epsilon", "1e-3", "optimizer")):
            self.refused(*self.verb_of(name), f"--{name}", value, mentions=[name, other])
        self.refused(*self.verb_of("momentum"), "--momentum", "0.5", "--optimizer", "adam", mentions=["momentum", "sgd"])
        self.refused(*self.verb_of("gamma"), "--gamma", "0.5", "--schedule", "constant", mentions=["gamma", "decay"])

    def test_numeric_settings(self):
        for setting in self.settings():
            if setting["type"] not in ("integer", "real"):
                continue
            name, low, high = setting["name"], setting["low"], setting["high"]
            beyond = [f"{high + 1:.0f}", f"{low - 1:.0f}", "1e30", "-1e30", "-99999999999999999999999", "-2"]
            if setting["type"] == "integer":
                beyond += ["1.5", "1e1", "5.", "5.0", "9223372036854775807", "9223372036854775808",
                           "-9223372036854775809"]
            else:
                beyond += [f"{high * 1.001:.12g}", "-1e-300"]
            command = self.verb_of(name)
            for value in BAD_NUMBERS + beyond:
                if name == "seed" and value == "1,000":
                    continue  # a list of two seeds
                with self.subTest(name=name, value=value):
                    self.refused(*command, f"--{name}={value}", mentions=[name])
            with self.subTest(name=name, value="last and missing"):
                self.refused(*command, f"--{name}", mentions=[name])
            if name not in ("vocab", "classes", "models", "port"):  # refused for built-in tasks; needs a GPU; does not end
                with self.subTest(name=name, value="smallest"):
                    self.good(*command, f"--{name}", f"{low:.12g}", *self.NEEDS.get(name, []))

    def test_values_apart_from_their_name_are_read_the_same(self):
        for value in ("", "-1", "nan", "--help-me", "--epochs"):
            with self.subTest(value):
                self.refused("train", "parity", "--length", value, mentions=["length"])

    def test_choices_and_flags(self):
        for setting in self.settings():
            name = setting["name"]
            if setting["type"] == "choice":
                for value in ("", "bogus", setting["choices"] + "|", setting["choices"].split("|")[0].upper(), "|",
                              "0"):
                    with self.subTest(name=name, value=value):
                        self.refused(*self.verb_of(name), f"--{name}={value}",
                                     mentions=[name, *setting["choices"].split("|")])
                for value in setting["choices"].split("|") if name != "format" else []:  # needs a run
                    without_gpu = {"CUDA_VISIBLE_DEVICES": ""}
                    if value == "bf16" and not has_instruction_set("avx512"):
                        self.refused(*self.verb_of(name), f"--{name}", value, env=without_gpu, mentions=["bf16", "use f32"])
                    elif value in ("cuda", "tf32"):  # tests/cuda has a GPU
                        self.refused(*self.verb_of(name), f"--{name}", value, env=without_gpu, mentions=[name, value])
                    elif value == "each":  # needs one label per position
                        self.refused(*self.verb_of(name), f"--{name}", value, mentions=[name, value, "even-pairs"])
                    else:
                        self.good(*self.verb_of(name), f"--{name}", value)
            elif setting["type"] == "flag":
                verb = next(verb for verb in VERBS if f"  --{name} " in self.good(verb, "--help").out)
                for value in ("", "bogus", "1", "YES"):
                    with self.subTest(name=name, value=value):
                        self.refused(verb, f"--{name}={value}", mentions=[f"{name} is '{value}'", "yes or no"])

    def test_attention(self):
        for spelling in BAD_ATTENTION:
            with self.subTest(spelling[:80]):
                self.refused("train", "even-pairs", *TINY, "--attention", spelling)

    def test_lists_of_seeds(self):
        for seeds in ("1,", ",1", "1,,2", "1,x", "1,-1", "1 2", "1,4294967296", ",", "1, 2 3", "0" * 200 + "5x"):
            with self.subTest(seeds):
                self.refused("train", "even-pairs", *TINY, "--seed", seeds, mentions=["seed"])
        self.refused("data", "parity", "--seed", "1,2", mentions=["seed"])

    def test_settings_that_contradict_each_other(self):
        self.refused("train", "parity", *TINY, "--schedule", "cosine", "--warmup", "2", mentions=["warmup", "epochs"])
        self.refused("train", "solve-equation", *TINY, "--length", "2", mentions=["length", "solve-equation"])
        self.refused("train", "listops", *TINY, "--length", "2001", mentions=["length", "listops"])


@unittest.skipIf(os.environ.get("SEMFOCUS_SANITIZED"), "a sanitizer needs more address space than the limit set here")
class TooLarge(Cli):
    def too_large(self, *words):
        self.refused(*words, codes=(1, 2), memory=2 * GIB, timeout=60)

    def test_models(self):
        self.too_large("train", "parity", *TINY, "--width", "4096", "--blocks", "1024", "--mlp-width", "16384",
                       "--heads", "64")
        self.too_large("train", "parity", *TINY, "--width", "4096", "--mlp-width", "16384", "--heads", "64",
                       "--blocks", "64")
        self.too_large("train", "parity", *TINY, "--length", "65536", "--batch", "65536", "--width", "4096")
        self.too_large("train", "parity", *TINY, "--length", "65536", "--heads", "64", "--blocks", "1024", "--width",
                       "64")

    def test_data(self):
        self.too_large("train", "parity", "--train-count", "10000000", "--length", "65536")
        self.too_large("train", "parity", *TINY, "--heldout-count", "10000000", "--length", "65536")
        self.too_large("data", "parity", "--count", "10000000", "--length", "65536")
        self.too_large("data", "parity", "--count", "10000000", "--length", "65536", "--out", self.folder / "large.tsv")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_fleets(self):
        self.too_large("train", "parity", *TINY, "--seed", ",".join(map(str, range(10001))))

    def test_endless_input(self):
        self.refused("solve", "parity", "/dev/zero", codes=(1, 2), memory=GIB // 2, timeout=60)
        self.refused("parity", "/dev/zero", codes=(1, 2), memory=GIB // 2, timeout=30, mentions=["/dev/zero"])


if __name__ == "__main__":
    unittest.main()
