"""What the program says, and what it leaves unchanged, when something fails or is not as it should be."""
import json
import random
import re
import shutil
import unittest

from harness import TINY, StoreCase, run


class Failures(StoreCase):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "page.html"

    def words(self, verb, *words, store=None):
        return [verb, "even-pairs", *TINY, "--store", store or self.store, *words]

    def compare(self, *words):
        return run(*self.words("compare", "--out", self.page, *words))


class Results(Failures):
    def test_nothing_finished_leaves_the_page_as_it_was(self):
        self.assertEqual(self.compare("--seeds", 2).code, 0)
        before = self.page.read_bytes()
        self.sql("CREATE TRIGGER no_room BEFORE INSERT ON runs BEGIN SELECT RAISE(FAIL, 'no room'); END")
        result = self.compare("--seeds", 3)
        self.assertEqual((result.code, result.out), (1, ""), result)
        self.one_sentence(result, "no room")
        self.assertEqual(self.page.read_bytes(), before)

    def test_a_run_that_fails_among_others(self):
        self.assertEqual(self.compare("--seeds", 2).code, 0)
        before = self.page.read_bytes()
        self.sql("CREATE TRIGGER no_room BEFORE INSERT ON epochs WHEN"
                 " (SELECT attention FROM runs WHERE number = NEW.run) = 'topk:5'"
                 " BEGIN SELECT RAISE(FAIL, 'no room'); END")
        result = self.compare("--seeds", 3)
        self.assertEqual(result.code, 1, result)
        self.assertRegex(result.out, r"(?m)^full +3/3 ")
        self.assertRegex(result.out, r"(?m)^topk:5 +2/3 ")
        self.assertNotEqual(self.page.read_bytes(), before)

    def test_training_tells_of_runs_that_all_failed(self):
        self.good(*self.words("train", "--seed", "1", "--quiet"))
        self.sql("CREATE TRIGGER no_room BEFORE INSERT ON epochs BEGIN SELECT RAISE(FAIL, 'no room'); END")
        result = run(*self.words("train", "--seed", "2,3", "--json"))
        self.assertEqual(result.code, 1, result)
        self.assertEqual([row["status"] for row in json.loads(result.out)], ["failed", "failed"])

    def test_report_prints_what_compare_prints(self):
        self.assertEqual(self.compare("--seeds", 2).code, 0)
        for words in ([], ["--json"], ["--quiet"], ["--json", "--quiet"], ["--quiet", "--plot"]):
            with self.subTest(words):
                compared = self.compare("--seeds", 2, "--quiet", *words)
                reported = self.good("report", "--store", self.store, "--out", self.page, *words)
                self.assertEqual(reported.out, compared.out)

    def test_page_on_standard_output(self):
        self.assertEqual(self.compare("--seeds", 2).code, 0)
        for words in ([], ["--quiet"], ["--plot"]):
            page = self.good("report", "--store", self.store, "--out", "-", *words).out
            self.assertTrue(page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n"), page[:80] + page[-80:])
        self.refused("report", "--store", self.store, "--out", "-", "--json", mentions=("out is '-'", "--json"))


class Endings(Failures):
    """The closing lines of train."""

    def endings(self, *words, code=0):
        """What they say about each seed."""
        result = run(*self.words("train", "--quiet", *words))
        self.assertEqual(result.code, code, result)
        said = re.findall(r"(?m)^[0-9a-f]{16} full, seed (\d+): (.*)$", result.out)
        self.assertEqual(len(said), result.out.count("\n"), result)
        return {int(seed): text for seed, text in said}

    def test_diverged_before_an_epoch(self):
        said = self.endings("--seed", 1, "--lr", 10000, "--clip", 0, "--batch", 1, "--schedule", "constant")
        self.assertRegex(said[1], r"^diverged in epoch 1, step \d+ \(loss or gradient not finite\)$")

    def test_runs_that_are_not_over(self):
        self.endings("--seed", "1,2,3", "--epochs", 1)
        self.sql("CREATE TRIGGER no_beginning BEFORE UPDATE OF status ON runs WHEN NEW.status = 'running' AND NEW.seed = 4"
                 " BEGIN SELECT RAISE(FAIL, 'no beginning'); END")
        self.sql("CREATE TRIGGER no_room BEFORE INSERT ON epochs WHEN NEW.epoch > 2 AND"
                 " (SELECT seed FROM runs WHERE number = NEW.run) > 1 BEGIN SELECT RAISE(FAIL, 'no room'); END")
        self.sql("CREATE TRIGGER no_end BEFORE UPDATE OF status ON runs WHEN NEW.status = 'failed' AND NEW.seed = 3"
                 " BEGIN SELECT RAISE(FAIL, 'no end'); END")
        said = self.endings("--seed", "1,2,3,4", "--epochs", 3, "--checkpoint-seconds", 1000, code=1)
        self.assertRegex(said[1], r"^95 % training accuracy not reached in 3 epochs; after epoch 3 [^;]*; weights \w{16}$")
        standing = r"; 95 % training accuracy not reached yet; after epoch 2 [^;]*; weights of epoch 1 \w{16}$"
        self.assertRegex(said[2], "^failed" + standing)
        self.assertRegex(said[3], "^unfinished" + standing)
        self.assertEqual(said[4], "no epoch done yet")

    def test_several_tasks(self):
        lines = self.good("train", "even-pairs,parity", *TINY, "--quiet").out.splitlines()
        self.assertEqual([line.split()[1:3] for line in lines], [["even-pairs", "full,"], ["parity", "full,"]])


class Stores(Failures):
    """Plans and overviews treat only a missing store as empty."""
    OVERVIEWS = (["compare", "even-pairs", *TINY, "--seeds", 2, "--dry-run"], ["paper", "status", "--scale", "smoke"],
                 ["paper", "list", "--scale", "smoke"])

    def test_none_yet(self):
        self.store.mkdir()
        for store in (self.folder / "none", self.store):
            for words in self.OVERVIEWS:
                self.good(*words, "--store", store)
        self.store.joinpath("runs.db").write_bytes(b"")  # as a process leaves it that was killed at once
        for words in self.OVERVIEWS:
            self.good(*words, "--store", self.store)

    def test_damaged(self):
        self.store.mkdir()
        self.store.joinpath("runs.db").write_bytes(random.Random(1).randbytes(5000))
        for words in self.OVERVIEWS:
            self.refused(*words, "--store", self.store, codes=(1,), mentions=("damaged", self.store))

    def test_no_folder(self):
        plain = self.write("plain", "text")
        for words in self.OVERVIEWS:
            self.refused(*words, "--store", plain, mentions=("no store", plain))
            self.refused(*words, "--store", "", mentions=("store",))

    def test_older_schema(self):
        self.assertEqual(self.compare("--seeds", 2).code, 0)
        listings = (["runs", "--json"], ["paper", "status", "--json"], ["report", "--json", "--out", self.page])
        expected = [self.good(*words, "--store", self.store).out for words in listings]
        for schema in (4, 3, 2, 1):
            store = self.folder / f"schema-{schema}"
            shutil.copytree(self.store, store)
            self.unseal(schema, store=store)
            for words, out in zip(listings, expected):
                result = run(*words, "--store", store)
                self.assertEqual((result.code, result.out), (0, out), result)
                self.one_sentence(result, "note", "no seals", store)
            for words in self.OVERVIEWS:
                self.assertEqual(run(*words, "--store", store).code, 0)
            self.good(*self.words("train", "--seed", 1, "--quiet", store=store))  # brought forward, and sealed
            self.assertEqual(self.good("runs", "--store", store, "--where", "seed <> 1", "--json").out, expected[0])
            self.good("check", "--store", store)


class Figures(Failures):
    """A place where they cannot be is refused before there is any work."""

    def verbs(self, id):
        study = self.write("study.ini", "task = even-pairs\n" + "".join(f"{name[2:]} = {value}\n" for name, value in
                                                                        zip(TINY[::2], TINY[1::2])))
        return (["compare", "even-pairs", *TINY, "--out", self.page], ["study", study, "--out", self.page],
                ["report", "--out", self.page], ["analyze", id], ["landscape", id, "--grid", 3])

    def test_refused_at_once(self):
        id, = self.train("full", settings=TINY)
        plain = self.write("plain.tsv", "text")
        kept = self.sql("SELECT count(*) FROM runs")
        for words in self.verbs(id):
            for place in (plain, plain / "sub", self.folder / "no" / "such", self.folder / ("x" * 256)):
                self.refused(*words, "--store", self.store, "--figures", place, codes=(1,), mentions=(place, "--figures"))
        self.assertEqual((self.sql("SELECT count(*) FROM runs"), plain.read_text()), (kept, "text"))
        self.assertFalse(self.page.exists())

    def test_inside_a_store_that_is_not_there_yet(self):
        store = self.folder / "new"
        self.good("compare", "even-pairs", *TINY, "--seeds", 1, "--store", store, "--out", self.page, "--figures",
                  store / "figures", "--quiet")
        self.assertTrue(any((store / "figures").iterdir()))

    def test_the_trial_leaves_nothing(self):
        figures = self.folder / "figures"
        self.refused("report", "--store", self.folder / "none", "--figures", figures, mentions=("no store",))
        self.assertFalse(figures.exists())


class Weights(Failures):
    def test_none_for_a_distance(self):
        """Messages suggest only options that the verb takes."""
        first, second = self.train("full", "--seed", "1,2", settings=TINY)
        self.sql("UPDATE runs SET checkpoint_epoch = NULL, best_saved_epoch = NULL WHERE id = ?", first)
        for status, sentence in (("pending", "no checkpoint yet"), ("diverged", "diverged in epoch 1")):
            self.sql("UPDATE runs SET status = ?, diverged_epoch = 1 WHERE id = ?", status, first)
            said = self.refused("distance", first, second, "--store", self.store, mentions=(first, sentence)).err
            verbs = re.search(r"([a-z, ]+) also take its initial weights: --at init", said)[1]
            for verb in re.findall(r"[a-z]{4,}", verbs):
                self.good(verb, first, "--store", self.store, "--at", "init")

    def test_missing_and_damaged_files(self):
        self.train("full", settings=TINY)
        for path in sorted((self.store / "checkpoints").iterdir()):
            whole = path.read_bytes()
            path.write_bytes(whole[:-1])
            result = run("check", "--store", self.store)
            self.one_sentence(result, path.name, "is damaged", "put back a whole copy, or delete the file")
            path.unlink()
            result = run("check", "--store", self.store)
            self.one_sentence(result, path.name, "is missing", "put it back, or train the run again")
            self.assertNotIn("delete", result.err)
            self.train("full", settings=TINY)  # as the sentence says
            self.good("check", "--store", self.store)


class Words(Failures):
    def test_a_wrong_word_is_found_before_anything_is_measured(self):
        for words in (["nnch", "full", "fool"], ["nnch", "topk:5", "topk:x"], ["nnch", "full", "listopts"]):
            self.refused("bench", *words, mentions=(words[-1],))  # it would print a table's heading and a row first
        self.refused("bench", "nnch", "full", "fool", "--json", mentions=("'fool'", "'full'"))


if __name__ == "__main__":
    unittest.main()
