"""A training step of attention alone (forward and backward): semfocus.torch beside what people write in PyTorch.

    python bench/peers/attention.py [--quick] [--threads N]

Needs torch and NumPy; takes the library of build/ unless the package is installed. Of every form the median of several
steps, turn by turn, so that a busy machine slows all of them alike. The forms:

    masked     all scores, those outside of the k largest set to minus infinity, softmax, product with the values
    gathered   the k largest scores, softmax over them, the kept values gathered: [T,k,D] per head
    sdpa       scaled_dot_product_attention, for full attention; for bands with a mask
    semfocus   the operator"""
import argparse
import math
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
try:
    import semfocus.torch
except ImportError:
    os.environ.setdefault("SEMFOCUS_LIBRARY", str(ROOT / "build" / "libsemfocus.so"))
    sys.path.insert(0, str(ROOT / "python"))
    import semfocus.torch
import torch
from torch.nn.functional import scaled_dot_product_attention

from semfocus._torch_model import plain_attention
from semfocus.torch import attention


def masked(q, k, v, mechanism):
    return plain_attention(q, k, v, mechanism, False, 1 / math.sqrt(q.shape[-1]))


def gathered(q, k, v, mechanism):
    kept, D = int(mechanism.partition(":")[2]), q.shape[-1]
    scores, keys = (q @ k.mT / math.sqrt(D)).topk(kept, sorted=False)
    heads = torch.arange(q.shape[1]).view(-1, 1, 1)
    return (scores[0].softmax(-1).unsqueeze(-2) @ v[0][heads, keys[0]]).squeeze(-2).unsqueeze(0)


def fused(q, k, v, mechanism):
    return scaled_dot_product_attention(q, k, v)


def fused_with_mask(q, k, v, mechanism):
    from semfocus._torch_model import _plain_mask
    kind, _, number = mechanism.partition(":")
    return scaled_dot_product_attention(q, k, v, _plain_mask(kind, int(number), q.shape[-2]))


FORMS = {"full": {"masked": masked, "sdpa": fused}, "topk": {"masked": masked, "gathered": gathered},
         "banded": {"masked": masked, "sdpa": fused_with_mask}}


def step(form, inputs, mechanism, weight):
    for x in inputs:
        x.grad = None
    begin = time.perf_counter()
    form(*inputs, mechanism).backward(weight)
    return 1000 * (time.perf_counter() - begin)


def compare(mechanism, T, heads, D, rounds):
    forms = {**FORMS[mechanism.partition(":")[0]], "semfocus": lambda q, k, v, m: attention(q, k, v, m)}
    torch.manual_seed(0)
    inputs = [torch.randn(1, heads, T, D, requires_grad=True) for _ in range(3)]
    weight = torch.randn(1, heads, T, D)
    times = {name: [] for name in forms}
    expected = None
    for turn in range(rounds + 1):
        for name, form in forms.items():
            try:
                taken = step(form, inputs, mechanism, weight)
            except RuntimeError as problem:  # out of memory
                times[name] = None
                print(f"  {name}: {problem}", file=sys.stderr)
                continue
            if turn > 0 and times[name] is not None:
                times[name].append(taken)
            if turn == 0:
                found = [x.grad.clone() for x in inputs]
                expected = expected or found
                assert all((a - b).abs().max() < 1e-3 for a, b in zip(found, expected)), name
    ours = statistics.median(times["semfocus"])
    words = [f"{name} {statistics.median(t):8.1f} ms ({statistics.median(t) / ours:4.1f} x)" for name, t in times.items() if t]
    print(f"{mechanism:10} T {T:5}  {heads} heads of {D}:  " + "   ".join(words), flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = arguments.parse_args()
    quick = given.quick
    torch.set_num_threads(given.threads)
    print(f"PyTorch {torch.__version__}, semfocus {semfocus.__version__}, {torch.get_num_threads()} threads; milliseconds "
          "per step, and how many times semfocus's")
    for T in (128,) if quick else (1024, 4096):
        for mechanism in ("topk:5", "topk:32", "banded:5", "full"):
            compare(mechanism, T, 4, 64, 1 if quick else 7 if T < 2000 else 3)


if __name__ == "__main__":
    main()
