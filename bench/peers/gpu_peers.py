"""Training steps of fleets of models on one NVIDIA GPU: semfocus, plain PyTorch, and the best PyTorch we could write.

    python3 bench/peers/gpu_peers.py --semfocus PROGRAM [--only nnch-132,listops-topk] [--quick] [--skip-compile]
    python3 bench/peers/gpu_peers.py --device cpu --tiny        tests this program; the times mean nothing

Milliseconds per model and step (forward, backward, clip, update, dropout included), medians of 3, all in one run. 'eager'
trains one model at a time. 'batched' trains all models of a mechanism as one batch, and the whole step, optimizer included, is
one CUDA graph; 'compiled' is the same under torch.compile. Attention is tried in several forms (forms.py); every form is first
checked against the plain model without dropout, and every program that is timed against the course of the plain batch.
Last come semfocus's bars: the most milliseconds, the goal, and how many times faster than PyTorch it has to be."""
import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from multiprocessing.connection import wait

from fleets import FLEETS, Job, compiled_programs, plain_programs, tiny


def semfocus_time(program, fleet, precision):
    """Milliseconds per model and step."""
    words = [program, "bench", fleet.shape, ",".join(fleet.mechanisms), "--device", "cuda", "--models", str(fleet.models),
             "--precision", precision, "--json"]
    output = subprocess.run(words, capture_output=True, check=True, text=True, timeout=300).stdout
    return json.loads(output)[0]["ms_per_step"]


def semfocus_medians(program, fleet, rounds):
    return {precision: statistics.median(semfocus_time(program, fleet, precision) for _ in range(rounds))
            for precision in ("f32", "tf32", "bf16")}


def say(text):
    print(text, flush=True)


def run_job(connection, job):
    """In the job's own process."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # several jobs compile at the same time
    from worker import work
    work(connection, job)


class Worker:
    def __init__(self, job):
        self.job, self.start = job, time.monotonic()
        self.connection, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=run_job, args=(theirs, job))
        self.process.start()
        theirs.close()

    def receive(self):
        try:
            return self.connection.recv()
        except EOFError:
            self.process.join()
            return "failed", f"the process ended with status {self.process.exitcode}"

    def end(self):
        self.process.kill()
        self.process.join()


def prepare(jobs, at_once, limit):
    """Starts all jobs and waits until each is ready to be measured: the workers that are, the failures, the machine."""
    waiting, busy, ready, failures, machine = list(jobs), [], {}, 0, None
    while waiting or busy:
        while waiting and len(busy) < at_once:
            busy.append(Worker(waiting.pop(0)))
        heard = wait([worker.connection for worker in busy], timeout=1)
        for worker in list(busy):
            message = ("silent",)
            if worker.connection in heard:
                message = worker.receive()
            elif time.monotonic() - worker.start > limit:
                message = ("failed", f"not ready after {limit:.0f} s")
            failures += message[0] in ("fault", "failed")
            if message[0] in ("note", "fault"):
                say(f"  {worker.job}: {message[1]}")
            elif message[0] == "ready":
                machine = message[2]
                say(f"  {worker.job}: ready after {message[1]:.0f} s")
                ready[id(worker.job)] = worker
                busy.remove(worker)
            elif message[0] == "failed":
                say(f"  {worker.job}: {message[1]}")
                worker.end()
                busy.remove(worker)
    return ready, failures, machine


def measure(worker, limit):
    """Lets a worker measure: yields what it sends, to the end."""
    try:
        worker.connection.send("go")
    except OSError:
        yield "failed", "the process has ended"
        return
    while True:
        message = worker.receive() if worker.connection.poll(limit) else ("failed", f"no answer for {limit:.0f} s")
        if message[0] == "done":
            break
        yield message
        if message[0] == "failed":
            break
    worker.end()


class Table:
    """Results of one fleet, printed as they come."""

    def __init__(self, fleet):
        self.fleet, self.ours, self.theirs = fleet, {}, []
        parts = f"equal parts of {', '.join(fleet.mechanisms)}" if len(fleet.mechanisms) > 1 else fleet.mechanisms[0]
        say(f"\n{fleet.name}: {fleet.models} models, {parts}\n  {'program':52} {'precision':9} {'ms':>9} {'times':>8}")

    def note(self, text):
        say(f"  - {text}")

    def semfocus(self, times):
        self.ours = times
        for precision, ms in times.items():
            say(f"  {'semfocus':52} {precision:9} {ms:9.4f} {1:8.2f}")

    def add(self, kind, program, precision, ms):
        self.theirs.append({"kind": kind, "program": program, "precision": precision, "ms": ms})
        times = f"{ms / self.ours[precision]:8.2f}" if precision in self.ours else f"{'-':>8}"
        say(f"  {program:52} {precision:9} {ms:9.4f} {times}")

    def best(self, precision, kinds):
        found = [row["ms"] for row in self.theirs if row["precision"] == precision and row["kind"] in kinds]
        return min(found, default=None)

    def bars(self):
        for precision, bar in self.fleet.bars.items():
            ms = self.ours.get(precision)
            if ms is None:
                self.note(f"bar {precision}: at most {bar.most} ms (goal {bar.goal}): semfocus was not measured")
                continue
            self.note(f"bar {precision}: {ms:.4f} ms, at most {bar.most}: {met(ms <= bar.most)}; "
                      f"goal {bar.goal}: {met(ms <= bar.goal)}")
            for what, kinds in (("batched", ["batched"]), ("best", ["batched", "compiled"])):
                peer = self.best(precision, kinds)
                if peer is None:
                    continue
                asked = f", at least {bar.factor}: {met(peer / ms >= bar.factor)}" if bar.beside == what else ""
                named = "batched PyTorch that is not compiled" if what == "batched" else "the best PyTorch"
                self.note(f"bar {precision}: {peer / ms:.2f} times faster than {named} ({peer:.4f} ms){asked}")

        for precision in self.ours.keys() - self.fleet.bars.keys():
            peer = self.best("tf32", ["batched", "compiled"])
            if peer:
                self.note(f"{precision}: {peer / self.ours[precision]:.2f} times faster than the best PyTorch in tf32")

    def record(self):
        return {"fleet": self.fleet.name, "semfocus": self.ours, "pytorch": self.theirs}


def met(yes):
    return "met" if yes else "NOT MET"


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--semfocus", metavar="PROGRAM", help="semfocus, built with CUDA; without it, PyTorch alone")
    parser.add_argument("--only", metavar="FLEET,...", help="of " + ", ".join(fleet.name for fleet in FLEETS))
    parser.add_argument("--quick", action="store_true", help="one short round in place of three")
    parser.add_argument("--skip-compile", action="store_true", help="nothing under torch.compile")
    parser.add_argument("--modes", default="default", help="of torch.compile, separated by commas (default: default)")
    parser.add_argument("--compile-limit", type=float, default=75, metavar="SECONDS",
                        help="per job; after that, only one form per mechanism is compiled (default: 75)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="that prepare at the same time (default: one per core)")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true", help="small fleets, to test this program")
    parser.add_argument("--json", metavar="FILE", help="also writes the results there")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [fleet.name for fleet in FLEETS]
    unknown = set(names) - {fleet.name for fleet in FLEETS}
    if unknown:
        parser.error(f"no such fleet: {', '.join(sorted(unknown))}")
    options.fleets = [tiny(fleet) if options.tiny else fleet for fleet in FLEETS if fleet.name in names]
    options.rounds, options.seconds = (1, 0.06) if options.quick else (3, 0.12)
    return options


def jobs_of(fleet, options):
    wanted = [("", plain_programs(fleet))]
    for mode in [] if options.skip_compile else options.modes.split(","):
        wanted += [(mode, programs) for programs in compiled_programs(fleet)]
    return [Job(fleet, precision, mode, programs, options.device, options.rounds, options.seconds, options.compile_limit)
            for mode, programs in wanted for precision in fleet.bars]


def main():
    options = read_options()
    if not find_spec("torch"):
        sys.exit("PyTorch is not installed: pip install torch")
    start = time.monotonic()
    multiprocessing.set_start_method("spawn")
    jobs = {fleet.name: jobs_of(fleet, options) for fleet in options.fleets}
    say("preparing: checks and compilation")
    longest_first = sorted((job for of_fleet in jobs.values() for job in of_fleet),
                           key=lambda job: len(job.programs) if job.mode else 0, reverse=True)
    workers, failures, machine = prepare(longest_first, options.jobs, options.compile_limit + 120)
    if not workers:
        sys.exit("nothing of PyTorch is ready to be timed")
    say(f"\n{machine}; milliseconds per model and training step, median of {options.rounds}; "
        "times: how many times longer than semfocus in the same precision")
    records = []
    for fleet in options.fleets:
        table = Table(fleet)
        if options.semfocus:
            try:
                table.semfocus(semfocus_medians(options.semfocus, fleet, options.rounds))
            except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
                failures += 1
                table.note(f"semfocus: {error}")
        for job in jobs[fleet.name]:
            for message, *rest in measure(workers[id(job)], 120) if id(job) in workers else []:
                if message == "result":
                    table.add(*rest[:2], job.precision, rest[2])
                else:
                    failures += message in ("fault", "failed")
                    table.note(f"{job}: {rest[0]}")
        table.bars()
        records.append(table.record())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine, "fleets": records}, file, indent=2)
    say(f"\n{time.monotonic() - start:.0f} s" + (f", {failures} failures" if failures else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
