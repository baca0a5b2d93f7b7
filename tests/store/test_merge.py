"""Joining stores: the shards of a study, longer and shorter versions of a run, conflicts and damage.

$SEMFOCUS is the program."""
import itertools
import json
import re
import shutil
import sqlite3
import tempfile
import time
import unittest
from pathlib import Path

from merging import SMALL, MergeCase, behind_the_back, content, final_files, run, seal, snapshot
from test_store import start, wait_until

SHARDS = 3
STUDY = ["compare", "even-pairs,parity", *SMALL[1:], "--attention", "full,topk:2", "--seeds", "6", "--epochs", "4", "--every", "2",
         "--threads", "2"]
TIME = re.compile(rb'<span class="time">[^<]*</span>')


def exports(store):
    ids = [row["id"] for row in json.loads(run("runs", "--json", "--store", store).out)]
    return {id: run("export", id, "--store", store).out for id in sorted(ids)}


class Study(MergeCase):
    """24 runs as three shards and in one piece."""

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="semfocus-shards-")
        cls.addClassCleanup(place.cleanup)
        cls.place = Path(place.name)
        cls.whole = cls.place / "whole"
        cls.do(*STUDY, "--store", cls.whole, "--out", cls.place / "whole.html", "--quiet")
        cls.shards = [cls.place / f"shard-{i}" for i in range(1, SHARDS + 1)]
        cls.told = [cls.do(*STUDY, "--store", store, "--shard", f"{i}/{SHARDS}").out for i, store in enumerate(cls.shards, 1)]

    @staticmethod
    def do(*words):
        done = run(*words)
        assert (done.code, done.err) == (0, ""), done
        return done

    def report(self, store, name):
        """Table and page of all runs of a store, as if every epoch had taken the same time."""
        copy = self.copy(store, name)
        with seal.changed(copy) as database:
            database.execute("UPDATE epochs SET seconds = 0.5")
        done = self.good(run("report", "--store", copy, "--out", self.folder / "page.html", "--json"))
        page = (self.folder / "page.html").read_bytes().replace(str(copy).encode(), b"")
        return TIME.sub(b"", page), done.out

    def test_every_run_is_in_one_shard(self):
        parts = [list(content(store)) for store in self.shards]
        self.assertEqual([len(part) for part in parts], [8, 8, 8])
        self.assertEqual(sorted(sum(parts, [])), sorted(content(self.whole)))
        for number, out in enumerate(self.told, 1):
            self.assertEqual(out.count(f"shard {number} of 3: 8 of 24 runs"), 2, out)
            self.assertIn("semfocus merge STORE... --into STORE", out)
        self.assertFalse((Path.cwd() / "report.html").exists())

    def test_any_order_and_twice(self):
        expected = (content(self.whole, times=False), final_files(self.whole), self.runs(self.whole), exports(self.whole),
                    self.report(self.whole, "whole"))
        for number, order in enumerate(itertools.permutations(self.shards)):
            into = self.folder / f"all-{number}"
            done = self.good(self.merge(*order, into=into))
            self.assertIn("24 added, 0 extended, 0 already there", done.out)
            for attempt in range(2):
                found = (content(into, times=False), final_files(into), self.runs(into), exports(into),
                         self.report(into, f"page-{number}-{attempt}"))
                self.assertEqual(found, expected)
                before = snapshot(into)
                done = self.good(self.merge(*order, into=into))
                self.assertIn("0 added, 0 extended, 24 already there", done.out)
                self.assertEqual(snapshot(into), before, "merging again wrote something")
            self.check(into)

    def test_one_after_the_other(self):
        for number, order in enumerate((self.shards, self.shards[::-1])):
            into = self.folder / f"all-{number}"
            for store in order:
                self.good(self.merge(store, into=into))
            self.assertEqual(content(into, times=False), content(self.whole, times=False))
            self.assertEqual(self.runs(into), self.runs(self.whole))
            self.assertEqual(self.report(into, f"page-{number}"), self.report(self.whole, f"whole-{number}"))

    def test_the_command_goes_on_with_the_merged_store(self):
        into = self.folder / "all"
        self.good(self.merge(*self.shards, into=into))
        files = final_files(into)
        done = self.good(run(*STUDY, "--store", into, "--out", self.folder / "page.html"))
        self.assertIn("24 of 24 runs were already done", done.out)
        self.assertEqual(final_files(into), files)
        longer = [word if word != "4" else "6" for word in STUDY]
        for store in (into, self.copy(self.whole, "whole")):
            self.good(run(*longer, "--store", store, "--out", self.folder / "page.html", "--quiet"))
        self.assertEqual(final_files(into), final_files(self.folder / "whole"))
        self.check(into)

    def test_runs_that_follow_keep_their_order(self):
        """New runs of a merged store come last, there and wherever it is merged."""
        into, further = self.folder / "all", self.folder / "further"
        self.good(self.merge(*self.shards, into=into))
        self.good(self.train("--epochs", 1, "--seed", "7,8,9", "--attention", "topk:3,full", store=into))
        self.assertEqual([row["seed"] for row in self.runs(into)][-6:], [7, 8, 9, 7, 8, 9])
        self.good(self.merge(into, into=further))
        self.assertEqual(self.runs(further), self.runs(into))

    def test_sources_stay_as_they_are(self):
        before = [snapshot(store) for store in self.shards]
        self.good(self.merge(*self.shards))
        self.assertEqual([snapshot(store) for store in self.shards], before)

    def test_json_and_quiet(self):
        done = self.good(self.merge(*self.shards, words=["--json"]))
        self.assertEqual(json.loads(done.out), {"into": str(self.folder / "all"), "stores": [str(store) for store in self.shards],
                                                "runs": 24, "added": 24, "extended": 0, "unchanged": 0, "left_out": 0, "total": 24})
        self.assertEqual(self.good(self.merge(*self.shards, words=["--quiet"])).out, "")

    def test_one_changed_bit_is_refused(self):
        """In every table, and in the checkpoints; nothing of the store gets into the target."""
        for sql in ("UPDATE epochs SET va_ce = va_ce * (1 + 1e-15) WHERE run = (SELECT MAX(number) FROM runs) AND epoch = 4",
                    "UPDATE measures SET q50 = q50 * (1 + 1e-15) WHERE epoch = 4 AND run = (SELECT MAX(number) FROM runs)",
                    "UPDATE runs SET asked_epochs = 5 WHERE number = (SELECT MAX(number) FROM runs)",
                    "DELETE FROM epochs WHERE epoch = 4 AND run = (SELECT MIN(number) FROM runs)",
                    "DELETE FROM runs WHERE number = (SELECT MAX(number) FROM runs)"):
            damaged = self.copy(self.shards[1], "damaged")
            with behind_the_back(damaged) as database:
                self.assertGreater(database.execute(sql).rowcount, 0)
            self.refused(self.merge(self.shards[0], damaged), 1, "not what was written" if "DELETE" not in sql else "written")
            self.assertFalse((self.folder / "all").exists())
            shutil.rmtree(damaged)
        for name in sorted(final_files(self.shards[1]))[-2:]:
            damaged = self.copy(self.shards[1], "damaged")
            path = damaged / "checkpoints" / name
            whole = path.read_bytes()
            path.write_bytes(whole[:-7] + bytes([whole[-7] ^ 1]) + whole[-6:])
            self.refused(self.merge(self.shards[0], damaged), 1, "damaged", name, "nothing was merged")
            path.unlink()
            self.refused(self.merge(self.shards[0], damaged), 1, "missing", name, "nothing was merged")
            self.assertFalse((self.folder / "all").exists())
            shutil.rmtree(damaged)

    def test_damage_leaves_the_target_alone(self):
        into = self.folder / "all"
        self.good(self.merge(self.shards[0], into=into))
        damaged = [self.copy(store, f"damaged-{i}") for i, store in enumerate(self.shards[1:])]
        for store in damaged:
            with behind_the_back(store) as database:
                database.execute("UPDATE epochs SET tr_ac = 1 WHERE epoch = 2")
        before = snapshot(into)
        done = self.merge(*damaged, into=into)
        self.assertEqual((done.code, len(done.err.splitlines())), (1, 3), done)  # one for each store, and what becomes of it
        self.assertIn("2 problems", done.err.splitlines()[-1])
        self.assertEqual(snapshot(into), before)
        with behind_the_back(into) as database:
            database.execute("UPDATE epochs SET tr_ac = 1 WHERE epoch = 2 AND run = (SELECT MIN(number) FROM runs)")
        self.refused(self.merge(*self.shards, into=into), 1, "not what was written", str(into))


class Joins(MergeCase):
    """The same run in several stores."""

    def test_the_longer_wins(self):
        short, longer = self.trained("short", "--epochs", 3, "--seed", "1,2"), self.trained("long", "--epochs", 7, "--seed", "2,3")
        merged = self.in_any_order(short, longer)
        self.assertEqual(sorted((one["entry"]["seed"], one["entry"]["epochs"], one["entry"]["status"]) for one in merged.values()),
                         [(1, 3, "done"), (2, 7, "done"), (3, 7, "done")])
        expected = {**final_files(short), **final_files(longer)}
        second = {name: hash for name, hash in final_files(short).items() if name.split("-")[0] in content(longer)}
        for name in second:
            if name not in final_files(longer):
                del expected[name]
        self.assertEqual(final_files(self.folder / "at-once-0"), expected)
        done = self.good(self.merge(short, longer, into=self.folder / "at-once-0"))
        self.assertIn("0 added, 0 extended, 4 already there", done.out)

    def killed(self, name, more_than, *words):
        """A store whose run has rows that no checkpoint backs."""
        store = self.folder / name
        process = start("train", *SMALL, "--store", store, "--quiet", "--epochs", 100000, "--checkpoint-seconds", 86400, *words)
        wait_until(lambda: self.epochs(store) > more_than)
        process.kill()
        process.communicate()
        return store

    def test_rows_without_a_checkpoint_are_kept(self):
        done, unfinished = self.trained("done", "--epochs", 5), self.killed("killed", 9)
        one, = self.in_any_order(done, unfinished).values()
        rows = one["entry"]["epochs"]
        self.assertEqual((one["entry"]["status"], one["entry"]["checkpoint_epoch"]), ("pending", 5))
        self.assertEqual(rows, self.runs(unfinished)[0]["epochs"])
        into = self.folder / "at-once-1"
        self.good(self.train("--epochs", 5, store=into))
        self.assertEqual(self.runs(into), self.runs(done))
        self.good(self.train("--epochs", rows + 2, store=into))
        self.assertEqual(final_files(into), self.undisturbed("--epochs", rows + 2))
        self.check(into)

    def test_three_versions(self):
        first, second, third = self.killed("a", 9), self.trained("b", "--epochs", 4), self.trained("c", "--epochs", 6)
        one, = self.in_any_order(first, second, third).values()
        self.assertEqual((one["entry"]["checkpoint_epoch"], one["entry"]["epochs"]), (6, self.runs(first)[0]["epochs"]))

    def test_diverged_and_failed_runs(self):
        words = ["--lr", 0.5, "--clip", 0, "--momentum", 0.99, "--epochs", 50]
        whole = self.trained("whole", *words)
        epochs = self.runs(whole)[0]["epochs"]
        self.assertGreater(epochs, 1)
        beginning = self.trained("beginning", *words, "--epochs", epochs - 1)
        one, = self.in_any_order(whole, beginning).values()
        self.assertEqual((one["entry"]["status"], one["entry"]["epochs"]), ("diverged", epochs))
        failed = self.copy(beginning, "failed")
        with seal.changed(failed) as database:
            database.execute("UPDATE runs SET status = 'failed', message = 'it was out of luck'")
        shutil.rmtree(self.folder / "at-once-0")
        shutil.rmtree(self.folder / "at-once-1")
        shutil.rmtree(self.folder / "in-turn-0")
        shutil.rmtree(self.folder / "in-turn-1")
        pending = self.copy(beginning, "pending")
        with seal.changed(pending) as database:
            database.execute("UPDATE runs SET status = 'running'")  # its process died
        one, = self.in_any_order(failed, pending).values()
        self.assertEqual((one["entry"]["status"], one["entry"]["message"]), ("failed", "it was out of luck"))
        self.good(self.merge(pending))
        self.assertEqual([one["entry"]["status"] for one in content(self.folder / "all").values()], ["pending"])

    def test_everything_measured_is_kept(self):
        stores = []
        for name, every, samples in (("a", 1, 10), ("b", 2, 12)):
            store = self.trained(name, "--epochs", 4, "--every", every, "--seed", "1,2")
            ids = [row["id"] for row in self.runs(store)]
            for size, count in ((3, 10), (4, samples)):
                self.good(run("landscape", *ids, "--grid", size, "--samples", count, "--store", store, "--quiet", "--out",
                              self.folder / "page.html"))
            stores.append(store)
        for store, entry in zip(stores, ("fig-27", "tab-6")):
            self.good(run("paper", "run", entry, "--scale", "smoke", "--store", store, "--quiet"))
        parts = [content(store) for store in stores]
        merged = self.in_any_order(*stores)
        self.assertEqual(set(merged), set(parts[0]) | set(parts[1]))
        for id, one in merged.items():
            both = [part[id] for part in parts if id in part]
            for table in ("measures", "findings", "surfaces"):
                expected = {json.dumps(row, sort_keys=True) for version in both for row in version[table]}
                self.assertEqual({json.dumps(row, sort_keys=True) for row in one[table]}, expected, table)
        self.assertTrue(any(len(one["surfaces"]) == 3 for one in merged.values()))
        self.assertTrue(any(one["findings"] for one in merged.values()))
        pages = []
        for place in ("at-once-0", "at-once-1", "in-turn-1"):
            (self.folder / "runs").unlink(missing_ok=True)
            (self.folder / "runs").symlink_to(self.folder / place)
            for where in ("1", "seed IN (1, 2)"):
                self.good(run("report", "--store", self.folder / "runs", "--where", where, "--out", self.folder / "page.html", "--quiet"))
                pages.append(TIME.sub(b"", (self.folder / "page.html").read_bytes()))
        self.assertEqual(pages[2:], pages[:2] * 2)
        self.assertIn(b"12 training sequences", pages[1])

    def test_points_of_a_surface_are_joined(self):
        """Two machines that computed different parts of the same surface."""
        whole = self.trained("whole", "--epochs", 2)
        id = self.runs(whole)[0]["id"]
        self.good(run("landscape", id, "--grid", 5, "--samples", 10, "--store", whole, "--quiet", "--out", self.folder / "page.html"))
        parts = [self.copy(whole, f"part-{i}") for i in range(2)]
        for i, store in enumerate(parts):
            with seal.changed(store) as database:
                database.execute("DELETE FROM surface_points WHERE point % 3 = ?", (i,))
        self.assertEqual(self.in_any_order(*parts), content(whole))

    def test_a_lost_checkpoint_comes_back(self):
        store = self.trained("store", "--epochs", 3)
        into = self.copy(store, "all")
        for path in (into / "checkpoints").iterdir():
            path.unlink()
            self.assertIn("1 extended", self.good(self.merge(store, into=into)).out)
            self.assertEqual(final_files(into), final_files(store))
            self.check(into)

    def test_the_target_has_runs_of_its_own(self):
        into, other = self.trained("all", "--epochs", 2, "--seed", "1,2"), self.trained("other", "--epochs", 2, "--seed", "2,3")
        before = self.runs(into)
        self.good(self.merge(other, into=into))
        self.assertEqual(self.runs(into)[:2], before)
        self.assertEqual([row["seed"] for row in self.runs(into)], [1, 2, 3])
        self.check(into)

    def test_data_of_a_user(self):
        stores = []
        for name in ("a", "b"):
            path = self.folder / f"{name}.tsv"
            self.good(run("data", "parity", "--length", 5, "--count", 60, "--out", path))
            store = self.folder / name
            self.good(run("train", f"tsv:{path}", *SMALL[7:], "--epochs", 2, "--store", store, "--quiet"))
            stores.append(store)
        self.assertEqual(len(self.in_any_order(*stores)), 1)


class Conflicts(MergeCase):
    def setUp(self):
        super().setUp()
        self.one = self.trained("one", "--epochs", 4, "--every", 2, "--seed", "1,2")
        self.ids = [row["id"] for row in self.runs(self.one)]
        self.good(run("landscape", self.ids[0], "--grid", 2, "--samples", 10, "--store", self.one, "--quiet", "--out",
                      self.folder / "page.html"))
        with seal.changed(self.one) as database:
            database.execute("INSERT INTO findings SELECT number, weights, 'some.name', 0.5 FROM runs")
        self.other = self.copy(self.one, "other")

    def change(self, sql, store=None):
        with seal.changed(store or self.other) as database:
            self.assertGreater(database.execute(sql).rowcount, 0)

    def value(self, store, sql):
        with sqlite3.connect(store / "runs.db") as database:
            return database.execute(sql).fetchone()[0]

    def test_each_column(self):
        first = "(SELECT number FROM runs WHERE seed = 1)"
        cases = [(f"epochs SET {column} = {column} * (1 + 1e-15) WHERE epoch = 3 AND run = {first}", ["epoch 3", column],
                  f"SELECT {column} FROM epochs WHERE epoch = 3 AND run = {first}") for column in ("tr_ce", "va_ce")]
        cases += [(f"epochs SET {column} = {column} + 1 WHERE epoch = 3 AND run = {first}", ["epoch 3", column],
                   f"SELECT {column} FROM epochs WHERE epoch = 3 AND run = {first}") for column in ("tr_ac", "va_ac")]
        cases += [(f"measures SET q90 = q90 + 1 WHERE epoch = 2 AND block = 0 AND measure = 'delta_s' AND run = {first}",
                   ["epoch 2", "block 0", "measure delta_s", "q90"],
                   f"SELECT q90 FROM measures WHERE epoch = 2 AND block = 0 AND measure = 'delta_s' AND run = {first}"),
                  (f"findings SET value = 0.75 WHERE run = {first}", ["some.name", "value"], f"SELECT value FROM findings WHERE run = {first}"),
                  ("surface_points SET loss = loss + 1 WHERE point = 1", ["point 1", "loss"],
                   "SELECT loss FROM surface_points WHERE point = 1"),
                  (f"runs SET weights = '0123456789abcdef' WHERE number = {first}", ["epoch 4", "weights"],
                   f"SELECT weights FROM runs WHERE number = {first}"),
                  (f"runs SET status = 'diverged', diverged_epoch = 2, diverged_step = 1 WHERE number = {first}",
                   ["diverged_epoch is 2", "4 epochs"], None)]
        whole = self.copy(self.other, "whole")
        for sql, mentions, select in cases:
            with self.subTest(sql):
                shutil.rmtree(self.other)
                shutil.copytree(whole, self.other)
                self.change(f"UPDATE {sql}")
                values = [f"{self.value(store, select)!r}".strip("'") for store in (self.one, self.other)] if select else []
                if "epochs SET tr_ac" in sql or "epochs SET va_ac" in sql or values and "." in values[0]:
                    values = [f"{float(value):.17g}" for value in values]
                into = self.copy(self.one, "all")
                before = snapshot(into)
                for sources, target in (([self.other], into), ([self.one, self.other], self.folder / "new"),
                                        ([self.other, self.one], self.folder / "new")):
                    done = self.merge(*sources, into=target)
                    self.refused(done, 1, self.ids[0], *mentions, *values, str(self.one if target != into else into), str(self.other),
                                 "nothing was merged", f"semfocus delete {self.ids[0]}")
                self.assertEqual(snapshot(into), before)
                self.assertFalse((self.folder / "new").exists())
                shutil.rmtree(into)

    def test_all_are_named(self):
        self.change("UPDATE epochs SET tr_ce = tr_ce + 1 WHERE epoch = 2")
        done = self.merge(self.one, self.other)
        self.assertEqual((done.code, done.out, len(done.err.splitlines())), (1, "", 3), done)
        for id, line in zip(self.ids, done.err.splitlines()):
            self.assertIn(f"run {id}, epoch 2: tr_ce", line)
        self.assertFalse((self.folder / "all").exists())
        self.good(run("delete", *self.ids, "--store", self.other, "--quiet"))
        self.good(self.merge(self.one, self.other))

    def test_in_the_part_that_both_have(self):
        self.good(self.train("--epochs", 7, "--seed", "1,2", store=self.other))
        self.good(self.merge(self.one, self.other, into=self.folder / "fine"))
        self.change("UPDATE epochs SET tr_ce = tr_ce + 1 WHERE epoch = 4 AND run = 1")
        self.refused(self.merge(self.one, self.other), 1, f"run {self.ids[0]}, epoch 4")

    def test_times_and_machines_are_no_conflict(self):
        self.change("UPDATE epochs SET seconds = seconds + 1 WHERE run = 1")
        self.change("UPDATE runs SET environment = '{\"cpu\":\"another\"}', isa = 'scalar' WHERE number = 2")
        self.in_any_order(self.one, self.other)

    def test_a_third_store_conflicts_with_what_only_the_first_has(self):
        """A finding that the store between them does not have."""
        between = self.copy(self.one, "between")
        self.change("DELETE FROM findings", between)
        self.good(self.train("--epochs", 6, "--seed", "1,2", store=between))
        self.change("UPDATE findings SET value = 0.25 WHERE run = 1")
        for order in itertools.permutations([self.one, between, self.other]):
            self.refused(self.merge(*order), 1, "some.name", "0.5", "0.25")
            self.assertFalse((self.folder / "all").exists())


if __name__ == "__main__":
    unittest.main()
