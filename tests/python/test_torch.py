"""The operator of PyTorch and the modules of stored runs. Skipped where PyTorch is not installed; --full adds torch.compile."""
import ctypes
import math
import os
import subprocess
import sys
import unittest
from pathlib import Path


from place import PROGRAM, SMALL, InFolder, semfocus

try:
    import torch
except ImportError:
    print("skipped: semfocus.torch (PyTorch is not installed)")
    sys.exit(77)

import semfocus.torch
from semfocus._torch_model import plain_attention
from semfocus.torch import Model, _backward, _forward, _request, attention

FULL = "SEMFOCUS_FULL" in os.environ
torch.set_num_threads(1)  # arrays are small, and the machine is shared with other tests
SELECTORS = ("full", "topk:3", "bottomk:3", "banded:3", "block:4", "random:3", "topp:0.7", "within:0.8", "blocktopk:3:2",
             "kmeans:3:2", "lsh:4:2")
WEIGHTINGS = ("softmax1", "sigmoid", "softplus", "sparsemax", "entmax15", "entmax:1.3", "fastmax", "doubly")
EXTRAS = ("sink:1", "window:3", "random:2", "global:2", "st")
TRANSFORMS = ("rope", "qknorm:4", "alibi", "softcap:2", "logn")
MECHANISMS = (SELECTORS + tuple(f"full/{w}" for w in WEIGHTINGS) + tuple(f"topk:3/{w}" for w in WEIGHTINGS if w != "doubly") +
              tuple(f"topk:3+{e}" for e in EXTRAS) + tuple(f"topk:3@{t}" for t in TRANSFORMS))
WITH_CUDA = "not in this build" not in subprocess.run([PROGRAM, "list", "backends"], capture_output=True, text=True, check=True).stdout
NOT_CAUSAL = ("kmeans", "doubly", "global", "lsh")


def chance(mechanism):
    return any(word in mechanism for word in ("random", "lsh"))


def drawn(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, dtype=dtype, generator=generator, requires_grad=True) for _ in range(3)]


def naive(q, k, v, mechanism, causal=False, scale=None):
    """What people write: all scores, a mask, softmax."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return plain_attention(q, k, v, mechanism, causal, scale)


def gradients(out, inputs, seed=1):
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed)).to(out.dtype)
    return torch.autograd.grad((out * weight).sum(), inputs)


class Operator(unittest.TestCase):
    def test_opcheck(self):
        parts = semfocus.parts()
        tested = {word.split(":")[0] for mechanism in MECHANISMS for word in
                  mechanism.replace("+", " ").replace("/", " ").replace("@", " ").split()}
        built_in = {part["name"] for kind in ("selectors", "weightings", "extras", "score_transforms") for part in parts[kind] if not part["name"].startswith("py-")}
        self.assertEqual(built_in - tested - {"softmax"}, set())
        for mechanism in MECHANISMS:
            with self.subTest(mechanism=mechanism):
                tests = ("test_schema", "test_autograd_registration", "test_faketensor") + (
                    ("test_aot_dispatch_dynamic",) if FULL or mechanism in ("full", "topk:3") else ())
                torch.library.opcheck(_forward, (*drawn(1, 2, 9, 4), mechanism, False, 0.0, 3), test_utils=tests)

    def test_gradcheck_in_double(self):
        for mechanism in MECHANISMS:
            if chance(mechanism) or "st" in mechanism.split("+"):
                continue
            for causal in (False, True):
                if causal and any(word in mechanism for word in NOT_CAUSAL):
                    continue
                with self.subTest(mechanism=mechanism, causal=causal):
                    inputs = drawn(1, 2, 7, 4, dtype=torch.float64, seed=5)
                    self.assertTrue(torch.autograd.gradcheck(
                        lambda q, k, v: attention(q, k, v, mechanism, is_causal=causal, scale=0.7), inputs))

    def test_float_against_double(self):
        for mechanism in MECHANISMS:
            for shape in ((2, 3, 13, 8), (130, 20), (1, 1, 1, 3), (3, 97, 5)):
                if "global" in mechanism and shape[-2] < 3:
                    continue
                with self.subTest(mechanism=mechanism, shape=shape):
                    single = drawn(*shape)
                    double = [x.detach().double().requires_grad_() for x in single]
                    mine, reference = attention(*single, mechanism, seed=4), attention(*double, mechanism, seed=4)
                    # rounding may decide which of two keys is kept: such queries are few, and are left out
                    close = (mine - reference).abs() < 2e-5
                    self.assertGreater(close.float().mean().item(), 0.97)
                    if close.all():
                        for a, b in zip(gradients(mine, single), gradients(reference, double)):
                            self.assertLess((a - b).abs().max().item(), 1e-3 if "sparsemax" in mechanism else 5e-5)

    def test_against_what_people_write(self):
        for mechanism in ("full", "topk:5", "topk:40", "banded:5", "block:5"):
            for causal in (False, True):
                with self.subTest(mechanism=mechanism, causal=causal):
                    inputs = drawn(2, 2, 100, 16, seed=2)
                    mine, theirs = attention(*inputs, mechanism, is_causal=causal), naive(*inputs, mechanism, causal)
                    self.assertLess((mine - theirs).abs().max().item(), 2e-5)
                    for a, b in zip(gradients(mine, inputs), gradients(theirs, inputs)):
                        self.assertLess((a - b).abs().max().item(), 2e-5)

    def test_like_scaled_dot_product_attention(self):
        inputs = drawn(2, 4, 33, 16)
        for arguments in ({}, {"is_causal": True}, {"scale": 0.3}):
            theirs = torch.nn.functional.scaled_dot_product_attention(*inputs, **arguments)
            self.assertLess((attention(*inputs, "full", **arguments) - theirs).abs().max().item(), 2e-5)

    def test_the_same_bits_with_any_number_of_threads(self):
        before = torch.get_num_threads()
        inputs = drawn(1, 300, 24)
        try:
            for mechanism in MECHANISMS if FULL else ("full", "topk:3", "full/sigmoid", "full/fastmax", "kmeans:3:2"):
                found = []
                for threads in (1, 2, 3):
                    torch.set_num_threads(threads)
                    out = attention(*inputs, mechanism)
                    found.append([out.detach(), *gradients(out, inputs)])
                for other in found[1:]:
                    for a, b in zip(found[0], other):
                        self.assertTrue(torch.equal(a, b), mechanism)
        finally:
            torch.set_num_threads(before)

    def test_strides_empty_batches_and_long_sequences(self):
        q, k, v = drawn(2, 9, 3, 4)
        views = [x.transpose(1, 2) for x in (q, k, v)]
        a, b = attention(*views, "topk:3"), attention(*(x.contiguous() for x in views), "topk:3")
        self.assertTrue(torch.equal(a, b))
        self.assertEqual(attention(*drawn(0, 2, 5, 4), "topk:3").shape, (0, 2, 5, 4))
        long = drawn(1, 1, 2000, 16)
        self.assertLess((attention(*long, "topk:32") - naive(*long, "topk:32")).abs().max().item(), 2e-5)

    def test_chance_follows_the_seed(self):
        inputs = drawn(1, 1, 40, 8)
        one, again, other = (attention(*inputs, "random:5", seed=seed) for seed in (1, 1, 2))
        self.assertTrue(torch.equal(one, again))
        self.assertFalse(torch.equal(one, other))

    def test_a_selector_of_ones_own(self):
        @semfocus.selector("py-torch", keeps_k=True)
        def largest(scores, k):
            return (-scores).argsort(axis=-1, kind="stable")[..., :k]
        inputs = drawn(2, 2, 30, 8)
        mine, theirs = attention(*inputs, "py-torch:3"), attention(*inputs, "topk:3")
        self.assertTrue(torch.equal(mine, theirs))
        for a, b in zip(gradients(mine, inputs), gradients(theirs, inputs)):
            self.assertTrue(torch.equal(a, b))

        @semfocus.selector("py-torch-bad")
        def bad(scores):
            raise KeyError("mine")
        with self.assertRaisesRegex(ValueError, "KeyError"):
            attention(*inputs, "py-torch-bad")

    def test_bad_input(self):
        q, k, v = drawn(2, 2, 5, 4)
        for arguments in ((q, k[:, :, :3], v, "full"), (q, k, v[..., :2], "full"), (q.half(), k.half(), v.half(), "full"),
                          (q, k.double(), v, "full"), (q, k, v, "topq:3"), (q, k, v, "topk:0"), (q[0, 0, 0],) * 3 + ("full",)):
            with self.assertRaises(ValueError):
                attention(*arguments)
        with self.assertRaises(ValueError):
            attention(q, k, v, "full", scale=-1.0)
        with self.assertRaises(ValueError):
            attention(q, k, v, "kmeans:3:2", is_causal=True)
        for seed in (-1, 2**32):
            with self.assertRaisesRegex(ValueError, "seed is -?[0-9]+ but must lie in 0 to 4294967295"):
                attention(q, k, v, "random:3", seed=seed)
        with self.assertRaisesRegex(ValueError, "code 0"):
            attention(q, k, v, "topk:3\0and more")
        with self.assertRaisesRegex(TypeError, "key is of the type ndarray"):
            attention(q, k.detach().numpy(), v)
        with self.assertRaisesRegex(TypeError, "multiply query by the tensor"):
            attention(q, k, v, scale=torch.nn.Parameter(torch.tensor(0.5)))

    def test_forward_mode_is_refused(self):
        x = drawn(2, 5, 4)[0].detach()  # PyTorch would take the tangent for 0
        for asked in (lambda: torch.func.jvp(lambda y: attention(y, y, y, "topk:3"), (x,), (x,)),
                      lambda: torch.func.jacfwd(lambda y: attention(x, x, y, "topk:3"))(x)):
            with self.assertRaisesRegex(NotImplementedError, "backward mode"):
                asked()


class OnGpu(unittest.TestCase):
    """What can be seen without a GPU: fake tensors. tests/cuda/raw.c has the numbers."""

    @staticmethod
    def faked(*shape, **options):
        return [torch.empty(*shape, device="cuda", requires_grad=True, **options) for _ in range(3)]

    def test_fake_tensors(self):
        with torch._subclasses.FakeTensorMode():
            for mechanism in ("full", "topk:3", "topk:3+sink:1/entmax15@rope"):
                inputs = self.faked(2, 3, 7, 8)
                if not WITH_CUDA:
                    with self.assertRaisesRegex(Exception, "built without CUDA"):
                        attention(*inputs, mechanism)
                    continue
                out = attention(*inputs, mechanism)
                self.assertEqual((out.device.type, out.shape, out.dtype), ("cuda", inputs[0].shape, torch.float32))
                _, trace = _forward(*inputs, mechanism, False, 0.0, 0)
                for gradient in _backward(out, out, trace, *inputs, mechanism, False, 0.0, 0):  # autograd asks for a real device
                    self.assertEqual((gradient.device.type, gradient.shape), ("cuda", out.shape))

    def test_traces(self):
        sizes = {"full": 8 * 3 * 7, "topk:3": (4 + 4) * 3 * 7 * 3, "topp:0.7": 0}
        with torch._subclasses.FakeTensorMode():
            for mechanism, size in sizes.items() if WITH_CUDA else ():
                _, trace = _forward(*self.faked(2, 3, 7, 8), mechanism, False, 0.0, 0)
                self.assertEqual((trace.device.type, trace.shape[0], trace.dtype), ("cuda", 2, torch.uint8))
                self.assertEqual(trace.shape[1] % 64, 0)
                self.assertLessEqual(size, trace.shape[1])
                self.assertLess(trace.shape[1], size + 2 * 64)

    def test_refused(self):
        with torch._subclasses.FakeTensorMode():
            q, k, v = self.faked(2, 5, 4)
            with self.assertRaisesRegex(ValueError, "float64 on cuda:0.*float64 on the CPU: give q.cpu()"):
                attention(*self.faked(2, 5, 4, dtype=torch.float64), "full")
            with self.assertRaisesRegex(ValueError, "cuda:0, cpu and cuda:0.*give q.cpu()"):
                attention(q, torch.empty(2, 5, 4), v, "full")
            with self.assertRaises(ValueError):
                attention(q, k, v, "topq:3")

    def test_the_library_sees_the_request(self):
        q = torch.zeros(1, 2, 4, dtype=torch.float64)
        request = _request(q, "full", False, 0.0, 0, 1)
        self.assertFalse(request.on_gpu)
        request.on_gpu = True
        with self.assertRaisesRegex(semfocus.Error, "double is computed on the CPU alone"):
            semfocus._library.call("sf_raw_attention_forward_double", *[q.data_ptr()] * 4, ctypes.byref(request))


class Layer(torch.nn.Module):
    def __init__(self, mechanism):
        super().__init__()
        self.qkv, self.out, self.mechanism = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16), mechanism

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return x + self.out(torch.nn.functional.relu(attention(q, k, v, self.mechanism).transpose(1, 2).flatten(2)))


class Compiled(unittest.TestCase):
    def compare(self, backend, mechanisms):
        for mechanism in mechanisms:
            with self.subTest(mechanism=mechanism):
                torch.manual_seed(3)
                layer, x = Layer(mechanism), torch.randn(2, 20, 16)
                compiled = torch.compile(layer, fullgraph=True, backend=backend)
                results = []
                for run in (layer, compiled):
                    layer.zero_grad()
                    out = run(x)
                    out.square().sum().backward()
                    results.append([out.detach()] + [p.grad.clone() for p in layer.parameters()])
                for a, b in zip(*results):
                    self.assertLess((a - b).abs().max().item(), 2e-5)

    def test_fullgraph_without_code_generation(self):
        self.compare("aot_eager", ("full", "topk:3", "topk:3/entmax15"))

    def test_new_seeds_and_numbers_of_sequences_compile_nothing(self):
        from torch._dynamo.testing import CompileCounterWithBackend
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(lambda *x: attention(*x[:3], "random:3", seed=x[3]), fullgraph=True, backend=counter)
        for seed, count in enumerate((2, 3, 5, 7, 4, 6, 9, 8, 10, 11, 12)):  # more than torch.compile tries
            inputs = drawn(count, 2, 9, 4)
            mine, expected = compiled(*inputs, seed), attention(*inputs, "random:3", seed=seed)
            self.assertTrue(torch.equal(mine, expected))
            for a, b in zip(gradients(mine, inputs), gradients(expected, inputs)):
                self.assertTrue(torch.equal(a, b))
        self.assertLessEqual(counter.frame_count, 3)  # once with the first numbers, then with symbols

    @unittest.skipUnless(FULL, "torch.compile with inductor is for --full")
    def test_fullgraph_with_inductor(self):
        self.compare("inductor", ("full", "topk:3", "banded:3/sigmoid@rope"))


class Modules(InFolder):
    tokens = [[0, 1, 0], [1] * 8, [0], [0, 1, 1, 0, 1]]

    def test_the_same_logits(self):
        for attention_, settings in (("full", {}), ("topk:3", {"heads": 2, "norm": "post"}), ("topk:3+global:2", {"activation": "gelu"}),
                                     ("banded:3", {"readout": "last", "activation": "mish"}), ("full/entmax15@rope", {}),
                                     ("topk:3", {"causal": True, "readout": "last", "inverse_temperature": 2.5}), ("block:3", {"pad": "none"}),
                                     ("topk:3@alibi", {"heads": 3}), ("topk:3+global:1", {"readout": "cls"})):
            with self.subTest(attention=attention_, **settings):
                run = self.train(attention_, **settings)
                expected = torch.tensor(run.predict(self.tokens))
                path = os.path.join(self.folder, "w.safetensors")
                self.command("export", run.id, "--store", self.store, "--format", "safetensors", "--out", path)
                for model in (Model.from_run(run), Model.from_file(path)):
                    tokens = model.lay_out(self.tokens)
                    self.assertEqual(tokens.tolist(), run.lay_out(self.tokens).tolist())
                    self.assertLess((model(tokens) - expected).abs().max().item(), 1e-5)
                if attention_.split(":")[0] in ("full", "topk", "banded", "block") and not set("+/@") & set(attention_):
                    plain = Model.from_run(run, plain=True).double()
                    plain.table = Model.from_run(run).table.double()
                    self.assertLess((plain(plain.lay_out(self.tokens)) - expected).abs().max().item(), 1e-5)

    def test_heads_of_their_own_width(self):
        for task, settings in (("even-pairs", {"heads": 2, "head_width": 4}), ("even-pairs", {"width": 6, "head_width": 20}),
                               ("binary-addition", {"length": 9, "width": 16}), ("word-problem", {"width": 16})):
            with self.subTest(task=task, **settings):
                run = semfocus.train(task, attention="topk:3", seed=1, store=self.store, **{**SMALL, **settings})
                tokens = [[0, 1, 0, 1, 1]]
                model, logits = Model.from_run(run), torch.tensor(run.predict(tokens))
                self.assertEqual(model.facts.head_width, run["head_width"])
                self.assertAlmostEqual(model.facts.score_scale, run["head_width"] ** -0.5)
                for built in (model, Model.from_run(run, plain=True)):
                    self.assertLess((built(built.lay_out(tokens)) - logits).abs().max().item(), 1e-5)

    def test_tied_weights(self):
        path = os.path.join(self.folder, "w.safetensors")
        for task, settings in (("even-pairs", {}), ("even-pairs", {"readout": "cls"}), ("reverse-string", {"length": 10})):
            run = semfocus.train(task, attention="topk:3+global:1", tie_weights=True, seed=1, store=self.store, **{**SMALL, **settings})
            tokens = [[0, 1, 0, 1, 1]]
            expected = torch.tensor(run.predict(tokens))
            self.command("export", run.id, "--store", self.store, "--format", "safetensors", "--out", path)
            weights, metadata = run.export()
            self.assertEqual((metadata["tie-weights"], run.describe()["tie-weights"]), ("yes", "yes"))
            earlier = {name: value for name, value in metadata.items() if name != "tie-weights"}
            for model in (Model.from_run(run), Model.from_file(path), Model._with(weights, earlier, False)):
                self.assertEqual(sorted(model.state_dict()), sorted(weights))
                self.assertLess((model(model.lay_out(tokens)) - expected).abs().max().item(), 1e-5)

    def test_logits_at_every_position(self):
        run = semfocus.train("reverse-string", attention="topk:3", seed=1, store=self.store, **{**SMALL, "length": 10})
        model, tokens = Model.from_run(run), [[0, 1, 0, 0, 1, 1, 0, 1], [1, 1]]
        logits = run.predict(tokens)
        self.assertEqual(logits.shape[::2], (2, 2))
        self.assertLess((model(model.lay_out(tokens)) - torch.tensor(logits)).abs().max().item(), 1e-5)

    def test_a_module_can_be_trained_further(self):
        model = Model.from_run(self.train("topk:3"))
        optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
        tokens, labels = model.lay_out(self.tokens), torch.tensor([0, 1, 1, 0])
        for _ in range(30):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0])

    def test_what_it_cannot_build(self):
        run = self.train("topk:3/sigmoid")
        with self.assertRaisesRegex(ValueError, "plain"):
            model = Model.from_run(run, plain=True)
            model(model.lay_out(self.tokens))
        built = Model.from_run(run)
        self.assertEqual(built(built.lay_out([])).shape, (0, 2))
        with self.assertRaisesRegex(ValueError, r"shape \(2, 3\) but must be \[B, 9\]; lay_out"):
            built(torch.zeros(2, 3, dtype=torch.long))
        path = Path(self.folder) / "bad.safetensors"
        for header, sentence in ((b"xx", "Expecting value"), (b'{"a": {}}', "data_offsets"),
                                 (b'{"a": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}', "'a' is F16, but"),
                                 (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 2]}}', "multiple")):
            path.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
            with self.assertRaisesRegex(ValueError, "bad.safetensors' cannot be read as a safetensors file: .*" + sentence):
                Model.from_file(path)
        weights, metadata = run.export()
        for name, value in (("readout", "sum"), ("position-encoding", "learned"), ("model", "semfocus 2")):
            with self.assertRaisesRegex(ValueError, value):
                Model._with(weights, {**metadata, name: value}, False)
        metadata.pop("epsilon")
        with self.assertRaisesRegex(ValueError, "epsilon"):
            Model._with(weights, metadata, False)

    def test_examples_of_docstrings(self):
        import doctest
        from semfocus import _torch_model
        semfocus.train("even-pairs", attention=["full", "topk:3"], seed=1, store=self.store, **SMALL)
        for module in (semfocus.torch, _torch_model):
            self.assertEqual(doctest.testmod(module, extraglobs={"STORE": self.store}, verbose=False).failed, 0)


if __name__ == "__main__":
    unittest.main()
