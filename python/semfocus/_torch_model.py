"""The models of semfocus as PyTorch modules, with the published names of their weights."""
from __future__ import annotations

import math
import os
from typing import Any, Sequence

import torch
from torch import nn
from torch.nn import functional

from ._safetensors import read_safetensors

ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu, "mish": functional.mish}


def _plain_mask(kind: str, k: int, length: int) -> torch.Tensor | None:
    """True where query i keeps key j; None: all, or those of the largest scores."""
    i, j = torch.arange(length).unsqueeze(1), torch.arange(length).unsqueeze(0)
    if kind == "banded":
        first = (i - (k - 1) // 2).clamp(0, max(0, length - k))
        return (j >= first) & (j < first + k)
    return i // k == j // k if kind == "block" else None


def plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mechanism: str, causal: bool,
                    scale: float) -> torch.Tensor:
    """full, topk:K, banded:K and block:K in PyTorch's own operations, for every device."""
    kind, _, number = mechanism.partition(":")
    if kind not in ("full", "topk", "banded", "block") or (number and not number.isdigit()):
        raise ValueError(f"{mechanism!r} has no form in plain PyTorch here; leave out plain=True to compute it with semfocus")
    T = q.shape[-2]
    scores = scale * q @ k.mT
    mask = _plain_mask(kind, int(number or 0), T)
    visible = torch.ones(T, T, dtype=torch.bool, device=q.device).tril() if causal else None
    for hidden in (mask, visible):
        if hidden is not None:
            scores = scores.masked_fill(~hidden.to(q.device), -math.inf)
    if kind == "topk" and int(number) < T:
        kept = scores.topk(int(number), sorted=False).indices
        scores = torch.full_like(scores, -math.inf).scatter(-1, kept, scores.gather(-1, kept))
    return scores.softmax(-1) @ v


class _Attention(nn.Module):
    def __init__(self, facts: "_Facts"):
        super().__init__()
        inner = facts.heads * facts.head_width
        self.W_q, self.W_k, self.W_v = (nn.Linear(facts.width, inner) for _ in range(3))
        self.W_o = nn.Linear(inner, facts.width)
        self.facts = facts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        facts = self.facts
        q, k, v = (w(x).unflatten(-1, (facts.heads, facts.head_width)).transpose(1, 2)
                   for w in (self.W_q, self.W_k, self.W_v))
        if facts.plain:
            mixed = plain_attention(q, k, v, facts.attention, facts.causal, facts.score_scale)
        else:
            from .torch import attention
            mixed = attention(q, k, v, facts.attention, is_causal=facts.causal, scale=facts.score_scale)
        return self.W_o(mixed.transpose(1, 2).flatten(2))


class _Block(nn.Module):
    def __init__(self, facts: "_Facts", first: bool):
        super().__init__()
        self.attention = _Attention(facts)
        self.ffn = nn.ModuleDict({"0": nn.Linear(facts.width, facts.mlp_width), "3": nn.Linear(facts.mlp_width, facts.width)})
        self.epsilon = facts.first_epsilon if first else facts.epsilon
        self.facts = facts

    def _mlp(self, x: torch.Tensor) -> torch.Tensor:
        return self.ffn["3"](ACTIVATIONS[self.facts.activation](self.ffn["0"](x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape, after = x.shape[-1:], self.facts.epsilon
        if self.facts.norm == "pre":
            x = x + self.attention(functional.layer_norm(x, shape, eps=self.epsilon))
            return x + self._mlp(functional.layer_norm(x, shape, eps=after))
        x = functional.layer_norm(x + self.attention(x), shape, eps=self.epsilon)
        return functional.layer_norm(x + self._mlp(x), shape, eps=after)


class _Facts:
    """The metadata of exported weights, checked."""

    def __init__(self, metadata: dict[str, str], plain: bool):
        def fact(name: str, kind: Any = int) -> Any:
            if name not in metadata:
                raise ValueError(f"the metadata of the weights lacks {name!r}; export them again with this version")
            return kind(metadata[name])

        def one_of(name: str, *known: str) -> str:
            value = fact(name, str)
            if value not in known:
                raise ValueError(f"{name} is {value!r}, which this module cannot build; it knows {', '.join(known)}")
            return value
        one_of("model", "semfocus 1")
        one_of("position-encoding", "sinusoidal")
        one_of("norm-affine", "no")
        self.readout, self.norm = one_of("readout", "mean", "last", "cls", "each"), one_of("norm", "pre", "post")
        self.activation, self.attention = one_of("activation", *ACTIVATIONS), fact("attention", str)
        self.width, self.heads, self.head_width = fact("width"), fact("heads"), fact("head-width")
        self.blocks, self.mlp_width, self.classes = fact("blocks"), fact("mlp-width"), fact("classes")
        self.tokens, self.globals, self.pad = fact("tokens"), fact("globals"), fact("pad")
        self.positions, self.base = fact("positions"), fact("position-base", float)
        self.epsilon, self.first_epsilon = fact("epsilon", float), fact("epsilon-first-attention-norm", float)
        self.embedding_scale, self.score_scale = fact("embedding-scale", float), fact("score-scale", float)
        self.causal, self.tied = one_of("causal", "yes", "no") == "yes", one_of("tie-weights", "yes", "no") == "yes"
        self.plain = plain


class _TiedHead(nn.Module):
    """All that a head has of its own if its weights are those of the embedding."""

    def __init__(self, classes: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))


class Model(nn.Module):
    """A model of semfocus in PyTorch, without dropout. It reads tokens as ``lay_out`` writes them and gives logits.

    >>> import torch, semfocus
    >>> from semfocus.torch import Model
    >>> run = semfocus.Store(STORE).run("topk")
    >>> model = Model.from_run(run)
    >>> tokens = [[0, 1, 0], [1, 1, 1, 0]]
    >>> logits = model(model.lay_out(tokens))
    >>> torch.allclose(logits, torch.tensor(run.predict(tokens)), atol=1e-5)
    True
    """

    def __init__(self, metadata: dict[str, str], *, plain: bool = False):
        super().__init__()
        self.facts = facts = _Facts(metadata, plain)
        self.embedding = nn.Embedding(facts.tokens, facts.width)
        self.encoder = nn.Module()
        self.encoder.transformer = nn.ModuleList(_Block(facts, i == 0) for i in range(facts.blocks))
        self.linear = _TiedHead(facts.classes) if facts.tied else nn.Linear(facts.width, facts.classes)
        position = torch.arange(facts.positions, dtype=torch.float64).unsqueeze(1)
        rate = torch.exp(torch.arange(0, facts.width, 2, dtype=torch.float64) * (-math.log(facts.base) / facts.width))
        table = torch.zeros(facts.positions, facts.width, dtype=torch.float64)
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)[:, :facts.width // 2]
        self.register_buffer("table", table.float(), persistent=False)

    @classmethod
    def from_run(cls, run: Any, at: str = "last", *, plain: bool = False) -> "Model":
        """The model of a stored run. ``plain=True``: attention in PyTorch's own operations (full, topk, banded, block),
        for other devices; otherwise it is computed by semfocus, every mechanism alike."""
        weights, metadata = run.export(at)
        return cls._with(weights, metadata, plain)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, plain: bool = False) -> "Model":
        """The model of a file that 'semfocus export --format safetensors' wrote."""
        return cls._with(*read_safetensors(path), plain)

    @classmethod
    def _with(cls, weights: dict[str, Any], metadata: dict[str, str], plain: bool) -> "Model":
        tied = "no" if "linear.weight" in weights else "yes"  # for files of versions that did not say it
        model = cls({"tie-weights": tied, **metadata}, plain=plain)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        return model

    def lay_out(self, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
        """CLS, tokens, padding and global tokens, [B, positions]."""
        facts = self.facts
        begin = [facts.pad + 1 + facts.globals] if facts.readout == "cls" else []
        room = facts.positions - facts.globals - len(begin)
        ends = [facts.pad + 1 + g for g in range(facts.globals)]
        for sequence in sequences:
            if not 1 <= len(sequence) <= room or not all(0 <= token <= facts.pad for token in sequence):
                raise ValueError(f"a sequence has 1 to {room} tokens, each 0 to {facts.pad}")
        rows = [begin + list(s) + [facts.pad] * (room - len(s)) + ends for s in sequences]
        return torch.tensor(rows, dtype=torch.long).reshape(len(rows), facts.positions)

    def _head(self, x: torch.Tensor) -> torch.Tensor:
        if not self.facts.tied:
            return self.linear(x)
        return functional.linear(x, self.embedding.weight[:self.facts.classes], self.linear.bias)

    def forward(self, tokens: torch.Tensor, last: torch.Tensor | None = None) -> torch.Tensor:
        """Logits [B, classes], or [B, positions, classes] for the readout "each". ``last`` is the position that the readout
        "last" reads, by default the last before the padding."""
        if tokens.dim() != 2 or tokens.shape[1] != self.facts.positions:
            raise ValueError(f"tokens have the shape {tuple(tokens.shape)} but must be [B, {self.facts.positions}]; "
                             "lay_out() makes them from sequences")
        x = self.embedding(tokens) * self.facts.embedding_scale + self.table
        for block in self.encoder.transformer:
            x = block(x)
        if self.facts.readout == "mean":
            return self._head(x.mean(1))
        if self.facts.readout == "each":
            return self._head(x)
        if self.facts.readout == "cls":
            return self._head(x[:, 0])
        if last is None:
            room = self.facts.positions - self.facts.globals
            places = torch.arange(room, device=tokens.device)
            last = torch.where(tokens[:, :room] != self.facts.pad, places, 0).amax(1)
        return self._head(x[torch.arange(len(x), device=x.device), last])
