"""A backend that computes only full attention: the CPU does the rest, the user is told, and the results are the same."""
import json
import os
import sqlite3
import subprocess
import tempfile
import unittest

from place import PROGRAM

PARTIAL = os.environ.get("SEMFOCUS_PARTIAL")
COMPARE = ["compare", "even-pairs", "--attention", "full,topk:5,banded:5", "--seeds", "2", "--length", "10", "--width", "8",
           "--mlp-width", "8", "--blocks", "1", "--train-count", "50", "--heldout-count", "20", "--epochs", "2"]
NOTE = "semfocus: note: backend full-only has no kernel for {}; it is computed on the CPU instead\n"


@unittest.skipUnless(PARTIAL, "SEMFOCUS_PARTIAL names no program")
class PartialBackend(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compare(self, program, store, *options):
        return subprocess.run([program, *COMPARE, "--store", f"{self.folder.name}/{store}", "--out",
                               f"{self.folder.name}/{store}.html", *options],
                              capture_output=True, text=True, timeout=120, check=False)

    def results(self, store):
        with sqlite3.connect(f"{self.folder.name}/{store}/runs.db") as database:
            return (database.execute("SELECT id, status, weights FROM runs ORDER BY id").fetchall(),
                    database.execute("SELECT runs.id, epoch, tr_ce, va_ce FROM epochs JOIN runs ON run = number"
                                     " ORDER BY runs.id, epoch").fetchall())

    def test_the_cpu_does_the_rest_and_says_so_once(self):
        partial, whole = self.compare(PARTIAL, "partial"), self.compare(PROGRAM, "whole")
        self.assertEqual((partial.returncode, whole.returncode), (0, 0), partial.stderr + whole.stderr)
        self.assertEqual(self.results("partial"), self.results("whole"))
        self.assertEqual(len(self.results("partial")[1]), 12)
        for mechanism in ("topk:5", "banded:5"):
            self.assertEqual(partial.stderr.count(NOTE.format(mechanism)), 1, partial.stderr)
        self.assertNotIn("note", whole.stderr)
        self.assertNotIn("note", partial.stdout)

    def test_json_stays_json_and_quiet_stays_quiet(self):
        result = self.compare(PARTIAL, "json", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        json.loads(result.stdout)
        self.assertIn(NOTE.format("topk:5"), result.stderr)
        self.assertEqual(self.compare(PARTIAL, "quiet", "--quiet").stderr, "")


if __name__ == "__main__":
    unittest.main()
