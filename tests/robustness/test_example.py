"""The program extended as CONTRIBUTING.md says: its example selector `strided`, and a weighting that is not softmax."""
import os
import re
import subprocess
import unittest

from place import SMALL, StoreCase, last_wins, read_json

EXAMPLE = os.environ.get("SEMFOCUS_EXAMPLE")


@unittest.skipUnless(EXAMPLE, "SEMFOCUS_EXAMPLE names no program")
class Example(StoreCase):
    def example(self, *words):
        command = [EXAMPLE, *last_wins(map(str, [*words, "--store", self.store]))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout

    def run_of(self, attention, *words):
        return read_json(self.example("train", "even-pairs", *SMALL, "--epochs", 1, "--attention", attention, "--json",
                                      *words))[0]

    def test_every_verb_knows_the_selector(self):
        self.assertIn("strided:K[+global:G]", self.example("list", "attention"))
        for attention in ("strided:2", "strided:3+global:1", "strided:10", "strided:50"):  # length 10
            row = self.run_of(attention)
            self.assertEqual(row["attention"], attention)
            for verb in (["analyze", "--bounds", "--lipschitz", "--mask-stability", "--samples", 5], ["evaluate"],
                         ["landscape", "--grid", 3, "--samples", 5], ["export"], ["check"]):
                self.example(verb[0], row["id"], *verb[1:], *(["--json"] if verb[0] not in ("export", "check") else []))
        self.assertEqual(self.run_of("banded:50")["attention"], "full")

    def test_a_large_k_keeps_the_querys_own_key(self):
        """With k at the length and beyond it is the same mechanism as the smallest band, and not full attention."""
        own = self.run_of("banded:1", "--pad", "none")
        for k in (10, 50):
            row = self.run_of(f"strided:{k}", "--pad", "none")
            self.assertEqual(row["weights"], own["weights"])
        self.assertNotEqual(own["weights"], self.run_of("full", "--pad", "none")["weights"])

    def test_what_softmax_theory_says_is_not_said_of_another_weighting(self):
        own, soft, full = (self.run_of(name)["id"] for name in ("topk:3/sigmoid", "topk:3", "full"))
        both = read_json(self.example("analyze", own, soft, full, "--json", "--bounds", "--lipschitz", "--samples", 5))
        other, softmax, _ = both["runs"]
        for name in ("ln_xi", "ln_xi_s", "w", "x"):
            self.assertIn(name, softmax["overall"]["measures"])
            for block in (other["overall"], *other["blocks"]):
                self.assertNotIn(name, block["measures"])
        self.assertEqual(other["not_defined"], {"measures": ["ln_xi", "ln_xi_s", "w", "x"], "for_the_weighting": "sigmoid"})
        self.assertEqual((other["overall"]["holds_w"], other["overall"]["holds_x"]), (None, None))
        self.assertEqual(other["bounds"], {"not_defined": "Lipschitz bounds are not defined for the weighting sigmoid"})
        self.assertGreater(other["lipschitz"]["blocks"][0]["largest"], 0)
        self.assertIsNone(other["lipschitz"]["blocks"][0]["largest_over_bound"])
        for name in ("delta_s", "delta_h", "separation", "in_degree"):
            self.assertGreater(other["overall"]["measures"][name]["count"], 0)
        self.assertEqual([pair["sparse"] for pair in both["comparisons"]], [soft])

        text = self.example("analyze", own, full, "--bounds", "--samples", 5)
        self.assertEqual(len(re.findall("not defined for the weighting sigmoid", text)), 2, text)
        self.assertNotIn("below 1", text)

    def test_no_regions_of_another_weighting(self):
        for name in ("topk:3/sigmoid", "full"):
            self.run_of(name, "--every", 1)
        figures = self.folder / "figures"
        self.example("report", "--out", self.folder / "report.html", "--figures", figures)
        self.assertTrue(any(path.stem.endswith("dispersion") for path in figures.iterdir()))
        self.assertFalse([path for path in figures.iterdir() if "region" in path.name])
        self.run_of("topk:3", "--every", 1)
        self.example("report", "--out", self.folder / "report.html", "--figures", figures)
        regions = [path for path in figures.iterdir() if "region" in path.name and path.suffix == ".csv"]
        self.assertTrue(regions)
        for path in regions:
            self.assertNotIn("sigmoid", path.read_text())


if __name__ == "__main__":
    unittest.main()
