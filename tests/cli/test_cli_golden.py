"""The golden files: tests/golden/make.py gives the numbers they hold, and makes new ones that semfocus agrees with."""
import subprocess
import sys
import unittest

from harness import GOLDEN, Case

MAKE = GOLDEN / "make.py"
NEW = (["attention=full", "heads=2", "activation=mish", "length=7", "seed=3"],
       ["attention=topk", "k=3", "d_model=12", "blocks=3", "seed=4"],
       ["attention=bottomk", "k=2", "norm=post", "batch=1", "activation=gelu", "seed=5"],
       ["attention=banded", "k=3", "globals=2", "length=11", "inv_temp=1.5", "seed=6"],
       ["attention=block", "k=4", "globals=1", "d_mlp=5", "classes=2", "clip=100", "seed=7"],
       ["attention=full", "length=1", "seed=8"])


def make(*words):
    return subprocess.run([sys.executable, MAKE, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)


class Golden(Case):
    def test_every_file_holds_what_the_generator_computes(self):
        files = sorted(GOLDEN.glob("*.safetensors"))
        self.assertGreaterEqual(len(files), 18)
        done = make("check", *files)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("\n"), len(files))

    def test_a_changed_number_is_found(self):
        content = bytearray((GOLDEN / "topk5.safetensors").read_bytes())
        content[-10] ^= 1  # within the last loss
        done = make("check", self.write("changed.safetensors", bytes(content)))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("losses", done.stdout)

    def test_semfocus_agrees_with_new_files(self):
        for options in NEW:
            with self.subTest(options):
                path = self.folder / "new.safetensors"
                done = make("write", path, *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.good("parity", path)

    def test_unknown_properties_are_refused(self):
        done = make("write", self.folder / "new.safetensors", "colour=red")
        self.assertIn("colour", done.stderr)
        self.assertFalse((self.folder / "new.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
