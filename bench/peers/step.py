"""The shapes that are timed and one training step of one model, as a user of PyTorch writes it."""
import time

import torch
from torch import nn

from model import Model

SHAPES = {"nnch": {"length": 40, "blocks": 5, "vocabulary": 3, "classes": 2},
          "listops": {"length": 600, "blocks": 10, "vocabulary": 16, "classes": 10}}
MECHANISMS = ["full", "topk:5", "banded:5", "block:5"]
BATCH, WIDTH, DROPOUT, LEARNING_RATE, CLIP = 25, 64, 0.01, 0.1, 0.5


def padded(length, attention):
    """Lengths are multiples of the mechanism's k, as in the paper's recipe."""
    k = int(attention.split(":")[1]) if ":" in attention else 1
    return -(-length // k) * k


def new_model(shape, attention, dropout=DROPOUT):
    width, length = shape.get("width", WIDTH), padded(shape["length"], attention)
    return Model(shape["vocabulary"], shape["classes"], width, width, 1, shape["blocks"], attention, length, dropout)


def random_batch(shape, attention):
    """Tokens [B,T] and labels [B]."""
    batch, length = shape.get("batch", BATCH), padded(shape["length"], attention)
    return torch.randint(0, shape["vocabulary"] - 1, (batch, length)), torch.randint(0, shape["classes"], (batch,))


class Step:
    """A training step as a user writes it."""

    def __init__(self, model, tokens, labels, compiled=False):
        self.parameters = list(model.parameters())
        self.model = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.SGD(self.parameters, lr=LEARNING_RATE)
        self.tokens, self.labels = tokens, labels

    def run(self):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.tokens), self.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.optimizer.step()
        return loss

    def times(self, seconds):
        found, end = [], time.perf_counter() + seconds
        while len(found) < 2 or time.perf_counter() < end:
            start = time.perf_counter()
            self.run()
            found.append(1e3 * (time.perf_counter() - start))
        return found
