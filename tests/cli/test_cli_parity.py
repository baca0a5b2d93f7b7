"""semfocus parity: golden files pass, changed ones fail, broken ones are refused with a sentence."""
import json
import math
import os
import random
import struct
import unittest

from harness import GOLDEN, Case, run

FILES = sorted(GOLDEN.glob("*.safetensors"))


def unpack(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + length]), bytearray(content[8 + length:])


def pack(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


class Parity(Case):
    def setUp(self):
        super().setUp()
        self.source = GOLDEN / "topk5.safetensors"
        self.header, self.data = unpack(self.source)

    def broken(self, content, mentions=()):
        path = self.write("broken.safetensors", content)
        self.refused("parity", path, mentions=(path.name, *mentions))

    def differs(self, content):
        path = self.write("changed.safetensors", content)
        result = run("parity", path)
        self.assertEqual((result.code, result.err), (1, ""), result)
        self.assertEqual(result.out.count("\n"), 1, result)
        self.assertIn(path.name, result.out, result)
        return result

    def poke(self, name, value, index=0, data=None):
        data = self.data if data is None else data
        entry = self.header[name]
        form, size = {"F32": ("<f", 4), "F64": ("<d", 8), "I32": ("<i", 4)}[entry["dtype"]]
        struct.pack_into(form, data, entry["data_offsets"][0] + index * size, value)

    def peek(self, name, index=0):
        return struct.unpack_from("<d", self.data, self.header[name]["data_offsets"][0] + 8 * index)[0]

    def repacked(self):
        return pack(self.header, self.data)


class GoldenFiles(Parity):
    def test_all_pass_with_a_line_each(self):
        self.assertGreaterEqual(len(FILES), 18)
        result = self.good("parity", *FILES)
        lines = result.out.splitlines()
        self.assertEqual(len(lines), len(FILES), result)
        for path, line in zip(FILES, lines):
            self.assertIn(path.name, line)

    def test_json(self):
        rows = json.loads(self.good("parity", "--json", *FILES).out)
        self.assertEqual([row["file"] for row in rows], [str(path) for path in FILES])
        for row in rows:
            self.assertTrue(row["passes"])
            self.assertEqual((row["reference"]["limit"], row["f32"]["limit"]), (1e-9, 2e-5))
            self.assertLessEqual(row["reference"]["worst"], 1e-9)
            self.assertLessEqual(row["f32"]["worst"], 2e-5)

    def test_bf16_has_its_own_limit_and_says_how_many_kept_sets_are_equal(self):
        result = run("parity", "--json", "--precision", "bf16", GOLDEN / "topk5-heads2.safetensors")
        if result.code == 2:
            self.assertIn("bf16", result.err)
            self.skipTest("no instruction set for bf16")
        row = json.loads(result.out)[0]
        self.assertEqual((row["passes"], row["bf16"]["limit"]), (True, 0.03))
        self.assertNotIn("f32", row)
        self.assertTrue(2e-5 < row["bf16"]["worst"] <= 0.03, row)
        self.assertTrue(0.9 < row["equal_kept"] <= 1, row)
        text = self.good("parity", "--precision", "bf16", GOLDEN / "topk5-heads2.safetensors").out
        self.assertIn(f"{100 * row['equal_kept']:.2f} % of kept sets equal", text)

    def test_repacked_file_passes(self):
        self.good("parity", self.write("again.safetensors", self.repacked()))

    def test_good_and_bad_files_together(self):
        bad = self.write("bad.safetensors", b"")
        result = run("parity", FILES[0], bad, FILES[1])
        self.assertEqual((result.code, result.out.count("\n")), (2, 2), result)
        self.one_sentence(result, "bad.safetensors")
        result = run("parity", "--json", FILES[0], bad, FILES[1])
        self.assertEqual((result.code, len(json.loads(result.out))), (2, 2), result)

    def test_file_name_that_is_not_utf8_is_still_in_the_json(self):
        path = os.fsencode(self.folder) + b"/na\xffme.safetensors"
        with open(path, "wb") as out:
            out.write(self.source.read_bytes())
        rows = json.loads(self.good("parity", "--json", path).out)
        self.assertEqual([row["passes"] for row in rows], [True])


class ChangedValues(Parity):
    def test_a_changed_value_fails(self):
        for name in ["logits", "losses", "grad_norm", "grad.linear.weight", "grad.embedding.weight",
                     "grad.encoder.transformer.0.attention.W_k.bias", "grad.encoder.transformer.1.ffn.3.bias"]:
            with self.subTest(name):
                self.header, self.data = unpack(self.source)
                begin, end = self.header[name]["data_offsets"]
                last = (end - begin) // 8 - 1
                value = self.peek(name, last)
                self.poke(name, value + 0.01 * max(abs(value), 1e-3), last)  # the key bias has gradient 0
                self.assertIn(name, self.differs(self.repacked()).out)

    def test_a_changed_high_mantissa_byte_fails(self):
        for name in ["logits", "losses", "grad.linear.bias"]:
            with self.subTest(name):
                self.header, self.data = unpack(self.source)
                self.data[self.header[name]["data_offsets"][0] + 6] ^= 0x08
                self.differs(self.repacked())

    def test_a_changed_parameter_fails(self):
        self.poke("param.linear.weight", 0.5)
        self.differs(self.repacked())

    def test_limits_of_both_paths(self):
        """1e-7 is within the limit of the f32 path and beyond that of the reference."""
        self.poke("logits", self.peek("logits") * (1 + 1e-7))
        path = self.write("near.safetensors", self.repacked())
        result = run("parity", "--json", path)
        row = json.loads(result.out)[0]
        self.assertEqual((result.code, row["passes"], row["reference"]["passes"], row["f32"]["passes"]),
                         (1, False, False, True), result)
        self.assertAlmostEqual(row["reference"]["worst"], 1e-7, delta=1e-10)

    def test_values_that_are_not_finite_fail(self):
        for value in (math.nan, math.inf, -math.inf):
            for name in ["logits", "losses", "grad_norm", "grad.linear.weight"]:
                with self.subTest(name=name, value=value):
                    self.header, self.data = unpack(self.source)
                    self.poke(name, value)
                    self.differs(self.repacked())
                    result = run("parity", "--json", self.folder / "changed.safetensors")
                    self.assertEqual((result.code, json.loads(result.out)[0]["passes"]), (1, False), result)

    def test_parameters_that_are_not_finite_fail_in_every_mechanism(self):
        for path in FILES:
            for value in (math.nan, math.inf, 3e38):
                for name in ["param.embedding.weight", "param.encoder.transformer.0.attention.W_q.weight",
                             "param.encoder.transformer.1.attention.W_k.bias"]:
                    with self.subTest(file=path.name, name=name, value=value):
                        self.header, self.data = unpack(path)
                        token = struct.unpack_from("<i", self.data, self.header["tokens"]["data_offsets"][0])[0]
                        self.poke(name, value, token * 8 if "embedding" in name else 0)  # a row that is in use
                        self.differs(self.repacked())


class BrokenFiles(Parity):
    def test_missing_directory_and_empty(self):
        self.refused("parity", self.folder / "absent.safetensors", mentions=["absent.safetensors"])
        self.refused("parity", self.folder, mentions=[self.folder.name])
        self.refused("parity", "")
        self.broken(b"")

    def test_cut_short(self):
        whole = self.source.read_bytes()
        header_end = 8 + struct.unpack("<Q", whole[:8])[0]
        for size in {1, 7, 8, 9, header_end // 2, header_end - 1, header_end, header_end + 1, len(whole) // 2,
                     len(whole) - 1, *range(10, len(whole), 497)}:
            with self.subTest(size):
                self.broken(whole[:size])
        with self.subTest("one byte more"):
            self.broken(whole + b"\0")

    def test_lying_header_length(self):
        whole = self.source.read_bytes()
        true = struct.unpack("<Q", whole[:8])[0]
        for length in (0, 1, true - 40, true + 1, len(whole), 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 8):
            with self.subTest(length):
                self.broken(struct.pack("<Q", length) + whole[8:])

    def test_header_that_is_no_object(self):
        for text in (b"hello", b"null", b"[]", b"3", b'"x"', b"{", b"{}", b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe",
                     b'{"\\u0000": 1}', b'{"__metadata__": {}}', b'{"a": null}', b'{"a": []}', b"{} {}"):
            with self.subTest(text[:12]):
                self.broken(pack(text, self.data))

    def test_duplicate_keys(self):
        text = json.dumps(self.header)
        logits = json.dumps(self.header["logits"])
        self.broken(pack((text[:-1] + f', "logits": {logits}}}').encode(), self.data))
        self.broken(pack(text.replace('"vocab": "9"', '"vocab": "9", "vocab": "9"').encode(), self.data))

    def test_lying_offsets(self):
        begin, end = self.header["logits"]["data_offsets"]
        size = len(self.data)
        for offsets in ([begin - 8, end - 8], [begin + 8, end + 8], [begin, end + 8], [begin, end - 8], [end, begin],
                        [-8, end - begin - 8], [-end, -begin], [size, size + end - begin], [0, end - begin],
                        [2**62, 2**62 + end - begin], [2**63 - 1, 2**63 - 1], [2**64, 2**64], [1e300, 1e300],
                        [float(begin), float(end)], [str(begin), str(end)], [begin], [begin, end, end], [], None, "x",
                        [None, None], {"0": begin, "1": end}):
            with self.subTest(offsets):
                self.header["logits"]["data_offsets"] = offsets
                self.broken(self.repacked())

    def test_two_tensors_at_one_place(self):
        self.header["labels2"] = dict(self.header["labels"])
        self.broken(self.repacked())

    def test_wrong_dtype(self):
        for name, dtype in [("logits", "F32"), ("logits", "I64"), ("logits", "U64"), ("logits", "F8"), ("logits", ""),
                            ("logits", 64), ("logits", None), ("tokens", "F32"), ("tokens", "U32"),
                            ("param.linear.bias", "I32"), ("grad.linear.bias", "I64")]:
            with self.subTest(name=name, dtype=dtype):
                self.header, self.data = unpack(self.source)
                self.header[name]["dtype"] = dtype
                self.broken(self.repacked())

    def test_wrong_shape(self):
        for name, shape in [("logits", [4, 3]), ("logits", [12]), ("logits", [3, 4, 1]), ("logits", []),
                            ("logits", [-3, -4]), ("logits", [2**62, 4]), ("logits", [2**63, 1]),
                            ("logits", [3.0, 4.0]), ("logits", "12"), ("logits", None), ("logits", [1] * 4000 + [12]),
                            ("labels", [3, 1]), ("param.embedding.weight", [8, 9]), ("grad_norm", [1, 1]),
                            ("tokens", [12, 3])]:
            with self.subTest(name=name, shape=str(shape)[:40]):
                self.header, self.data = unpack(self.source)
                self.header[name]["shape"] = shape
                self.broken(self.repacked())

    def test_missing_tensor(self):
        for name in [key for key in self.header if key != "__metadata__"]:
            with self.subTest(name):
                self.header, self.data = unpack(self.source)
                self.header["other." + name] = self.header.pop(name)
                self.broken(self.repacked(), [name])

    def test_bad_metadata(self):
        whole = dict(self.header["__metadata__"])
        for key in whole:
            for value in (None, "", "0x", "nan", "-2", "1e999", "-99999999999999999999", 5, [], "x" * 5000):
                with self.subTest(key=key, value=str(value)[:20]):
                    self.header["__metadata__"] = {**whole, key: value}
                    if value is None:
                        del self.header["__metadata__"][key]
                    self.broken(self.repacked(), [key])

    def test_absurd_metadata(self):
        whole = dict(self.header["__metadata__"])
        for change in ({"k": "0"}, {"k": "-1"}, {"attention": "full"}, {"attention": "bogus"}, {"globals": "1"},
                       {"d_model": "4096"}, {"d_model": "1000000000"}, {"d_model": "0"}, {"vocab": "8"},
                       {"vocab": "65536"}, {"classes": "3"}, {"length": "65536"}, {"batch": "65536"}, {"heads": "64"},
                       {"blocks": "1024"}, {"blocks": "3"}, {"steps": "2"}, {"activation": "tanh"}, {"norm": "rms"},
                       {"d_model": "4096", "d_mlp": "16384", "heads": "64", "blocks": "1024", "length": "65536"}):
            with self.subTest(change):
                self.header["__metadata__"] = {**whole, **change}
                self.broken(self.repacked())
        for metadata in (None, [], "x", {}):
            with self.subTest(metadata):
                self.header["__metadata__"] = metadata
                self.broken(self.repacked())

    def test_metadata_that_fits_but_lies_fails(self):
        whole = dict(self.header["__metadata__"])
        for change in ({"blocks": "1"}, {"k": "4"}, {"attention": "bottomk"}, {"activation": "gelu"}, {"norm": "post"},
                       {"inv_temp": "2"}, {"inv_temp": "1e300"}, {"sgd_lr": "1e300"}, {"clip": "1e300"}, {"clip": "0"}):
            with self.subTest(change):
                self.header["__metadata__"] = {**whole, **change}
                self.differs(self.repacked())

    def test_token_and_label_out_of_range(self):
        for name, value in [("tokens", 9), ("tokens", -1), ("tokens", 2**31 - 1), ("labels", 4), ("labels", -1)]:
            with self.subTest(name=name, value=value):
                self.header, self.data = unpack(self.source)
                self.poke(name, value, 2)
                self.broken(self.repacked(), [name])

    def test_random_damage_never_crashes(self):
        seed = 20250614
        draw = random.Random(seed)
        whole = self.source.read_bytes()
        for i in range(300):
            damaged = bytearray(whole)
            for _ in range(draw.choice((1, 1, 2, 8))):
                damaged[draw.randrange(draw.choice((8, 300, 6568, len(whole))))] = draw.randrange(256)
            path = self.write("damaged.safetensors", bytes(damaged))
            result = run("parity", path)
            self.assertIn(result.code, (0, 1, 2), f"seed {seed}, file {i}{result}")
            if result.code == 2:
                self.one_sentence(result, path.name)


if __name__ == "__main__":
    unittest.main()
