"""Models of one shape and mechanism trained as one batch: the weights of model s are row s of one matrix.

The arithmetic is model.Model's; parameters come from such models and can be compared with theirs."""
import math

import torch
from torch.nn import functional

from forms import FORMS, Place
from step import CLIP, LEARNING_RATE

ALIGN = 32  # floats: every weight matrix begins at a multiple of 128 bytes


class Layout:
    """Where each parameter of a model lies in its row. Queries, keys and values have one weight matrix."""

    def __init__(self, model):
        self.pieces = [["embedding.weight"]]
        for i in range(len(model.encoder.transformer)):
            block = f"encoder.transformer.{i}."
            for names in (["attention.W_q", "attention.W_k", "attention.W_v"], ["attention.W_o"], ["ffn.0"], ["ffn.3"]):
                self.pieces += [[f"{block}{name}.{kind}" for name in names] for kind in ("weight", "bias")]
        self.pieces += [["linear.weight"], ["linear.bias"]]
        state = model.state_dict()
        self.shapes = [torch.cat([state[name] for name in names]).shape for names in self.pieces]
        used = [math.prod(shape) for shape in self.shapes]
        self.sizes = [size for n in used for size in (n, -n % ALIGN)]  # a piece, its padding, the next piece

    def row(self, model):
        state = model.state_dict()
        parts = [torch.cat([state[name] for name in names]).flatten() for names in self.pieces]
        return torch.cat([functional.pad(part, (0, -len(part) % ALIGN)) for part in parts])

    def views(self, flat):
        """[S,P] -> per piece [S,out,in], or [S,1,out] for a bias"""
        return [part.unflatten(1, shape if len(shape) == 2 else (1, *shape))
                for part, shape in zip(flat.split(self.sizes, 1)[::2], self.shapes)]


def linear(x, weight, bias):
    return torch.bmm(x, weight.mT) + bias


def make_losses(model, attention, form, dropout, device, dtype=torch.float32):
    """The function (weights [S,P], tokens [S,B,T], labels [S,B]) -> losses [S], None if the form does not fit."""
    layout, table = Layout(model), model.table.to(device, dtype)
    (T, C), V = table.shape, model.embedding.num_embeddings
    epsilons = [block.epsilon for block in model.encoder.transformer]
    place = Place(attention, T, C, dropout, device, dtype)
    attend, drop = FORMS[form](place), place.drop
    tokens_of_vocabulary = torch.arange(V, device=device)

    def norm(x, epsilon):
        return functional.layer_norm(x, (C,), eps=epsilon)

    def losses(flat, tokens, labels):
        S, B, _ = tokens.shape
        embedding, *weights, head, head_bias = layout.views(flat)
        # A product with rows of one 1: its gradient is a product too, where that of a lookup sorts or adds atomically.
        one_hot = (tokens.view(S, B * T, 1) == tokens_of_vocabulary).to(dtype)
        x = torch.bmm(one_hot, embedding).view(S, B, T, C) * math.sqrt(C) + table
        x = drop(x.view(S, B * T, C))
        for i, epsilon in enumerate(epsilons):
            qkv, qkv_bias, out, out_bias, up, up_bias, down, down_bias = weights[8 * i:8 * i + 8]
            q, k, v = linear(norm(x, epsilon), qkv, qkv_bias).view(S * B, T, 3, C).unbind(2)
            x = x + drop(linear(attend(q, k, v).reshape(S, B * T, C), out, out_bias))
            hidden = functional.relu(drop(linear(norm(x, 1e-5), up, up_bias)))
            x = x + drop(linear(hidden, down, down_bias))
        logits = linear(x.view(S, B, T, C).mean(2), head, head_bias)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(S, B).mean(1)
    return losses if attend else None


class Batch:
    """Models that are trained as one batch, and the sequences of a step."""

    def __init__(self, models, batches, device, dtype=torch.float32):
        layout = Layout(models[0])
        self.weights = torch.stack([layout.row(model) for model in models]).to(device, dtype).requires_grad_()
        self.tokens = torch.stack([tokens for tokens, _ in batches]).to(device)
        self.labels = torch.stack([labels for _, labels in batches]).to(device)

    def step(self, losses):
        """Forward, backward, each model's gradient clipped, update; returns the losses [S]."""
        found = losses(self.weights, self.tokens, self.labels)
        gradient, = torch.autograd.grad(found.sum(), self.weights)
        with torch.no_grad():
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            self.weights.addcmul_(gradient, (CLIP / (norm + 1e-6)).clamp(max=1), value=-LEARNING_RATE)
        return found.detach()
