"""A store of schema 5, whose ids hashed every setting, gets the ids of today.

schema-5.tar.gz was made by the last version that wrote schema 5, with the commands of MADE (rows.tsv lay in /data). Its numbers are of
numerics version 4: a version that computes others does not write such stores, and does not need this any more.

$SEMFOCUS is the program, $SEMFOCUS_FAILING the library that makes calls fail."""
import fcntl
import json
import os
import shutil
import sqlite3
import struct
import tarfile
import unittest
from pathlib import Path

from test_store import Case, final_files, run
import seal

FAILING = os.environ.get("SEMFOCUS_FAILING")
SANITIZED = bool(os.environ.get("SEMFOCUS_SANITIZED"))
SIZE = ["--blocks", "1", "--width", "2", "--mlp-width", "2", "--epochs", "2", "--threads", "1", "--quiet"]
SAMPLED = ["--train-count", "20", "--heldout-count", "10", "--length", "8"]
PAIRS = ["even-pairs", *SIZE, *SAMPLED, "--attention", "full,topk:3", "--seed", "153476998,235510766"]
MADE = [PAIRS,
        ["parity", *SIZE, *SAMPLED, "--schedule", "cosine", "--optimizer", "adamw", "--every", "1", "--weight-decay", "0.1",
         "--attention", "banded:3+global:1"],
        ["even-pairs", *SIZE, *SAMPLED, "--swap-sample", "3", "--attention", "topk:8"]]
TABLES = ("epochs", "measures", "findings", "surfaces", "surface_points")


class OldStore(Case):
    def setUp(self):
        super().setUp()
        self.unpack(self.store)
        self.data = self.store / "rows.tsv"
        self.data = Path(shutil.move(self.data, self.folder / "rows.tsv"))
        self.before = self.rows(self.store)
        self.files = final_files(self.store)

    def unpack(self, store):
        with tarfile.open(Path(__file__).with_name("schema-5.tar.gz")) as archive:
            archive.extractall(store)

    def rows(self, store):
        """Everything but ids and seals, and the ids by number."""
        database = sqlite3.connect(store / "runs.db")
        rows = {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
        rows["runs"] = database.execute("SELECT number, attention, seed, status, epochs, train_accuracy, heldout_accuracy,"
                                        " checkpoint_hash, best_hash, weights, settings FROM runs ORDER BY number").fetchall()
        ids = dict(database.execute("SELECT number, id FROM runs ORDER BY number"))
        version, = database.execute("PRAGMA user_version").fetchone()
        database.close()
        return rows, ids, version

    def check_sampled(self):
        self.good(run("check", "--store", self.store, "--where", "task NOT LIKE 'tsv:%'"))

    def tsv(self):
        return [f"tsv:{self.data}", *SIZE, "--seed", "5"]

    def fresh_ids(self):
        """Of the same runs, by number, in a store that was always of the newest schema."""
        store = self.folder / "fresh"
        for words in [*MADE, self.tsv()]:
            self.good(run("train", *words, "--store", store))
        return self.rows(store)[1]


class Reading(OldStore):
    def test_nothing_is_written_and_all_is_found(self):
        before = (self.store / "runs.db").read_bytes()
        fresh, earlier = self.fresh_ids(), self.before[1]
        shown = self.runs()
        away = len(shown) - 1  # the run of the data that is away keeps its id
        self.assertEqual([row["id"] for row in shown], [*list(fresh.values())[:away], earlier[away + 1]])
        self.check_sampled()
        for number, id in earlier.items():
            found = self.good(run("export", id, "--store", self.store)).out
            self.assertEqual(found, self.good(run("export", shown[number - 1]["id"], "--store", self.store)).out)
        self.good(run("export", earlier[1], "--format", "safetensors", "--out", self.folder / "w", "--store", self.store))
        plan = json.loads(self.good(run("compare", "even-pairs", *SIZE, *SAMPLED, "--attention", "full,topk:3", "--seed",
                                        "153476998,235510766", "--dry-run", "--json", "--store", self.store)).out)
        self.assertEqual((plan["count"], plan["done"]), (4, 4))
        self.good(run("report", "--store", self.store, "--out", self.folder / "page.html"))
        self.assertEqual((self.store / "runs.db").read_bytes(), before)

    def test_damage_is_noticed(self):
        database = sqlite3.connect(self.store / "runs.db")
        database.execute("UPDATE runs SET seed = 7 WHERE number = 2")
        database.commit()
        database.close()
        self.sentence(run("runs", "--store", self.store), (1,), "not what was written")


class Writing(OldStore):
    def assert_brought_forward(self, store=None):
        rows, ids, version = self.rows(store or self.store)
        self.assertEqual(version, 7)
        self.assertEqual(rows, self.before[0])
        return ids

    def test_nothing_is_trained_again(self):
        fresh, earlier = self.fresh_ids(), self.before[1]
        for words in MADE:
            self.good(run("train", *words, "--store", self.store))
        ids = self.assert_brought_forward()
        away = max(ids)
        self.assertEqual(ids, {**fresh, away: earlier[away]})
        self.good(run("train", *self.tsv(), "--store", self.store))  # now the data is known
        done = run("landscape", earlier[1], "--grid", "3", "--json", "--store", self.store)  # its points are there
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.assert_brought_forward(), fresh)
        self.assertEqual(final_files(self.store), self.files)
        self.check()
        by_earlier = [self.runs(self.store, "--where", f"earlier_id = '{id}'")[0]["id"] for id in earlier.values()]
        self.assertEqual(by_earlier, list(fresh.values()))
        for id in earlier.values():
            self.good(run("export", id, "--store", self.store))
            self.good(run("evaluate", id[:9], "--store", self.store))

    def test_runs_go_on(self):
        """Asked for more epochs, a run ends as one that was never in an earlier store."""
        longer = [*PAIRS[:PAIRS.index("--epochs")], "--epochs", "4", *PAIRS[PAIRS.index("--epochs") + 2:]]
        other = self.folder / "other"
        for store in (self.store, other):
            self.good(run("train", *longer, "--store", store))
        kept = [row for row in self.runs() if row["epochs"] == 4]
        self.assertEqual(kept, self.runs(other))
        weights = [[row[9] for row in self.rows(store)[0]["runs"][:4]] for store in (self.store, other)]
        self.assertEqual(*weights)
        self.check_sampled()
        self.assertEqual(len(final_files(self.store)), len(self.files))

    def test_a_run_is_deleted_by_its_earlier_id(self):
        id = self.before[1][1]
        self.good(run("delete", id, "--store", self.store, "--quiet"))
        self.assertFalse([name for name in final_files(self.store) if name.startswith(id)])
        self.assertEqual(len(self.runs()), len(self.before[1]) - 1)
        self.check_sampled()

    def test_damage_is_not_sealed_over(self):
        database = sqlite3.connect(self.store / "runs.db")
        database.execute("UPDATE runs SET train_accuracy = 99 WHERE number = 2")
        database.execute("UPDATE epochs SET tr_ac = 98 WHERE run = 3")
        database.commit()
        database.close()
        self.good(run("train", *MADE[1], "--store", self.store))  # another run
        done = run("check", "--store", self.store)
        self.assertEqual(done.code, 1, done)
        ids = self.rows(self.store)[1]
        for number in ids:
            self.assertEqual(ids[number] in done.out + done.err, number in (2, 3), done)  # and the data of 7 is away, which names no run

    def test_a_damaged_list_is_left_alone(self):
        database = sqlite3.connect(self.store / "runs.db")
        database.execute("DELETE FROM runs WHERE number = 2")
        database.commit()
        database.close()
        before = self.rows(self.store)
        self.sentence(run("train", *MADE[1], "--store", self.store), (1,), "list of runs", "restore a copy")
        self.assertEqual(self.rows(self.store), before)

    def test_an_earlier_version_at_work_is_waited_for(self):
        with open(self.store / "claims", "r+b") as claims:
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 3, 1, 0)
            fcntl.fcntl(claims, 37, lock)  # F_OFD_SETLK
            self.sentence(run("train", *MADE[1], "--store", self.store), (1,), "earlier version", "wait")
        self.assertEqual(self.rows(self.store), self.before)
        self.good(run("train", *MADE[1], "--store", self.store))
        self.assert_brought_forward()

    def test_earlier_schemas_get_ids_too(self):
        fresh = self.fresh_ids()
        database = sqlite3.connect(self.store / "runs.db", isolation_level=None)
        database.execute("ALTER TABLE runs ADD COLUMN earlier_id TEXT")
        seal.unseal(database, 4)
        database.close()
        for words in [*MADE, self.tsv()]:
            self.good(run("train", *words, "--store", self.store))
        rows, ids, version = self.rows(self.store)
        self.assertEqual((version, ids, rows["epochs"]), (7, fresh, self.before[0]["epochs"]))
        self.check()

    @unittest.skipUnless(FAILING, "SEMFOCUS_FAILING names no library")
    @unittest.skipIf(SANITIZED, "sanitizers bring allocators of their own")
    def test_any_call_may_fail(self):
        words = ["train", *MADE[2], "--store"]
        counts = self.folder / "counts"
        self.unpack(self.folder / "counted")
        self.good(run(*words, self.folder / "counted", env={"LD_PRELOAD": FAILING, "FAIL_COUNT": str(counts)}))
        expected = self.assert_brought_forward(self.folder / "counted")
        allocations, writes = map(int, counts.read_text().split())
        copy, disturbed = self.folder / "copy", 0
        for variable, total in (("KILL_WRITE", writes), ("FAIL_WRITE", writes), ("FAIL_ALLOCATION", allocations)):
            for number in range(1, total + 1, 1 if total < 500 else total // 250):
                self.unpack(copy)
                done = run(*words, copy, env={"LD_PRELOAD": FAILING, variable: str(number)})
                self.assertIn(done.code, (0, 1, -9), done)
                disturbed += done.code != 0
                self.good(run("runs", "--json", "--store", copy))
                self.good(run(*words, copy))
                self.assertEqual(self.assert_brought_forward(copy), expected, f"{variable}={number}")
                self.assertEqual(final_files(copy), self.files)
                shutil.rmtree(copy)
        self.assertGreater(disturbed, 20)


if __name__ == "__main__":
    unittest.main()
