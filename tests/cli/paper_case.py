"""What the tests of semfocus paper share."""
import json

from harness import StoreCase


class Paper(StoreCase):
    def paper(self, *words, **options):
        return self.good("paper", *words, "--store", self.store, **options)

    def listed(self, scale):
        rows = json.loads(self.paper("list", "--json", "--scale", scale).out)
        return {row["id"]: row for row in rows}

    def status(self, *words):
        rows = json.loads(self.paper("status", "--json", *words).out)
        return {(row["id"], row["scale"]): row for row in rows}

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
