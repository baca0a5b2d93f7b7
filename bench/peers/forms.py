"""Attention of many models in one batch, in several forms: which is the fastest depends on the length and on torch.compile.

A form is built for one mechanism and length, and maps queries, keys and values [N,T,D] (N = models times sequences, one
head) to the mixed values [N,T,D]. Every form computes what model.Attention computes:

    dense          scores of all pairs, a mask, softmax, product with the values
    fused          the same by scaled_dot_product_attention
    tiles          bands and blocks, linear in T: dense attention of short stretches of queries to the keys near them
    fused tiles    the same by scaled_dot_product_attention
    local          bands and blocks, linear in T, with elementwise operations alone: for torch.compile, which fuses them
    masked ...     top-k: a mask of the kept keys, then softmax over all
    scattered ...  top-k: softmax over the kept scores, scattered into a matrix for the product with the values
    kept ...       top-k: softmax over the kept scores, sum of the kept values
    ... topk       the kept keys by torch.topk
    ... maxima     the kept keys by taking the maximum k times"""
import math

import torch
from torch.nn import functional

from model import fixed_mask

TILE = 60  # queries; with the 4 further keys of banded:5 a tile has 64 keys


class Place:
    """For what a form is built."""

    def __init__(self, attention, length, width, dropout, device, dtype):
        self.kind, _, k = attention.partition(":")
        self.k, self.length, self.scale, self.dropout = int(k or 0), length, 1 / math.sqrt(width), dropout
        self.device, self.dtype = device, dtype

    def drop(self, x):
        return functional.dropout(x, self.dropout) if self.dropout else x

    def bias(self, forbidden):
        """0 where a key is kept, minus infinity elsewhere: added to the scores."""
        if forbidden is None:
            return None
        return torch.zeros(forbidden.shape, dtype=self.dtype).masked_fill(forbidden, -math.inf).to(self.device)


def attend_densely(place, q, k, v, bias):
    """[...,T,D]; bmm takes one leading dimension."""
    shape = q.shape
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    scores = torch.bmm(q * place.scale, k.mT)
    if bias is not None:
        scores = (scores.view(*shape[:-1], -1) + bias).view_as(scores)
    return torch.bmm(place.drop(scores.softmax(2)), v).view(shape)


def attend_fused(place, q, k, v, bias):
    """[N,H,T,D]; a tile is a head of its own."""
    return functional.scaled_dot_product_attention(q, k, v, bias, place.dropout, scale=place.scale)


def dense(place):
    bias = place.bias(fixed_mask(place.kind, place.k, place.length))
    return lambda q, k, v: attend_densely(place, q, k, v, bias)


def fused(place):
    bias = place.bias(fixed_mask(place.kind, place.k, place.length))
    bias = None if bias is None else bias.view(1, 1, place.length, place.length)
    return lambda q, k, v: attend_fused(place, *(x.unsqueeze(1) for x in (q, k, v)), bias).squeeze(1)


def tiled(attend):
    def build(place):
        T, k = place.length, place.k
        if T % TILE != 0 or T == TILE:
            return None
        before, after = ((k - 1) // 2, k - 1 - (k - 1) // 2) if place.kind == "banded" else (0, 0)
        keys = before + TILE + after
        forbidden = functional.pad(fixed_mask(place.kind, k, T), (before, after), value=True)
        bias = place.bias(torch.stack([forbidden[i:i + TILE, i:i + keys] for i in range(0, T, TILE)])).unsqueeze(0)

        def stretches(x):
            """[N,T,D] -> [N,tiles,keys,D], without a copy of the keys that two tiles share"""
            return functional.pad(x, (0, 0, before, after)).unfold(1, keys, TILE).mT

        def run(q, k, v):
            q = q.unflatten(1, (-1, TILE))
            return attend(place, q, stretches(k), stretches(v), bias).flatten(1, 2)
        return run
    return build


def local(place):
    return local_band(place) if place.kind == "banded" else local_blocks(place)


def local_band(place):
    """The k kept keys of a query are among the 2k-1 around it: the band is shifted inward at the ends."""
    T, reach = place.length, place.k - 1
    shifts = range(2 * reach + 1)
    forbidden = functional.pad(fixed_mask("banded", place.k, T), (reach, reach), value=True)
    bias = place.bias(torch.stack([forbidden.diagonal(shift) for shift in shifts], 1))  # [T,2k-1]

    def run(q, k, v):
        q = q * place.scale
        k, v = (functional.pad(x, (0, 0, reach, reach)) for x in (k, v))
        scores = torch.stack([(q * k[:, shift:shift + T]).sum(2) for shift in shifts], 2) + bias
        weights = place.drop(scores.softmax(2))
        return sum(weights[:, :, shift, None] * v[:, shift:shift + T] for shift in shifts)
    return run


def local_blocks(place):
    def run(q, k, v):
        q, k, v = (x.unflatten(1, (-1, place.k)) for x in (q * place.scale, k, v))
        scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(4)  # [N,blocks,k,k]
        weights = place.drop(scores.softmax(3))
        return (weights.unsqueeze(4) * v.unsqueeze(2)).sum(3).flatten(1, 2)
    return run


def by_topk(scores, k):
    return scores.topk(k, sorted=False).indices


def by_maxima(scores, k):
    """k times the place of the maximum, which is then taken out."""
    rest, found = scores.detach(), []
    columns = torch.arange(scores.shape[2], device=scores.device)
    if not torch.compiler.is_compiling():
        rest = rest.clone()
    for _ in range(k):
        found.append(rest.argmax(2, keepdim=True))
        if torch.compiler.is_compiling():
            rest = rest.masked_fill(columns == found[-1], -math.inf)
        else:
            rest.scatter_(2, found[-1], -math.inf)
    return torch.cat(found, 2)


def others(kept, scores):
    """True where a key is not kept."""
    if not torch.compiler.is_compiling():
        return torch.ones_like(scores, dtype=torch.bool).scatter_(2, kept, False)
    columns = torch.arange(scores.shape[2], device=scores.device)
    forbidden = columns != kept[:, :, 0, None]
    for i in range(1, kept.shape[2]):
        forbidden = forbidden & (columns != kept[:, :, i, None])
    return forbidden


def rows(x, index):
    """Row index[n,t] of x[n]."""
    return x.gather(1, index.unsqueeze(2).expand(-1, -1, x.shape[2]))


class MixKept(torch.autograd.Function):
    """The sum of the kept values; backward, the values' gradient is a product of matrices rather than atomic additions."""

    @staticmethod
    def forward(ctx, weights, values, kept):
        ctx.save_for_backward(weights, values, kept)
        return sum(weights[:, :, i, None] * rows(values, kept[:, :, i]) for i in range(kept.shape[2]))

    @staticmethod
    def backward(ctx, dmixed):
        weights, values, kept = ctx.saved_tensors
        dweights = torch.stack([(dmixed * rows(values, kept[:, :, i])).sum(2) for i in range(kept.shape[2])], 2)
        matrix = weights.new_zeros(*weights.shape[:2], values.shape[1]).scatter(2, kept, weights)
        return dweights, torch.bmm(matrix.mT, dmixed), None


def masked(select):
    def build(place):
        def run(q, k, v):
            scores = torch.bmm(q * place.scale, k.mT)
            kept = select(scores, place.k)
            return torch.bmm(place.drop(scores.masked_fill(others(kept, scores), -math.inf).softmax(2)), v)
        return run
    return build


def scattered(select):
    def build(place):
        def run(q, k, v):
            scores = torch.bmm(q * place.scale, k.mT)
            kept = select(scores, place.k)
            weights = place.drop(scores.gather(2, kept).softmax(2))
            return torch.bmm(torch.zeros_like(scores).scatter(2, kept, weights), v)
        return run
    return build


def sparse(select):
    def build(place):
        def run(q, k, v):
            scores = torch.bmm(q * place.scale, k.mT)
            kept = select(scores, place.k)
            return MixKept.apply(place.drop(scores.gather(2, kept).softmax(2)), v, kept)
        return run
    return build


FORMS = {"dense": dense, "fused": fused, "tiles": tiled(attend_densely), "fused tiles": tiled(attend_fused), "local": local,
         "masked topk": masked(by_topk), "masked maxima": masked(by_maxima),
         "scattered topk": scattered(by_topk), "scattered maxima": scattered(by_maxima),
         "kept topk": sparse(by_topk), "kept maxima": sparse(by_maxima)}
