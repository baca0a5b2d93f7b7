"""10,000 runs of 200 epochs: listed, reported and compared without training and without much memory; ./dev bench measures how fast."""
import json
import os
import sqlite3
import tempfile
import unittest
from pathlib import Path

import big_store
from page import Page

MOST_MEGABYTES = 500


@unittest.skipIf(os.environ.get("SEMFOCUS_SANITIZED"), "a sanitizer takes memory and time of its own")
class BigStore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="semfocus-big-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        big_store.make(cls.folder)

    def cost(self, name):
        before = self.facts()
        cost = big_store.Cost(self.folder, big_store.COMMANDS[name])
        print(f"{name}: {cost.megabytes:.1f} MB")
        self.assertEqual((cost.code, cost.err), (0, ""))
        self.assertEqual(self.facts(), before, "it changed the store")
        self.assertLess(cost.megabytes, MOST_MEGABYTES)
        return cost

    def facts(self):
        """What any training would change."""
        with sqlite3.connect(self.folder / "runs" / "runs.db") as database:
            runs = database.execute("SELECT COUNT(*), SUM(epochs), SUM(converged_epoch), MIN(status), MAX(status) FROM runs")
            epochs = database.execute("SELECT COUNT(*), SUM(tr_ac), SUM(tr_ce) FROM epochs")
            return runs.fetchone(), epochs.fetchone(), len(os.listdir(self.folder / "runs" / "checkpoints"))

    def check_page(self):
        page = Page((self.folder / "report.html").read_bytes())
        self.assertEqual(list(page.sections), ["even-pairs", "parity"])
        for task in page.sections:
            rows = page.rows(task)
            self.assertEqual([row[:2] for row in rows], [[name, "1000/1000"] for name in big_store.MECHANISMS])
        self.assertEqual(len(page.verdicts()), 8)

    def test_runs(self):
        cost = self.cost("runs")
        self.assertGreaterEqual(cost.out.count("\n"), 10000)

    def test_report(self):
        self.cost("report")
        self.check_page()

    def test_compare(self):
        cost = self.cost("compare")
        self.assertIn("10000 of 10000 runs were already done", cost.out)
        self.check_page()

    def test_both_say_the_same(self):
        said = [json.loads(big_store.run(self.folder, [*big_store.COMMANDS[name], "--json"])) for name in ("report", "compare")]
        self.assertEqual(*said)
        with sqlite3.connect(self.folder / "runs" / "runs.db") as database:
            for row in said[0]:
                reached, = database.execute("SELECT COUNT(converged_epoch) FROM runs WHERE task = ? AND attention = ?",
                                            (row["task"], row["variant"])).fetchone()
                self.assertEqual((row["finished"], row["converged"]), (1000, reached))


if __name__ == "__main__":
    unittest.main()
