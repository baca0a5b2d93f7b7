"""Joining stores where something goes wrong on the way, and stores that are not as usual: in use, of an earlier version, not there.

$SEMFOCUS is the program, $SEMFOCUS_FAILING the library that makes calls fail, $SEMFOCUS_SEED repeats random moments."""
import fcntl
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import tarfile
import time
import unittest
from pathlib import Path

from merging import SMALL, MergeCase, behind_the_back, content, final_files, run, seal, snapshot
from test_store import Done, start, wait_until

FAILING = os.environ.get("SEMFOCUS_FAILING")
SANITIZED = bool(os.environ.get("SEMFOCUS_SANITIZED"))
F_OFD_SETLK = 37


class Interrupted(MergeCase):
    """A merge that adds runs and replaces shorter ones."""

    def setUp(self):
        super().setUp()
        words = ["--attention", "full,topk:2", "--every", 2]
        self.before = self.trained("before", "--epochs", 2, "--seed", "1,2", *words)
        self.sources = [self.trained("a", "--epochs", 4, "--seed", "2,3", *words), self.trained("b", "--epochs", 4, "--seed", "4", *words)]
        self.into = self.copy(self.before, "all")
        self.good(self.merge(*self.sources, into=self.into))
        self.expected = content(self.into), final_files(self.into)
        self.assertEqual(len(self.expected[0]), 8)

    def begin_again(self):
        shutil.rmtree(self.into, ignore_errors=True)
        shutil.copytree(self.before, self.into)

    def assert_between(self):
        """Every run is as it was, or as it is to be; the files that it names are there."""
        old = content(self.before)
        for id, one in content(self.into).items():
            self.assertIn(one, [old.get(id), self.expected[0][id]])
        self.check(self.into)

    def finish(self):
        self.good(self.merge(*self.sources, into=self.into))
        self.assertEqual((content(self.into), final_files(self.into)), self.expected)
        self.check(self.into)

    def test_killed_at_random_moments(self):
        seed = int(os.environ.get("SEMFOCUS_SEED", random.randrange(1 << 30)))
        print(f"SEMFOCUS_SEED={seed}")
        moments = random.Random(seed)
        self.begin_again()
        began = time.monotonic()
        self.good(self.merge(*self.sources, into=self.into))
        whole, killed = time.monotonic() - began, 0
        for attempt in range(200):
            if attempt % 4 == 0:
                self.begin_again()  # else on top of what the last one left
            process = start("merge", *self.sources, "--into", self.into)
            time.sleep(moments.uniform(0, whole))
            process.kill()
            process.communicate()
            killed += process.returncode == -signal.SIGKILL
            self.assert_between()
            if attempt % 4 == 3:
                self.finish()
            if killed >= 20:
                break
        self.assertGreaterEqual(killed, 20)
        self.finish()

    def disturb(self, variable, total, most, codes):
        failures = 0
        for number in range(1, total + 1, max(1, total // most)):
            self.begin_again()
            done = self.merge(*self.sources, into=self.into, env={"LD_PRELOAD": FAILING, variable: str(number)})
            self.assertIn(done.code, codes, done)
            failures += done.code != 0
            if done.code == 1:
                self.sentence(done, (1,))
                self.assertEqual(done.err.count("\n"), 1, done)
            if variable == "FAIL_WRITE" and done.code != 0:
                self.assertRegex(done.err, "No space left|disk of the store .* is full; free some space")
            if done.code != -9:
                self.assertFalse(list((self.into / "checkpoints").glob("*.part")), done)
            self.assert_between()
            self.finish()
        return failures

    def counts(self):
        path = self.folder / "counts"
        self.begin_again()
        self.good(self.merge(*self.sources, into=self.into, env={"LD_PRELOAD": FAILING, "FAIL_COUNT": str(path)}))
        return map(int, path.read_text().split())

    @unittest.skipUnless(FAILING, "SEMFOCUS_FAILING names no library")
    @unittest.skipIf(SANITIZED, "sanitizers bring allocators of their own")
    def test_any_write_may_fail_or_be_the_last(self):
        _, writes = self.counts()
        self.assertGreater(self.disturb("FAIL_WRITE", writes, 80, (0, 1)), 20)
        self.assertGreater(self.disturb("KILL_WRITE", writes, 80, (0, -9)), 20)

    @unittest.skipUnless(FAILING, "SEMFOCUS_FAILING names no library")
    @unittest.skipIf(SANITIZED, "sanitizers bring allocators of their own")
    def test_any_allocation_may_fail(self):
        allocations, _ = self.counts()
        self.assertGreater(self.disturb("FAIL_ALLOCATION", allocations, 120, (0, 1)), 60)

    def test_ctrl_c_while_it_waits_for_the_store(self):
        for sent in (signal.SIGINT, signal.SIGTERM):
            self.begin_again()
            database = sqlite3.connect(self.into / "runs.db", isolation_level=None)
            try:
                database.execute("BEGIN IMMEDIATE")
                process = start("merge", *self.sources, "--into", self.into)
                wait_until(lambda: list((self.into / "checkpoints").glob("*-4.safetensors")))  # copied, but in no row
                process.send_signal(sent)
                done = Done(process, 60)
            finally:
                database.close()
            self.assertEqual((done.code, done.out), (128 + sent, ""), done)
            self.assertIn("repeat the command to continue", done.err)
            self.assert_between()
            self.finish()

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mount"), "needs root to mount")
    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount a small disk here")
        try:
            shutil.copytree(self.before, disk / "all")
            used = sum(path.stat().st_blocks * 512 for path in disk.rglob("*")) // 1024
            self.into = disk / "all"
            failures = 0
            for size in range(used + 8, used + 200, 24):
                subprocess.run(["mount", "-o", f"remount,size={size}k", disk], check=True)
                done = self.merge(*self.sources, into=self.into)
                self.assertIn(done.code, (0, 1), done)
                if done.code == 0:
                    break
                failures += 1
                self.assertRegex(done.err, "No space left|disk of the store .* is full")
                self.assertEqual(done.err.count("\n"), 1, done)
            self.assertGreater(failures, 1)
            subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
            self.assert_between()
            self.finish()
        finally:
            subprocess.run(["umount", disk], check=False)


class Sources(MergeCase):
    def test_usage(self):
        store, other = self.trained("store", "--epochs", 1), self.trained("other", "--epochs", 1, "--seed", 2)
        link, plain, empty, damaged = (self.folder / name for name in ("link", "plain", "empty", "damaged"))
        link.symlink_to(store)
        plain.write_text("no store")
        empty.mkdir()
        damaged.mkdir()
        (damaged / "runs.db").write_text("no database" * 200)
        into = self.folder / "all"
        for code, words, mentions in (
                (2, [], ["usage"]), (2, ["--into", into], ["usage"]), (2, [store], ["--into is missing"]),
                (2, [store, "--into", ""], ["into"]), (2, [store, store, "--into", into], ["the same"]),
                (2, [store, other, link, "--into", into], ["the same", "link"]),
                (2, [store, f"{other}/../store", "--into", into], ["the same"]), (2, [store, "--into", store], ["into itself"]),
                (2, [other, link, "--into", store], ["into itself"]), (2, [store, self.folder / "none", "--into", into], ["no store", "none"]),
                (2, [plain, "--into", into], ["no store"]), (2, [empty, "--into", into], ["no store"]),
                (2, ["", "--into", into], ["no store"]), (2, [store, "--into", into, "--store", other], ["unknown setting"]),
                (1, [store, damaged, "--into", into], ["damaged"]), (1, [store, "--into", plain], ["plain", "--into"]),
                (1, [store, "--into", self.folder / "no" / "such"], ["no/such", "--into"]),
                (2, [store, "--into", "x" * 5000], ["into"]), (2, ["x" * 5000, "--into", into], ["no store"])):
            with self.subTest(words):
                self.refused(run("merge", *words), code, *mentions)
                self.assertFalse(into.exists())
        (empty / "runs.db").write_text("")
        self.refused(run("merge", empty, "--into", into), 2, "is empty")

    def test_more_stores_than_are_open_at_a_time(self):
        """All of them have one run in common, and each another."""
        stores = [self.trained(f"store-{i}", "--epochs", 2 + i % 3, "--seed", f"1,{10 + i}") for i in range(12)]
        self.good(self.merge(*stores))
        self.good(self.merge(*stores[::-1], into=self.folder / "reversed"))
        merged = content(self.folder / "all")
        self.assertEqual(len(merged), 13)
        self.assertEqual(content(self.folder / "reversed"), merged)
        self.assertEqual(self.runs(self.folder / "reversed"), self.runs(self.folder / "all"))
        self.check(self.folder / "all")
        with seal.changed(stores[11]) as database:
            database.execute("UPDATE epochs SET tr_ce = 9 WHERE epoch = 1 AND run = (SELECT number FROM runs WHERE seed = 1)")
        done = self.merge(*stores, into=self.folder / "new")
        self.assertEqual((done.code, len(done.err.splitlines())), (1, 12), done)  # with each of the others, and the sum

    def test_few_files_may_be_open(self):
        store = self.trained("store", "--epochs", 1, "--seed", ",".join(map(str, range(40))))
        for limit in (64, 40):
            into = self.folder / f"all-{limit}"
            done = subprocess.run(["bash", "-c", f"ulimit -n {limit}; exec {run('--version').words[0]} merge {store} --into {into}"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            self.assertEqual(content(into), content(store))

    def test_stores_without_runs(self):
        store, none = self.trained("store", "--epochs", 1), self.folder / "none"
        self.good(run("train", *SMALL, "--epochs", 1, "--shard", "2/2", "--store", none, "--quiet"))
        self.assertEqual(self.runs(none), [])
        self.good(self.merge(none, store))
        self.assertEqual(content(self.folder / "all"), content(store))

    def test_a_run_that_is_being_trained_is_left_out(self):
        store = self.trained("store", "--epochs", 3, "--seed", "1,2,3")
        process = start("train", *SMALL, "--store", store, "--quiet", "--epochs", 1000000, "--seed", 2)
        try:
            wait_until(lambda: [row["status"] for row in self.runs(store)].count("running") == 1)
            done = self.merge(store)
            id = self.runs(store)[1]["id"]
            self.assertEqual((done.code, done.err.count("\n")), (1, 1), done)
            self.sentence(done, (1,), "1 run is being trained right now", id, str(store), "repeat the command")
            self.assertIn("2 added, 0 extended, 0 already there, 1 left out", done.out)
            self.assertEqual([row["seed"] for row in self.runs(self.folder / "all")], [1, 3])
        finally:
            process.kill()
            process.communicate()
        self.good(self.merge(store))
        self.assertEqual(content(self.folder / "all"), {**content(store), id: {**content(store)[id], "entry": {
            **content(store)[id]["entry"], "status": "pending"}}})
        self.check(self.folder / "all")

    def test_a_run_that_is_being_trained_in_the_target_is_left_alone(self):
        into, store = self.trained("all", "--epochs", 3, "--seed", "1,2"), self.trained("store", "--epochs", 5, "--seed", "1,2,3")
        with behind_the_back(into) as database:
            number, id = database.execute("SELECT number, id FROM runs WHERE seed = 1").fetchone()
        before = content(into)[id]
        with open(into / "claims", "r+b") as claims:
            fcntl.fcntl(claims, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0))
            done = self.merge(store, into=into)
            self.sentence(done, (1,), "1 run is being trained right now", id, str(into))
            self.assertEqual(content(into)[id], before)
            self.assertEqual([row["epochs"] for row in self.runs(into)], [3, 5, 5])
            self.assertIn("0 added, 0 extended, 2 already there, 1 left out", self.merge(store, into=into).out)
        self.good(self.merge(store, into=into))
        self.assertEqual([row["epochs"] for row in self.runs(into)], [5, 5, 5])
        self.check(into)

    def test_one_merge_at_a_time(self):
        into, store = self.trained("all", "--epochs", 3), self.trained("store", "--epochs", 5)
        with open(into / "claims", "r+b") as claims:
            fcntl.fcntl(claims, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, (1 << 63) - 2, 1, 0))
            self.refused(self.merge(store, into=into), 1, "another process is merging", str(into))
        self.good(self.merge(store, into=into))

    def test_another_numerics_version(self):
        store, into = self.trained("store", "--epochs", 1), self.trained("into", "--epochs", 1)
        with behind_the_back(store) as database:
            database.execute("UPDATE facts SET value = '3' WHERE name = 'numerics'")
        self.refused(self.merge(store, into=into), 2, "numerics version 3", str(store), "leave it out")
        self.refused(self.merge(into, into=store), 2, "numerics version 3", str(store), "--into")
        self.assertEqual(len(self.runs(into)), 1)

    def test_a_newer_schema(self):
        store = self.trained("store", "--epochs", 1)
        with behind_the_back(store) as database:
            database.execute("PRAGMA user_version = 99")
        self.refused(self.merge(store), 2, "schema 99", "newer")

    def test_a_store_without_seals(self):
        store = self.trained("store", "--epochs", 3, "--seed", "1,2")
        merged = self.in_any_order(store)
        with seal.changed(store) as database:
            seal.unseal(database)
        before = snapshot(store)
        done = self.merge(store)
        self.assertEqual((done.code, done.err.count("\n")), (0, 1), done)
        self.assertIn("no seals", done.err)
        self.assertEqual(snapshot(store), before)
        self.check(self.folder / "all")
        self.assertEqual([one["epochs"] for one in content(self.folder / "all").values()], [one["epochs"] for one in merged.values()])
        with behind_the_back(store) as database:
            database.execute("UPDATE epochs SET va_ac = 101 WHERE epoch = 2")
        self.assertEqual(self.merge(store, into=self.folder / "other").code, 1)

    def test_a_target_without_seals(self):
        store, into = self.trained("store", "--epochs", 3, "--seed", "1,2"), self.trained("all", "--epochs", 2, "--seed", "2,3")
        with seal.changed(into) as database:
            seal.unseal(database)
        self.good(self.merge(store, into=into))
        self.assertEqual([(row["seed"], row["epochs"]) for row in self.runs(into)], [(2, 3), (3, 2), (1, 3)])
        self.check(into)

    def test_the_folder_of_checkpoints_is_away(self):
        store = self.trained("store", "--epochs", 2)
        shutil.rmtree(store / "checkpoints")
        self.refused(self.merge(store), 1, "missing", "nothing was merged")
        self.assertFalse((self.folder / "all").exists())

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_sources_that_may_only_be_read(self):
        store = self.trained("store", "--epochs", 2)
        for name in ("runs.db-wal", "runs.db-shm"):
            (store / name).unlink(missing_ok=True)
        into = self.folder / "place"
        into.mkdir()
        os.chmod(self.folder, 0o755)
        os.chmod(into, 0o777)
        command = [os.environ.get("SEMFOCUS", str(Path(__file__).parents[2] / "build" / "semfocus")), "merge", str(store), "--into",
                   str(into / "all")]
        done = subprocess.run([str(Path(command[0]).resolve()), *command[1:]], capture_output=True, text=True, check=False, user=65534)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual(content(into / "all"), content(store))


class EarlierIds(MergeCase):
    """Stores of schema 5, whose runs and files have other names."""

    def setUp(self):
        super().setUp()
        self.old = self.folder / "old"
        with tarfile.open(Path(__file__).with_name("schema-5.tar.gz")) as archive:
            archive.extractall(self.old)
        self.data = Path(shutil.move(self.old / "rows.tsv", self.folder / "rows.tsv"))
        self.new = self.copy(self.old, "new")
        size = ["--blocks", "1", "--width", "2", "--mlp-width", "2", "--threads", "1", "--quiet"]
        self.pairs = ["even-pairs", *size, "--train-count", "20", "--heldout-count", "10", "--length", "8", "--attention", "full,topk:3",
                      "--seed", "153476998,235510766"]
        self.good(run("train", *self.pairs, "--epochs", 2, "--store", self.new))  # opened for writing: brought forward
        self.earlier = {row["earlier_id"]: id for id, row in ((id, one["entry"]) for id, one in content(self.new).items())}

    def check_sampled(self, store):
        self.good(run("check", "--store", store, "--where", "task NOT LIKE 'tsv:%'"))

    def test_it_is_read_as_it_is(self):
        before = snapshot(self.old)
        self.good(self.merge(self.old))
        self.assertEqual(snapshot(self.old), before)
        into = self.folder / "all"
        self.assertEqual(content(into), content(self.new))
        self.assertEqual(final_files(into), final_files(self.old))
        self.check_sampled(into)
        for earlier, id in self.earlier.items():
            self.assertEqual(self.good(run("export", earlier, "--store", into)).out, self.good(run("export", id, "--store", into)).out)
        self.assertIn("0 added, 0 extended", self.good(self.merge(self.old, self.new, into=into)).out)

    def test_damage_is_noticed(self):
        with behind_the_back(self.old) as database:
            database.execute("UPDATE epochs SET tr_ac = 1 WHERE run = 3 AND epoch = 2")
        self.refused(self.merge(self.old), 1, "not what was written", "nothing was merged")

    def test_the_same_runs_trained_anew_and_further(self):
        anew = self.folder / "anew"
        self.good(run("train", *self.pairs, "--epochs", 4, "--store", anew))
        seen = []
        for number, order in enumerate(((self.old, anew), (anew, self.old), (self.new, anew), (anew, self.new))):
            into = self.folder / f"all-{number}"
            for store in order:
                self.good(self.merge(store, into=into))
            self.check_sampled(into)
            self.assertEqual(sorted(row["epochs"] for row in self.runs(into)), [2, 2, 2, 4, 4, 4, 4])
            for earlier in self.earlier:
                self.good(run("export", earlier, "--store", into))
            seen.append((self.runs(into), sorted(final_files(into))))
        self.assertEqual(seen[1:], seen[:1] * 3)

    def test_a_run_that_has_only_its_earlier_id(self):
        """Its data is away in one store; another store knows its id of today."""
        away, = (id for earlier, id in self.earlier.items() if earlier == id)
        known = self.copy(self.new, "known")
        words = [f"tsv:{self.data}", "--blocks", "1", "--width", "2", "--mlp-width", "2", "--threads", "1", "--quiet", "--seed", "5"]
        self.good(run("train", *words, "--epochs", 3, "--store", known))
        id, = (id for id, one in content(known).items() if one["entry"]["earlier_id"] == away)
        self.assertNotEqual(id, away)
        for number, order in enumerate(((self.new, known), (known, self.new), (self.old, known), (known, self.old))):
            into = self.folder / f"all-{number}"
            for store in order:
                self.good(self.merge(store, into=into))
            self.assertEqual(content(into), content(known))
            self.assertEqual(final_files(into), final_files(known))
            self.check(into)


if __name__ == "__main__":
    unittest.main()
