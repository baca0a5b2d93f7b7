"""Exported weights in PyTorch: they load into a module with the published names and give the loss that semfocus stored.

The module (bench/peers/model.py) is written from the model's description, not from our C code. Skipped where PyTorch is not installed."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
    from torch import nn
except ImportError:
    torch = None

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(os.environ.get("SEMFOCUS", ROOT / "build" / "semfocus")).resolve())

if torch:
    sys.path.insert(0, str(ROOT / "bench" / "peers"))
    from model import Model, read_safetensors


@unittest.skipUnless(torch, "PyTorch is not installed")
class Export(unittest.TestCase):
    def run_it(self, *words):
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=True).stdout

    def test_pytorch_computes_the_same_loss(self):
        torch.set_default_dtype(torch.float64)
        for attention in ("full", "topk:3", "banded:4", "block:4"):
            for heads in (1, 2):
                with self.subTest(attention=attention, heads=heads), tempfile.TemporaryDirectory() as store:
                    self.run_it("train", "even-pairs", "--length", 9, "--train-count", 200, "--heldout-count", 20, "--blocks", 2,
                                "--width", 12, "--mlp-width", 20, "--heads", heads, "--attention", attention, "--pad", "none",
                                "--epochs", 5, "--seed", 7, "--store", store, "--quiet")
                    row = json.loads(self.run_it("runs", "--store", store, "--json"))[0]
                    weights = read_safetensors(self.run_it("export", row["id"], "--store", store, "--format", "safetensors"))
                    model = Model(3, 2, 12, 20, heads, 2, attention, 9)
                    model.load_state_dict({name: value.double() for name, value in weights.items()})
                    lines = self.run_it("data", "even-pairs", "--length", 9, "--count", 200, "--seed", 7).decode().splitlines()[1:]
                    tokens = torch.tensor([[int(t) for t in line.split("\t")[0].split()] for line in lines])
                    labels = torch.tensor([int(line.split("\t")[1]) for line in lines])
                    with torch.no_grad():
                        logits = model(tokens)
                    last = self.run_it("export", row["id"], "--store", store).decode().splitlines()[-1].split(",")
                    self.assertAlmostEqual(nn.functional.cross_entropy(logits, labels).item(), float(last[1]), delta=2e-6)
                    self.assertAlmostEqual(100 * (logits.argmax(1) == labels).double().mean().item(), float(last[2]), delta=1e-6)


if __name__ == "__main__":
    unittest.main()
