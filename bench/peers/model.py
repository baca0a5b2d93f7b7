"""The model in plain PyTorch, as a user would write it from its description: every mechanism is a mask on dense scores.

Parameters have the published names, so that weights exported by semfocus load into it."""
import json
import math

import torch
from torch import nn
from torch.nn import functional


def fixed_mask(kind, k, length):
    """True where query i may not look at key j."""
    i, j = torch.arange(length).unsqueeze(1), torch.arange(length).unsqueeze(0)
    if kind == "banded":
        first = (i - (k - 1) // 2).clamp(0, max(0, length - k))
        return (j < first) | (j >= first + k)
    if kind == "block":
        return i // k != j // k
    return None


class Attention(nn.Module):
    def __init__(self, width, heads, attention, length, dropout):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(width, heads * width) for _ in range(3))
        self.W_o = nn.Linear(heads * width, width)
        self.width, self.heads, self.dropout = width, heads, nn.Dropout(dropout)
        self.kind, _, k = attention.partition(":")
        self.k = int(k or 0)
        self.register_buffer("mask", fixed_mask(self.kind, self.k, length), persistent=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (w(x).view(batch, length, self.heads, self.width).transpose(1, 2)
                   for w in (self.W_q, self.W_k, self.W_v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.width)
        if self.mask is not None:
            scores = scores.masked_fill(self.mask, -math.inf)
        if self.kind == "topk":
            kept = scores.topk(self.k).indices
            scores = torch.full_like(scores, -math.inf).scatter(3, kept, scores.gather(3, kept))
        mixed = self.dropout(scores.softmax(3)) @ v
        return self.W_o(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, width, mlp, heads, attention, length, first, dropout):
        super().__init__()
        self.attention = Attention(width, heads, attention, length, dropout)
        self.ffn = nn.Sequential(nn.Linear(width, mlp), nn.Dropout(dropout), nn.ReLU(), nn.Linear(mlp, width))
        self.epsilon, self.dropout = 0.0 if first else 1e-5, nn.Dropout(dropout)

    def forward(self, x):
        shape = x.shape[-1:]
        x = x + self.dropout(self.attention(functional.layer_norm(x, shape, eps=self.epsilon)))
        return x + self.dropout(self.ffn(functional.layer_norm(x, shape, eps=1e-5)))


class Model(nn.Module):
    def __init__(self, vocabulary, classes, width, mlp, heads, blocks, attention, length, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.Module()
        self.encoder.transformer = nn.ModuleList(
            Block(width, mlp, heads, attention, length, i == 0, dropout) for i in range(blocks))
        self.linear = nn.Linear(width, classes)
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(length).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(length, width)
        table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("table", table, persistent=False)

    def forward(self, tokens):
        x = self.dropout(self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim) + self.table)
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
