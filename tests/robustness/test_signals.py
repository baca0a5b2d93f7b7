"""Ctrl-C and similar signals: every verb ends soon, with 128 + the signal's number, and keeps what is worth keeping."""
import os
import pty
import signal
import subprocess
import time
import unittest

from place import GOLDEN, PROGRAM, TINY, StoreCase, last_wins, read_json, run

LONG = ["--blocks", 1, "--train-count", 2, "--heldout-count", 1, "--batch", 1, "--length", 65536, "--width", 16,
        "--mlp-width", 16]


class Signals(StoreCase):
    def start(self, *words, **options):
        words = last_wins([str(word) for word in words])
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([PROGRAM, *words], **options)  # pylint: disable=consider-using-with
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def end(self, process, sent):
        """What it says on standard error."""
        self.assertIsNone(process.poll(), process.args)
        process.send_signal(sent)
        _, err = process.communicate(timeout=60)  # the work that is stopped here takes minutes, or never ends
        self.assertEqual(process.returncode, 128 + sent, (process.args, err))
        return err.decode()

    def status(self):
        result = run("runs", "--store", self.store, "--json")
        return [row["status"] for row in read_json(result.out)] if result.code == 0 else []

    def wait_until_running(self, process):
        end = time.monotonic() + 60
        while "running" not in self.status():
            self.assertIsNone(process.poll(), process.stderr)
            self.assertLess(time.monotonic(), end, "it never began")
            time.sleep(0.05)

    def test_inside_a_step(self):
        """With 65,536 positions: a step of full attention takes minutes."""
        for sent, words in ((signal.SIGINT, ["--attention", "full"]), (signal.SIGTERM, ["--attention", "topk:40"]),
                            (signal.SIGHUP, ["--attention", "random:2000"]),
                            (signal.SIGINT, ["--attention", "full", "--threads", 1]),
                            (signal.SIGTERM, ["--attention", "block:4096"]),
                            (signal.SIGINT, ["--attention", "topp:0.9"]), (signal.SIGINT, ["--attention", "full/entmax15@rope"]),
                            # clusters and hashes are found before the first query, for hours
                            (signal.SIGTERM, ["--attention", "kmeans:65536:100"]), (signal.SIGINT, ["--attention", "lsh:65536:64"])):
            process = self.start("train", "even-pairs", *LONG, *words, "--store", self.store, "--quiet")
            self.wait_until_running(process)
            time.sleep(1)
            self.assertIn("repeat the command to continue", self.end(process, sent))
            self.assertNotIn("running", self.status())

    def test_a_stopped_step_changes_nothing(self):
        """Stopped at any moment, also in an evaluation, and taken up again it ends with the same bits."""
        words = ["train", "even-pairs", "--attention", "full,topk:3", "--length", 700, "--blocks", 2, "--train-count", 12,
                 "--batch", 4, "--heldout-count", 6, "--epochs", 3, "--checkpoint-seconds", 0, "--json"]
        expected = {row["attention"]: row["weights"]
                    for row in read_json(self.good(*words, "--store", self.folder / "undisturbed").out)}
        stopped = 0
        for moment in (0.15, 0.3, 0.45, 0.6, 0.8):
            process = self.start(*words, "--store", self.store)
            try:
                process.communicate(timeout=moment)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=60)
                stopped += process.returncode == 128 + signal.SIGINT
        self.assertGreater(stopped, 0)
        rows = read_json(self.good(*words, "--store", self.store).out)
        self.assertEqual({row["attention"]: row["weights"] for row in rows}, expected)
        self.good("check", "--store", self.store)

    def test_while_data_is_sampled(self):
        process = self.start("train", "listops", "--train-count", 10000000, "--store", self.store, "--quiet")
        time.sleep(1)
        self.end(process, signal.SIGINT)

    def test_while_measures_are_recorded(self):
        process = self.start("train", "even-pairs", *LONG, "--attention", "banded:3", "--every", 1, "--store", self.store,
                             "--quiet")
        self.wait_until_running(process)
        time.sleep(1)
        self.end(process, signal.SIGTERM)

    def test_verbs_with_nothing_to_keep(self):
        id, = self.train("full", "--length", 300, "--train-count", 2, "--heldout-count", 60)
        endless = "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n)"
        golden = sorted(GOLDEN.glob("*.safetensors"))
        for words in (["data", "listops", "--count", 10000000], ["solve", "parity", "-"], ["bench"],
                      ["runs", "--where", endless], ["report", "--where", endless, "--out", self.folder / "r.html"],
                      ["check", "--where", endless], ["evaluate", id, "--lengths", 30000, "--count", 1000],
                      ["analyze", id, "--lipschitz"], ["parity", *golden * 60]):
            store = ["--store", self.store] if words[0] not in ("data", "solve", "bench", "parity") else []
            for sent in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(words[:3], signal=sent):
                    process = self.start(*words, *store, stdin=subprocess.PIPE)
                    time.sleep(0.7)
                    self.assertEqual(self.end(process, sent), "")

    def test_surfaces_and_entries_of_the_paper(self):
        id, = self.train("topk:3")
        for words in (["landscape", id, "--grid", 401, "--samples", 0], ["paper", "run", "fig-7", "--scale", "paper"],
                      ["compare", "even-pairs", "--epochs", 100000, "--out", self.folder / "r.html"]):
            for sent in (signal.SIGINT, signal.SIGTERM):
                process = self.start(*words, "--store", self.store, "--quiet")
                time.sleep(1)
                self.assertIn("repeat the command to continue", self.end(process, sent))

    def test_half_a_file_is_not_left(self):
        """A signal while a file is written, and the left-overs of a process that was killed."""
        out = self.folder / "data.tsv"
        for sent in (signal.SIGTERM, signal.SIGKILL):
            process = self.start("data", "parity", "--count", 3000000, "--out", out)
            end = time.monotonic() + 60
            while not list(self.folder.glob("*.part")) and time.monotonic() < end:
                time.sleep(0.001)
            process.send_signal(sent)
            process.communicate(timeout=60)
            self.assertFalse(out.exists())
        self.assertEqual(len(list(self.folder.glob("*.part"))), 1)  # of the one that was killed
        others = [self.write(name, "x") for name in ("movie.123.part", "data.tsv.semfocus-.part", "a.semfocus-1-1.part.gz")]
        self.good("data", "parity", "--count", 3, "--out", self.folder / "other.tsv")
        self.assertEqual(sorted(self.folder.iterdir()), sorted([*others, self.folder / "other.tsv"]))

    def test_the_file_of_a_living_process_stays(self):
        process = self.start("data", "parity", "--count", 600000, "--out", self.folder / "long.tsv")
        end = time.monotonic() + 60
        while not list(self.folder.glob("*.part")) and time.monotonic() < end:
            time.sleep(0.001)
        self.good("data", "parity", "--count", 3, "--out", self.folder / "short.tsv")
        self.assertTrue((self.folder / "long.tsv").exists() or list(self.folder.glob("long.tsv.semfocus-*.part")))
        self.assertEqual(process.wait(120), 0)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["long.tsv", "short.tsv"])

    def test_a_reader_that_leaves(self):
        for words in (["data", "parity", "--count", 100000], ["man"], ["list", "--json"],
                      ["train", "even-pairs", *TINY, "--epochs", 100000, "--store", self.store]):
            process = self.start(*words, stdout=subprocess.PIPE)
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"", words)
            self.assertIn(process.wait(60), (128 + signal.SIGPIPE,) if words[0] in ("data", "train")
                          else (0, 128 + signal.SIGPIPE))

    def test_the_line_that_moves_is_cleared(self):
        ours, theirs = pty.openpty()
        process = self.start("train", "even-pairs", *TINY, "--epochs", 100000, "--store", self.store,
                             stderr=theirs, env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        shown = os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 128 + signal.SIGINT)
        while b"continue" not in shown:
            shown += os.read(ours, 1000)
        os.close(ours)
        self.assertIn(b"\r\x1b[K", shown)


if __name__ == "__main__":
    unittest.main()
