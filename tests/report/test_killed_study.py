"""A study that is killed again and again ends in the same report, byte by byte, as one that was not interrupted.

The moments are random; their seed is printed, and $SEMFOCUS_SEED repeats them."""
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from page import MECHANISMS, PROGRAM, SETTINGS, TASKS, Page, run, without_times

KILLS = 5
SEEDS = 5
STUDY = (f"task = {', '.join(TASKS)}\nattention = {', '.join(MECHANISMS[:2])}\nseeds = {SEEDS}\nthreads = 2\n"
         "checkpoint-seconds = 0\nstore = runs\nout = report.html\nfigures = figures\n" +
         "".join(f"{name} = {value}\n" for name, value in {**SETTINGS, "epochs": 60, "train-count": 500}.items()))
COMMAND = ["study", "study.ini"]


class KilledStudy(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="semfocus-killed-")
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)

    def new_folder(self, name):
        """The same names in every one of them: the report contains its command."""
        folder = self.place / name
        folder.mkdir()
        (folder / "study.ini").write_text(STUDY, encoding="utf-8")
        return folder

    def finish(self, folder, *words):
        began = time.monotonic()
        result = run(*COMMAND, *words, cwd=folder, timeout=300)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return time.monotonic() - began

    def killed(self, folder, seconds):
        """Whether it was still running at that moment."""
        with subprocess.Popen([PROGRAM, *COMMAND], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
            err = process.communicate()[1]
            self.assertEqual(err, b"")
            return process.returncode < 0

    def same_report(self, folder, other):
        ours, theirs = (without_times((place / "report.html").read_bytes()) for place in (folder, other))
        if ours != theirs:  # a page is long: show where it begins to differ
            number = len(os.path.commonprefix([ours.splitlines(), theirs.splitlines()]))
            self.fail(f"line {number + 1}: {ours.splitlines()[number][:300]} is not {theirs.splitlines()[number][:300]}")

    def same(self, folder, other):
        """Report and figures; what a killed process was writing may lie beside them."""
        self.same_report(folder, other)
        names = sorted(os.listdir(other / "figures"))
        self.assertEqual(len(names), len(TASKS) * 4 * 2)
        self.assertEqual([name for name in sorted(os.listdir(folder / "figures")) if not re.search(r"\.semfocus-[0-9-]+\.part$", name)], names)
        for name in names:
            self.assertEqual((folder / "figures" / name).read_bytes(), (other / "figures" / name).read_bytes(), name)

    def test_killed_at_random_moments(self):
        seed = int(os.environ.get("SEMFOCUS_SEED", random.randrange(1 << 30)))
        print(f"SEMFOCUS_SEED={seed}")
        dice = random.Random(seed)
        other = self.new_folder("undisturbed")
        whole = self.finish(other)
        page = Page((other / "report.html").read_bytes())
        self.assertIn(f"{len(TASKS) * 2 * SEEDS} runs on {len(TASKS)} tasks", page.visible_text)
        longest = whole / (2 * KILLS)
        for attempt in range(4):  # it may get done before its last kill where the machine has become faster
            folder = self.new_folder(f"killed-{attempt}")
            moments = [dice.uniform(0, longest) for _ in range(KILLS)]
            if all([self.killed(folder, moment) for moment in moments]):
                break
            longest /= 2
        else:
            self.fail("it was never killed as often as it should be")
        print("killed after " + ", ".join(f"{moment:.3f}" for moment in moments) + f" of {whole:.3f} s")
        self.finish(folder)
        self.same(folder, other)
        checked = run("check", "--store", folder / "runs")
        self.assertEqual(checked.code, 0, checked)

    def test_killed_while_it_writes_the_report(self):
        seed = int(os.environ.get("SEMFOCUS_SEED", random.randrange(1 << 30)))
        print(f"SEMFOCUS_SEED={seed}")
        dice = random.Random(seed)
        other = self.new_folder("undisturbed")
        self.finish(other)
        folder = self.new_folder("killed")
        shutil.copytree(other / "runs", folder / "runs")
        shortest = min(self.finish(other) for _ in range(3))  # nothing is left to train
        for _ in range(20):
            self.killed(folder, dice.uniform(0, shortest))
            if (folder / "report.html").exists():  # whole or not there
                self.same_report(folder, other)
        self.finish(folder)
        self.same(folder, other)

    def test_killed_before_its_last_run(self):
        """With fewer runs left than threads all threads go into one run; the report must not differ."""
        text = STUDY.replace(", ".join(TASKS), TASKS[0]).replace(", ".join(MECHANISMS[:2]), MECHANISMS[0])
        folders = []
        for name, parts in (("undisturbed", [[]]), ("killed", [["--seeds", str(SEEDS - 1)], []])):
            folder = self.new_folder(name)
            (folder / "study.ini").write_text(text, encoding="utf-8")
            for words in parts:
                self.finish(folder, *words)
            folders.append(folder)
        self.same_report(*folders)


if __name__ == "__main__":
    unittest.main()
