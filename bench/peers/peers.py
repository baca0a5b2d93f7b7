"""A training step of semfocus compared with the same step in PyTorch: same shape, mechanism, batch and threads, on the same
machine, alternately; medians and their ratio.

    python3 bench/peers/peers.py [--shape nnch] [--attention full,topk:5] [--threads 2] [--rounds 5] [--no-compile]

PyTorch runs eagerly and under torch.compile. The PyTorch model is first checked to give the loss that semfocus stored for
the same weights. 'published' is the time of the paper's code on two threads of a Xeon with AVX-512 and AMX (torch 2.11);
the bar is the slower of the two divided by our target factor."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = {("nnch", "full"): (27.2, 5), ("nnch", "topk:5"): (43.7, 8), ("nnch", "banded:5"): (35.0, None),
             ("nnch", "block:5"): (36.3, None), ("listops", "full"): (2943, 6), ("listops", "topk:5"): (3330, 12),
             ("listops", "banded:5"): (2738, 20), ("listops", "block:5"): (2901, 20)}


def check_same_loss(program, attention):
    """The loss PyTorch gives for weights trained by semfocus, against the one semfocus stored."""
    length = padded(20, attention)
    size = ["--length", str(length), "--blocks", "2", "--train-count", "200", "--heldout-count", "20", "--seed", "7"]

    def run(*words):
        return subprocess.run([program, *words], capture_output=True, check=True).stdout

    with tempfile.TemporaryDirectory() as store:
        run("train", "even-pairs", *size, "--attention", attention, "--epochs", "3", "--store", store, "--quiet")
        name = json.loads(run("runs", "--store", store, "--json"))[0]["id"]
        weights = read_safetensors(run("export", name, "--store", store, "--format", "safetensors"))
        stored = float(run("export", name, "--store", store).decode().splitlines()[-1].split(",")[1])
    lines = run("data", "even-pairs", "--length", str(length), "--count", "200", "--seed", "7").decode().splitlines()[1:]
    tokens = torch.tensor([[int(t) for t in line.split("\t")[0].split()] for line in lines])
    labels = torch.tensor([int(line.split("\t")[1]) for line in lines])
    model = Model(3, 2, WIDTH, WIDTH, 1, 2, attention, length)
    model.load_state_dict(weights)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(tokens), labels).item()
    if abs(loss - stored) > 1e-5 * abs(stored):
        sys.exit(f"{attention}: PyTorch gives loss {loss} where semfocus stored {stored}: not the same model")
    return f"{attention}: loss {loss:.7f}, semfocus {stored:.7f}"


def new_step(shape, attention, compiled):
    torch.manual_seed(1)
    return Step(new_model(SHAPES[shape], attention), *random_batch(SHAPES[shape], attention), compiled)


def semfocus_times(program, shape, attention, threads):
    words = [program, "bench", shape, attention, "--threads", str(threads), "--json"]
    row = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)[0]
    return [row["ms_per_step"]], row


def compare(program, shape, attention, options):
    eager = new_step(shape, attention, False)
    compiled = None if options.no_compile else new_step(shape, attention, True)
    for step in filter(None, (eager, compiled)):  # to warm up, and to compile
        for _ in range(2):
            step.run()
    ours, theirs, theirs_compiled = [], [], []
    for _ in range(options.rounds):
        found, row = semfocus_times(program, shape, attention, options.threads)
        ours += found
        theirs += eager.times(options.seconds)
        if compiled:
            theirs_compiled += compiled.times(options.seconds)
    mine, plain = statistics.median(ours), statistics.median(theirs)
    published, factor = PUBLISHED.get((shape, attention), (None, None))
    result = {"shape": shape, "attention": attention, "threads": options.threads, "semfocus_ms": mine, "eager_ms": plain,
              "times_eager": plain / mine, "peak_share": row["peak_share"]}
    if published:
        result |= {"published_ms": published, "times_published": published / mine}
    if factor:
        result["bar_ms"] = max(published, plain) / factor
    if compiled:
        result["compiled_ms"] = statistics.median(theirs_compiled)
        result["times_compiled"] = result["compiled_ms"] / mine
    return result


def number(row, name, width, digits=1):
    return f"{row[name]:{width}.{digits}f}" if name in row else f"{'-':>{width}}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shape", default="nnch,listops")
    parser.add_argument("--attention", default=",".join(MECHANISMS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of PyTorch a round")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--semfocus", default=str(ROOT / "build" / "semfocus"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for attention in options.attention.split(","):
        print(check_same_loss(options.semfocus, attention), file=sys.stderr)
    results = []
    head = f"{'shape':8} {'attention':10} {'semfocus':>9} {'eager':>9} {'times':>6} {'compiled':>9} {'times':>6} " \
           f"{'published':>9} {'times':>6} {'bar':>7}"
    if not options.json:
        print(f"torch {torch.__version__}, {options.threads} threads; milliseconds per step\n{head}")
    for shape in options.shape.split(","):
        for attention in options.attention.split(","):
            r = compare(options.semfocus, shape, attention, options)
            results.append(r)
            if not options.json:
                print(f"{shape:8} {attention:10} {number(r, 'semfocus_ms', 9, 2)} {number(r, 'eager_ms', 9)} "
                      f"{number(r, 'times_eager', 6)} {number(r, 'compiled_ms', 9)} {number(r, 'times_compiled', 6)} "
                      f"{number(r, 'published_ms', 9)} {number(r, 'times_published', 6)} {number(r, 'bar_ms', 7)}", flush=True)
    if options.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")  # OpenBLAS takes newer CPUs for old ones
    try:
        import torch
        from torch import nn
    except ImportError:
        sys.exit("PyTorch is not installed: pip install torch")
    sys.path.insert(0, str(Path(__file__).parent))
    from model import Model, read_safetensors
    from step import MECHANISMS, SHAPES, WIDTH, Step, new_model, padded, random_batch
    main()
