#!/usr/bin/env python3
"""The same bits on every machine: runs the same small experiments with several commands and compares all they compute.

usage: same_bits.py [--quick] [--only CASE,...] [--jobs N] COMMAND COMMAND...
       same_bits.py [--quick] [--only CASE,...] [--jobs N] --sets PROGRAM
       same_bits.py [--quick] [--only CASE,...] [--jobs N] --libm PROGRAM
       same_bits.py [--quick] [--only CASE,...] [--jobs N] --devices PROGRAM

A COMMAND is a program with what precedes it, in one word:

  same_bits.py 'SEMFOCUS_ISA=scalar build/semfocus' 'qemu-aarch64 -L build-aarch64/sysroot build-aarch64/semfocus'

--sets PROGRAM means PROGRAM with each value of SEMFOCUS_ISA (scalar, avx2, avx512); what the CPU lacks is skipped. --libm
PROGRAM means PROGRAM as it is and with the parts of glibc's libm switched off that use fused multiply-add. --devices PROGRAM
means PROGRAM --device=cpu and PROGRAM --device=cuda; the latter is skipped where there is no GPU. A case trains
models of several mechanisms for three epochs and looks at them with analyze, landscape, evaluate, distance, export and
report. Compared are the bytes of weights and optimizer states, every double of the curves, recorded measures and loss
surfaces, and what the other commands print or draw, without times and machine. --quick leaves out some of the cases.

Prints one line per case and command with the hash of all that. Exits with 1 where anything differs, with 77 where fewer than
two commands could run."""
import argparse
import concurrent.futures
import hashlib
import json
import os
import shlex
import sqlite3
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77  # what ctest takes for skipped
SETS = ("scalar", "avx2", "avx512")
WITHOUT_FMA = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable,-FMA4_Usable,-AVX2,-FMA,-FMA4"

EVERY_MECHANISM = ("full,banded:5,banded:4+global:1,block:5,block:4+global:3,topk:5,topk:4,bottomk:3,bottomk:6,random:5,"
                   "random:2,topk:1")
FEW = "full,topk:5,block:3,random:4"
BEYOND = ("topp:0.7,within:1,blocktopk:4:2,kmeans:3:2,lsh:4:2,topk:3+sink:1+window:3,topp:0.5+global:1+random:2,topk:3+st,"
          "full/softmax1,full/sigmoid,topk:5/softplus:3,full/sparsemax,topk:5/entmax15,full/entmax:1.3,full/fastmax,"
          "full/doubly:2,topk:5/doubly,full@rope,full@qknorm:4,full@alibi,full@softcap:2,full@logn,"
          "within:1/sigmoid@rope@qknorm:3@softcap:2")
CAUSAL = "full,topk:3,banded:5,random:3,topp:0.8+st,blocktopk:4:2/sigmoid@rope,lsh:4:2@alibi@logn"
# Odd widths, a prime number of positions, and batches that leave a short one at the end.
SMALL = ("--length 17 --width 20 --mlp-width 27 --heads 2 --blocks 2 --train-count 50 --heldout-count 23 --batch 8 "
         "--epochs 3 --seed 7 --pad none")


def options(text):
    words = text.split()
    return dict(zip(words[::2], words[1::2]))


class Case:
    """What is trained, and what is looked at afterwards."""

    def __init__(self, name, task, settings, attention=FEW, analyze="", landscape="", slow=False, report=False,
                 threads=1, theory=True, regions=True, flags=()):
        self.name, self.attention, self.slow, self.report = name, attention, slow, report
        chosen = options(SMALL) | options(settings) | {"--attention": attention, "--every": "1"}
        self.train = ["train", task, *(word for option in chosen.items() for word in option), *flags]
        self.length = chosen["--length"]
        self.theory = ["--bounds", "--lipschitz", "--mask-stability"] if theory else []
        self.regions = regions  # whether analyze can draw a figure
        self.machine = ["--threads", str(threads)]
        self.analyze, self.landscape = analyze.split(), (landscape + " --grid 5" * ("--grid" not in landscape)).split()


CASES = [
    Case("mechanisms", "even-pairs", "--dropout 0.1 --lr 0.5", EVERY_MECHANISM, report=True),
    Case("mechanisms-no-dropout", "parity", "--dropout 0 --activation gelu --norm post", EVERY_MECHANISM, "--at best",
         slow=True),
    Case("beyond", "even-pairs", "--dropout 0.1 --lr 0.5", BEYOND, theory=False, regions=False),
    Case("beyond-no-dropout", "parity", "--dropout 0 --norm post", BEYOND, theory=False, regions=False, slow=True),
    Case("causal-last", "missing-duplicate", "--readout last --dropout 0.1", CAUSAL, theory=False, regions=False,
         flags=["--causal"]),
    Case("mish-adam", "cycle-navigation", "--activation mish --optimizer adam --lr 0.003 --weight-decay 0.01 --gamma 0.9",
         analyze="--split train"),
    Case("gelu-adamw-cosine", "missing-duplicate", "--activation gelu --optimizer adamw --lr 0.01 --weight-decay 0.1 "
         "--schedule cosine --warmup 1", analyze="--at init", landscape="--at init"),
    Case("post-norm-momentum", "solve-equation", "--norm post --momentum 0.9 --weight-decay 0.001 --schedule constant "
         "--clip 0 --width 33 --heads 3", analyze="--perturbed 0.25"),
    Case("batch-of-one", "stack-manipulation", "--batch 1 --train-count 11 --width 16 --heads 1 --activation mish --norm post",
         slow=True),
    Case("narrow", "modular-arithmetic", "--width 3 --mlp-width 1 --length 11 --blocks 1 --inverse-temperature 3",
         landscape="--grid 4"),
    Case("wide", "modular-arithmetic-brackets", "--width 65 --mlp-width 130 --heads 1 --blocks 1 --length 19 --dropout 0.5",
         slow=True),
    Case("padded", "even-pairs", "--pad mask --length 23 --schedule cosine --beta1 0.8 --beta2 0.9 --optimizer adam --lr 0.01",
         "full,block:5,banded:5,topk:5", slow=True),
    # Weights of its first epoch are huge, and losses around them not finite.
    Case("diverged", "parity", "--lr 1 --clip 0 --momentum 0.9", "full,topk:5,random:4", landscape="--extent 1000000",
         regions=False),
    Case("listops", "listops", "--length 53 --train-count 12 --heldout-count 5 --batch 5 --activation gelu",
         "full,topk:5,banded:5,block:5+global:1"),
    Case("long", "even-pairs", "--length 131 --train-count 6 --heldout-count 4 --batch 4 --heads 1", FEW, slow=True,
         threads=2),
    # Dropout of a query's first 1024 keys is kept for the backward pass, that of the others is drawn again.
    Case("longest", "even-pairs", "--length 1103 --width 5 --heads 1 --blocks 1 --train-count 3 --heldout-count 2 --batch 2 "
         "--epochs 2 --dropout 0.1", "full,topk:5,banded:7", slow=True, theory=False),
]


def shown(command):
    return command.replace(WITHOUT_FMA, "GLIBC_TUNABLES=...-FMA")


class Failed(Exception):
    pass


def run(command, words, may_fail=False):
    """Standard output of a command of the program."""
    parts = shlex.split(command)
    env = dict(os.environ)
    while parts and "=" in parts[0] and not parts[0].startswith("-"):
        name, value = parts.pop(0).split("=", 1)
        env[name] = value
    devices = [part for part in parts if part.startswith("--device=")]
    parts = [part for part in parts if part not in devices]
    if "--threads" in words:  # it computes
        words = [*words, *devices]
    try:
        done = subprocess.run([*parts, *words], stdin=subprocess.DEVNULL, capture_output=True, env=env, check=False)
    except OSError as error:
        raise Failed(f"{parts[0]} does not run: {error.strerror}") from error
    if done.returncode != 0 and not may_fail:
        raise Failed(f"{command} {shlex.join(words)}\nexited with {done.returncode}: {done.stderr.decode().strip()}")
    return done


def lacks(command):
    """Why this machine cannot run a command, or None."""
    with tempfile.TemporaryDirectory(prefix="semfocus-same-bits-") as folder:
        done = run(command, ["train", "parity", "--length", "4", "--train-count", "2", "--heldout-count", "2", "--blocks", "1",
                             "--width", "4", "--epochs", "1", "--threads", "1", "--quiet", "--store", folder], may_fail=True)
    message = done.stderr.decode().strip()
    if done.returncode == 2 and any(f"SEMFOCUS_ISA is '{name}'" in message for name in (*SETS, "neon")):
        return message
    if done.returncode == 2 and "device is cuda but" in message:
        return message
    if done.returncode != 0:
        raise Failed(f"{command} cannot train: exit {done.returncode}: {message}")
    return None


def libm_results(setting):
    """What Python's exp and pow, which are libm's, give."""
    return run(f"{setting} {shlex.quote(sys.executable)}", ["-c", "import math\nfor i in range(20000):\n"
               "    print(math.exp(i / 777.7).hex(), math.pow(i / 99.9, 1.7).hex())"]).stdout


# ---- what a command computed, as named pieces of bytes


def bits(value):
    """Doubles by their bits: -0 is not 0, and text would hide the last of them."""
    if isinstance(value, float):
        return f"{value.hex()} ({value!r})"
    return repr(value)


def rows_of(database, title, sql):
    """One piece per row; the columns before the last semicolon of the title name it."""
    for row in database.execute(sql):
        names = row[: title.count("{}")]
        yield title.format(*names), " ".join(bits(value) for value in row[len(names):]).encode()


def pieces_of_database(path):
    with sqlite3.connect(path) as database:
        yield from rows_of(database, "{} result", "SELECT attention, status, epochs, converged_epoch, train_accuracy, "
                           "heldout_accuracy, best_epoch, best_accuracy, diverged_epoch, diverged_step, weights FROM runs "
                           "ORDER BY id")
        yield from rows_of(database, "{} epoch {}", "SELECT attention, epoch, tr_ce, tr_ac, va_ce, va_ac FROM epochs JOIN runs "
                           "ON run = number ORDER BY id, epoch")
        yield from rows_of(database, "{} epoch {} block {} {}", "SELECT attention, epoch, block, measure, q0, q1, q5, q10, q25, "
                           "q50, q75, q90, q95, q99, q100 FROM measures JOIN runs ON run = number "
                           "ORDER BY id, epoch, block, measure")
        yield from rows_of(database, "{} surface {} point {}", "SELECT attention, grid, point, loss, correct FROM surface_points "
                           "JOIN surfaces ON surface = surfaces.number JOIN runs ON run = runs.number "
                           "ORDER BY id, grid, surfaces.weights, point")


def pieces_of_checkpoint(path):
    """Tensors without the metadata, which may name the machine."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    for name, tensor in sorted(header.items()):
        begin, end = tensor["data_offsets"]
        yield f"{path.name} {name} {tensor['dtype']} {tensor['shape']}", data[8 + size + begin:8 + size + end]


MACHINE = {"isa", "environment", "seconds", "seconds_per_epoch"}


def without_machine(value):
    if isinstance(value, dict):
        return {key: without_machine(inner) for key, inner in value.items() if key not in MACHINE}
    return [without_machine(inner) for inner in value] if isinstance(value, list) else value


def flattened(value, name):
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flattened(inner, f"{name} {key}")
    else:
        yield name, str(value).encode()


def pieces_of_json(text, name):
    """Numbers as they were printed."""
    yield from flattened(without_machine(json.loads(text, parse_float=str)), name)


def pieces_of_files(folder, name):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{name} {path.name}", path.read_bytes()


def compute(case, command):
    """All pieces of a case, by name."""
    pieces = {}
    with tempfile.TemporaryDirectory(prefix="semfocus-same-bits-") as place:
        folder = Path(place)
        store = ["--store", str(folder / "runs")]

        def output(*words):
            return run(command, [*words, *store]).stdout

        def add(found):
            for name, content in found:
                assert name not in pieces, name
                pieces[name] = content

        trained = json.loads(output(*case.train, *case.machine, "--json"))
        if len(trained) != len(case.attention.split(",")):
            raise Failed(f"{command}: case {case.name} trained {len(trained)} runs")
        ids = [run["id"] for run in trained]
        for path in sorted((folder / "runs" / "checkpoints").glob("*.safetensors")):
            add(pieces_of_checkpoint(path))
        exported = folder / "exported.safetensors"
        output("export", ids[0], "--format", "safetensors", "--out", str(exported))
        add(pieces_of_checkpoint(exported))
        add([("export csv", output("export", ids[-1]))])
        figures = ["--figures", str(folder / "analysis")] if case.regions else []
        add(pieces_of_json(output("analyze", *ids, "--json", "--samples", "3", *figures, *case.theory, *case.machine,
                                  *case.analyze), "analyze"))
        add(pieces_of_json(output("landscape", *ids[:16], "--json", "--samples", "7", "--figures", str(folder / "landscape"),
                                  *case.machine, *case.landscape), "landscape"))
        add(pieces_of_json(output("evaluate", *ids, "--json", "--count", "9", "--lengths", f"{case.length},29",
                                  *case.machine), "evaluate"))
        add(pieces_of_json(output("distance", ids[0], ids[1], "--json"), "distance"))
        if case.report:
            output("report", "--out", str(folder / "page.html"), "--figures", str(folder / "report"))
        for name in ("analysis", "landscape", "report"):
            add(pieces_of_files(folder / name, name))
        add(pieces_of_database(folder / "runs" / "runs.db"))
    return pieces


def hash_of(pieces):
    total = hashlib.sha256()
    for name in sorted(pieces):
        total.update(name.encode() + b"\0" + hashlib.sha256(pieces[name]).digest())
    return total.hexdigest()[:16]


def difference(case, first, pieces, other, other_pieces):
    """A sentence about what differs, or None."""
    names = [name for name in pieces if pieces[name] != other_pieces.get(name)]
    names += [name for name in other_pieces if name not in pieces]
    if not names:
        return None
    name = names[0]
    sentence = (f"{case.name}: {len(names)} of {len(pieces)} pieces differ between {shown(first)} and {shown(other)}, "
                f"first: {name}")
    here, there = pieces.get(name), other_pieces.get(name)
    if here is None or there is None:
        return f"{sentence}, which only one of them has"
    if len(here) < 400 and len(there) < 400 and here.isascii() and here.decode("ascii").isprintable():
        return f"{sentence}\n  {here.decode(errors='replace')}\n  {there.decode(errors='replace')}"
    return sentence


def arguments():
    parser = argparse.ArgumentParser(description="The same bits on every machine.", usage=__doc__.split("\n\n")[1][7:])
    parser.add_argument("commands", nargs="*")
    parser.add_argument("--sets", metavar="PROGRAM")
    parser.add_argument("--libm", metavar="PROGRAM")
    parser.add_argument("--devices", metavar="PROGRAM")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    commands = list(given.commands)
    if given.sets:
        commands += [f"SEMFOCUS_ISA={name} {shlex.quote(given.sets)}" for name in SETS]
    if given.libm:
        commands += [shlex.quote(given.libm), f"{WITHOUT_FMA} {shlex.quote(given.libm)}"]
    if given.devices:
        commands += [f"{shlex.quote(given.devices)} --device={device}" for device in ("cpu", "cuda")]
    only = set(filter(None, given.only.split(",")))
    unknown = only - {case.name for case in CASES}
    if unknown:
        parser.error(f"no case is called {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in CASES)}")
    if len(commands) < 2:
        parser.error("name two commands or more, or give --sets, --libm or --devices PROGRAM")
    cases = [case for case in CASES if (case.name in only if only else not (given.quick and case.slow))]
    if given.libm and libm_results("") == libm_results(WITHOUT_FMA):
        print("note: this libm gives the same bits either way, so that a call of it could go unnoticed")
    return commands, cases, max(given.jobs, 1)


def main():
    commands, cases, jobs = arguments()
    usable, skipped = [], 0
    for command in commands:
        reason = lacks(command)
        if reason is None:
            usable.append(command)
        else:
            skipped += 1
            print(f"skipped: {shown(command)}: {reason}")
    if len(usable) < 2:
        print("skipped: there are not two commands to compare")
        return SKIPPED
    failures = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        computed = {case.name: [pool.submit(compute, case, command) for command in usable] for case in cases}
        for case in cases:
            try:
                results = [future.result() for future in computed.pop(case.name)]
            except Failed:
                pool.shutdown(cancel_futures=True)
                raise
            for command, pieces in zip(usable, results):
                print(f"{case.name:22} {hash_of(pieces)}  {len(pieces):5} pieces  {shown(command)}", flush=True)
                sentence = difference(case, usable[0], results[0], command, pieces)
                if sentence:
                    failures.append(sentence)
    for sentence in failures:
        print(sentence, file=sys.stderr)
    verdict = f"{len(failures)} differences" if failures else "the same bits everywhere"
    print(f"{len(cases)} cases, {len(usable)} commands{f', {skipped} skipped' if skipped else ''}: {verdict}")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
