"""evaluate and distance: stored runs at other lengths, pairs of runs, swapped sequences, and what is refused."""
import csv
import io
import json
import unittest

from harness import SMALL, StoreCase, has_instruction_set

SETTINGS = [*SMALL, "--epochs", "2", "--seed", "3"]


class Followup(StoreCase):
    settings = SETTINGS

    def ask(self, verb, *words, **options):
        return json.loads(self.good(verb, *words, "--json", "--store", self.store, **options).out)

    def curve(self, run):
        return list(csv.DictReader(io.StringIO(self.good("export", run, "--store", self.store).out)))

    def refuse(self, verb, *words, mentions=(), codes=(2,)):
        return self.refused(verb, *words, "--store", self.store, mentions=mentions, codes=codes)


class Evaluate(Followup):
    def test_own_length_is_the_curve_s_last_row(self):
        runs = [self.train(name)[0] for name in ("full", "topk:3", "block:3+global:2", "random:3")]
        rows = self.ask("evaluate", *runs)
        for run, row in zip(runs, rows):
            last = self.curve(run)[-1]
            self.assertEqual((row["id"], row["length"], row["trained_length"], row["count"]), (run, 10, 10, 120))
            self.assertAlmostEqual(row["loss"], float(last["va-ce"]), delta=1e-8 * row["loss"])
            self.assertAlmostEqual(row["accuracy"], float(last["va-ac"]), places=6)

    def test_lengths_counts_and_moments(self):
        run, = self.train("topk:3")
        rows = self.ask("evaluate", run, "--lengths", "10,11,40", "--count", 30, "--at", "init")
        self.assertEqual([(row["length"], row["count"], row["at"]) for row in rows],
                         [(10, 30, "init"), (11, 30, "init"), (40, 30, "init")])
        self.assertEqual(len({row["loss"] for row in rows}), 3)
        for row in rows:
            self.assertAlmostEqual(row["accuracy"] * 30 / 100, round(row["accuracy"] * 30 / 100), places=9)
        again, = self.ask("evaluate", run[:8], "--lengths", "40", "--count", 30, "--at", "init")
        self.assertEqual(again, rows[2])
        trained, = self.ask("evaluate", run, "--lengths", "40", "--count", 30)
        self.assertNotEqual(trained["loss"], again["loss"])

    def test_sequences_of_another_length_are_those_of_a_run_of_it(self):
        """The initial weights do not depend on the length, so a run of length 14 has the same ones at that length."""
        short, = self.train("banded:3+global:1")
        long, = self.train("banded:3+global:1", "--length", 14)
        first, second = (self.ask("evaluate", run, "--lengths", 14, "--at", "init")[0] for run in (short, long))
        self.assertEqual(first["loss"], second["loss"])

    def test_threads_do_not_change_a_bit(self):
        run, = self.train("full")
        one, three = (self.ask("evaluate", run, "--lengths", 300, "--threads", n) for n in (1, 3))
        self.assertEqual(one, three)

    def test_table(self):
        run, = self.train("topk:3")
        lines = self.good("evaluate", run, "--lengths", "5,20", "--store", self.store).out.splitlines()
        self.assertEqual(len(lines), 3)
        for name in ("id", "attention", "seed", "length", "loss", "accuracy"):
            self.assertIn(name, lines[0].split())
        self.assertEqual([line.split()[5] for line in lines[1:]], ["5", "20"])
        for line in lines[1:]:
            self.assertTrue(line.startswith(run) and "topk:3" in line, line)

    @unittest.skipUnless(has_instruction_set("avx512"), "neither AMX nor AVX-512")
    def test_bf16(self):
        run, = self.train("full", "--precision", "bf16")
        row, = self.ask("evaluate", run)
        self.assertAlmostEqual(row["loss"], float(self.curve(run)[-1]["va-ce"]), delta=1e-8)

    def test_bad_lengths(self):
        run, = self.train("full")
        for text in ("", "x", "10,", ",10", "10,,11", "0", "65537", "-1", "1e1", "10 11", "99999999999999999999", "+5"):
            self.refuse("evaluate", run, "--lengths", text, mentions=("lengths", "41,60,100"))
        self.refuse("evaluate", run, "--lengths", "1," * 600, mentions=("lengths",))
        self.refuse("evaluate", run, "--count", 0, mentions=("count",))

    def test_lengths_a_task_lacks(self):
        run, = self.train("full", "--length", 20, task="listops")
        self.refuse("evaluate", run, "--lengths", "20,3", mentions=("length 3", "listops"))

    def test_files_have_one_length(self):
        rows = "tokens\tlabel\n" + "".join(f"{i % 2} {i // 2 % 2} 1\t{i % 2}\n" for i in range(40))
        path = self.write("data.tsv", rows)
        words = ["train", f"tsv:{path}", "--blocks", 1, "--width", 8, "--epochs", 1, "--json", "--store", self.store]
        run = json.loads(self.good(*words).out)[0]["id"]
        for lengths in ([], ["--lengths", 3]):
            row, = self.ask("evaluate", run, *lengths)
            self.assertEqual((row["trained_length"], row["length"], row["count"]), (3, 3, 8))  # a fifth is held out
            self.assertAlmostEqual(row["loss"], float(self.curve(run)[-1]["va-ce"]), delta=1e-8)
        row, = self.ask("evaluate", run, "--count", 5)
        self.assertEqual(row["count"], 5)
        self.assertAlmostEqual(row["accuracy"] * 5 / 100, round(row["accuracy"] * 5 / 100), places=9)
        self.refuse("evaluate", run, "--lengths", "3,4", mentions=("data of your own", "length 4", "built-in tasks"))
        self.refuse("evaluate", run, "--count", 9, mentions=("count is 9", "8 held-out sequences"))
        self.refuse(*words, "--swap-sample", 3, mentions=("swap-sample", "your own data"))

    def test_runs_without_weights(self):
        run, = self.train("full")
        self.sql("UPDATE runs SET checkpoint_epoch = NULL, best_saved_epoch = NULL")
        self.refuse("evaluate", run, mentions=("no checkpoint",))
        self.refuse("distance", run, run, mentions=("no checkpoint",))
        self.assertEqual(len(self.ask("evaluate", run, "--at", "init")), 1)
        self.sql("UPDATE facts SET value = '0' WHERE name = 'numerics'")
        self.refuse("evaluate", run, "--at", "init", mentions=("numerics version 0",), codes=(1, 2))

    def test_words(self):
        self.refuse("evaluate", mentions=("usage",))
        self.refused("evaluate", "ab", "--store", self.folder / "none", mentions=("no store",))
        self.train("full")
        self.refuse("evaluate", "zz", mentions=("no run begins",))
        self.refuse("evaluate", "zz", "--threads", -1, mentions=("threads",))
        text = self.good("evaluate", "--help").out
        self.assertIn("--lengths N[,...]", text)
        self.assertIn("bit by bit on the same\ninstruction set", text)


class Distance(Followup):
    def test_a_pair(self):
        plain, swapped = self.train("topk:3")[0], self.train("topk:3", "--swap-sample", 17)[0]
        result = self.ask("distance", plain, swapped)
        self.assertEqual((result["runs"], result["epoch"]), ([plain, swapped], 2))
        self.assertGreater(result["distance"], 0)
        self.assertAlmostEqual(result["relative"], 2 * result["distance"] / sum(result["norms"]), places=9)
        for run, train, heldout in zip(result["runs"], result["train_losses"], result["heldout_losses"]):
            last = self.curve(run)[-1]
            self.assertAlmostEqual(train, float(last["tr-ce"]), places=7)
            self.assertAlmostEqual(heldout, float(last["va-ce"]), places=7)
        self.assertEqual(self.ask("distance", plain, plain)["distance"], 0)
        text = self.good("distance", plain, swapped, "--store", self.store).out
        self.assertEqual(len(text.splitlines()), 4)
        self.assertIn("% of the mean norm", text)

    def test_weights_and_rows_are_enough(self):
        """The files that a run was trained on need not be there any more."""
        rows = "tokens\tlabel\n" + "".join(f"{i % 2} {i // 2 % 2} 1\t{i % 2}\n" for i in range(40))
        path = self.write("data.tsv", rows)
        words = ["train", f"tsv:{path}", "--blocks", 1, "--width", 8, "--epochs", 1, "--json", "--store", self.store]
        runs = [json.loads(self.good(*words, "--seed", seed).out)[0]["id"] for seed in (1, 2)]
        before = self.ask("distance", *runs)
        self.assertGreater(before["distance"], 0)
        path.unlink()
        self.assertEqual(self.ask("distance", *runs), before)

    def test_precision_is_the_run_s(self):
        run, = self.train("full")
        for words in (("evaluate", run), ("distance", run, run)):
            self.refuse(*words, "--precision", "f32", mentions=("--precision", words[0], "leave it out"))

    def test_optimizers_do_not_count(self):
        plain, adam = self.train("full")[0], self.train("full", "--optimizer", "adam", "--lr", "0.001")[0]
        result = self.ask("distance", plain, adam)
        self.assertEqual(self.ask("distance", adam, plain)["norms"], result["norms"][::-1])

    def test_runs_that_do_not_fit(self):
        heads, = self.train("full", "--heads", 2)
        self.refuse("distance", heads, self.train("full")[0], mentions=("shapes",))
        full, wide = self.train("full")[0], self.train("full", "--width", 16)[0]
        longer = self.train("full", "--seed", 4, "--epochs", 3)[0]
        self.refuse("distance", full, wide, mentions=("shapes",))
        self.refuse("distance", full, longer, mentions=("epoch 2", "epoch 3"))
        self.refuse("distance", full, mentions=("usage",))
        self.refuse("distance", full, "zz", mentions=("no run begins",))


class Swap(Followup):
    def test_grids_list_it(self):
        self.good("compare", "even-pairs", "--attention", "full,topk:3", *SETTINGS, "--swap-sample", "-1,17", "--store",
                  self.store, "--out", self.folder / "page.html", "--quiet")
        rows = json.loads(self.good("runs", "--json", "--store", self.store).out)
        self.assertEqual(len({row["id"] for row in rows}), 4)
        self.assertIn(self.train("full")[0], [row["id"] for row in rows])
        results = self.good("report", "--store", self.store, "--out", self.folder / "again.html").out
        for name in ("swap-sample=17 full", "swap-sample=-1 topk:3"):
            self.assertIn(name, results)
        self.good("check", "--store", self.store, "--quiet")

    def test_numbers(self):
        self.refuse("train", "even-pairs", *SETTINGS, "--swap-sample", 60, mentions=("swap-sample is 60", "0..59"))
        self.refuse("train", "even-pairs", *SETTINGS, "--swap-sample", -2, mentions=("swap-sample",))
        self.train("full", "--swap-sample", 59)


if __name__ == "__main__":
    unittest.main()
