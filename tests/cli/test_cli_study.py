"""Study files and the grids they span: what they mean, what is refused and where, and that nothing is written then."""
import codecs
import itertools
import json
import os
import random
import re
import unittest

from harness import TINY, Case, read_json, run

SETTINGS = dict(zip((word[2:] for word in TINY[::2]), TINY[1::2]))
SMALL = "".join(f"{name} = {value}\n" for name, value in SETTINGS.items())
PLANNED = re.compile(r"([0-9a-f]{16})  (\S+) +(.*?) +seed (\d+) +(done|to do)")
# the paper's first seeds, which `seeds` takes in this order
SEEDS = [153476998, 235510766, 205084180, 129959864, 149896109, 140439608]


class Planned:
    """A line of a plan."""

    def __init__(self, line):
        match = PLANNED.fullmatch(line)
        assert match, line
        self.id, self.task, self.name, seed, self.state = match.groups()
        self.seed = int(seed)


class Study(Case):
    def plan(self, *words, **options):
        """What --dry-run says would be run; the last line must agree with the others."""
        lines = self.good(*words, "--dry-run", **options).out.splitlines()
        planned = [Planned(line) for line in lines[:-1]]
        done = sum(run.state == "done" for run in planned)
        ids = len({run.id for run in planned})  # a run may belong to two variants
        rest = "" if done == ids else r"; the rest takes at most about (a second|[1-9]\d* (s|min|days)|\d+\.\d h) on this machine"
        self.assertRegex(lines[-1], rf"^{ids} run{'s' * (ids != 1)}, {done} done{rest}$")
        return planned

    def plan_json(self, *words):
        return read_json(self.good(*words, "--dry-run", "--json").out)

    def plan_file(self, text, *words):
        return self.plan("study", self.write("study.ini", text), *words)

    def plan_compare(self, *words):
        return self.plan("compare", *words, *TINY)

    def ids(self, planned):
        return [run.id for run in planned]

    def same(self, text, *words):
        """The file plans exactly what the command line does."""
        with self.subTest(text):
            self.assertEqual(self.ids(self.plan_file(text)), self.ids(self.plan_compare(*words)))


class Plans(Study):
    def test_one_run(self):
        store = ["--store", self.folder / "runs", "--out", self.folder / "page.html"]
        words = ["compare", "even-pairs", *TINY, "--attention", "full", "--seeds", "1", *store]
        self.assertEqual([run.state for run in self.plan(*words)], ["to do"])
        self.good(*words, "--quiet")
        self.assertEqual([run.state for run in self.plan(*words)], ["done"])
        self.assertEqual(self.plan_json(*words)["seconds_left"], 0)

    def test_a_run_of_several_variants_takes_its_time_once(self):
        base = "task = even-pairs\nattention = full\nseeds = 2\nepochs = 100\n"
        variants = "".join(f"[variant{i}]\n" for i in range(16))
        once, often = self.write("once.ini", base), self.write("often.ini", base + variants)
        alone = max(self.plan_json("study", once)["seconds_left"] for _ in range(3))
        shared = min(self.plan_json("study", often)["seconds_left"] for _ in range(3))
        self.assertLess(shared, 6 * alone)  # both are measured; counted for each variant it would be 16 times

    def test_any_number_of_variants(self):
        base = "task = even-pairs\nattention = full\nseeds = 1\n" + SMALL
        names = [f"variant {i}" for i in range(1000)]
        planned = self.plan_file(base + "".join(f"[{name}]\nlr = {1 + i}\n" for i, name in enumerate(names)))
        self.assertEqual([run.name for run in planned], names)
        self.assertEqual(len(set(self.ids(planned))), 1000)

    def test_json_tells_the_same(self):
        store = ["--store", self.folder / "runs", "--out", self.folder / "page.html"]
        self.good("compare", "even-pairs", *TINY, "--seeds", "2", "--quiet", *store)
        study = self.write("study.ini", "task = even-pairs\nseeds = 3\n" + SMALL)
        for words in (["compare", "even-pairs", *TINY, "--seeds", "3", *store], ["study", study, *store]):
            told, planned = self.plan_json(*words), self.plan(*words)
            self.assertEqual([(row["id"], row["task"], row["variant"], row["seed"], row["done"]) for row in told["runs"]],
                             [(run.id, run.task, run.name, run.seed, run.state == "done") for run in planned])
            self.assertEqual((told["count"], told["done"]), (6, 4))
            self.assertTrue(0 < told["seconds_left"] < 60, told)


class Meaning(Study):
    BOTH = ["even-pairs", "--attention", "full,topk:3", "--seeds", "2"]

    def test_a_file_is_the_same_as_options(self):
        self.same("task = even-pairs\nattention = full, topk:3\nseeds = 2\n" + SMALL, *self.BOTH)
        self.same("[defaults]\ntask = even-pairs\nattention = full, topk:3\nseeds = 2\n" + SMALL, *self.BOTH)
        self.same("task = even-pairs\nseeds = 2\n[defaults]\nattention = full, topk:3\n" + SMALL, *self.BOTH)

    def test_without_mechanisms_and_seeds(self):
        planned = self.plan_file("task = even-pairs\n" + SMALL)
        self.assertEqual([(run.name, run.seed) for run in planned],
                         list(itertools.product(["full", "topk:5"], SEEDS)))

    def test_spelling(self):
        for text in ("task=even-pairs\nattention=full,topk:3\nseeds=2\n",
                     "\n\n  task = even-pairs\n\nattention\t=\tfull ,\ttopk:3 \nseeds = 2\n\n",
                     "task = even-pairs\nattention =\n  full,\n  topk:3\nseeds = 2\n",
                     "task = even-pairs\nattention = full,\n\ttopk:3\nseeds = 2\n",
                     "task = even-pairs\nattention = full\n , topk:3\nseeds = 2\n",
                     "task = even-pairs\nattention = full,\n\n ; between\n# at the margin\n  topk:3\nseeds = 2\n",
                     "; first\n# second\ntask = even-pairs ; third\nattention = full, ; fourth\n  topk:3 ; fifth\n"
                     "seeds = 2\n",
                     "[defaults] ; comment\ntask = even-pairs\nattention = full, topk:3\nseeds = 2\n"):
            self.same(text + SMALL, *self.BOTH)
        whole = "task = even-pairs\nattention = full,\n  topk:3\nseeds = 2\n" + SMALL
        plain = self.ids(self.plan_file(whole))
        for content in (codecs.BOM_UTF8 + whole.encode(), whole.replace("\n", "\r\n").encode(), whole.encode()[:-1],
                        codecs.BOM_UTF8 + b"[defaults]\r\n" + whole.replace("\n", "\r\n").encode()):
            self.assertEqual(self.ids(self.plan_file(content)), plain, content)
        self.assertEqual(self.ids(self.plan("study", "-", stdin=whole.encode())), plain)

    def test_a_long_list_goes_on_over_many_lines(self):
        seeds = list(range(1, 900))
        text = "task = even-pairs\nattention = full\nseed =\n" + "".join(
            " " + ", ".join(map(str, seeds[i:i + 7])) + (",\n" if i + 7 < len(seeds) else "\n")
            for i in range(0, len(seeds), 7))
        self.assertEqual([run.seed for run in self.plan_file(text + SMALL)], seeds)

    def test_lists_span_grids(self):
        sizes = {"attention": ["full", "topk:2", "banded:3"], "blocks": ["1", "2"], "lr": ["0.1", "0.01"],
                 "activation": ["relu", "gelu", "mish"], "seed": ["1", "2"]}
        text = "task = even-pairs, parity\n" + "".join(f"{name} = {', '.join(values)}\n" for name, values in sizes.items())
        rest = "".join(f"{name} = {value}\n" for name, value in SETTINGS.items() if name not in sizes)
        planned = self.plan_file(text + rest)
        wanted = 2
        for values in sizes.values():
            wanted *= len(values)
        self.assertEqual(len(planned), wanted)
        self.assertEqual(len(set(self.ids(planned))), wanted)
        for run in planned:
            attention, *others = run.name.split(" ")
            self.assertIn(attention, sizes["attention"])
            for other in others:
                name, value = other.split("=")
                self.assertIn(value, sizes[name])
        self.assertEqual(len({(run.task, run.name, run.seed) for run in planned}), wanted, "two groups have one name")
        self.assertEqual([run.task for run in planned], sorted(run.task for run in planned))  # task by task

    def test_variants_lie_on_top_of_the_defaults(self):
        planned = self.plan_file("task = even-pairs\nattention = full, topk:3\nseeds = 2\nlr = 0.1\n" + SMALL +
                                 "[plain]\n[gelu]\nactivation = gelu\n[both]\nlr = 0.01, 0.02\nattention = topk:3\n"
                                 "[other]\ntask = parity\nseeds = 1\n")
        found = {}
        for run in planned:
            found.setdefault(run.name.split(" ")[0], []).append(run.id)
        def ids(*words):
            return self.ids(self.plan_compare(*words))
        both = ["even-pairs", "--seeds", "2", "--attention"]
        self.assertEqual(found.keys(), {"plain", "gelu", "both", "other"})
        self.assertEqual(found["plain"], ids(*both, "full,topk:3"))
        self.assertEqual(found["gelu"], ids(*both, "full,topk:3", "--activation", "gelu"))
        self.assertEqual(sorted(found["both"]), sorted(ids(*both, "topk:3", "--lr", "0.01,0.02")))
        self.assertEqual(found["other"], ids("parity", "--seeds", "1", "--attention", "full,topk:3"))

    def test_variants_that_agree_share_their_runs(self):
        text = "task = even-pairs\nseeds = 3\n" + SMALL + "[a]\n[b]\nlr = 0.1\n[c]\nlr = 0.2\n"
        planned = self.plan_file(text)  # lr = 0.1 is the recipe
        self.assertEqual(len(planned), 3 * 2 * 3)
        self.assertEqual(len(set(self.ids(planned))), 2 * 2 * 3)

    def test_seed_and_seeds(self):
        for text, seeds in (("seed = 7, 5", [7, 5]), ("seeds = 3", SEEDS[:3]), ("seed = 4", [4])):
            planned = self.plan_file(f"task = even-pairs\nattention = full\n{text}\n{SMALL}")
            self.assertEqual([run.seed for run in planned], seeds)
        planned = self.plan_file("task = even-pairs\nattention = full\nseed = 7, 8\n" + SMALL + "[a]\nseeds = 2\n[b]\n")
        self.assertEqual([run.seed for run in planned], SEEDS[:2] + [7, 8])
        planned = self.plan_file("task = even-pairs\nattention = full\nseeds = 2\n" + SMALL + "[a]\nseed = 7, 8, 9\n")
        self.assertEqual([run.seed for run in planned], [7, 8, 9])

    def test_options_beat_the_file(self):
        text = "task = even-pairs\nattention = full, topk:3\nseed = 7\nlr = 0.5\n" + SMALL
        variants = text + "[a]\nlr = 0.3\n[b]\nlr = 0.4\nseed = 9\n"
        wanted = self.ids(self.plan_compare("even-pairs", "--attention", "banded:3", "--seeds", "2", "--lr", "0.2"))
        options = ["--attention", "banded:3", "--seeds", "2", "--lr", "0.2"]
        self.assertEqual(self.ids(self.plan_file(text, *options)), wanted)
        planned = self.plan_file(variants, *options)
        self.assertEqual(self.ids(planned), wanted * 2)
        self.assertEqual([run.name for run in planned], ["a"] * 2 + ["b"] * 2)
        for options, seeds in ((["--seeds", "3"], SEEDS[:3]), (["--seed", "1,2"], [1, 2])):
            planned = self.plan_file(variants, "--attention", "full", *options)
            self.assertEqual([run.seed for run in planned], seeds * 2)
        planned = self.plan_file(text.replace("seed = 7", "seeds = 4"), "--attention", "full", "--seed", "3")
        self.assertEqual([run.seed for run in planned], [3])

    def test_equal_runs_are_one(self):
        planned = self.plan_compare("even-pairs", "--seed", "1,1", "--attention", "full")
        self.assertEqual([run.seed for run in planned], [1])
        words = [word if word != "8" or TINY[i - 1] != "--length" else "40" for i, word in enumerate(TINY)]
        planned = self.plan("compare", "even-pairs", "--attention", "topk:40,full", "--seeds", "2", *words)
        self.assertEqual([(run.name, run.seed) for run in planned], [("full", SEEDS[0]), ("full", SEEDS[1])])

    def test_blanks_around_the_values_of_a_list(self):
        for verb in ("compare", "train"):
            plain, spaced = (self.good(verb, "even-pairs", *TINY, "--attention", attention, "--seed", seed, "--json").out
                             for attention, seed in (("full,topk:3", "1,2"), (" full , topk:3 ", "1, 2")))
            drop_times = re.compile(r'"epoch_seconds": [^,\n]*')
            self.assertEqual(drop_times.sub("", plain), drop_times.sub("", spaced))


class Results(Study):
    def results(self, text, *words):
        path = self.write("study.ini", text)
        return json.loads(self.good("study", path, *words, "--json").out)

    def compared(self, rows):
        return {row["variant"]: row["compared_with"] for row in rows}

    def test_a_variant_of_one_mechanism_is_compared_with_the_first(self):
        rows = self.results("task = even-pairs\nattention = full\nseeds = 2\n" + SMALL + "[a]\n[b]\nlr = 0.2\n[c]\nlr = 0.3\n")
        self.assertEqual(self.compared(rows), {"a": "a", "b": "a", "c": "a"})
        self.assertEqual([row["baseline"] for row in rows], [True, False, False])
        self.assertEqual([row["verdict"] is None for row in rows], [True, False, False])
        for row in rows[1:]:
            self.assertIn(row["variant"], row["verdict"])

    def test_mechanisms_are_compared_within_their_variant(self):
        rows = self.results("task = even-pairs, parity\nattention = topk:3, full\nseeds = 2\n" + SMALL +
                            "[a]\n[b]\nlr = 0.2\n[c]\nattention = banded:3\n")
        self.assertEqual([row["task"] for row in rows], ["even-pairs"] * 5 + ["parity"] * 5)
        wanted = {"a topk:3": "a full", "a full": "a full", "b topk:3": "b full", "b full": "b full", "c": "a full"}
        for task in ("even-pairs", "parity"):
            self.assertEqual(self.compared([row for row in rows if row["task"] == task]), wanted)

    def test_baseline_is_full_or_the_first(self):
        for attention, baseline in (("topk:3,full,banded:3", "full"), ("topk:3,banded:3", "topk:3")):
            rows = json.loads(self.good("compare", "even-pairs", *TINY, "--attention", attention, "--seeds", "2", "--json").out)
            self.assertEqual({row["compared_with"] for row in rows}, {baseline})
            self.assertEqual([row["variant"] for row in rows if row["baseline"]], [baseline])

    def test_study_and_compare_say_the_same(self):
        own = self.results("task = even-pairs\nattention = full, topk:3\nseeds = 3\n" + SMALL)
        other = json.loads(self.good("compare", "even-pairs", *TINY, "--attention", "full,topk:3", "--seeds", "3", "--json").out)
        for row in own + other:
            self.assertGreater(row.pop("epoch_seconds"), 0)
        self.assertEqual(own, other)

    def test_runs_of_a_study_are_runs_like_others(self):
        store = self.folder / "runs"
        self.write("study.ini", f"task = even-pairs\nseeds = 2\nattention = full\nstore = {store}\n{SMALL}")
        planned = self.plan("study", "study.ini", cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), ["study.ini"], "a dry run wrote something")
        self.good("study", "study.ini", cwd=self.folder)
        self.assertEqual({run.state for run in self.plan("study", "study.ini", cwd=self.folder)}, {"done"})
        stored = json.loads(self.good("runs", "--store", store, "--json").out)
        self.assertEqual({row["id"] for row in stored}, {run.id for run in planned})

    def test_one_line_a_finished_run(self):
        words = ["compare", "even-pairs", *TINY, "--attention", "full,topk:3", "--seeds", "3", "--epochs", "5", "--store",
                 self.folder / "runs"]
        lines = re.findall(r"(?m)^ *(\d+)/6  (full|topk:3) (\d+) +95 % .* held-out +[\d.]+ % after 5$",
                           self.good(*words).out)
        self.assertEqual([int(number) for number, _, _ in lines], [1, 2, 3, 4, 5, 6])
        self.assertEqual({(name, int(seed)) for _, name, seed in lines}, set(itertools.product(["full", "topk:3"], SEEDS[:3])))
        again = self.good(*words).out
        self.assertIn("6 of 6 runs were already done", again)
        self.assertNotRegex(again, r"(?m)^ *\d+/6 ")

    def test_a_plan_says_what_will_be_trained(self):
        """For runs that are whole, too short or without their files: exactly what the command then does."""
        words = ["compare", "even-pairs", *TINY, "--attention", "full", "--seed", "1,2,3"]
        def both(*more):
            planned = self.plan(*words, *more, cwd=self.folder)
            told = self.good(*words, *more, cwd=self.folder).out
            trained = 3 - int((re.search(r"(\d+) of 3 runs were already done", told) or [0, 0])[1])
            self.assertEqual(sum(run.state == "to do" for run in planned), trained, told)
            return trained
        self.good("train", *words[1:], "--quiet", cwd=self.folder)
        self.assertEqual(both(), 0)
        self.assertEqual(both("--epochs", "3"), 3)
        self.assertEqual(both("--epochs", "1"), 0)
        files = sorted((self.folder / "semfocus-runs" / "checkpoints").iterdir())
        self.assertGreaterEqual(len(files), 3)
        files[0].unlink()
        self.assertEqual(both(), 1)
        self.assertEqual(both(), 0)
        for path in (self.folder / "semfocus-runs" / "checkpoints").iterdir():
            path.unlink()
        self.assertEqual(both(), 3)

    def test_what_is_full_attention_is_said(self):
        words = ["compare", "even-pairs", *TINY, "--seeds", "1", "--attention"]
        def said(mechanisms, *more):
            return [line for line in self.good(*words, mechanisms, *more).out.splitlines() if "every key" in line]
        self.assertEqual(said("full,topk:7,banded:3"), [])
        self.assertEqual(said("full,topk:8"), ["topk:8 keeps every key of 8: it is full attention."])
        self.assertEqual(said("topk:8", "--seeds", "2"), ["topk:8 keeps every key of 8: it is full attention."])
        many, = said("full," + ",".join(f"banded:{k}" for k in range(8, 99)))
        self.assertTrue(many.endswith(", and others keep every key of 8: they are full attention."), many)
        both = ["topk:8, block:9 keep every key of 8: they are full attention."]
        self.assertEqual(said("full,topk:8,block:9,topk:3"), both)
        self.assertEqual(said("full,topk:8,block:9,topk:8", "--lr", "0.1,0.2"), both, "once")
        self.assertEqual(said("full,topk:8", "--length", "8,12"), ["topk:8 keeps every key of 8: it is full attention."])
        rows = json.loads(self.good(*words, "full,topk:8,topk:3", "--json").out)
        self.assertEqual([(row["variant"], row["note"]) for row in rows],
                         [("full", "topk:8 keeps every key of 8: it is full attention"), ("topk:3", None)])
        path = self.write("data.tsv", "tokens\tlabel\n" + "0 1 1\t1\n1 0 1\t0\n" * 8)
        lines = self.good("compare", f"tsv:{path}", *TINY[TINY.index("--blocks"):], "--seeds", "1", "--quiet",
                          "--attention", "full,topk:3").out
        self.assertIn("topk:3 keeps every key of the longest sequence: it is full attention.\n", lines)

    def test_default_report_and_store(self):
        """By default, in the current folder."""
        self.write("study.ini", "task = even-pairs\nseeds = 1\n" + SMALL)
        self.good("study", "study.ini", cwd=self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), ["report.html", "semfocus-runs", "study.ini"])


class Refused(Study):
    GOOD = "task = even-pairs\nseeds = 1\n" + SMALL  # lines 1, 2 and seven more
    LAST = GOOD.count("\n")

    def bad(self, text, line, *mentions, words=()):
        """Exit 2 and FILE:LINE: on the only line; `line` is a number or several that would be right."""
        with self.subTest(text[-200:]):
            content = text if isinstance(text, bytes) else text.encode()
            self.write("study.ini", content)
            result = self.refused("study", "study.ini", *words, mentions=mentions, cwd=self.folder)
            match = re.match(r"semfocus: study\.ini:(\d+): \S", result.err)
            self.assertTrue(match, result)
            self.assertIn(int(match[1]), [line] if isinstance(line, int) else line, result)
            self.assertEqual(os.listdir(self.folder), ["study.ini"], f"it wrote something{result}")
            return result

    def test_unknown_names(self):
        for typed, meant in (("lenght", "length"), ("activaton", "activation"), ("tasks", "task"), ("taks", "task"),
                             ("seed s", "seeds"), ("Seeds", "seeds"), ("heldout_count", "heldout-count")):
            self.bad(self.GOOD + f"; where\n{typed} = 5\n", self.LAST + 2, typed, f"'{meant}'")
        self.bad(self.GOOD + "[a]\nlenght = 5\n", self.LAST + 2, "lenght", "'length'")
        for typed in ("x", "q" * 60, "q" * 63, "q" * 64, "q" * 100, "\x1b[31m", "\xff"):
            result = self.bad(self.GOOD + f"{typed} = 5\n", self.LAST + 1)
            self.assertNotIn("\x1b", result.err)
        # the first error is reported, even if the next line is wrong, too
        self.bad(self.GOOD + "lenght = 5\nwidth = 8\n", self.LAST + 1, "lenght")
        for other in ("count", "where", "format", "best"):  # of other verbs
            self.bad(self.GOOD + f"{other} = 5\n", self.LAST + 1, other)

    def test_empty_values(self):
        for name in ("attention", "task", "lr", "seed", "activation"):
            base = self.GOOD if name != "task" else self.GOOD.replace("task = even-pairs", "; no task")
            for values in ("", " ", " ;comment"):
                self.bad(base + f"{name} ={values}\n[a]\n", self.LAST + 1, name)
        for name, one, two in (("attention", "full", "topk:3"), ("lr", "0.1", "0.2"), ("seed", "1", "2"),
                               ("activation", "relu", "gelu"), ("blocks", "1", "2")):
            base = self.GOOD.replace("seeds = 1", ";").replace("blocks = 1", ";")
            for values in (f"{one},,{two}", f"{one}, ,{two}", f"{one},", f"{one},{two},", f",{one}", ",", ",,",
                           f"{one}, ; {two}"):
                self.bad(base + f"{name} = {values}\n", self.LAST + 1, name)
        for values in ("even-pairs,", ",even-pairs", "even-pairs,,parity", ","):
            self.bad(f"seeds = 1\ntask = {values}\n{SMALL}", 2, "task")

    def test_commas_over_several_lines(self):
        self.bad(self.GOOD + "attention = full,\n  topk:3,\n\nlr = 0.1\n", (self.LAST + 1, self.LAST + 2), "attention")
        self.bad(self.GOOD + "attention = full,\n  ,topk:3\n", (self.LAST + 1, self.LAST + 2), "attention")

    def test_lines_are_not_glued_into_one_value(self):
        base = self.GOOD.replace("seeds = 1\n", ";\n")
        self.bad(base + "seed = 1\n  2\n", (self.LAST + 1, self.LAST + 2), "seed")
        self.bad(base + "seed = 1, 2\n  3, 4\n", (self.LAST + 1, self.LAST + 2), "seed")
        self.bad(base + "lr = 0.1\n  5\n", (self.LAST + 1, self.LAST + 2), "lr")

    def test_sections(self):
        self.bad(self.GOOD + "[a]\nlr = 0.1\n[b]\n[a]\nlr = 0.2\n", self.LAST + 4, "'a'")
        self.bad(self.GOOD + "[a]\n[defaults]\n", self.LAST + 2, "defaults")
        self.bad("[defaults]\n" + self.GOOD + "[defaults]\n", self.LAST + 2, "defaults")
        for section in ("[a", "[a] b", "[", "[a\nlr = 0.2"):
            self.bad(self.GOOD + section + "\n", self.LAST + 1, "section")
        for section in ("[]", "[" + "n" * 48 + "]", "[" + "n" * 150 + "]"):
            self.bad(self.GOOD + section + "\n", self.LAST + 1, "name")

    def test_set_twice(self):
        self.bad(self.GOOD + "lr = 0.1\n; and\nlr = 0.1\n", self.LAST + 3, "lr", "twice")
        self.bad(self.GOOD + "[a]\nlr = 0.1\nlr = 0.2\n", self.LAST + 3, "lr", "twice")
        self.bad(self.GOOD + "task = parity\n", self.LAST + 1, "task", "twice")
        self.bad("task = parity\n[defaults]\ntask = even-pairs\n", 3, "task", "twice")
        self.bad("task = parity, parity\n" + SMALL, 1, "parity", "twice")
        self.bad("task = parity\n" + SMALL + "seed = 1\nseeds = 2\n", SMALL.count("\n") + 3, "seed", "seeds")

    def test_too_many_runs(self):
        lines = "".join(f"  {','.join(map(str, range(i, i + 20)))}{',' if i < 81 else ''}\n" for i in range(1, 101, 20))
        grid = f"task = even-pairs\nseeds = 100\nattention = full\nwidth =\n{lines}mlp-width =\n{lines}"  # 10^6
        self.bad(grid, (2, 4, 10), "runs")
        self.bad(self.GOOD.replace("seeds = 1", "seeds = 1000") + "lr = " + ",".join(f"0.{i}" for i in range(1, 10)) + "\n"
                 + "dropout = " + ",".join(f"0.{i}" for i in range(1, 10)) + "\n", (2, self.LAST + 1, self.LAST + 2), "runs")
        # each variant alone is small enough
        self.bad(self.GOOD.replace("seeds = 1", "seeds = 1000") + "".join(f"[v{i}]\n" for i in range(6)),
                 (2, *range(self.LAST + 1, self.LAST + 7)), "runs")

    def test_lines(self):
        self.bad(self.GOOD.encode() + b"lr = 0.1\nlr\0 = 5\n", self.LAST + 2, "NUL")
        self.bad(b"\0" * 100000, 1, "NUL")
        self.bad(self.GOOD + "lr = " + "0" * 300 + "1\n", self.LAST + 1, "characters")
        self.bad("task = even-pairs\n;" + "x" * 100000 + "\n", 2, "characters")
        self.bad("task = even-pairs\nseed = 1,\n  " + ",".join(map(str, range(2, 200))) + "\n", 3, "characters")
        for length in range(190, 210):  # around the longest line: whole or refused, never cut
            text = "seed = " + ",".join(["1"] * 200)
            text = text[:length] if text[length - 1] != "," else text[:length - 1] + "1"
            self.write("study.ini", f"task = even-pairs\nattention = full\n{text}2\n{SMALL}")
            result = run("study", self.folder / "study.ini", "--dry-run")
            self.assertIn(result.code, (0, 2), result)
            if result.code == 0:
                self.assertEqual([int(seed) for seed in re.findall(r"seed (\d+)", result.out)],
                                 list(dict.fromkeys(map(int, (text + "2").split("= ")[1].split(",")))), result)
        for text in ("activation", "activation gelu", "- activation", "{}", "\x01\x02", "]", "a b c", "even-pairs"):
            self.bad(self.GOOD + text + "\n", self.LAST + 1)
        self.bad(self.GOOD + "= 5\n", self.LAST + 1)
        self.bad(self.GOOD + "=\n", self.LAST + 1)

    def test_settings_of_the_whole_study(self):
        for name, value in (("store", "elsewhere"), ("threads", "1"), ("out", "x.html"), ("figures", "x"), ("json", "yes"),
                            ("dry-run", "yes"), ("checkpoint-seconds", "1")):
            self.bad(self.GOOD + f"[a]\n{name} = {value}\n", self.LAST + 2, name)
        self.bad(self.GOOD + "threads = 1, 2\n", self.LAST + 1, "threads")
        self.bad(self.GOOD + "stop-at = 90, 95\n", self.LAST + 1, "stop-at")

    def test_tasks(self):
        for text, line in (("", 1), ("\n", (1, 2)), ("; nothing\n", (1, 2)), ("seeds = 1\n", (1, 2)), ("[a]\n", 1),
                           ("seeds = 1\n[a]\ntask = parity\n[b]\n", 4), ("[defaults]\n", (1, 2))):
            self.bad(text, line, "task")
        self.bad(SMALL + "task = even-pair\n", SMALL.count("\n") + 1, "even-pair", "even-pairs")
        self.bad(SMALL + "task = parity, bogus\n", SMALL.count("\n") + 1, "bogus")
        self.bad("seeds = 1\ntask = tsv:absent.tsv\n", 2, "absent.tsv")
        self.bad(self.GOOD + "[a]\ntask = bogus\n", self.LAST + 2, "bogus")

    def test_values(self):
        for name, value in (("attention", "topl:3"), ("attention", "full, bogus"), ("attention", "topk:0"),
                            ("lr", "-1"), ("lr", "0.1, 1e5"), ("lr", "x"), ("lr", "nan"), ("heads", "0"), ("heads", "65"),
                            ("heads", "1.5"), ("activation", "bogus"), ("activation", "relu|gelu"), ("quiet", "maybe"),
                            ("seed", "-1"), ("seed", "1, 4294967296"), ("threads", "1025")):
            base = self.GOOD if name != "seed" else self.GOOD.replace("seeds = 1", ";")
            self.bad(base + f"{name} = {value}\n", self.LAST + 1, name.replace("attention", ""))
        for value in ("0", "1001", "1, 2", "x"):
            self.bad(f"task = even-pairs\nseeds = {value}\n", 2, "seeds")

    def test_rules_between_settings(self):
        """The line is that of the setting the sentence is about."""
        self.bad(self.GOOD + "warmup = 3\n", self.LAST + 1, "warmup", "cosine")
        self.bad(self.GOOD + "[a]\n[b]\nlr = 0.1\nwarmup = 3\n", self.LAST + 4, "warmup", "cosine")
        self.bad(self.GOOD + "momentum = 0.5\n[a]\n[b]\noptimizer = adam\n", (self.LAST + 1, self.LAST + 3, self.LAST + 4),
                 "momentum")
        base = self.GOOD.replace("epochs = 2", "epochs = 2, 4")
        self.bad(base, self.LAST, "epochs", "cosine")

    def test_one_run_has_one_length(self):
        """A run is the same with fewer epochs, and is trained once: variants cannot compare two lengths of it."""
        base = self.GOOD.replace("epochs = 2\n", ";\n")
        self.bad(base + "[short]\nepochs = 2\n[long]\nepochs = 5\n", self.LAST + 4, "epochs", "2", "'short'", "5", "'long'")
        self.bad(self.GOOD + "[a]\n[b]\nlr = 0.1, 0.2\nstop-at = 97\n", self.LAST + 4, "stop-at", "97", "'a'", "'b'")
        self.bad(self.GOOD + "[a]\nstop-at = 97\n[b]\n", self.LAST + 3, "stop-at", "97", "'a'", "'b'")
        self.plan_file(base + "[short]\nepochs = 2\n[long]\nepochs = 5\nblocks = 2\n")  # other runs
        self.plan_file(base + "schedule = cosine\n[short]\nepochs = 2\n[long]\nepochs = 5\n")  # too
        self.plan_file(base + "[short]\nepochs = 2\n[long]\nepochs = 5\n", "--epochs", "3")

    def test_no_stop_before_what_is_measured(self):
        self.bad(self.GOOD + "stop-at = 94\n", self.LAST + 1, "stop-at", "94", "95")
        self.bad(self.GOOD + "[a]\n[b]\nlr = 0.3\nstop-at = 75\n", self.LAST + 4, "stop-at", "75", "95")
        self.bad(self.GOOD + "[a]\nstop-at = 75\n[b]\nstop-at = 75\n", (self.LAST + 2, self.LAST + 4), "stop-at", "75", "95")
        self.plan_file(self.GOOD + "stop-at = 94\n", "--stop-at", "95")

    def test_places(self):
        self.write("keep", "")
        os.mkdir(self.folder / "folder")
        for path in ("absent.ini", "folder", "folder/absent.ini", "keep/x", "", "x" * 5000):
            with self.subTest(path[:50]):
                result = self.refused("study", path, cwd=self.folder)
                self.assertTrue(result.err.startswith(f"semfocus: {path[:40]}"), result)
                self.assertEqual(sorted(os.listdir(self.folder)), ["folder", "keep"])

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_no_permission(self):
        path = self.write("study.ini", self.GOOD)
        path.chmod(0)
        self.refused("study", "study.ini", mentions=["study.ini"], cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), ["study.ini"])

    def test_usage(self):
        self.refused("study", mentions=["usage"])
        path = self.write("study.ini", self.GOOD)
        self.refused("study", path, path, mentions=["usage"])
        self.refused("study", path, "--lenght", "5", mentions=["length"])
        self.refused("study", path, "--out", "-", mentions=["-"])
        self.refused("compare", "even-pairs", *TINY, "--seed", "1", "--seeds", "2", mentions=["seed", "seeds"])
        self.refused("compare", "even-pairs", "--seeds", "1000", "--lr", "0.1,0.2", "--blocks", "1,2,3", mentions=["runs"])


class Garbage(Study):
    def tried(self, content):
        self.write("study.ini", content)
        result = run("study", "study.ini", "--dry-run", cwd=self.folder)
        self.assertIn(result.code, (0, 2), (content, result))
        self.assertEqual(os.listdir(self.folder), ["study.ini"], content)
        if result.code == 2:
            self.assertEqual(result.raw_err.count(b"\n"), 1, (content, result))
            self.assertTrue(result.err.startswith("semfocus: study.ini"), (content, result))
            self.assertEqual(result.out, "", (content, result))
        return result.code

    def test_random_bytes(self):
        dice = random.Random(20250101)
        for trial in range(150):
            content = dice.randbytes(dice.choice((1, 2, 10, 100, 1000, 30000)))
            if trial % 2:  # NUL is refused before anything else is looked at
                content = content.replace(b"\0", b"\n")
            self.tried(content)

    def test_random_characters_of_the_format(self):
        dice = random.Random(20250102)
        parts = ["task", "seed", "seeds", "lr", "attention", "defaults", "=", ":", "[", "]", "[a]", ";", "#", ",", "\n", "\n ",
                 "\n\t", " ", "even-pairs", "full", "1", "0.1", '"', "\r", "\r\n", "\xef\xbb\xbf", "\f", "\v", "\\"]
        for _ in range(300):
            self.tried("".join(dice.choice(parts) for _ in range(dice.randrange(1, 60))))

    def test_damaged_files(self):
        """A byte changed, a stretch lost or doubled; some of these are still good studies."""
        dice = random.Random(20250103)
        whole = ("task = even-pairs, parity\nattention = full,\n  topk:3\nseed = 1, 2\n" + SMALL +
                 "; variants\n[gelu]\nactivation = gelu\n[low]\nlr = 0.01\n").encode()
        codes = []
        for trial in range(200):
            at = dice.randrange(len(whole))
            end = min(len(whole), at + dice.randrange(1, 20))
            content = (whole[:at] + bytes([dice.randrange(256)]) + whole[at + 1:], whole[:at] + whole[end:],
                       whole[:end] + whole[at:])[trial % 3]
            codes.append(self.tried(content))
        self.assertIn(2, codes)
        self.assertIn(0, codes)


if __name__ == "__main__":
    unittest.main()
