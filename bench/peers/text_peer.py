"""A causal character model of free text, trained by semfocus and by plain PyTorch: same shape, data, steps and threads, one
after the other, turn by turn; held-out losses, seconds and their ratio.

    python3 bench/peers/text_peer.py [--text FILE] [--bytes N] [--context 64] [--epochs 1] [--threads 2] [--rounds 1]

Without --text, the text is Debian's King James Bible (package bible-kjv). The PyTorch model is first checked to give the
held-out loss that semfocus stored for the same weights. Both evaluate the training and the held-out text after every epoch.
Each trains in a process of its own, so that no thread of one spins while the other works. Seconds of CPU are also given, because
they hold on a machine that is shared."""
import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional

from model import Model, read_safetensors

ROOT = Path(__file__).resolve().parents[2]
BATCH, RATE, CLIP, BYTES = 32, 1e-3, 1.0, 256


class CausalModel(Model):
    """Logits at every position, each from the tokens up to it."""

    def __init__(self, width, mlp, heads, blocks, length):
        super().__init__(BYTES + 1, BYTES, width, mlp, heads, blocks, "full", length)
        torch.nn.init.uniform_(self.embedding.weight, -0.1, 0.1)  # as the published model
        torch.nn.init.uniform_(self.linear.weight, -0.1, 0.1)
        torch.nn.init.zeros_(self.linear.bias)
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        for block in self.encoder.transformer:
            block.attention.register_buffer("mask", later, persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens) * self.embedding.embedding_dim ** 0.5 + self.table
        for block in self.encoder.transformer:
            x = block(x)
        return self.linear(x)


def bible():
    done = subprocess.run(["bible", "-f", "-l", "0", "gen1:1-rev22:21"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0 or len(done.stdout) < 4 << 20:
        sys.exit("the program 'bible' did not print 4 MB of text; install bible-kjv, or name a text with --text")
    return done.stdout


def split(text):
    """The last tenth of the lines is held out."""
    lines = text.splitlines(keepends=True)
    held = max(1, len(lines) // 10)
    return b"".join(lines[:-held]), b"".join(lines[-held:])


def pieces(text, context):
    ids = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    count = (len(ids) - 1) // context
    return ids[:count * context].view(count, context), ids[1:count * context + 1].view(count, context)


def mean_loss(model, tokens, labels):
    with torch.no_grad():
        total = sum(functional.cross_entropy(model(t).flatten(0, 1), y.flatten(), reduction="sum").item()
                    for t, y in zip(tokens.split(64), labels.split(64)))
    return total / labels.numel()


def train_pytorch(args, training, heldout):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = CausalModel(args.width, args.mlp_width, args.heads, args.blocks, args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    tokens, labels = training
    for _ in range(args.epochs):
        for rows in torch.randperm(len(tokens)).split(BATCH):
            batch_loss = functional.cross_entropy(model(tokens[rows]).flatten(0, 1), labels[rows].flatten())
            optimizer.zero_grad()
            batch_loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
        mean_loss(model, *training)  # semfocus reports it after every epoch
        loss = mean_loss(model, *heldout)
    return loss


def run_semfocus(args, *words):
    return subprocess.run([args.program, *map(str, words)], capture_output=True, check=True).stdout


def train_semfocus(args, path, store):
    row, = json.loads(run_semfocus(
        args, "train", f"text:{path}", "--readout", "each", "--causal", "--context", args.context, "--width", args.width,
        "--mlp-width", args.mlp_width, "--heads", args.heads, "--blocks", args.blocks, "--epochs", args.epochs, "--batch", BATCH,
        "--optimizer", "adamw", "--schedule", "constant", "--lr", RATE, "--clip", CLIP, "--dropout", 0, "--seed", args.seed,
        "--threads", args.threads, "--store", store, "--json"))
    return row


def cpu_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def timed(who, work, *values):
    start, used = time.monotonic(), cpu_seconds(who)
    result = work(*values)
    return result, time.monotonic() - start, cpu_seconds(who) - used


def timed_pytorch(args, training, heldout):
    """Without the start of Python and PyTorch."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(timed, (resource.RUSAGE_SELF, train_pytorch, args, training, heldout))


def check_same_loss(args, run, heldout, store):
    """The loss PyTorch gives for the weights that semfocus trained, against the one semfocus stored."""
    model = CausalModel(args.width, args.mlp_width, args.heads, args.blocks, args.context)
    model.load_state_dict(read_safetensors(run_semfocus(args, "export", run["id"], "--format", "safetensors", "--store", store)))
    ours, theirs = run["curve"][-1]["va-ce"], mean_loss(model, *heldout)
    if abs(ours - theirs) > 1e-4 * ours:
        sys.exit(f"the models differ: held-out loss {ours:.6f} in semfocus, {theirs:.6f} in PyTorch for the same weights")
    print(f"the same weights have held-out loss {ours:.6f} in semfocus and {theirs:.6f} in PyTorch")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build" / "semfocus")
    parser.add_argument("--text")
    for name, value in (("bytes", 0), ("context", 64), ("width", 64), ("mlp-width", 256), ("heads", 1), ("blocks", 2),
                        ("epochs", 1), ("threads", 2), ("rounds", 1), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    text = Path(args.text).read_bytes() if args.text else bible()
    text = text[:args.bytes or None]
    training, heldout = (pieces(part, args.context) for part in split(text))
    steps = args.epochs * -(-len(training[0]) // BATCH)
    print(f"{len(text)} bytes of text, {steps} steps of {BATCH} pieces of {args.context} characters; width {args.width}, MLP "
          f"{args.mlp_width}, heads {args.heads}, blocks {args.blocks}, {args.threads} threads")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_bytes(text)
        for turn in range(args.rounds):
            store = Path(folder) / f"runs{turn}"
            run, wall, used = timed(resource.RUSAGE_CHILDREN, train_semfocus, args, path, store)
            if turn == 0:
                check_same_loss(args, run, heldout, store)
            loss, peer_wall, peer_used = timed_pytorch(args, training, heldout)
            ours = run["curve"][-1]["va-ce"]
            print(f"semfocus: held-out loss {ours:.4f} in {wall:.1f} s, {used:.1f} s of CPU\n"
                  f"PyTorch:  held-out loss {loss:.4f} in {peer_wall:.1f} s, {peer_used:.1f} s of CPU\n"
                  f"loss {100 * (ours / loss - 1):+.2f} %, {peer_wall / wall:.1f} times faster, {peer_used / used:.1f} times less CPU",
                  flush=True)


if __name__ == "__main__":
    main()
