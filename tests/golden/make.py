"""Golden files: what the model of the paper computes, in double precision, by plain reverse-mode differentiation over
Python's floats. Nothing of semfocus is used, and nothing beyond Python itself.

  make.py check FILE...                 computes each file's results again and compares: exit 1 where one is off
  make.py write FILE NAME=VALUE...      makes a file: parameters and tokens are drawn from seed=N, the rest computed,
                                        e.g. make.py write new.safetensors attention=topk k=3 activation=mish seed=7

The files beside this script came from the published PyTorch model in double precision; 'check' shows that this script
gives the same numbers. A file holds param.* (f32), tokens and labels, and from them logits, grad.*, grad_norm and losses
(the loss, then after each of three steps of SGD with clipping), all without dropout. Its metadata says shape and mechanism;
k = -1: every key. vocab and length do not count global tokens, whose ids are in tokens."""
import json
import math
import random
import struct
import sys

LIMIT = 1e-11  # of the results' own size: a few thousand roundings of 1e-16
SHAPE = {"vocab": 9, "classes": 4, "length": 12, "batch": 3, "d_model": 8, "d_mlp": 16, "blocks": 2, "heads": 1,
         "attention": "full", "k": -1, "globals": 0, "activation": "relu", "norm": "pre", "inv_temp": 1.0, "sgd_lr": 0.1,
         "clip": 0.5, "steps": 3}


class Number:
    """A number and how it was made: the numbers it depends on, and its derivative in each."""
    __slots__ = ("value", "sources", "slopes", "gradient")
    tape = []

    def __init__(self, value, sources=(), slopes=()):
        self.value, self.sources, self.slopes, self.gradient = value, sources, slopes, 0.0
        Number.tape.append(self)

    def __add__(self, other):
        return Number(self.value + other.value, (self, other), (1.0, 1.0))

    def __sub__(self, other):
        return Number(self.value - other.value, (self, other), (1.0, -1.0))

    def __mul__(self, other):
        return Number(self.value * other.value, (self, other), (other.value, self.value))

    def scaled(self, factor):
        return Number(self.value * factor, (self,), (factor,))


def total(numbers):
    return Number(sum(n.value for n in numbers), tuple(numbers), (1.0,) * len(numbers))


def dot(a, b):
    return Number(sum(x.value * y.value for x, y in zip(a, b)), (*a, *b), (*(y.value for y in b), *(x.value for x in a)))


def backward(result):
    result.gradient = 1.0
    for number in reversed(Number.tape):
        if number.gradient:
            for source, slope in zip(number.sources, number.slopes):
                source.gradient += slope * number.gradient


def relu(x):
    return Number(max(x.value, 0.0), (x,), (1.0 if x.value > 0 else 0.0,))


def gelu(x):
    share = 0.5 * (1 + math.erf(x.value / math.sqrt(2)))
    return Number(x.value * share, (x,), (share + x.value * math.exp(-0.5 * x.value ** 2) / math.sqrt(2 * math.pi),))


def mish(x):
    t = math.tanh(math.log1p(math.exp(x.value)))
    return Number(x.value * t, (x,), (t + x.value * (1 - t * t) / (1 + math.exp(-x.value)),))


def layer_norm(row, epsilon):
    mean = total(row).scaled(1 / len(row))
    centred = [x - mean for x in row]
    variance = dot(centred, centred).scaled(1 / len(row))
    if variance.value + epsilon == 0:
        return [x.scaled(0.0) for x in row]
    rate = (variance.value + epsilon) ** -0.5
    scale = Number(rate, (variance,), (-0.5 * rate ** 3,))
    return [x * scale for x in centred]


def softmax(scores):
    largest = max(score.value for score in scores)
    powers = [math.exp(score.value - largest) for score in scores]
    shares = [power / sum(powers) for power in powers]
    return [Number(p, tuple(scores), tuple(p * ((i == j) - q) for j, q in enumerate(shares))) for i, p in enumerate(shares)]


def keep(shape, scores, query):
    """The kept keys in ascending order."""
    kind, k, length = shape["attention"], shape["k"], len(scores)
    own = length - shape["globals"]
    if kind == "full":
        return range(length)
    if kind in ("topk", "bottomk"):
        sign = -1 if kind == "topk" else 1
        return sorted(sorted(range(length), key=lambda j: (sign * scores[j].value, j))[:k])
    if query >= own:
        return range(length)
    first = query // k * k if kind == "block" else max(0, min(query - (k - 1) // 2, own - k))
    return [*range(first, min(first + k, own)), *range(own, length)]


class Model:
    def __init__(self, shape, params):
        """params: {name: list of rows, or list} of floats."""
        self.shape = shape
        self.params = {name: [[Number(x) for x in row] for row in rows] if isinstance(rows[0], list)
                       else [Number(x) for x in rows] for name, rows in params.items()}

    def linear(self, name, row):
        weights, biases = self.params[name + ".weight"], self.params[name + ".bias"]
        return [dot(weight, row) + bias for weight, bias in zip(weights, biases)]

    def embed(self, token, position):
        d = self.shape["d_model"]
        angles = [position / 10000 ** (c // 2 * 2 / d) for c in range(d)]
        return [Number(x.value * math.sqrt(d) + (math.cos if c % 2 else math.sin)(angles[c]), (x,), (math.sqrt(d),))
                for c, x in enumerate(self.params["embedding.weight"][token])]

    def attend(self, name, rows):
        d, heads = self.shape["d_model"], self.shape["heads"]
        q, k, v = ([self.linear(f"{name}.W_{part}", row) for row in rows] for part in "qkv")
        mixed = [[] for _ in rows]
        for cut in (slice(h * d, (h + 1) * d) for h in range(heads)):
            for i, out in enumerate(mixed):
                scores = [dot(q[i][cut], key[cut]).scaled(self.shape["inv_temp"] / math.sqrt(d)) for key in k]
                kept = keep(self.shape, scores, i)
                weights = softmax([scores[j] for j in kept])
                out.extend(dot(weights, [v[j][cut][c] for j in kept]) for c in range(d))
        return [self.linear(name + ".W_o", row) for row in mixed]

    def block(self, number, rows):
        name = f"encoder.transformer.{number}"
        activation = {"relu": relu, "gelu": gelu, "mish": mish}[self.shape["activation"]]
        epsilon = 1e-5 if number > 0 else 0.0

        def mlp(row):
            return self.linear(name + ".ffn.3", [activation(x) for x in self.linear(name + ".ffn.0", row)])

        def added(rows, more):
            return [[a + b for a, b in zip(*pair)] for pair in zip(rows, more)]

        if self.shape["norm"] == "pre":
            rows = added(rows, self.attend(name + ".attention", [layer_norm(row, epsilon) for row in rows]))
            return added(rows, [mlp(layer_norm(row, 1e-5)) for row in rows])
        rows = [layer_norm(row, epsilon) for row in added(rows, self.attend(name + ".attention", rows))]
        return [layer_norm(row, 1e-5) for row in added(rows, [mlp(row) for row in rows])]

    def logits(self, tokens):
        rows = [self.embed(token, position) for position, token in enumerate(tokens)]
        for number in range(self.shape["blocks"]):
            rows = self.block(number, rows)
        return self.linear("linear", [total(column).scaled(1 / len(rows)) for column in zip(*rows)])


def cross_entropy(logits, label):
    largest = max(x.value for x in logits)
    powers = [math.exp(x.value - largest) for x in logits]
    slopes = tuple(power / sum(powers) - (c == label) for c, power in enumerate(powers))
    return Number(largest + math.log(sum(powers)) - logits[label].value, tuple(logits), slopes)


def flat(rows):
    return [x for row in rows for x in row] if isinstance(rows[0], list) else rows


def evaluate(shape, params, tokens, labels):
    """Logits, loss, and the gradient by name."""
    Number.tape.clear()
    model = Model(shape, params)
    logits = [model.logits(sequence) for sequence in tokens]
    loss = total([cross_entropy(row, label) for row, label in zip(logits, labels)]).scaled(1 / len(labels))
    backward(loss)
    gradient = {name: [x.gradient for x in flat(rows)] for name, rows in model.params.items()}
    return [x.value for row in logits for x in row], loss.value, gradient


def norm_of(gradient):
    return math.sqrt(sum(x * x for values in gradient.values() for x in values))


def stepped(params, gradient, factor):
    """params - factor * gradient, in the same shape."""
    out = {}
    for name, rows in params.items():
        moved = [x - factor * g for x, g in zip(flat(rows), gradient[name])]
        width = len(rows[0]) if isinstance(rows[0], list) else 0
        out[name] = [moved[i:i + width] for i in range(0, len(moved), width)] if width else moved
    return out


def compute(shape, params, tokens, labels):
    """Every result of a golden file by its name, as flat lists."""
    logits, loss, gradient = evaluate(shape, params, tokens, labels)
    results = {"logits": logits, "grad_norm": [norm_of(gradient)], "losses": [loss]}
    results.update({"grad." + name: values for name, values in gradient.items()})
    for _ in range(shape["steps"]):
        factor = shape["sgd_lr"] * min(1.0, shape["clip"] / (norm_of(gradient) + 1e-6))  # as clip_grad_norm_ of PyTorch
        params = stepped(params, gradient, factor)
        _, loss, gradient = evaluate(shape, params, tokens, labels)
        results["losses"].append(loss)
    return results


def read(path):
    """Shape and tensors: {name: (dimensions, values)}."""
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    metadata = header.pop("__metadata__")
    shape = {name: type(default)(metadata[name]) for name, default in SHAPE.items()}
    tensors = {}
    for name, entry in header.items():
        low, high = entry["data_offsets"]
        code = {"F32": "f", "F64": "d", "I32": "i"}[entry["dtype"]]
        values = struct.unpack(f"<{(high - low) // struct.calcsize(code)}{code}", content[start + low:start + high])
        tensors[name] = (entry["shape"], list(values))
    return shape, tensors


def rows_of(dimensions, values):
    width = dimensions[-1]
    return [values[i:i + width] for i in range(0, len(values), width)] if len(dimensions) == 2 else values


def write(path, shape, tensors):
    """tensors: {name: (type, dimensions, values)}."""
    codes = {"F32": "f", "F64": "d", "I32": "i"}
    header, data = {"__metadata__": {name: str(value) for name, value in shape.items()}}, b""
    for name, (kind, dimensions, values) in tensors.items():
        block = struct.pack(f"<{len(values)}{codes[kind]}", *values)
        header[name] = {"dtype": kind, "shape": dimensions, "data_offsets": [len(data), len(data) + len(block)]}
        data += block
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def drawn_params(shape, dice):
    """{name: (dimensions, values)}, uniform as in a fresh model."""
    d, mlp, wide = shape["d_model"], shape["d_mlp"], shape["d_model"] * shape["heads"]
    sizes = {"embedding": (shape["vocab"] + shape["globals"], d, 0.1)}
    for block in range(shape["blocks"]):
        name = f"encoder.transformer.{block}"
        sizes.update({f"{name}.attention.W_{part}": (wide, d, 1 / math.sqrt(d)) for part in "qkv"})
        sizes.update({f"{name}.attention.W_o": (d, wide, 1 / math.sqrt(wide)), f"{name}.ffn.0": (mlp, d, 1 / math.sqrt(d)),
                      f"{name}.ffn.3": (d, mlp, 1 / math.sqrt(mlp))})
    sizes["linear"] = (shape["classes"], d, 0.1)
    out = {}
    for name, (rows, columns, bound) in sizes.items():
        out[name + ".weight"] = ([rows, columns], [as_f32(dice.uniform(-bound, bound)) for _ in range(rows * columns)])
        if name != "embedding":
            out[name + ".bias"] = ([rows], [as_f32(dice.uniform(-bound, bound)) for _ in range(rows)])
    return out


def as_f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def make(path, options):
    given = dict(option.split("=", 1) for option in options)
    dice = random.Random(int(given.pop("seed", "1")))
    unknown = sorted(set(given) - set(SHAPE))
    if unknown:
        sys.exit(f"make.py: '{unknown[0]}' is no property of a golden file; choose of seed, {', '.join(SHAPE)}")
    shape = {name: type(default)(given.get(name, default)) for name, default in SHAPE.items()}
    params = drawn_params(shape, dice)
    extra = list(range(shape["vocab"], shape["vocab"] + shape["globals"]))
    tokens = [[dice.randrange(shape["vocab"]) for _ in range(shape["length"])] + extra for _ in range(shape["batch"])]
    labels = [dice.randrange(shape["classes"]) for _ in tokens]
    results = compute(shape, {name: rows_of(*tensor) for name, tensor in params.items()}, tokens, labels)
    tensors = {"param." + name: ("F32", *tensor) for name, tensor in params.items()}
    tensors["tokens"] = ("I32", [len(tokens), len(tokens[0])], [token for row in tokens for token in row])
    tensors["labels"] = ("I32", [len(labels)], labels)
    for name, values in results.items():
        dimensions = params[name[5:]][0] if name.startswith("grad.") else [len(values)]
        tensors[name] = ("F64", [len(labels), shape["classes"]] if name == "logits" else dimensions, values)
    write(path, shape, tensors)


def check(path):
    """The largest difference beside the size of what it is part of, and where it is."""
    shape, tensors = read(path)
    params = {name[6:]: rows_of(*tensor) for name, tensor in tensors.items() if name.startswith("param.")}
    results = compute(shape, params, rows_of(*tensors["tokens"]), tensors["labels"][1])
    expected = {name for name in tensors if not name.startswith("param.")} - {"tokens", "labels"}
    if set(results) != expected:
        sys.exit(f"{path}: has {sorted(expected - set(results))} too many and {sorted(set(results) - expected)} too few")
    whole = tensors["grad_norm"][1][0]
    worst = (0.0, "")
    for name, values in results.items():
        stored = tensors[name][1]
        size = max(max(map(abs, stored)), whole if name.startswith("grad.") else 0.0)
        finite = all(map(math.isfinite, [*values, *stored]))
        worst = max(worst, (max(abs(a - b) for a, b in zip(values, stored)) / size if finite else math.inf, name))
    return worst


def main():
    words = sys.argv[1:]
    if len(words) >= 2 and words[0] == "write":
        make(words[1], words[2:])
    elif len(words) >= 2 and words[0] == "check":
        off = 0
        for path in words[1:]:
            error, name = check(path)
            off += not error <= LIMIT
            print(f"{path}: {error:.1e} ({name or 'equal'}){'' if error <= LIMIT else f', more than {LIMIT}'}")
        sys.exit(1 if off else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
