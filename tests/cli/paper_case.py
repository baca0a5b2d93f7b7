"""What the tests of semfocus paper share."""
import json
import re

from harness import StoreCase, seal


class Paper(StoreCase):
    def paper(self, *words, **options):
        return self.good("paper", *words, "--store", self.store, **options)

    def listed(self, scale):
        rows = json.loads(self.paper("list", "--json", "--scale", scale).out)
        return {row["id"]: row for row in rows}

    def status(self, *words):
        rows = json.loads(self.paper("status", "--json", *words).out)
        return {(row["id"], row["scale"]): row for row in rows}

    def assert_status_draws_the_same(self, folder, *words):
        again = self.folder / "again"
        self.paper("status", *words, "--figures", again)
        files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        self.assertTrue(files)
        self.assertEqual({path.relative_to(again): path.read_bytes() for path in again.rglob("*.*")}, files)

    def check_speedup_in_loss(self, found, ours, full):
        """Against a brute force over two median curves."""
        epochs = len(full)
        percent = max(100 * sum(ours[j] <= full[i] for j in range(i)) / (i + 1) for i in range(epochs))
        first = [next((j for j in range(epochs) if ours[j] <= full[i]), None) for i in range(epochs)]
        times = max(((i + 1) / (j + 1) for i, j in enumerate(first) if j is not None), default=None)
        differences = [a - b for a, b in zip(ours, full)]
        self.assertAlmostEqual(found["percent"], percent, 9)
        self.assertAlmostEqual(found["times"] or 0, times or 0, 9)
        self.assertAlmostEqual(found["largest_difference"], max(differences, key=abs), 9)
        self.assertAlmostEqual(found["largest_relative_difference"],
                               max((d / b for d, b in zip(differences, full)), key=abs), 9)


class StoredRuns(Paper):
    """Runs and measurements that are written into a store by hand instead of hours of training."""

    EPOCHS = {"even-pairs": 100, "missing-duplicate": 250, "stack-manipulation": 200}

    def plan(self, *words):
        """id, task, mechanism and seed of every run, as compare plans them."""
        out = self.good("compare", *words, "--dry-run", "--store", self.folder / "none", timeout=300).out  # it times epochs
        return re.findall(r"^([0-9a-f]{16})  (\S+) +(\S+) +seed (\d+)", out, re.M)

    def make_store(self):
        self.good("train", "even-pairs", "--length", "4", "--train-count", "4", "--heldout-count", "4", "--blocks", "1",
                  "--width", "4", "--mlp-width", "4", "--epochs", "1", "--quiet", "--store", self.store)

    def enter(self, planned, converged, heldout=lambda *_: 99.0, loss=None):
        """Runs that reach 100 % training accuracy, and a training loss of 0.1, at converged(task, mechanism, number of
        its seed); None: never. loss(...) gives the whole curve instead."""
        seeds = sorted({seed for *_, seed in planned})
        with seal.changed(self.store) as database:
            for run_id, task, mechanism, seed in planned:
                at, count = converged(task, mechanism, seeds.index(seed)), self.EPOCHS[task]
                accuracy = heldout(task, mechanism, seeds.index(seed))
                losses = loss(task, mechanism, seeds.index(seed)) if loss else \
                    [0.1 if at and e >= at else 1.0 for e in range(1, count + 1)]
                cursor = database.execute(
                    "INSERT INTO runs (id, task, attention, seed, status, settings, epochs, checkpoint_epoch, weights)"
                    " VALUES (?, ?, ?, ?, 'done', '{}', ?, ?, '00000000000000ab')",
                    (run_id, task, mechanism, int(seed), count, count))
                database.executemany("INSERT INTO epochs VALUES (?, ?, ?, ?, 1, ?, 1)",
                                     [(cursor.lastrowid, e, losses[e - 1], 100.0 if at and e >= at else 50.0, accuracy)
                                      for e in range(1, count + 1)])

    def measure(self, planned, values):
        with seal.changed(self.store) as database:
            for run_id, task, mechanism, _ in planned:
                number, = database.execute("SELECT number FROM runs WHERE id = ?", (run_id,)).fetchone()
                for name, value in values(task, mechanism).items():
                    database.execute("INSERT INTO findings VALUES (?, '00000000000000ab', ?, ?)", (number, name, value))
