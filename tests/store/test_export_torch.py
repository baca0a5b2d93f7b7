"""Exported weights in PyTorch: they load into a module with the published names and give the loss that semfocus stored.

The module is written from the model's description, not from our C code. Skipped where PyTorch is not installed."""
import json
import math
import os
import subprocess
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
    class Attention(nn.Module):
        def __init__(self, width, heads, k):
            super().__init__()
            self.W_q, self.W_k, self.W_v = (nn.Linear(width, heads * width) for _ in range(3))
            self.W_o = nn.Linear(heads * width, width)
            self.width, self.heads, self.k = width, heads, k

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = (w(x).view(batch, length, self.heads, self.width).transpose(1, 2)
                       for w in (self.W_q, self.W_k, self.W_v))
            scores = q @ k.transpose(2, 3) / math.sqrt(self.width)
            if self.k:
                kept = scores.topk(self.k).indices
                scores = torch.full_like(scores, -math.inf).scatter(3, kept, scores.gather(3, kept))
            mixed = scores.softmax(3) @ v
            return self.W_o(mixed.transpose(1, 2).reshape(batch, length, -1))

    class Block(nn.Module):
        def __init__(self, width, mlp, heads, k, first):
            super().__init__()
            self.attention = Attention(width, heads, k)
            self.ffn = nn.Sequential(nn.Linear(width, mlp), nn.Identity(), nn.ReLU(), nn.Linear(mlp, width))
            self.epsilon = 0.0 if first else 1e-5

        def forward(self, x):
            shape = x.shape[-1:]
            x = x + self.attention(nn.functional.layer_norm(x, shape, eps=self.epsilon))
            return x + self.ffn(nn.functional.layer_norm(x, shape, eps=1e-5))

    class Model(nn.Module):
        def __init__(self, vocabulary, classes, width, mlp, heads, blocks, k):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.encoder = nn.Module()
            self.encoder.transformer = nn.ModuleList(Block(width, mlp, heads, k, i == 0) for i in range(blocks))
            self.linear = nn.Linear(width, classes)

        def forward(self, tokens):
            width = self.embedding.embedding_dim
            x = self.embedding(tokens) * math.sqrt(width)
            position = torch.arange(tokens.shape[1]).unsqueeze(1)
            rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
            table = torch.zeros(tokens.shape[1], width, dtype=x.dtype)
            table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
            x = x + table
            for block in self.encoder.transformer:
                x = block(x)
            return self.linear(x.mean(1))


def read_safetensors(content):
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + at for at in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(content[begin:end]), dtype=torch.float32).view(entry["shape"])
    return tensors


@unittest.skipUnless(torch, "PyTorch is not installed")
class Export(unittest.TestCase):
    def run_it(self, *words):
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=True).stdout

    def test_pytorch_computes_the_same_loss(self):
        torch.set_default_dtype(torch.float64)
        for attention, k in (("full", None), ("topk:3", 3)):
            for heads in (1, 2):
                with self.subTest(attention=attention, heads=heads), tempfile.TemporaryDirectory() as store:
                    self.run_it("train", "even-pairs", "--length", 9, "--train-count", 200, "--heldout-count", 20, "--blocks", 2,
                                "--width", 12, "--mlp-width", 20, "--heads", heads, "--attention", attention, "--pad", "none",
                                "--epochs", 5, "--seed", 7, "--store", store, "--quiet")
                    row = json.loads(self.run_it("runs", "--store", store, "--json"))[0]
                    weights = read_safetensors(self.run_it("export", row["id"], "--store", store, "--format", "safetensors"))
                    model = Model(3, 2, 12, 20, heads, 2, k)
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
