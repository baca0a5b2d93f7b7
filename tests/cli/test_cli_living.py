"""Living with runs: names, tags, notes, archives, conditions on settings, further seeds, two stores compared, doctor, suggestions."""
import contextlib
import csv
import os
import shutil
import sqlite3
import subprocess
import unittest
from pathlib import Path

from harness import ROOT, TINY, Case, StoreCase, read_json, run
import seal


class Living(StoreCase):
    settings = TINY[:-2]

    def rows(self, *words, store=None):
        return {row["id"]: row for row in read_json(self.good("runs", *words, "--json", "--store", store or self.store).out)}

    def runs(self, *words, **options):
        return run("runs", *words, "--store", self.store, **options)


class Labels(Living):
    def test_names_tags_and_notes(self):
        first, second, third = self.train("full", "--seed", "1,2,3", "--name", "baseline")
        self.assertEqual({row["name"] for row in self.rows().values()}, {"baseline"})
        self.good("runs", "tag", first[:8], second, "good", "--store", self.store)
        self.good("runs", "tag", first, "über alles", "--store", self.store)
        self.good("runs", "note", first, "see 'fig 3'; rm -rf", "--store", self.store)
        self.good("runs", "name", third, "", "--store", self.store)
        rows = self.rows()
        self.assertEqual([rows[id]["tags"] for id in (first, second, third)], [["good", "über alles"], ["good"], []])
        self.assertEqual((rows[first]["note"], rows[second]["note"], rows[third]["name"]), ("see 'fig 3'; rm -rf", None, None))
        table = self.good("runs", "--store", self.store).out
        for text in ('"baseline"', "[good, über alles]", "see 'fig 3'; rm -rf"):
            self.assertIn(text, table)
        self.assertEqual(list(self.rows("--where", "tags LIKE '%good%' AND name = 'baseline'")), [first, second])
        self.good("runs", "untag", first, "good", "--store", self.store)
        self.good("runs", "untag", first, "never there", "--store", self.store)
        self.assertEqual(self.rows()[first]["tags"], ["über alles"])
        self.good("check", "--store", self.store)

    def test_labels_are_no_part_of_a_run(self):
        ids = self.train("full,topk:3", "--name", "one")
        other = self.folder / "other"
        self.assertEqual(self.train("full,topk:3", store=other), ids)
        self.good("runs", "--against", other, "--store", self.store)

    def test_archived_runs_are_hidden_and_kept(self):
        ids = self.train("full", "--seed", "1,2,3")
        before = self.sql("SELECT * FROM epochs")
        self.good("runs", "archive", ids[0], ids[2], "--store", self.store)
        self.assertEqual(list(self.rows()), [ids[1]])
        self.assertEqual(list(self.rows("--where", "1")), [ids[1]])
        self.assertEqual(list(self.rows("--archived")), ids)
        page = self.folder / "page.html"
        groups = read_json(self.good("report", "--json", "--out", page, "--store", self.store).out)
        everything = read_json(self.good("report", "--json", "--archived", "--out", page, "--store", self.store).out)
        self.assertIn('"runs": 1', str(groups).replace("'", '"'))
        self.assertIn('"runs": 3', str(everything).replace("'", '"'))
        self.assertEqual(self.sql("SELECT * FROM epochs"), before)
        self.good("export", ids[0], "--store", self.store)
        self.assertIn("3 of 3 runs", self.good("check", "--store", self.store).out)
        self.good("runs", "unarchive", ids[0], "--store", self.store)
        self.assertEqual(list(self.rows()), ids[:2])

    def test_deleting_takes_labels_along(self):
        ids = self.train("full", "--seed", "1,2")
        self.good("runs", "tag", *ids, "good", "--store", self.store)
        self.good("delete", ids[0], "--store", self.store)
        self.assertEqual([row["tags"] for row in self.rows().values()], [["good"]])
        self.good("check", "--store", self.store)

    def test_refused(self):
        id, = self.train("full")
        for words, mention in ((("tag", id), "usage"), (("tag", "zz", "good"), "no run"), (("tag", id, ""), "tag"), (("tag", id, "a,b"), "commas"),
                               (("tag", id, "a\nb"), "one line"), (("tag", id, "x" * 64), "63"), (("note", id, "x" * 1024), "1023"),
                               (("frobnicate", id), "archive"), (("archive",), "usage"), (("tag", id, "zz", "good"), "no run")):
            self.refused("runs", *words, "--store", self.store, mentions=(mention,))
        self.refused("runs", "tag", id, "good", "--where", "1", "--store", self.store, mentions=("--where",))
        self.refused("runs", "tag", id, "good", "--store", self.folder / "none", mentions=("no store",))
        self.assertFalse((self.folder / "none").exists())
        self.assertEqual(self.rows()[id]["tags"], [])

    def test_labels_are_one_line(self):
        """Refused before anything is trained, made or changed."""
        for bad in ("a\tb", "a\nb", "\x1b[1m", "\x7f"):
            for verb in ("train", "compare"):
                self.refused(verb, "even-pairs", *TINY, "--name", bad, "--store", self.store, mentions=("name is 'a?b" if bad[0] == "a" else "name is", "one line"))
            study = self.write("study.ini", "task = even-pairs\nepochs = 1\n")
            self.refused("study", study, "--name", bad, "--store", self.store, mentions=("one line",))
            self.assertFalse(self.store.exists())
        id, = self.train("full", "--name", "x" * 127)
        self.refused("train", "even-pairs", *TINY, "--name", "x" * 128, "--store", self.store, mentions=("128",))
        with seal.changed(self.store) as database:
            seal.unlabel(database)
        before = (self.store / "runs.db").read_bytes()
        for words in (("name", id, "a\tb"), ("note", id, "a\x01b"), ("tag", id, "a\tb"), ("untag", id, "a\tb")):
            self.refused("runs", *words, "--store", self.store, mentions=("one line",))
            self.assertEqual((self.store / "runs.db").read_bytes(), before)

    def test_notes_are_exported(self):
        first, second = self.train("full", "--seed", "1,2")
        self.good("runs", "note", first, "one, \"two\"", "--store", self.store)
        rows = list(csv.DictReader(self.good("export", "--where", "1", "--format", "csv", "--store", self.store).out.splitlines()))
        lines = [read_json(line) for line in self.good("export", "--where", "1", "--format", "jsonl", "--store", self.store).out.splitlines()]
        for found in (rows, lines):
            self.assertEqual({row["run"]: row["note"] for row in found}, {first: "one, \"two\"", second: ""})

    def test_damage_is_noticed(self):
        id, = self.train("full", "--name", "whole")
        with contextlib.closing(sqlite3.connect(self.store / "runs.db")) as database:
            database.execute("UPDATE labels SET value = 'other'")
            database.commit()
        for words in (("runs",), ("runs", "tag", id, "x"), ("check",)):
            result = run(*words, "--store", self.store)
            self.assertEqual(result.code, 1, result)
            self.assertIn("restore", result.err)

    def test_a_store_of_schema_6_is_read_and_brought_forward(self):
        ids = self.train("full", "--seed", "1,2")
        with seal.changed(self.store) as database:
            seal.unlabel(database)
        before = (self.store / "runs.db").read_bytes()
        self.assertEqual(list(self.rows()), ids)
        self.assertEqual(list(self.rows("--where", "name = '' AND NOT archived")), ids)
        self.good("check", "--store", self.store)
        self.assertEqual((self.store / "runs.db").read_bytes(), before)
        self.good("runs", "tag", ids[0], "good", "--store", self.store)
        self.assertEqual(self.sql("SELECT user_version FROM pragma_user_version"), [(7,)])
        self.assertEqual([row["tags"] for row in self.rows().values()], [["good"], []])
        self.good("check", "--store", self.store)

    def test_a_damaged_store_of_schema_6_is_not_sealed_anew(self):
        id, = self.train("full")
        with seal.changed(self.store) as database:
            seal.unlabel(database)
        with contextlib.closing(sqlite3.connect(self.store / "runs.db")) as database:
            database.execute("UPDATE runs SET id = 'ffffffffffffffff'")
            database.commit()
        result = self.runs("tag", id, "good")
        self.assertEqual(result.code, 1, result)
        self.assertEqual(self.sql("SELECT user_version FROM pragma_user_version"), [(6,)])

    def test_merging_carries_labels_in_any_order(self):
        ids = self.train("full", "--seed", "1,2", "--name", "b")
        other = self.folder / "other"
        self.train("full", "--seed", "2,3", "--name", "a", store=other)
        self.good("runs", "tag", ids[1], "left", "--store", self.store)
        self.good("runs", "tag", ids[1], "right", "--store", other)
        self.good("runs", "archive", ids[0], "--store", self.store)
        outcomes = []
        for name, sources in (("x", (self.store, other)), ("y", (other, self.store))):
            into = self.folder / name
            for _ in range(2):
                self.good("merge", *sources, "--into", into, "--quiet")
            outcomes.append({id: (row["name"], row["tags"], row["archived"]) for id, row in self.rows("--archived", store=into).items()})
            self.good("check", "--store", into)
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(outcomes[0][ids[1]], ("a", ["left", "right"], False))
        self.assertEqual(outcomes[0][ids[0]], ("b", [], True))


class Conditions(Living):
    def test_every_setting_is_a_column(self):
        slow, = self.train("topk:3", "--lr", "0.05", "--train-count", "40")
        fast, = self.train("topk:3", "--lr", "0.2", "--optimizer", "adam", "--causal")
        for condition, expected in (("lr = 0.05", slow), ("lr > 0.1", fast), ("train_count = 40", slow), ("optimizer = 'adam'", fast),
                                    ("causal = 'yes'", fast), ("blocks * 2 = 2 AND runs.lr < 0.1", slow)):
            with self.subTest(condition):
                self.assertEqual(list(self.rows("--where", condition)), [expected])
        settings = self.rows()[fast]["settings"]
        self.assertEqual((settings["lr"], settings["optimizer"], settings["causal"], settings["train-count"]), (0.2, "adam", True, 50))
        names = {row["name"] for row in read_json(self.good("list", "settings", "--json").out)}
        self.assertLessEqual(set(settings), names)
        for name in settings:
            column = name.replace("-", "_")
            self.assertEqual(len(self.rows("--where", f"{column} IS NOT NULL AND runs.{column} = {column.upper()}")), 2, name)
        for condition, count in (("group='s5'", 2), ("Group = 's5' AND lr > 0.1", 1), ("(group)='a5'", 0), ('"group" = \'s5\'', 2), ("name = 'group'", 0),
                                 ("`group` = 's5'", 2), ("[group] = 's5'", 2), ("lr > 0 -- group", 2), ("/* group */ group/* */='s5' AND '''group' <> ''", 2),
                                 ("seed IN (SELECT seed FROM runs GROUP BY seed)", 2), ("1 = (SELECT count(*) FROM labels group /* */ by run)", 0),
                                 ("'s5' IN (SELECT group FROM runs GROUP  BY group ORDER BY group)", 2), ("\"a\"\" group \" = 1 OR group = 's5'", 2)):
            with self.subTest(condition):
                self.assertEqual(len(self.rows("--where", condition)), count)
        best = self.rows()[fast]["best_heldout_accuracy"]
        for column in ("best_heldout_accuracy", "best_accuracy"):
            self.assertIn(fast, self.rows("--where", f"{column} = {best!r}"))
        for word, meant in (("learning_rate", "lr"), ("mechanism", "attention"), ("batch_size", "batch"), ("train_cuont", "train_count"),
                            ("best_acuracy", "best_accuracy"), ("runs.learning_rate", "lr"), ("layers", "blocks")):
            self.refused("runs", "--where", f"{word} = 0.1", "--store", self.store, mentions=("no such column", f"did you mean '{meant}'?"))
        self.refused("runs", "--where", "learning = 1", "--store", self.store, mentions=("no such column",))
        self.refused("runs", "--where", "1) OR (1", "--store", self.store, mentions=("condition",))
        self.refused("runs", "--where", "id IN (DELETE FROM labels RETURNING run)", "--store", self.store, mentions=("where",))


class Seeds(Living):
    def compare(self, *words):
        return self.good("compare", "even-pairs", "--attention", "full,topk:3", *TINY, "--store", self.store, "--out", self.folder / "page.html",
                         "--json", *words)

    def test_further_seeds(self):
        self.compare("--add-seeds", "2")
        first = self.rows()
        self.compare("--add-seeds", "3")
        self.assertEqual(len(self.rows()), 2 * 5)
        self.assertLessEqual(set(first), set(self.rows()))
        planned = read_json(self.good("compare", "even-pairs", "--attention", "full,topk:3", *TINY, "--store", self.store, "--seeds", "5",
                                      "--dry-run", "--json").out)
        self.assertEqual((planned["count"], planned["done"]), (10, 10))
        more = read_json(self.compare("--add-seeds", "1", "--dry-run").out)
        self.assertEqual((more["count"], more["done"]), (12, 10))
        many = read_json(self.good("compare", "even-pairs", "--attention", "full", *TINY, "--store", self.folder / "none", "--add-seeds", "4",
                                   "--dry-run", "--json").out)
        self.assertEqual((many["count"], many["done"]), (4, 0))

    def test_more_seeds_than_the_first_guess(self):
        self.good("compare", "even-pairs", "--attention", "full", *TINY, "--epochs", "1", "--seeds", "17", "--store", self.store, "--out",
                  self.folder / "page.html", "--quiet")
        plan = read_json(self.good("compare", "even-pairs", "--attention", "full", *TINY, "--epochs", "1", "--add-seeds", "1", "--store", self.store,
                                   "--dry-run", "--json").out)
        self.assertEqual((plan["count"], plan["done"]), (18, 17))

    def test_refused_with_other_seeds(self):
        for words in (("--seeds", "3"), ("--seed", "1,2")):
            self.refused("compare", "even-pairs", *TINY, "--add-seeds", "2", *words, "--store", self.store, mentions=("leave out", words[0]))


class Against(Living):
    def test_two_stores(self):
        ids = self.train("full", "--seed", "1,2,3")
        other = self.folder / "other"
        shutil.copytree(self.store, other)
        self.good("delete", ids[0], "--store", other)
        self.train("full", "--seed", "2", "--epochs", "4", store=other)
        extra, = self.train("topk:3", "--seed", "1", store=other)
        with seal.changed(other) as database:
            database.execute("UPDATE epochs SET tr_ce = 0.25 WHERE epoch = 2 AND run = (SELECT number FROM runs WHERE seed = 3)")
        result = run("runs", "--against", other, "--json", "--store", self.store)
        self.assertEqual((result.code, result.err), (1, ""), result)
        rows = {row["id"]: row for row in read_json(result.out)}
        self.assertEqual({id: row["agreement"] for id, row in rows.items()},
                         {ids[0]: "only here", ids[1]: "equal so far", ids[2]: "different", extra: "only there"})
        self.assertEqual((rows[ids[1]]["epochs_here"], rows[ids[1]]["epochs_there"]), (2, 4))
        different = rows[ids[2]]
        self.assertEqual((different["differs_at"], different["there"]), ("epoch 2: tr_ce", "0.25"))
        stored, = self.sql("SELECT tr_ce FROM epochs WHERE epoch = 2 AND run = (SELECT number FROM runs WHERE seed = 3)")
        self.assertEqual(float(different["here"]), stored[0])
        table = run("runs", "--against", other, "--store", self.store)
        self.assertIn("1 only here, 1 only there, 0 equal, 1 equal so far, 1 different", table.out)
        self.assertIn("equal", self.good("runs", "--against", self.store, "--store", self.store).out)
        self.refused("runs", "--against", self.folder / "none", "--store", self.store, mentions=("no store",))


class Doctor(Case):
    def test_a_usable_machine(self):
        found = read_json(self.good("doctor", "--json", "--store", self.folder / "runs").out)
        self.assertTrue(found["usable"])
        states = {row["name"]: row for row in found["findings"]}
        self.assertLessEqual({"cpu", "memory", "mpi", "cuda", "http", "store", "disk", "permissions", "open files"}, set(states))
        for row in found["findings"]:
            self.assertEqual(row["remedy"] is None, row["state"] == "works")
        self.assertFalse((self.folder / "runs").exists())
        lines = [line for line in self.good("doctor", "--store", self.folder / "runs").out.splitlines() if line.startswith(("works", "absent"))]
        wide = max(len(row["name"]) for row in found["findings"])
        for line, row in zip(lines, found["findings"]):  # in columns, whatever the names
            self.assertEqual(line[9:9 + wide + 2], row["name"].ljust(wide) + "  ")

    def test_what_does_not_work_is_said(self):
        (self.folder / "runs").mkdir()
        (self.folder / "runs" / "runs.db").write_bytes(b"no database" * 500)
        result = run("doctor", "--json", "--store", self.folder / "runs")
        found = read_json(result.out)
        self.assertEqual((result.code, found["usable"]), (1, False))
        self.assertEqual([row["state"] for row in found["findings"] if row["name"] == "store"], ["problem"])
        missing = run("doctor", "--json", "--store", Path("/nonexistent/folder/runs"))
        self.assertEqual(missing.code, 1)

    def test_a_file_is_no_store(self):
        """One sentence that fits, and nothing about its permissions."""
        study = self.write("s.ini", "task = parity\n")
        for store in (study, study / "runs"):
            result = run("doctor", "--json", "--store", store)
            found = read_json(result.out)
            self.assertEqual((result.code, found["usable"]), (1, False))
            rows = [row for row in found["findings"] if row["name"] in ("store", "disk", "permissions")]
            self.assertEqual([(row["name"], row["state"], row["remedy"]) for row in rows], [("store", "problem", "name another store with --store")])
            self.assertEqual(rows[0]["finding"], f"'{study}' is not a folder, which a store needs")

    def test_how_to_get_a_part(self):
        """A build of pip is renewed by pip."""
        built = self.folder / "parts.o"
        for define, part_of in (("-DSF_IS_PYTHON_PACKAGE", "SEMFOCUS_{}=ON pip install . in the source tree"), ("-DNOT_OF_PIP", "configure and build again")):
            subprocess.run([os.environ.get("CC", "cc"), "-std=c17", define, *(f"-DSF_WITH_{part}=0" for part in ("CUDA", "NCCL", "MPI", "HTTP", "SENTENCEPIECE")),
                            "-I", ROOT, "-I", ROOT / "include", "-c", "-o", built, ROOT / "train" / "build_parts.c"], check=True, capture_output=True)
            for package, part in (("the CUDA toolkit (nvcc)", "CUDA"), ("libnccl-dev beside the CUDA toolkit", "CUDA"),
                                  ("libopenmpi-dev or libmpich-dev", "MPI"), ("libmicrohttpd-dev", "HTTP"), ("libsentencepiece-dev and g++", "SENTENCEPIECE")):
                self.assertIn(f"install {package}, then {part_of.format(part)}\0".encode(), built.read_bytes())


class Suggestions(Case):
    def test_nearest_and_synonyms(self):
        for words, meant in ((("tran",), "train"), (("exprot",), "export"), (("help", "raport"), "report"), (("eval",), "evaluate"),
                             (("rm", "1"), "delete"), (("ls",), "runs"), (("benchmark",), "bench"),
                             (("train", "even-pairs", "--learning-rate", "1"), "lr"), (("train", "even-pairs", "--learning_rate", "1"), "lr"),
                             (("train", "even-pairs", "--epoch", "1"), "epochs"), (("train", "even-pairs", "--attn", "full"), "attention"),
                             (("train", "even-pairs", "--layers", "2"), "blocks"), (("train", "even-pairs", "--batch-size", "2"), "batch"),
                             (("train", "even-pairs", "--causal-mask"), "causal"), (("runs", "--filter", "1"), "where"),
                             (("train", "even-pairs", "--attention", "sliding:5"), "banded"), (("train", "even-pairs", "--attention", "local"), "banded"),
                             (("train", "even-pairs", "--attention", "top-k:5"), "topk"), (("train", "even-pairs", "--attention", "dense"), "full"),
                             (("train", "even-pairs", "--attention", "Sliding_Window:3"), "banded"), (("train", "even-pairs", "--attention", "flash"), "full"),
                             (("train", "even-pairs", "--attention", "full/sofmax"), "softmax"), (("train", "even-pears",), "even-pairs"),
                             (("train", "xor"), "parity"), (("train", "List-Ops"), "listops"),
                             (("version",), "--version"), (("stats",), "report"),
                             (("compare", "mqar"), "recall"), (("compare", "copy"), "duplicate-string"), (("compare", "reverse"), "reverse-string"),
                             (("compare", "sort"), "bucket-sort"), (("data", "addition"), "binary-addition"),
                             (("compare", "even-pairs,multiplication"), "binary-multiplication"), (("train", "sqrt"), "compute-sqrt"),
                             (("train", "pairs"), "even-pairs"), (("train", "lisptops"), "listops"),
                             (("train", "even-pairs", "--lr-decay", "1"), "gamma"), (("train", "even-pairs", "--positional", "1"), "attention"),
                             (("train", "even-pairs", "--eval-every", "1"), "evaluate-count"), (("train", "even-pairs", "--max-len", "9"), "length"),
                             (("train", "even-pairs", "--seq-len", "9"), "length"), (("train", "even-pairs", "--vocab-size", "9"), "vocab"),
                             (("train", "even-pairs", "--test-count", "9"), "heldout-count"), (("train", "even-pairs", "--warmup-epochs", "9"), "warmup"),
                             (("train", "even-pairs", "--attention", "topk:3@rotary"), "rope"),
                             (("train", "even-pairs", "--attention", "topk:3+local:2"), "window")):
            with self.subTest(words):
                self.refused(*words, mentions=(f"did you mean '{meant}",))

    def test_a_synonym_that_the_command_does_not_take_is_not_suggested(self):
        result = self.refused("runs", "--learning-rate", "1")
        self.assertNotIn("'lr'", result.err)


if __name__ == "__main__":
    unittest.main()
