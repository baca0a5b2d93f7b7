"""A changed bit of runs.db is noticed or does no harm, and nothing is deleted before its replacement is safe.

$SEMFOCUS is the program, $SEMFOCUS_FLIPS multiplies the number of random flips."""
import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

from test_store import PROGRAM, SMALL, Case, final_files, last_wins, run, seal, start, wait_until

MORE = int(os.environ.get("SEMFOCUS_FLIPS", "1"))
SEED = 20261116
NOBODY = 65534
STUDY = ["compare", *SMALL, "--attention", "full,topk:2", "--seeds", "2", "--epochs", "4", "--every", "2", "--threads", "2"]


@contextlib.contextmanager
def behind_the_back(store):
    """The database of a store, changed as damage changes it: nothing is sealed."""
    with contextlib.closing(sqlite3.connect(Path(store) / "runs.db")) as database:
        yield database
        database.commit()


class Flips(unittest.TestCase):
    """A small store with everything in it: curves, measures, findings, a loss surface."""

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="semfocus-flips-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        cls.store = cls.folder / "runs"
        cls.database = cls.store / "runs.db"
        cls.do(*STUDY, "--store", cls.store, "--quiet", "--out", cls.folder / "page.html")
        cls.ids = [row["id"] for row in json.loads(cls.do("runs", "--store", cls.store, "--json").stdout)]
        cls.do("landscape", *cls.ids[:2], "--grid", 3, "--samples", 10, "--store", cls.store, "--quiet", "--out",
               cls.folder / "landscape.html")
        cls.do("paper", "run", "fig-27", "--scale", "smoke", "--store", cls.store, "--quiet")
        cls.do("runs", "tag", *cls.ids, "good", "--store", cls.store)
        cls.do("runs", "name", cls.ids[0], "the first of them", "--store", cls.store)
        with behind_the_back(cls.store) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cls.tables = {name: database.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in seal.TABLES}
        cls.remove_logs()
        cls.whole = cls.database.read_bytes()
        cls.rows = cls.all_rows(cls.store)
        cls.expected = cls.outputs()
        assert None not in cls.expected.values() and min(cls.tables.values()) > 0, cls.tables

    @classmethod
    def do(cls, *words):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (words, done)
        return done

    @classmethod
    def remove_logs(cls):
        for name in ("runs.db-wal", "runs.db-shm"):
            (cls.store / name).unlink(missing_ok=True)

    @staticmethod
    def all_rows(store):
        with behind_the_back(store) as database:
            return {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in seal.TABLES}

    @classmethod
    def commands(cls):
        return {"runs": ["runs", "--json"], "report": ["report", "--json", "--out", cls.folder / "report.html"],
                "export": ["export", cls.ids[0]], "curves": ["analyze", cls.ids[0], "--curves"],
                "where": ["runs", "--where", "status = 'done'"], "paper": ["paper", "status", "--json"]}

    @classmethod
    def output(cls, name):
        """What a command prints and the page it writes; None if it ends with a sentence and not with 0."""
        page = cls.folder / "report.html"
        page.unlink(missing_ok=True)
        done = subprocess.run([PROGRAM, *map(str, cls.commands()[name]), "--store", str(cls.store)], capture_output=True,
                              timeout=60, check=False)
        if done.returncode == 0:
            return done.stdout, page.exists() and re.sub(rb"\d\d:\d\d UTC", b"", page.read_bytes())
        if done.returncode not in (1, 2) or not done.stderr.startswith(b"semfocus: ") or done.stderr.count(b"\n") != 1:
            raise AssertionError(f"not a sentence: {done}")
        if page.exists():
            raise AssertionError(f"a page was written: {done}")
        return None

    @classmethod
    def outputs(cls):
        return {name: cls.output(name) for name in cls.commands()}

    def flip(self, byte, bit):
        """True: noticed; False: harmless."""
        return self.change(byte, self.whole[byte] ^ 1 << bit)

    def change(self, byte, value):
        content = bytearray(self.whole)
        content[byte] = value
        self.database.write_bytes(content)
        self.remove_logs()
        try:
            found = self.outputs()
        except Exception as error:
            raise AssertionError(f"byte {byte} = {value}: {error}") from error
        self.assertEqual(self.database.read_bytes(), bytes(content), "a reader wrote")
        for name, output in found.items():
            self.assertTrue(output in (None, self.expected[name]), f"byte {byte} = {value}: '{name}' changed unnoticed")
        return None in found.values()

    def tearDown(self):
        self.database.write_bytes(self.whole)
        self.remove_logs()

    def test_anywhere(self):
        print(f"seed {SEED}, {len(self.whole)} bytes")
        draws = random.Random(SEED)
        noticed = sum(self.flip(draws.randrange(len(self.whole)), draws.randrange(8)) for _ in range(200 * MORE))
        print(f"{200 * MORE} flips anywhere: {noticed} noticed, {200 * MORE - noticed} harmless")
        self.assertGreater(noticed, 20 * MORE)

    def places(self, draws):
        """Bytes of stored values, by their bytes in the file: numbers and texts of every table."""
        for table in draws.choices(seal.TABLES, weights=[1, 8, 8, 4, 2, 2, 4, 2], k=10000):
            row = draws.choice(self.rows[table])
            value = draws.choice([value for value in row if isinstance(value, (float, str)) and value != ""])
            pattern = value.encode() if isinstance(value, str) else seal.struct.pack(">d", value)
            at = self.whole.find(pattern)
            if at >= 0:
                yield table, at + draws.randrange(len(pattern))

    def test_stored_values(self):
        print(f"seed {SEED}")
        draws = random.Random(SEED)
        count, noticed = 0, 0
        for _, byte in self.places(draws):
            noticed += self.flip(byte, draws.randrange(8))
            count += 1
            if count == 120 * MORE:
                break
        print(f"{count} flips of values: {noticed} noticed, {count - noticed} harmless")
        self.assertEqual(count, 120 * MORE)
        self.assertGreater(noticed, 90 * MORE)

    def test_trees_that_lose_their_last_entry(self):
        """Every page of every table and index in turn says that it has one entry less."""
        size = int.from_bytes(self.whole[16:18], "big")
        noticed = 0
        for start_ in range(0, len(self.whole), size):
            page = start_ + 100 if start_ == 0 else start_  # the first has the file's header before its own
            cells = int.from_bytes(self.whole[page + 3:page + 5], "big")
            if self.whole[page] in (2, 5, 10, 13) and cells > 0:
                noticed += self.change(page + 4, self.whole[page + 4] - 1 & 255)
        print(f"{len(self.whole) // size} pages, {noticed} noticed")
        self.assertGreater(noticed, len(self.whole) // size // 2)

    READ_BY = {"runs": ("runs", "report", "where", "paper"), "epochs": ("report", "export"), "measures": ("report", "curves"),
               "findings": ("paper",), "surface_points": ("report",), "surfaces": ("report",)}

    def test_rows_that_disappear(self):
        """Deleted behind the program's back, as damage of a tree does it: every command that reads them says so."""
        keys = {"runs": "number", "surfaces": "run", "surface_points": "surface"}
        for table, commands in self.READ_BY.items():
            key = keys.get(table, "run")
            for where in (f"{key} = (SELECT MIN({key}) FROM {table})", "1"):
                self.tearDown()
                with behind_the_back(self.store) as database:
                    database.execute(f"DELETE FROM {table} WHERE {where}")
                for name in commands:
                    self.assertTrue(self.output(name) is None, f"{name} after {table} lost its rows where {where}")
                if table != "runs":
                    self.assertEqual(run("check", "--store", self.store).code, 1)

    def test_two_implementations_agree(self):
        """What the program wrote, sealed again by tests/seal.py, stays the same."""
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            seal.seal(database)
            for table in ("runs", "surfaces", "facts"):
                self.assertEqual(sorted(database.execute(f"SELECT * FROM {table}")), sorted(self.rows[table]))
            database.rollback()

    def test_check_names_each_damaged_run(self):
        with behind_the_back(self.store) as database:
            first, second = (number for number, in database.execute("SELECT number FROM runs ORDER BY number LIMIT 2"))
            database.execute("UPDATE epochs SET va_ac = 99 WHERE run = ? AND epoch = 2", (first,))
            database.execute("UPDATE runs SET converged_epoch = 1 WHERE number = ?", (second,))
            total, = database.execute("SELECT COUNT(*) FROM runs").fetchone()
        done = run("check", "--store", self.store)
        self.assertEqual((done.code, done.out), (1, f"{total - 2} of {total} runs are intact\n"), done)
        lines = done.err.splitlines()
        self.assertEqual(len(lines), 2, done)
        for line, run_id in zip(lines, self.ids):
            self.assertIn(run_id, line)
            self.assertIn("restore a copy", line)
            self.assertIn(f"semfocus delete {run_id}", line)


class Readers(Case):
    def test_a_store_that_is_being_written_is_not_damaged(self):
        words = ["--seed", "1,2", "--threads", 2, "--every", 1]
        self.good(self.train("--epochs", 2, *words))
        process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 1000000, *words)
        try:
            wait_until(lambda: self.epochs() > 10)
            first = self.runs()[0]["id"]
            for words in (["runs", "--where", "(SELECT MAX(va_ac) FROM epochs WHERE run = number) >= 0"], ["export", first],
                          ["report", "--out", self.folder / "page.html"], ["analyze", first, "--curves"], ["check", first]) * 4:
                done = run(*words, "--store", self.store)
                self.assertEqual((done.code, done.err), (0, ""), done)
        finally:
            process.kill()
            process.communicate()
        self.check()

    def test_a_condition_does_not_hide_damage(self):
        """What a condition reads is verified, too, not only the runs it leaves."""
        self.good(self.train("--epochs", 2, "--seed", "1,2"))
        for sql, where in (("UPDATE runs SET status = 'diverged' WHERE seed = 1", "status = 'done'"),
                           ("UPDATE runs SET settings = replace(settings, '6', '7') WHERE seed = 1", "settings LIKE '%6%'"),
                           ("UPDATE epochs SET va_ac = 0 WHERE run = 1", "(SELECT MAX(va_ac) FROM epochs WHERE run = number) > 0")):
            store = self.folder / "copy"
            shutil.copytree(self.store, store)
            with behind_the_back(store) as database:
                database.execute(sql)
            for verb in ("runs", "report"):
                self.sentence(run(verb, "--store", store, "--where", where), (1,), "not what was written", "restore a copy")
            shutil.rmtree(store)


class Unsealed(Case):
    """A store of an earlier version: read as it is, but for values that cannot be."""

    def setUp(self):
        super().setUp()
        self.good(self.train("--epochs", 3, "--seed", "1,2"))
        self.expected = self.good(run("runs", "--store", self.store, "--json")).out
        with seal.changed(self.store) as database:
            seal.unseal(database)

    def test_ranges(self):
        for sql, said in (("UPDATE epochs SET va_ac = 3457024 WHERE epoch = 2", "0 to 100"),
                          ("UPDATE epochs SET tr_ce = -1 WHERE epoch = 2", "0 or more"),
                          ("UPDATE epochs SET va_ce = 9e999 WHERE epoch = 2", "0 or more"),
                          ("UPDATE epochs SET seconds = -1 WHERE epoch = 2", "seconds"),
                          ("DELETE FROM epochs WHERE epoch = 2", "epoch 2 is missing"),
                          ("DELETE FROM epochs WHERE epoch = 3", "2 rows, but 3 were written"),
                          ("UPDATE runs SET heldout_accuracy = 101", "0 to 100"),
                          ("UPDATE runs SET status = 'dnoe'", "its status is 'dnoe'")):
            store = self.folder / "copy"
            shutil.copytree(self.store, store)
            with behind_the_back(store) as database:
                database.execute(sql)
            done = run("report", "--store", store, "--out", self.folder / "page.html")
            self.assertEqual(done.code, 1, done)
            self.assertIn(said, done.err)
            shutil.rmtree(store)

    def test_another_numerics_version_is_read_and_left_alone(self):
        with behind_the_back(self.store) as database:
            database.execute("UPDATE facts SET value = '1' WHERE name = 'numerics'")
        before = (self.store / "runs.db").read_bytes()
        done = run("runs", "--store", self.store, "--json")
        self.assertEqual((done.code, done.out), (0, self.expected), done)
        self.assertIn("note", done.err)
        self.sentence(self.train("--epochs", 5), (2,), "numerics version 1", "--store")
        self.assertEqual((self.store / "runs.db").read_bytes(), before)

    def test_a_version_that_is_not_that_of_the_tables(self):
        """Else one flipped bit would switch the seals off."""
        store = self.folder / "sealed"
        self.good(self.train("--epochs", 2, store=store))
        with behind_the_back(store) as database:
            database.execute("PRAGMA user_version = 4")
        for done in (run("runs", "--store", store), self.train("--epochs", 3, store=store)):
            self.sentence(done, (1,), "schema 4", "restore a copy")


class Deleted(Case):
    def test_a_damaged_run_is_deleted_and_trained_again(self):
        self.good(self.train("--epochs", 3, "--seed", "1,2,3"))
        before, files = self.runs(), self.undisturbed("--epochs", 4, "--seed", "1,2,3")
        for sql in ("UPDATE epochs SET tr_ac = 3457024 WHERE run = 2 AND epoch = 2", "UPDATE epochs SET tr_ac = 12 WHERE run = 2",
                    "UPDATE runs SET id = '0123456789abcdef' WHERE number = 2", "DELETE FROM epochs WHERE run = 2 AND epoch = 3",
                    "UPDATE runs SET settings = '{}' WHERE number = 2"):
            with behind_the_back(self.store) as database:
                number, = database.execute("SELECT MAX(number) FROM runs WHERE seed = 2").fetchone()
                database.execute(sql.replace("= 2 AND", f"= {number} AND").replace("number = 2", f"number = {number}")
                                 .replace("run = 2", f"run = {number}"))
            refused = run("report", "--store", self.store, "--out", self.folder / "page.html")
            self.assertEqual(refused.code, 1, refused)
            self.assertFalse((self.folder / "page.html").exists())
            self.sentence(self.train("--epochs", 9, "--seed", 2), (1,), "restore a copy")
            with behind_the_back(self.store) as database:
                damaged, = database.execute("SELECT id FROM runs WHERE number = ?", (number,)).fetchone()
            done = self.good(run("delete", damaged, "--store", self.store))
            self.assertEqual(done.out, f"deleted: run {damaged}\n")
            self.assertEqual(len(self.runs()), 2)
            self.good(self.train("--epochs", 4, "--seed", "1,2,3"))
            self.assertEqual(sorted(row["id"] for row in self.runs()), sorted(row["id"] for row in before))
            self.assertEqual(final_files(self.store), files)
            self.check()

    def test_a_run_is_deleted_whose_id_is_damaged(self):
        """In the table, or in the index that runs are looked up by."""
        self.good(self.train("--epochs", 2, "--seed", "1,2,3"))
        with behind_the_back(self.store) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        whole, runs, files = (self.store / "runs.db").read_bytes(), self.runs(), final_files(self.store)
        identity = runs[1]["id"].encode()
        places = [at for at in range(len(whole)) if whole.startswith(identity, at)]
        self.assertEqual(len(places), 2)
        for place in places:
            (self.store / "runs.db").write_bytes(whole[:place + 3] + b"z" + whole[place + 4:])
            for verb in ("runs", "report"):
                self.sentence(run(verb, "--store", self.store), (1,), "is not what was written", "restore a copy")
            self.assertEqual(run("check", "--store", self.store).code, 1)
            with behind_the_back(self.store) as database:
                found, = database.execute("SELECT id FROM runs NOT INDEXED WHERE number = 2").fetchone()
            self.good(run("delete", found, "--store", self.store))
            self.assertEqual(self.runs(), [runs[0], runs[2]])
            self.good(self.train("--epochs", 2, "--seed", "1,2,3"))
            self.assertEqual(final_files(self.store), files)
            self.check()

    def test_what_is_not_deleted(self):
        self.good(self.train("--epochs", 2))
        self.sentence(run("delete", "zz", "--store", self.store), (2,), "no run begins with 'zz'")
        self.sentence(run("delete", "ab", "--store", self.folder / "none"), (2,), "no store")
        self.assertFalse((self.folder / "none").exists())
        process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 1000000)
        try:
            wait_until(lambda: self.runs()[0]["status"] == "running")
            self.sentence(run("delete", self.runs()[0]["id"], "--store", self.store), (2,), "another process")
        finally:
            process.kill()
            process.communicate()
        self.check()

    def test_check_knows_how_many_epochs_there_should_be(self):
        """Even where every seal is right: as a faulty program would leave it."""
        self.good(self.train("--epochs", 4))
        for sql, said in (
                (["DELETE FROM epochs WHERE epoch = 4", "UPDATE runs SET epochs = 3, checkpoint_epoch = 3"], "4 were asked for"),
                (["DELETE FROM epochs WHERE epoch = 2"], "epoch 2 is missing"),
                (["DELETE FROM epochs WHERE epoch = 4"], "3 rows, but 4 were written"),
                (["INSERT INTO epochs SELECT run, 5, tr_ce, tr_ac, va_ce, va_ac, seconds FROM epochs WHERE epoch = 4",
                  "UPDATE runs SET epochs = 5"], "5 rows but a checkpoint of epoch 4"),
                (["UPDATE runs SET best_accuracy = best_accuracy - 1"], "its curve disagree"),
                (["UPDATE runs SET status = 'diverged', diverged_epoch = 3"], "diverged in epoch 3")):
            store = self.folder / "copy"
            shutil.copytree(self.store, store)
            with seal.changed(store) as database:
                for one in sql:
                    database.execute(one)
            self.sentence(run("check", "--store", store), (1,), said)
            shutil.rmtree(store)


class Unreachable(Case):
    """The folder of checkpoints is away, or may not be read: everything stays as it was."""
    WORDS = ["--epochs", 6, "--seed", "1,2,3"]

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.good(self.train(*self.WORDS))
        self.checkpoints = self.store / "checkpoints"

    def content(self):
        return Flips.all_rows(self.store)

    def commands(self):
        compare = ["compare", *SMALL, "--attention", "full", "--seed", "1,2,3", "--epochs", 6, "--out", self.folder / "page.html"]
        return (["train", *SMALL, *self.WORDS], ["train", *SMALL, "--epochs", 9, "--seed", "1,2,3"], compare)

    def refuse(self, said, user=None):
        rows = self.content()
        for words in self.commands():
            done = subprocess.run([PROGRAM, *map(str, words), "--store", str(self.store), "--quiet"], capture_output=True, text=True,
                                  timeout=60, check=False, user=user)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(said, done.stderr, done)
            self.assertEqual(self.content(), rows)

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_without_permission(self):
        """As a user who is subject to permissions."""
        for path in (self.folder, self.store, *self.store.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        for mode in (0o000, 0o300):  # not at all; what is there cannot be listed, so nothing is known to be gone
            files = list(self.checkpoints.iterdir())
            if mode:
                self.checkpoints.rename(self.folder / "elsewhere")
                self.checkpoints.mkdir()
                os.chown(self.checkpoints, NOBODY, NOBODY)
            os.chmod(self.checkpoints, mode)
            self.refuse("Permission denied", NOBODY)
            os.chmod(self.checkpoints, 0o755)
            if mode:
                self.checkpoints.rmdir()
                (self.folder / "elsewhere").rename(self.checkpoints)
            self.assertEqual(sorted(self.checkpoints.iterdir()), sorted(files))
        os.chmod(files[0], 0o000)
        rows = self.content()
        done = subprocess.run([PROGRAM, *map(str, self.commands()[0]), "--store", str(self.store), "--quiet"], capture_output=True,
                              text=True, timeout=60, check=False, user=NOBODY)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("Permission denied", done.stderr)
        self.assertEqual(self.content(), rows)
        os.chmod(files[0], 0o644)
        self.good(self.train(*self.WORDS))
        self.check()

    def test_something_else_in_its_place(self):
        elsewhere = self.folder / "elsewhere"
        self.checkpoints.rename(elsewhere)
        self.refuse("does not exist")
        self.assertFalse(self.checkpoints.exists(), "an empty folder was put in the place of the one that is away")
        self.checkpoints.write_text("a file")
        self.refuse("Not a directory")
        self.checkpoints.unlink()
        self.checkpoints.symlink_to(self.folder / "nowhere")
        self.refuse("does not exist")
        self.checkpoints.unlink()
        elsewhere.rename(self.checkpoints)
        self.good(self.train(*self.WORDS))
        self.check()

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_taken_away_in_mid_study(self):
        words = ["--epochs", 4000, "--seed", "4,5", "--checkpoint-seconds", 0, "--threads", 2]
        for path in (self.folder, self.store, *self.store.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        finished = [row for row in self.content()["epochs"] if row[0] <= 3]
        process = subprocess.Popen([PROGRAM, *last_wins(["train", *SMALL, "--store", str(self.store), "--quiet", *map(str, words)])], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=NOBODY)
        wait_until(lambda: self.epochs() > 30)
        os.chmod(self.checkpoints, stat.S_IRUSR)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("Permission denied", said)
        rows = self.content()["epochs"]
        self.assertGreater(len(rows), 30)
        self.assertEqual([row for row in rows if row[0] <= 3], finished)
        for _ in range(2):
            done = subprocess.run([PROGRAM, *last_wins(["train", *SMALL, "--store", str(self.store), "--quiet", *map(str, words)])], text=True,
                                  capture_output=True, timeout=60, check=False, user=NOBODY)
            self.assertEqual(done.returncode, 1, done)
            self.assertEqual(self.content()["epochs"], rows, "rows were lost by a command that could not go on")
        os.chmod(self.checkpoints, 0o755)
        self.check()
        self.good(self.train("--epochs", 40, "--seed", "1,2,3,4,5", "--threads", 2, "--checkpoint-seconds", 60))
        self.check()


class Lost(Case):
    """A checkpoint that was deleted is computed again; the store keeps everything until it is there."""

    def test_nothing_is_deleted_before_its_replacement(self):
        self.good(self.train("--epochs", 40, "--threads", 1, "--checkpoint-seconds", 60))
        rows, files = Flips.all_rows(self.store), final_files(self.store)
        for path in (self.store / "checkpoints").iterdir():
            path.unlink()
        for moment in (0.05, 0.1, 0.2):  # killed while it is computed again
            process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 40, "--threads", 1)
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
            now = Flips.all_rows(self.store)
            self.assertEqual([row[:-1] for row in now["epochs"]], [row[:-1] for row in rows["epochs"]])
            self.assertEqual(self.runs()[0]["status"], "done")
        self.good(self.train("--epochs", 40, "--threads", 1))
        self.assertEqual(final_files(self.store), files)
        self.check()

    def test_a_shorter_request_computes_all_of_it_again(self):
        for words in (["--epochs", 9], ["--epochs", 9, "--schedule", "cosine"]):
            store = self.folder / str(words[-1])
            self.good(self.train(*words, store=store))
            rows, files = self.runs(store), final_files(store)
            for path in (store / "checkpoints").iterdir():
                path.unlink()
            self.good(self.train(*(words if "cosine" in words else ["--epochs", 2]), store=store))
            self.assertEqual((self.runs(store), final_files(store)), (rows, files))
            self.check(store)

    def test_other_numbers_are_refused(self):
        self.good(self.train("--epochs", 4))
        for path in (self.store / "checkpoints").iterdir():
            path.unlink()
        with seal.changed(self.store) as database:
            database.execute("UPDATE epochs SET tr_ce = tr_ce + 0.001 WHERE epoch = 3")
        rows = Flips.all_rows(self.store)
        for epochs in (4, 9):
            self.sentence(self.train("--epochs", epochs), (1,), "after epoch 3", "put back the checkpoint", "semfocus delete")
            self.assertEqual(Flips.all_rows(self.store), rows)
            self.assertFalse(list((self.store / "checkpoints").iterdir()))

    def test_a_diverged_run(self):
        words = ["--lr", 10000, "--clip", 0, "--momentum", 0.99, "--epochs", 50]
        self.good(self.train(*words))
        rows, files = self.runs(), final_files(self.store)
        for path in (self.store / "checkpoints").iterdir():
            path.unlink()
        self.good(self.train(*words))
        self.assertEqual((self.runs(), final_files(self.store)), (rows, files))

    def test_rows_that_no_checkpoint_backs_stay_until_they_are_computed_again(self):
        self.good(self.train("--epochs", 3))
        process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 100000, "--checkpoint-seconds", 86400,
                        "--threads", 1)
        wait_until(lambda: self.epochs() > 20)
        process.kill()
        process.communicate()
        rows = Flips.all_rows(self.store)["epochs"]
        process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 100000, "--checkpoint-seconds", 86400,
                        "--threads", 1)
        wait_until(lambda: self.runs()[0]["status"] == "running")
        process.kill()
        process.communicate()
        now = Flips.all_rows(self.store)["epochs"]
        self.assertEqual([row[:-1] for row in now[:len(rows)]], [row[:-1] for row in rows])
        self.check()
        more = len(rows) + 3
        self.good(self.train("--epochs", more, "--threads", 1, "--checkpoint-seconds", 60))
        self.assertEqual(final_files(self.store), self.undisturbed("--epochs", more, "--threads", 1, "--checkpoint-seconds", 60))
        self.check()


if __name__ == "__main__":
    unittest.main()
