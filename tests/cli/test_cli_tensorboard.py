"""Event files, read back with TensorBoard itself, and exports of many runs.

TensorBoard is looked for in this Python, then in build/tensorboard-venv, which ./dev test --full makes; without it, what needs
it is skipped. tests/test_io_tensorboard.c checks the bytes."""
import csv
import importlib.util
import io
import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from harness import PROGRAM, ROOT, TINY, Case, run

VENV = ROOT / "build" / "tensorboard-venv" / "bin" / "python"
READER = os.environ.get("SEMFOCUS_TENSORBOARD_PYTHON") or (
    sys.executable if importlib.util.find_spec("tensorboard") else str(VENV) if VENV.exists() else None)
needs_tensorboard = unittest.skipUnless(READER, "the package tensorboard is not installed")
EPOCH_TAGS = ["loss/train", "accuracy/train", "loss/heldout", "accuracy/heldout"]


def single(value):
    """As it is after a scalar was stored in single precision."""
    return struct.unpack("f", struct.pack("f", value))[0]


def read_board(folder):
    done = subprocess.run([READER, str(ROOT / "tests" / "cli" / "read_board.py"), str(folder)], capture_output=True, check=True, timeout=300)
    return json.loads(done.stdout)


def event_files(folder):
    return {str(path.relative_to(folder)): path for path in Path(folder).rglob("events.out.tfevents.*")}


class Board(Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.store, self.board = self.folder.name + "/runs", self.folder.name + "/board"

    def train(self, *words):
        return self.ok("train", "even-pairs", *TINY, "--seed", "1,2,3", "--attention", "full,topk:3", "--store", self.store, *words)

    def ok(self, *words):
        result = run(*words)
        self.assertEqual(result.code, 0, result)
        return result

    def export(self, *words):
        return self.ok("export", "--where", "1", "--store", self.store, *words)

    def curves(self):
        """Every run's rows by the csv of one run, which is a contract of its own."""
        rows = {}
        for stored in json.loads(self.ok("runs", "--store", self.store, "--json").out):
            text = self.ok("export", stored["id"], "--store", self.store).out
            rows[stored["id"]] = (stored, list(csv.DictReader(io.StringIO(text))))
        return rows

    @needs_tensorboard
    def test_tensorboard_reads_every_epoch_of_every_run(self):
        self.train("--every", "1", "--lr", "0.3", "--tensorboard", self.board)
        board = read_board(self.board)
        for run_id, (stored, rows) in self.curves().items():
            name, = [name for name in board if name.endswith(run_id)]
            self.assertIn(f"even-pairs/{stored['attention']},", name)
            self.assertIn("lr=0.3", name)
            scalars = board[name]["scalars"]
            for tag, column in zip(EPOCH_TAGS, ("tr-ce", "tr-ac", "va-ce", "va-ac")):
                steps, values = zip(*scalars[tag])
                self.assertEqual(list(steps), [1, 2])
                for value, row in zip(values, rows):
                    self.assertAlmostEqual(value, float(row[column]), delta=1e-6 * max(1, abs(value)))
            self.assertEqual([step for step, _ in scalars["measure/delta_s/median"]], [0, 1, 2])
            self.assertEqual(scalars["learning_rate"], [[1, single(0.3)], [2, single(0.3 * 0.9995)]])

    @needs_tensorboard
    def test_seeds_are_one_group_of_hparams(self):
        self.train("--tensorboard", self.board)
        groups = {}
        for name, content in read_board(self.board).items():
            if "seed-" not in name:
                self.assertEqual(content["hparams"], {})
                continue
            start = content["hparams"]["_hparams_/session_start_info"]["sessionStartInfo"]
            self.assertEqual(content["hparams"]["_hparams_/session_end_info"]["sessionEndInfo"]["status"], "STATUS_SUCCESS")
            self.assertNotIn("seed", start["hparams"])
            self.assertEqual(start["hparams"]["length"], 8)
            self.assertEqual(start["hparams"]["optimizer"], "sgd")
            groups.setdefault(start["groupName"], set()).add(start["hparams"]["attention"])
        self.assertEqual(sorted(map(sorted, groups.values())), [["full"], ["topk:3"]])

    @needs_tensorboard
    def test_medians_and_quartiles_per_mechanism(self):
        self.train("--tensorboard", self.board)
        board = read_board(self.board)
        by_mechanism = {}
        for stored, rows in self.curves().values():
            by_mechanism.setdefault(stored["attention"], []).append([float(row["va-ce"]) for row in rows])
        for mechanism, losses in by_mechanism.items():
            low, middle, high = ([statistics.quantiles(epoch, n=4, method="inclusive")[i] for epoch in zip(*losses)] for i in range(3))
            for leaf, expected in (("quartile-25", low), ("median", middle), ("quartile-75", high)):
                name, = [name for name in board if f"/{mechanism}," in name and name.endswith(leaf)]
                for (_, value), wanted in zip(board[name]["scalars"]["loss/heldout"], expected):
                    self.assertAlmostEqual(value, wanted, delta=1e-6)

    def test_repeating_adds_only_what_is_new(self):
        self.train("--tensorboard", self.board)
        before = {name: path.read_bytes() for name, path in event_files(self.board).items()}
        self.assertEqual(len(before), 6 + 2 * 3)
        self.train("--tensorboard", self.board)
        self.export("--format", "tensorboard", "--out", self.board)
        self.assertEqual({name: path.read_bytes() for name, path in event_files(self.board).items()}, before)
        self.train("--epochs", "4", "--tensorboard", self.board)
        for name, path in event_files(self.board).items():
            if "/seed-" in name:
                self.assertTrue(path.read_bytes().startswith(before[name]), name)
                self.assertGreater(path.stat().st_size, len(before[name]))

    def test_export_gives_the_same_bytes_as_training(self):
        self.train("--tensorboard", self.board)
        other = self.folder.name + "/other"
        self.export("--format", "tensorboard", "--out", other)
        written, exported = ({name: path.read_bytes() for name, path in event_files(folder).items()} for folder in (self.board, other))
        self.assertEqual(written, exported)

    def test_a_torn_file_is_mended(self):
        self.train("--tensorboard", self.board)
        path = next(path for name, path in event_files(self.board).items() if "/seed-" in name)
        whole = path.read_bytes()
        for size in (0, 1, 11, 12, 50, len(whole) // 2, len(whole) - 1):
            for tail in (b"", b"\0" * 4096):
                path.write_bytes(whole[:size] + tail)
                self.export("--format", "tensorboard", "--out", self.board)
                self.assertEqual(path.read_bytes(), whole, (size, tail[:1]))

    @needs_tensorboard
    def test_readable_whenever_the_process_is_killed(self):
        words = [PROGRAM, "train", "even-pairs", *TINY[:-2], "--epochs", "100000", "--store", self.store, "--tensorboard", self.board,
                 "--quiet", "--checkpoint-seconds", "1"]
        for attempt in range(2):
            with subprocess.Popen(words) as process:
                deadline = time.monotonic() + 120
                seen = sum(path.stat().st_size for path in event_files(self.board).values())
                while time.monotonic() < deadline and process.poll() is None:
                    time.sleep(0.2)
                    if sum(path.stat().st_size for path in event_files(self.board).values()) > seen + 1000:
                        break
                process.send_signal(signal.SIGKILL)
            (name, content), = read_board(self.board).items()
            steps = [step for step, _ in content["scalars"]["loss/train"]]
            self.assertEqual(steps, list(range(1, len(steps) + 1)), f"attempt {attempt}, {name}")

    def test_one_run_and_bad_requests(self):
        self.train()
        some = json.loads(self.ok("runs", "--store", self.store, "--json").out)[0]["id"]
        self.ok("export", some, "--format", "tensorboard", "--out", self.board, "--store", self.store)
        self.assertEqual(len(event_files(self.board)), 1)
        for words, part in ((("--format", "tensorboard"), "--out DIR"), (("--format", "safetensors"), "one run"),
                            ((), "--where"), ((some, "--where", "1"), "choose one")):
            where = () if words[:1] in ((), (some,)) else ("--where", "1")
            result = run("export", *words, *where, "--store", self.store)
            self.assertEqual(result.code, 2, result)
            self.assertIn(part, result.err)
        Path(self.folder.name, "file").write_text("", encoding="utf-8")
        result = run("export", some, "--format", "tensorboard", "--out", self.folder.name + "/file", "--store", self.store)
        self.assertEqual(result.code, 1, result)

    def test_csv_and_jsonl_of_many_runs(self):
        self.train("--lr", "0.3")
        rows = list(csv.DictReader(io.StringIO(self.export().out)))
        lines = [json.loads(line) for line in self.export("--format", "jsonl").out.splitlines()]
        curves = self.curves()
        self.assertEqual(len(rows), 6 * 2)
        for row, line in zip(rows, lines):
            stored, expected = curves[row["run"]]
            epoch = expected[int(row["epoch"]) - 1]
            self.assertEqual({name: row[name] for name in epoch}, epoch)
            self.assertEqual((row["task"], row["attention"], int(row["seed"]), row["lr"], row["blocks"], row["status"]),
                             ("even-pairs", stored["attention"], stored["seed"], "0.3", "1", "done"))
            self.assertEqual(list(line), list(row))
            self.assertEqual((line["lr"], line["seed"], line["optimizer"]), (0.3, stored["seed"], "sgd"))
        self.export("--out", self.folder.name + "/curves.csv")
        self.assertEqual(Path(self.folder.name, "curves.csv").read_text(encoding="utf-8"), self.export().out)


if __name__ == "__main__":
    unittest.main()
