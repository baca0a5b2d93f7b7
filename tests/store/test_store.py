"""The run store under everything that can happen to it: kills, other processes, full disks, damage.

$SEMFOCUS is the program, $SEMFOCUS_THOROUGH tries every case."""
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from options import last_wins  # noqa: E402  pylint: disable=wrong-import-position
import seal  # pylint: disable=wrong-import-position

PROGRAM = str(Path(os.environ.get("SEMFOCUS", ROOT / "build" / "semfocus")).resolve())
THOROUGH = bool(os.environ.get("SEMFOCUS_THOROUGH"))
SMALL = ["even-pairs", "--length", "6", "--train-count", "75", "--heldout-count", "20", "--blocks", "1", "--width", "8",
         "--mlp-width", "8", "--checkpoint-seconds", "0"]


def start(*words, env=None):
    return subprocess.Popen([PROGRAM, *last_wins(map(str, words))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **(env or {})})


def wait_until(condition, seconds=120):
    """However slow the machine is: waits for what must come, up to a limit."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


class Done:
    def __init__(self, process, timeout=120):
        self.words = process.args
        self.out, self.err = process.communicate(timeout=timeout)
        self.code = process.returncode

    def __str__(self):
        return f"\n{' '.join(self.words)}\nexit {self.code}\nstdout: {self.out[-1500:]}\nstderr: {self.err[-1500:]}"


def run(*words, env=None, timeout=120):
    return Done(start(*words, env=env), timeout)


def final_files(store):
    """Hash of every checkpoint by name: equal iff runs ended in the same bits."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((store / "checkpoints").iterdir())}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="semfocus-store-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.store = self.folder / "runs"

    def train(self, *words, store=None, **options):
        return run("train", *SMALL, "--store", store or self.store, "--quiet", *words, **options)

    def good(self, done):
        self.assertEqual((done.code, done.err), (0, ""), done)
        return done

    def check(self, store=None):
        done = run("check", "--store", store or self.store)
        self.assertEqual(done.code, 0, done)
        return done

    def runs(self, store=None, *words):
        return json.loads(self.good(run("runs", "--store", store or self.store, "--json", *words)).out)

    def sentence(self, done, codes, *mentions):
        self.assertIn(done.code, codes, done)
        self.assertTrue(done.err.startswith("semfocus: "), done)
        for mention in mentions:
            self.assertIn(mention, done.err, done)

    def epochs(self, store=None):
        """Rows of all runs so far; 0 before there is a store."""
        done = run("runs", "--store", store or self.store, "--json")
        return sum(row["epochs"] for row in json.loads(done.out)) if done.code == 0 else 0

    def undisturbed(self, *words):
        other = self.folder / "undisturbed"
        self.good(self.train(*words, store=other))
        return final_files(other)


class Resume(Case):
    def test_same_bits_for_any_threads(self):
        for optimizer in ("sgd", "adam"):
            seen = set()
            for threads in (1, 2, 3):
                store = self.folder / f"{optimizer}-{threads}"
                self.good(self.train("--threads", threads, "--epochs", 3, "--optimizer", optimizer, store=store))
                seen.add(json.dumps(final_files(store)))
            self.assertEqual(len(seen), 1)

    def test_more_epochs_go_on_with_the_run(self):
        for epochs in (2, 5, 9):
            self.good(self.train("--epochs", epochs, "--optimizer", "adamw"))
        row, = self.runs()
        self.assertEqual((row["epochs"], row["status"]), (9, "done"))
        self.assertEqual(final_files(self.store), self.undisturbed("--epochs", 9, "--optimizer", "adamw"))

    def test_fewer_epochs_and_stop_at_are_satisfied(self):
        self.good(self.train("--epochs", 6))
        before = final_files(self.store)
        self.good(self.train("--epochs", 3))
        self.good(self.train("--epochs", 100, "--stop-at", "1"))
        self.assertEqual(final_files(self.store), before)

    def test_cosine_needs_its_epochs(self):
        for epochs in (2, 4):
            self.good(self.train("--epochs", epochs, "--schedule", "cosine"))
        self.assertEqual(sorted(row["epochs"] for row in self.runs()), [2, 4])

    def test_company_does_not_change_a_run(self):
        words = ["--epochs", 3, "--attention", "full,topk:2,banded:3+global:1,random:2", "--seed", "1,2"]
        self.good(self.train(*words, "--threads", 2))
        together = final_files(self.store)
        self.assertEqual(len(self.runs()), 8)
        alone = self.folder / "alone"
        for attention in ("full", "topk:2", "banded:3+global:1", "random:2"):
            for seed in (1, 2):
                self.good(self.train("--epochs", 3, "--attention", attention, "--seed", seed, store=alone))
        self.assertEqual(together, final_files(alone))
        self.check()

    def test_repeated_runs_of_a_list_are_one(self):
        self.good(self.train("--epochs", 2, "--seed", "1,1,2", "--attention", "full,topk:99"))
        self.assertEqual(len(self.runs()), 2)

    def test_divergence_is_a_result(self):
        words = ["--lr", 10000, "--clip", 0, "--momentum", 0.99, "--epochs", 50]
        self.good(self.train(*words))
        row, = self.runs()
        self.assertEqual(row["status"], "diverged")
        self.assertEqual(row["epochs"], row["diverged_epoch"] - 1)
        before = final_files(self.store)
        self.good(self.train(*words))
        self.assertEqual(final_files(self.store), before)
        self.check()

    def test_user_data_is_known_by_its_content(self):
        first, second = self.folder / "a.tsv", self.folder / "b.tsv"
        self.good(run("data", "parity", "--length", 5, "--count", 60, "--out", first))
        shutil.copy(first, second)
        words = ["--epochs", 2, "--blocks", 1, "--width", 8, "--mlp-width", 8, "--store", self.store]
        for path in (first, second):
            self.good(run("train", f"tsv:{path}", *words, "--quiet"))
        self.assertEqual(len(self.runs()), 1)
        self.check()
        self.good(run("data", "parity", "--length", 5, "--count", 60, "--seed", 2, "--out", second))
        self.good(run("train", f"tsv:{second}", *words, "--quiet"))
        self.assertEqual(len(self.runs()), 2)


class Kills(Case):
    def test_killed_at_random_moments(self):
        words = ["--epochs", 60, "--seed", "1,2", "--optimizer", "adam", "--threads", 2]
        expected = self.undisturbed(*words)
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        moments = random.Random(seed)
        for _ in range(20):
            process = start("train", *SMALL, "--store", self.store, "--quiet", *words)
            time.sleep(moments.uniform(0.005, 0.12))
            process.kill()
            process.communicate()
            if self.store.joinpath("runs.db").exists() and run("runs", "--store", self.store).code == 0:
                self.check()
        self.good(self.train(*words))
        self.check()
        self.assertEqual(final_files(self.store), expected)

    def test_interrupt_checkpoints_and_says_how_to_go_on(self):
        for number, sent in enumerate((signal.SIGINT, signal.SIGTERM)):
            store = self.folder / f"runs-{number}"
            words = ["train", *SMALL, "--store", store, "--epochs", 100000, "--checkpoint-seconds", 1000]
            process = start(*words)
            wait_until(lambda: self.epochs(store) > 3)
            process.send_signal(sent)
            done = Done(process, 20)
            self.assertEqual(done.code, 128 + sent, done)
            self.assertIn("repeat the command to continue", done.err, done)
            row, = self.runs(store)
            self.assertGreater(row["epochs"], 0)
            self.assertEqual(row["status"], "pending")
            self.check(store)
            more = row["epochs"] + 3
            self.good(self.train("--epochs", more, store=store))
            self.assertEqual(final_files(store), self.undisturbed("--epochs", more))
            shutil.rmtree(self.folder / "undisturbed")


class Company(Case):
    WORDS = ["--epochs", 25, "--seed", "1,2,3,4,5,6", "--attention", "full,topk:2", "--threads", 1]

    def test_processes_share_a_list(self):
        expected = self.undisturbed(*self.WORDS)
        for count in (2, 4):
            store = self.folder / f"shared-{count}"
            processes = [start("train", *SMALL, "--store", store, *self.WORDS) for _ in range(count)]
            done = [Done(process) for process in processes]
            for one in done:
                self.assertEqual(one.code, 0, one)
            self.assertEqual(final_files(store), expected)
            rows = [tuple(line.split()[:3]) for one in done for line in one.out.splitlines()
                    if line.count("%") == 2 and "held out" not in line]
            self.assertEqual((len(rows), len(set(rows))), (12 * 25, 12 * 25), "an epoch was lost or computed twice")
            self.check(store)

    def test_a_dead_process_is_replaced(self):
        words = ["--epochs", 150, "--seed", "1,2,3", "--threads", 1]
        expected = self.undisturbed(*words)
        processes = [start("train", *SMALL, "--store", self.store, *words) for _ in range(2)]
        time.sleep(0.25)
        processes[0].kill()
        processes[0].communicate()
        done = Done(processes[1])
        self.assertEqual(done.code, 0, done)
        self.assertEqual({row["status"] for row in self.runs()}, {"done"})
        self.assertEqual(final_files(self.store), expected)
        self.check()


class Damage(Case):
    def setUp(self):
        super().setUp()
        self.good(self.train("--epochs", 3))
        self.path = next(path for path in (self.store / "checkpoints").iterdir() if "best" not in path.name)

    def test_damaged_checkpoint(self):
        whole = self.path.read_bytes()
        expected = self.undisturbed("--epochs", 5)
        places = range(0, len(whole), 1 if THOROUGH else 97)
        damaged = [whole[:-1], whole[: len(whole) // 2], b""] + [
            whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1:] for i in places]
        for content in damaged:
            self.path.write_bytes(content)
            if content in damaged[:3] or THOROUGH:
                self.sentence(self.train("--epochs", 5), (1,), "damaged", self.path.name)
                self.assertEqual(self.runs()[0]["epochs"], 3)
            self.assertEqual(run("check", "--store", self.store).code, 1)
        self.sentence(self.train("--epochs", 5), (1,), "damaged")
        self.path.write_bytes(whole)
        self.good(self.train("--epochs", 5))
        self.assertEqual(final_files(self.store), expected)

    def test_deleted_checkpoint_is_computed_again(self):
        self.path.unlink()
        self.good(self.train("--epochs", 5))
        self.assertEqual(final_files(self.store), self.undisturbed("--epochs", 5))
        self.check()

    def test_another_instruction_set_goes_on(self):
        row, = self.runs()
        if row["isa"] == "scalar":
            self.skipTest("this CPU has one instruction set")
        other = "scalar"
        self.good(self.train("--epochs", 5, env={"SEMFOCUS_ISA": other}))
        now, = self.runs()
        self.assertEqual((now["id"], now["epochs"], now["isa"]), (row["id"], 5, other))
        self.assertEqual(final_files(self.store), self.undisturbed("--epochs", 5))

    def change(self, sql):
        with sqlite3.connect(self.store / "runs.db") as database:
            database.execute(sql)

    def test_newer_schema(self):
        with sqlite3.connect(self.store / "runs.db") as database:
            version, = database.execute("PRAGMA user_version").fetchone()
        self.change("PRAGMA user_version = 99")
        for done in (self.train("--epochs", 5), run("runs", "--store", self.store)):
            self.sentence(done, (2,), "schema 99", "newer")
        self.change(f"PRAGMA user_version = {version}")
        self.good(self.train("--epochs", 5))

    def test_another_numerics_version(self):
        self.change("UPDATE facts SET value = '0' WHERE name = 'numerics'")
        self.sentence(self.train("--epochs", 5), (2,), "numerics version 0", "--store")
        self.assertEqual(len(self.runs()), 1)

    def test_damaged_database(self):
        database = self.store / "runs.db"
        for name in ("runs.db-wal", "runs.db-shm"):
            self.store.joinpath(name).unlink(missing_ok=True)
        database.write_bytes(b"not a database at all, not a database at all" * 100)
        self.sentence(self.train("--epochs", 5), (1,), "damaged")
        self.sentence(run("runs", "--store", self.store), (1,), "damaged")


class Places(Case):
    def test_no_store(self):
        for verb in (["runs"], ["check"], ["export", "ab"]):
            self.sentence(run(*verb, "--store", self.store), (2,), "no store", str(self.store))

    def test_store_that_cannot_be_made(self):
        self.sentence(self.train("--epochs", 1, store=self.folder / "no" / "such"), (1,), "no/such")
        blocked = self.folder / "file"
        blocked.write_text("")
        self.sentence(self.train("--epochs", 1, store=blocked), (1,), str(blocked))

    def test_database_that_is_a_folder(self):
        self.store.joinpath("runs.db").mkdir(parents=True)
        for done in (self.train("--epochs", 1), run("runs", "--store", self.store)):
            self.sentence(done, (1,), "runs.db' is a folder", "--store")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mount"), "needs root to mount")
    def test_full_and_read_only_disks(self):
        disk = self.folder / "disk"
        disk.mkdir()
        words = ["--epochs", 40, "--width", 32, "--mlp-width", 32, "--blocks", 4]
        expected = self.undisturbed(*words)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount a small disk here")
        try:
            store = disk / "runs"
            self.sentence(self.train(*words, store=store), (1,), "disk")
            subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
            self.assertFalse([path for path in (store / "checkpoints").glob("*.part")])
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            self.sentence(self.train(*words, store=store), (1,), "store")
            self.assertEqual(run("runs", "--store", store).code, 0)
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
            self.good(self.train(*words, store=store))
            self.check(store)
            self.assertEqual(final_files(store), expected)
        finally:
            subprocess.run(["umount", disk], check=False)


class Surprises(Case):
    """Each was once wrong."""
    TSV = ["--epochs", 2, "--blocks", 1, "--width", 8, "--mlp-width", 8, "--quiet"]

    def write_tsv(self, name, rows):
        path = self.folder / name
        path.write_text("tokens\tlabel\n" + "".join(f"{tokens}\t{label}\n" for tokens, label in rows))
        return path

    def test_data_that_runs_together_is_not_the_same_data(self):
        rows = [("1 0", 0), ("0 1", 1), ("1 1 0", 0), ("0", 1), ("1 0 1", 1), ("0 0", 0)]
        for cut in (2, 3, 4):
            train, heldout = self.write_tsv(f"a{cut}", rows[:cut]), self.write_tsv(f"b{cut}", rows[cut:])
            self.good(run("train", f"tsv:{train},{heldout}", *self.TSV, "--store", self.store))
        for number, shifted in enumerate(([("1 0 1", 1), ("0 1", 0)], [("1 0", 1), ("1 0 1", 0)])):
            train, heldout = self.write_tsv(f"c{number}", shifted), self.write_tsv(f"d{number}", rows)
            self.good(run("train", f"tsv:{train},{heldout}", *self.TSV, "--store", self.store))
        self.assertEqual(len(self.runs()), 5)

    def test_moved_and_changed_data(self):
        first = self.write_tsv("a.tsv", [("1 0", 0), ("0 1", 1), ("1 1", 0), ("0 0", 1), ("1 0 0", 1)])
        self.good(run("train", f"tsv:{first}", *self.TSV, "--store", self.store))
        row, = self.runs()
        second = self.folder / "b.tsv"
        first.rename(second)
        self.sentence(run("check", "--store", self.store), (1,), "a.tsv")
        self.good(run("export", row["id"], "--store", self.store, "--format", "safetensors", "--out", self.folder / "w"))
        self.good(run("train", f"tsv:{second}", *self.TSV, "--store", self.store))
        self.assertEqual(len(self.runs()), 1)
        self.check()
        second.write_text(second.read_text().replace("1 1\t0", "1 1\t1"))
        self.sentence(run("check", "--store", self.store), (1,), "is not what it was trained on")
        self.sentence(run("train", "tsv:-", *self.TSV, "--store", self.store), (2,), "standard input")

    def test_rows_without_a_checkpoint_do_not_count(self):
        self.good(self.train("--epochs", 3))
        expected = final_files(self.store)
        process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 100000, "--checkpoint-seconds", 86400)
        wait_until(lambda: self.epochs() > 6)
        process.kill()
        process.communicate()
        self.good(self.train("--epochs", 3))
        row, = self.runs()
        self.assertEqual((row["status"], row["epochs"]), ("done", 3))
        self.assertEqual(final_files(self.store), expected)
        self.check()

    def test_lost_files_of_a_done_run_are_computed_again(self):
        self.good(self.train("--epochs", 4))
        expected = final_files(self.store)
        for pattern in ("*", "*best*", "*-4*"):
            for path in (self.store / "checkpoints").glob(pattern):
                path.unlink()
            self.assertEqual(run("check", "--store", self.store).code, 1)
            self.good(self.train("--epochs", 4))
            self.assertEqual(final_files(self.store), expected)
            self.check()

    def test_a_refused_command_leaves_the_run_as_it_was(self):
        self.good(self.train("--epochs", 3))
        row, = self.runs()
        for path in (self.store / "checkpoints").iterdir():
            path.write_bytes(path.read_bytes()[:-1])
        self.sentence(self.train("--epochs", 5), (1,), "damaged")
        self.assertEqual(self.runs(), [row])

    def test_closed_and_broken_streams(self):
        words = ["train", *map(str, SMALL), "--store", str(self.store), "--epochs", "3", "--seed", ",".join(map(str, range(40)))]
        quoted = " ".join(words)
        for redirection in (">&-", "2>&-", "<&-", ">&- 2>&- <&-", "| head -1 >&2"):
            subprocess.run(["bash", "-c", f"{PROGRAM} {quoted} {redirection}"], capture_output=True, timeout=120, check=False)
            self.check()
        self.assertEqual(self.store.joinpath("claims").stat().st_size, 0)

    def test_broken_settings_in_the_store(self):
        self.good(self.train("--epochs", 2, "--seed", "1,2,3"))
        with sqlite3.connect(self.store / "runs.db") as database:
            database.execute("UPDATE runs SET settings = 'x' WHERE number > 1")
        done = run("check", "--store", self.store)
        self.assertEqual((done.code, done.out), (1, "1 of 3 runs are intact\n"), done)

    def test_a_run_under_way(self):
        """Checks and exports see no damage, a smaller request does not wait, a reader sees it running."""
        self.good(self.train("--epochs", 2))
        process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 1000000)
        try:
            wait_until(lambda: self.runs()[0]["status"] == "running")
            for _ in range(12):
                self.check()
                self.good(run("export", self.runs()[0]["id"], "--store", self.store, "--format", "safetensors", "--best",
                              "--out", self.folder / "w"))
            self.good(self.train("--epochs", 2, timeout=20))
        finally:
            process.send_signal(signal.SIGHUP)
            done = Done(process, 20)
        self.assertEqual(done.code, 128 + signal.SIGHUP, done)
        self.check()

    def test_an_ignored_signal_stays_ignored(self):
        command = f"trap '' INT; {PROGRAM} train {' '.join(map(str, SMALL))} --store {self.store} --quiet --epochs 400 & p=$!; " \
                  "sleep 0.2; kill -INT $p; wait $p"
        self.assertEqual(subprocess.run(["bash", "-c", command], capture_output=True, timeout=300, check=False).returncode, 0)
        self.assertEqual(self.runs()[0]["epochs"], 400)

    def test_folder_names(self):
        os.chdir(self.folder)
        self.addCleanup(os.chdir, ROOT)
        for name in ("a b", "q?x", "h#x", "p%41", "file:y", "it's", "\u00fc", "-dash" * 20):
            self.good(self.train("--epochs", 1, store="./" + name if name.startswith("-") else name))
            self.assertEqual(len(self.runs("./" + name if name.startswith("-") else name)), 1)
            self.assertTrue((self.folder / name / "runs.db").exists(), name)

    def test_store_moved_away(self):
        process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 1000000)
        wait_until(lambda: self.epochs() > 3)
        self.store.rename(self.folder / "elsewhere")
        done = Done(process, 60)
        self.sentence(done, (1,), str(self.store))  # that it is gone, or that nothing can be written there
        self.assertFalse(self.store.exists())
        self.check(self.folder / "elsewhere")

    def test_busy_database_and_interrupt(self):
        self.good(self.train("--epochs", 1))
        with sqlite3.connect(self.store / "runs.db", isolation_level=None) as database:
            database.execute("BEGIN EXCLUSIVE")
            process = start("train", *SMALL, "--store", self.store, "--quiet", "--epochs", 9)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            Done(process, 45)  # less than the minute it would wait for the database
            database.execute("ROLLBACK")
        self.good(self.train("--epochs", 9))


class Listing(Case):
    def test_where_and_json(self):
        self.good(self.train("--epochs", 2, "--seed", "1,2,3", "--attention", "full,topk:2"))
        rows = self.runs(self.store, "--where", "seed > 1 AND attention = 'topk:2'")
        self.assertEqual([row["seed"] for row in rows], [2, 3])
        for key in ("id", "task", "attention", "seed", "status", "epochs", "converged_epoch", "train_accuracy",
                    "heldout_accuracy"):
            self.assertIn(key, rows[0])
        for where in ("seed >", "nonsense", "1); DROP TABLE runs; --", "seed; SELECT 1"):
            self.sentence(run("runs", "--store", self.store, "--where", where), (2,), "where")
        for where in ("seed > 2 -- the last", "seed > 2 /* the last */", "(seed) > (2)", "seed IN (SELECT max(seed) FROM runs)",
                      "CASE WHEN seed > 2 THEN 1 ELSE 0 END", "task <> ') --' AND seed > 2"):
            self.assertEqual([row["seed"] for row in self.runs(self.store, "--where", where)], [3, 3], where)
        self.assertEqual(len(self.runs()), 6)
        self.assertIn("no runs", run("runs", "--store", self.store, "--where", "0").out)

    def test_where_cannot_leave_its_place(self):
        self.good(self.train("--epochs", 1))
        made_up = "SELECT " + ",".join(map(str, range(1, 31)))
        for where in (f"1) UNION {made_up} --", f"1) UNION {made_up} WHERE (1", f"0) UNION {made_up}; --", f"1) UNION {made_up};",
                      f"1 THEN 1 END UNION {made_up} WHERE CASE WHEN 1", "1) --", "1) OR (1", "1) ORDER BY (1", "1) LIMIT (0",
                      "1 /*", "1) /*", "SELECT 1", "1; --", ")", "(", "1, 2", "1) GROUP BY (task"):
            for verb in ("runs", "check", "report"):
                self.sentence(run(verb, "--store", self.store, "--where", where), (2,), "where is", "must be one SQL condition")
        self.assertEqual(len(self.runs()), 1)

    def test_export(self):
        self.good(self.train("--epochs", 4))
        row, = self.runs()
        lines = self.good(run("export", row["id"][:6], "--store", self.store)).out.splitlines()
        self.assertEqual(lines[0], "epoch,tr-ce,tr-ac,va-ce,va-ac")
        self.assertEqual([line.split(",")[0] for line in lines[1:]], ["1", "2", "3", "4"])
        out = self.folder / "weights.safetensors"
        for best in ([], ["--best"]):
            self.good(run("export", row["id"], "--store", self.store, "--format", "safetensors", "--out", out, *best))
            content = out.read_bytes()
            header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
            self.assertEqual(header["embedding.weight"]["shape"], [3, 8])
            self.assertFalse([name for name in header if name.startswith("optimizer")])
        self.sentence(run("export", "zz", "--store", self.store), (2,), "zz")
        self.sentence(run("export", row["id"], "--store", self.store, "--best"), (2,), "--best")


class Size(Case):
    def test_ten_thousand_runs(self):
        self.good(self.train("--epochs", 1))
        with seal.changed(self.store) as database:
            names = [column[1] for column in database.execute("PRAGMA table_info(runs)")]
            row = dict(zip(names, database.execute("SELECT * FROM runs").fetchone()))
            for number in range(2, 10001):
                row.update(number=number, id=f"{number:016x}", seed=number)
                database.execute(f"INSERT INTO runs VALUES ({','.join('?' * len(names))})", [row[name] for name in names])
            database.execute("WITH RECURSIVE e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e WHERE n < 200)"
                             " INSERT INTO epochs SELECT number, n, 0.5, 50 + n * 0.2, 0.6, 50, 1 FROM runs, e WHERE number > 1")
        for words in (["runs"], ["runs", "--json"], ["runs", "--where", "converged_epoch IS NULL"]):
            best = 9.0
            for _ in range(3):
                began = time.monotonic()
                done = self.good(run(*words, "--store", self.store))
                best = min(best, time.monotonic() - began)
            print(f"{' '.join(words)}: {best:.3f} s for 10,000 runs")
            self.assertGreater(len(done.out), 500000)


if __name__ == "__main__":
    unittest.main()
