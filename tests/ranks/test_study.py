"""A study over MPI ranks gives what one process gives, whatever happens to the ranks."""
import os
import random
import signal
import subprocess
import time
import unittest
from pathlib import Path

from job import MPIRUN, OTHER, PROGRAM, RUNS, SECONDS, SMALL, STUDY, Case, Done, alone, contents, job, ranks_of, start, start_job, wait_until


class Study(Case):
    def setUp(self):
        super().setUp()
        self.page = self.folder / "page.html"

    def study(self, store):
        return [*STUDY, "--store", store, "--out", self.page]

    def expected(self):
        store = self.folder / "alone"
        self.good(alone(*self.study(store)))
        found = contents(store, self.page)
        self.assertEqual(len(found["runs"]), RUNS)
        return found

    def test_any_number_of_ranks(self):
        expected = self.expected()
        for ranks in (1, 2, 4):
            store = self.folder / f"on-{ranks}"
            done = self.good(job(ranks, *self.study(store)))
            self.assertEqual(done.err, "", done)
            self.assertEqual(contents(store, self.page), expected, f"{ranks} ranks")
            self.good(alone("check", "--store", store))

    @unittest.skipUnless(all(OTHER), "there is no build with MPICH")
    def test_another_library(self):
        expected = self.expected()
        for ranks in (2, 3):
            store = self.folder / f"on-{ranks}"
            done = self.good(job(ranks, *self.study(store), library=OTHER))
            self.assertEqual(done.err, "", done)
            self.assertEqual(contents(store, self.page), expected, f"{ranks} ranks")

    def test_killed_ranks(self):
        """kill -9 of a rank at random moments: the launcher ends the job, and the same command continues with any number of ranks."""
        expected = self.expected()
        chance = random.Random(18)
        for victim in (0, 1, 2):
            store = self.folder / f"without-{victim}"
            for attempt in range(3):
                process = start_job(3, *self.study(store))
                self.addCleanup(self.end, process)
                wait_until(lambda p=process: len(ranks_of(p)) == 3 or p.poll() is not None)
                time.sleep(chance.uniform(0.1, 1.5))
                pids = ranks_of(process)
                if len(pids) < 3 or process.poll() is not None:
                    break
                os.kill(pids[victim], signal.SIGKILL)
                self.assertNotEqual(Done(process).code, 0, f"seed 18, rank {victim}, attempt {attempt}")
            self.good(job(chance.randint(1, 4), *self.study(store)))
            self.assertEqual(contents(store, self.page), expected, f"seed 18, rank {victim}")
            self.good(alone("check", "--store", store))

    def test_a_rank_that_hangs(self):
        expected = self.expected()
        store = self.folder / "hung"
        process = start_job(3, *self.study(store), "--rank-timeout", 2)
        self.addCleanup(self.end, process)
        wait_until(lambda: len(ranks_of(process)) == 3 and (store / "checkpoints").is_dir() and any((store / "checkpoints").iterdir()))
        os.kill(ranks_of(process)[2], signal.SIGSTOP)
        done = self.good(Done(process))
        self.assertEqual(contents(store, self.page), expected, done)
        if "has not answered" in done.err:  # it had a run then
            self.assertRegex(done.err, r"rank 2 on \S+ has not answered for \d+ seconds; its 1 run continues from the last checkpoint elsewhere")

    def test_a_rank_that_hangs_for_a_while(self):
        """What it says about runs that others have by then is refused."""
        expected = self.expected()
        store = self.folder / "hung"
        process = start_job(2, *self.study(store), "--rank-timeout", 1)
        self.addCleanup(self.end, process)
        wait_until(lambda: len(ranks_of(process)) == 2 and (store / "checkpoints").is_dir() and any((store / "checkpoints").iterdir()))
        pid = ranks_of(process)[1]
        for _ in range(2):
            if process.poll() is None:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(2)
                os.kill(pid, signal.SIGCONT)
                time.sleep(1)
        self.good(Done(process))
        self.assertEqual(contents(store, self.page), expected)

    def test_stop(self):
        """Ctrl-C: what is done is kept, and the same command continues."""
        expected = self.expected()
        store = self.folder / "stopped"
        process = start_job(2, *self.study(store))
        self.addCleanup(self.end, process)
        wait_until(lambda: len(ranks_of(process)) == 2 and (store / "checkpoints").is_dir() and any((store / "checkpoints").iterdir()))
        os.kill(ranks_of(process)[0], signal.SIGINT)
        done = Done(process)
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("repeat the command to continue", done.err, done)
        self.assertEqual(alone("check", "--store", store).code, 0)
        self.good(job(3, *self.study(store)))
        self.assertEqual(contents(store, self.page), expected)

    def test_a_lost_checkpoint(self):
        """It is computed again by whatever rank has time."""
        expected = self.expected()
        store = self.folder / "lossy"
        self.good(job(2, *self.study(store)))
        for path in sorted((store / "checkpoints").iterdir())[::3]:
            path.unlink()
        self.good(job(3, *self.study(store)))
        self.assertEqual(contents(store, self.page), expected)

    def test_measures_while_training(self):
        words = ["compare", "even-pairs", "--attention", "full,topk:3", "--seeds", "2", "--epochs", "4", "--every", "2", *SMALL]
        exports = []
        for ranks in (1, 3):
            store = self.folder / f"measured-{ranks}"
            self.good(job(ranks, *words, "--store", store, "--out", self.page))
            ids = sorted(contents(store)["curves"])
            exports.append([self.good(alone("analyze", run, "--curves", "--store", store)).out for run in ids])
        self.assertEqual(exports[0], exports[1])
        self.assertIn("delta_h", exports[0][0])


class Words(Case):
    """One rank speaks, and the exit code is that of one process."""

    def test_once(self):
        for words, code in ((["list", "tasks"], 0), (["--version"], 0), (["compare"], 2), (["nonsense"], 2), (["compare", "parity", "--seeds", "0"], 2),
                            (["runs", "--store", "nowhere"], 2), (["compare", "--help"], 0)):
            one, three = alone(*words, cwd=self.folder), job(3, *words, cwd=self.folder)
            self.assertEqual(one.code, code, one)
            self.assertEqual((three.code, three.out), (code, one.out), three)
            self.assertEqual(three.err.count("semfocus: "), one.err.count("semfocus: "), three)

    def test_the_launcher_of_another_library(self):
        other = next((path for path in ("/usr/bin/mpirun.mpich", "/usr/bin/mpirun.openmpi") if Path(path).exists() and Path(path).resolve() != Path(MPIRUN).resolve()), None)
        if other is None:
            self.skipTest("there is one MPI library on this machine")
        done = job(2, "list", "tasks", library=(PROGRAM, other))
        self.assertEqual(done.code, 2, done)
        self.assertIn("use the launcher of that library", done.err)

    def test_a_rank_without_the_plug_in(self):
        """It takes no part, and the others do the work, which takes longer than it does to say so."""
        store = self.folder / "runs"
        words = ["compare", "even-pairs", "--attention", "full", "--seeds", "2", "--epochs", "400", *SMALL, "--store", str(store), "--out", str(self.folder / "page.html")]
        lacks = ["env", "SEMFOCUS_PLUGINS=/nowhere/part.so", PROGRAM, *words]
        done = self.good(Done(start([MPIRUN, "-n", 1, PROGRAM, *words, ":", "-n", 1, *lacks])))
        self.assertIn("note: rank 1 takes no part: ", done.err, done)
        self.assertIn("/nowhere/part.so", done.err, done)
        self.assertEqual(len(contents(store)["runs"]), 2)

    def test_a_rank_with_another_data_file(self):
        """Its results would not be those of the run: they are refused."""
        words = ["train", "tsv:data.tsv", "--seed", "1,2,3,4", "--epochs", "60", "--blocks", "1", "--width", "16", "--mlp-width", "16", "--threads", "1", "--store", str(self.folder / "runs")]
        for place, seed in (("a", 1), ("b", 2)):
            (self.folder / place).mkdir()
            self.good(alone("data", "even-pairs", "--count", "60", "--length", "8", "--seed", seed, "--out", "data.tsv", cwd=self.folder / place))
        done = Done(start([MPIRUN, "-n", 1, "-wdir", self.folder / "a", PROGRAM, *words, ":", "-n", 1, "-wdir", self.folder / "b", PROGRAM, *words]))
        self.assertEqual(done.code, 1, done)
        self.assertIn("is not the one that rank 0 has; give all machines the same files", done.err, done)


class Disk(Case):
    """A store on a full disk, and one that vanishes, end the job with what is done kept."""

    def mount(self, size):
        place = self.folder / "disk"
        place.mkdir()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("needs the right to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=False)
        return place

    def test_full(self):
        place = self.mount("400k")
        store = place / "runs"
        words = [*STUDY, "--store", store, "--out", self.folder / "page.html"]
        done = job(3, *words)
        self.assertEqual(done.code, 1, done)
        self.assertEqual(done.err.count("is full; free some space"), 1, done)
        self.assertNotIn("runs failed", done.err)
        subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
        self.good(job(2, *words))
        self.good(alone("check", "--store", store))
        reference = self.folder / "alone"
        self.good(alone(*STUDY, "--store", reference, "--out", self.folder / "page.html"))
        self.assertEqual(contents(store), contents(reference))

    def test_vanished(self):
        store = self.folder / "runs"
        words = ["2000" if before == "--epochs" else word for before, word in zip(["", *STUDY], STUDY)]
        process = start_job(3, *words, "--store", store, "--out", self.folder / "page.html")
        self.addCleanup(self.end, process)
        wait_until(lambda: (store / "checkpoints").is_dir() and any((store / "checkpoints").iterdir()))
        store.rename(self.folder / "away")
        done = Done(process, SECONDS)
        self.assertEqual(done.code, 1, done)
        self.assertEqual(done.err.count("no longer exists"), 1, done)
        self.good(alone("check", "--store", self.folder / "away"))

    def test_vanished_database(self):
        """Its folder stays, but what is written to the removed file would be lost."""
        for ranks in (1, 2):
            store = self.folder / f"runs-{ranks}"
            words = ["2000" if before == "--epochs" else word for before, word in zip(["", *STUDY], STUDY)]
            process = start_job(ranks, *words, "--store", store, "--out", self.folder / "page.html")
            self.addCleanup(self.end, process)
            wait_until(lambda store=store: (store / "checkpoints").is_dir() and any((store / "checkpoints").iterdir()))
            for file in store.glob("runs.db*"):
                file.unlink()
            done = Done(process, SECONDS)
            self.assertEqual(done.code, 1, done)
            self.assertEqual(done.err.count("no longer exists"), 1, done)


if __name__ == "__main__":
    unittest.main()
