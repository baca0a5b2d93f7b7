"""The fleets that gpu_peers.py times, what semfocus has to reach with them on an H200, and the jobs of PyTorch."""
import copy
from dataclasses import dataclass, field

MIXED = ["full", "banded:5", "block:5", "topk:5"]


@dataclass
class Bar:
    most: float  # ms per model and step
    goal: float
    factor: float  # how many times faster than PyTorch
    beside: str  # than which: "batched" (not compiled) or "best"


@dataclass
class Fleet:
    name: str
    shape: str  # of step.SHAPES
    models: int
    mechanisms: list  # in equal parts
    bars: dict  # by precision
    part_sizes: list | None = None  # models per batch that are tried; None: all models of a mechanism
    override: dict = field(default_factory=dict)  # of the shape


NNCH_BARS = {"f32": Bar(0.04, 0.03, 2.5, "batched"), "tf32": Bar(0.015, 0.006, 3, "best")}


def listops(mechanism, bar):
    return Fleet("listops-" + mechanism.partition(":")[0], "listops", 8, [mechanism], {"tf32": bar}, [8, 2, 1])


FLEETS = [Fleet("nnch-132", "nnch", 132, MIXED, NNCH_BARS), Fleet("nnch-264", "nnch", 264, MIXED, NNCH_BARS),
          listops("full", Bar(2.0, 1.0, 2.5, "best")), listops("topk:5", Bar(1.3, 0.6, 5, "best")),
          listops("banded:5", Bar(0.6, 0.3, 10, "best")), listops("block:5", Bar(0.6, 0.3, 10, "best"))]


def tiny(fleet):
    """The same fleet, small enough for a CPU: to test the program, not to time anything."""
    fleet = copy.deepcopy(fleet)
    fleet.models = 4 * len(fleet.mechanisms)
    fleet.part_sizes = fleet.part_sizes and [4, 2]
    fleet.override = {"blocks": 2, "batch": 6, "width": 16} | ({"length": 120} if fleet.shape == "listops" else {})
    return fleet


# Forms of attention (forms.py) that are worth timing, the likely best first.
PLAIN = {"full": ["fused", "dense"],
         "banded": ["fused tiles", "tiles", "fused", "dense"], "block": ["fused tiles", "tiles", "fused", "dense"],
         "topk": ["scattered topk", "scattered maxima", "masked topk", "kept maxima"]}
COMPILED = {"full": ["dense", "fused"], "banded": ["local", "fused tiles", "dense"], "block": ["local", "fused tiles", "dense"],
            "topk": ["kept maxima", "masked maxima", "scattered topk"]}


@dataclass
class Job:
    """A fleet in PyTorch, in one precision, compiled or not."""
    fleet: Fleet
    precision: str  # f32 or tf32
    mode: str  # of torch.compile; "" for no compilation
    programs: list  # (mechanism, form, models per batch) that are tried
    device: str
    rounds: int
    seconds: float  # per round
    compile_seconds: float  # after that many, only one program per mechanism is compiled

    def __str__(self):
        which = f", {self.programs[0][1]}, {self.programs[0][2]} per batch" if len(self.programs) == 1 else ""
        return f"{self.fleet.name} {self.precision} {'compiled (' + self.mode + ')' if self.mode else 'not compiled'}{which}"


def forms_of(mechanism, table):
    return table[mechanism.partition(":")[0]]


def plain_programs(fleet):
    """Every form of every mechanism, with every number of models per batch."""
    sizes = fleet.part_sizes or [fleet.models // len(fleet.mechanisms)]
    return [(mechanism, form, size) for mechanism in fleet.mechanisms for form in forms_of(mechanism, PLAIN) for size in sizes]


def compiled_programs(fleet):
    """Lists, one per job. A mixed fleet has one job, as its step is one program; the likely best forms are compiled first. Else
    every program is a job of its own; with fewer models per batch only the likely best form is compiled."""
    ranks = range(max(map(len, COMPILED.values())))
    if fleet.part_sizes is None:
        size = fleet.models // len(fleet.mechanisms)
        return [[(mechanism, forms_of(mechanism, COMPILED)[rank], size) for rank in ranks for mechanism in fleet.mechanisms
                 if rank < len(forms_of(mechanism, COMPILED))]]
    (mechanism,), (all_models, *_, few) = fleet.mechanisms, fleet.part_sizes
    forms = forms_of(mechanism, COMPILED)
    return [[(mechanism, form, all_models)] for form in forms] + [[(mechanism, forms[0], few)]]
