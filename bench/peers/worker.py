"""One job of gpu_peers.py, in a process of its own.

The process prepares (checks, compiles), says so, waits for its turn and then measures: so jobs compile at the same time and
are measured one after the other. What it sends: ("note", text), ("fault", text), ("ready", seconds, machine), ("result", kind,
program, ms), ("done",), ("failed", why): a fault costs one program, a failure the job."""
import copy
import gc
import statistics
import time

import torch

import checks
from batched import Batch, make_losses
from step import DROPOUT, SHAPES, Step, new_model, random_batch


def work(connection, job):
    start = time.perf_counter()
    try:
        measurement = Measurement(job, lambda *message: connection.send(message))
        measurement.prepare()
        name = "CPU" if job.device == "cpu" else torch.cuda.get_device_name()
        connection.send(("ready", time.perf_counter() - start, f"{name}, PyTorch {torch.__version__}"))
        connection.recv()
        measurement.measure()
        connection.send(("done",))
    except Exception as error:  # whatever it is (memory, compiler, driver): the other jobs go on
        connection.send(("failed", described(error)))


def described(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


def captured(run, batches):
    """The same as one CUDA graph; leaves the weights as they are."""
    before = [batch.weights.detach().clone() for batch in batches]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses = run()
    with torch.no_grad():
        for batch, old in zip(batches, before):
            batch.weights.copy_(old)

    def replay():
        graph.replay()
        return losses
    return replay


def in_turn(steps):
    return lambda: [batch.step(program) for _, batch, program in steps]


def side_by_side(steps):
    streams = [torch.cuda.Stream() for _ in steps]

    def run():
        losses, here = [], torch.cuda.current_stream()
        for (_, batch, program), stream in zip(steps, streams):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                losses.append(batch.step(program))
        for stream in streams:
            here.wait_stream(stream)
        return losses
    return run


class Measurement:
    def __init__(self, job, send):
        self.job, self.send, self.fleet = job, send, job.fleet
        self.kind = "compiled" if job.mode else "batched"
        self.on_gpu = job.device != "cpu"
        self.shape = SHAPES[job.fleet.shape] | job.fleet.override
        self.count = job.fleet.models // len(job.fleet.mechanisms)  # models per mechanism
        self.models, self.data = {}, {}  # by mechanism
        self.programs = {}  # by mechanism, form and models per batch
        self.expected = {}  # by mechanism: the course of the plain dense program
        torch._dynamo.config.recompile_limit = 64  # every form is compiled from the same lines
        if not self.on_gpu:
            torch.set_num_threads(1)

    def prepare(self):
        torch.set_float32_matmul_precision("highest")
        pairs = dict.fromkeys(key[:2] for key in self.job.programs)
        right = [pair for pair in pairs if self.guarded(" ".join(pair), self.check_form, *pair)]
        torch.set_float32_matmul_precision("high" if self.job.precision == "tf32" else "highest")
        torch.manual_seed(1)
        for attention in self.fleet.mechanisms:
            self.models[attention] = [new_model(self.shape, attention) for _ in range(self.count)]
            self.data[attention] = [random_batch(self.shape, attention) for _ in range(self.count)]
        self.build_programs([key for key in self.job.programs if key[:2] in right])

    def check_form(self, attention, form):
        small = self.shape | checks.SMALL[self.fleet.shape]
        wrong = checks.same_step(small, attention, form, self.job.device)
        if wrong:
            raise ValueError(f"wrong program: {wrong}")
        return True

    def build_programs(self, wanted):
        end = time.perf_counter() + self.job.compile_seconds
        for attention, form, size in wanted:
            needed = not any(key[0] == attention for key in self.programs)
            if self.job.mode and not needed and time.perf_counter() > end:
                self.send("note", f"{attention} {form}: left out, compiling has taken long enough")
                continue
            program = self.guarded(f"{attention} {form}", self.build, attention, form, size)
            if program:
                self.programs[attention, form, size] = program

    def build(self, attention, form, size):
        program = self.plain_program(attention, form)
        if program and self.job.mode:
            program = torch.compile(program, dynamic=False, fullgraph=True, mode=self.job.mode)
            batch = self.batches(attention, size)[0]
            for _ in range(2):
                batch.step(program)
        return program

    def plain_program(self, attention, form):
        return make_losses(self.models[attention][0], attention, form, DROPOUT, self.job.device)

    def batches(self, attention, size):
        models, data = self.models[attention], self.data[attention]
        return [Batch(models[i:i + size], data[i:i + size], self.job.device) for i in range(0, len(models), size)]

    def guarded(self, what, act, *arguments):
        """The result; None where it failed, which is reported."""
        try:
            return act(*arguments)
        except Exception as error:
            self.send("fault", f"{what}: {described(error)}")
            return None
        finally:
            gc.collect()
            if self.on_gpu:
                torch.cuda.empty_cache()

    def measure(self):
        if not self.job.mode:
            self.guarded("eager", self.measure_eager)
        best = {attention: self.best_form(attention) for attention in self.fleet.mechanisms}
        if len(best) > 1:
            orders = [("in turn", in_turn)] + ([("side by side", side_by_side)] if self.on_gpu else [])
            for name, order in orders:
                self.guarded(f"mechanisms {name}", self.measure_mixed, best, name, order)

    def measure_eager(self):
        """The mean over the mechanisms."""
        found = []
        for attention in self.fleet.mechanisms:
            model = copy.deepcopy(self.models[attention][0]).to(self.job.device)
            tokens, labels = (x.to(self.job.device) for x in self.data[attention][0])
            found.append(self.milliseconds(Step(model, tokens, labels).run, self.job.rounds))
        self.send("result", "eager", "eager, one model at a time", statistics.mean(found))

    def best_form(self, attention):
        """Times every form of one mechanism: the fastest form and number of models per batch. Where it is the only
        mechanism, these are the results; where there are others, only a choice."""
        alone, times = len(self.fleet.mechanisms) == 1, {}
        for _, form, size in [key for key in self.programs if key[0] == attention]:
            name = form + (f", {size} per batch" if self.fleet.part_sizes else "")
            steps = [(attention, batch, self.programs[attention, form, size]) for batch in self.batches(attention, size)]
            rounds = self.job.rounds if alone else 1
            ms = self.guarded(f"{attention} {name}", self.measure_steps, steps, in_turn, rounds)
            if ms is None:
                continue
            times[form, size] = ms / self.count
            if alone:
                self.send("result", self.kind, f"{self.kind}: {name}", ms / self.count)
        if not times:
            raise RuntimeError(f"no program for {attention}")
        if not alone:
            listed = ", ".join(f"{form} {ms:.4f}" for (form, _), ms in sorted(times.items(), key=lambda item: item[1]))
            self.send("note", f"{attention} alone: {listed}")
        return min(times, key=times.get)

    def measure_mixed(self, best, name, order):
        """Every mechanism in its best form, all in one step."""
        steps = [(attention, batch, self.programs[(attention, *best[attention])])
                 for attention in best for batch in self.batches(attention, best[attention][1])]
        ms = self.measure_steps(steps, order, self.job.rounds)
        self.send("result", self.kind, f"{self.kind}, mechanisms {name}", ms / self.fleet.models)

    def measure_steps(self, steps, order, rounds):
        """Milliseconds of one step of all batches, after a check."""
        batches, run = [batch for _, batch, _ in steps], order(steps)
        expected = [self.expected_course(attention) for attention in {attention for attention, _, _ in steps}]
        if self.on_gpu:
            run = captured(run, batches)
        wrong = checks.same_course(checks.course(batches, run), [statistics.mean(values) for values in zip(*expected)])
        if wrong:
            raise ValueError(f"wrong program: {wrong}")
        return self.milliseconds(run, rounds)

    def expected_course(self, attention):
        if attention not in self.expected:
            program = self.plain_program(attention, "masked topk" if attention.startswith("topk") else "dense")
            batches = self.batches(attention, self.count)
            self.expected[attention] = checks.course(batches, in_turn([(attention, batches[0], program)]))
        return self.expected[attention]

    def milliseconds(self, run, rounds):
        """The median over the rounds of the mean time of a run."""
        def mean_of(count):
            self.wait()
            start = time.perf_counter()
            for _ in range(count):
                run()
            self.wait()
            return 1e3 * (time.perf_counter() - start) / count
        mean_of(2)
        count = max(2, round(1e3 * self.job.seconds / mean_of(2)))
        return statistics.median(mean_of(count) for _ in range(rounds))

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()
