"""What the tests of the Python package share: the package of the source tree with the library of the build, and small runs."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(os.environ.get("SEMFOCUS", ROOT / "build" / "semfocus")).resolve())
if "SEMFOCUS_INSTALLED" not in os.environ:
    os.environ.setdefault("SEMFOCUS_LIBRARY", str(Path(PROGRAM).parent / "libsemfocus.so"))
    sys.path.insert(0, str(ROOT / "python"))


def go_on_with_debians_python():
    """Debian's NumPy is there for its own Python, which need not be the first in $PATH."""
    python = "/usr/bin/python3"
    if "SEMFOCUS_INSTALLED" in os.environ or not os.path.exists(python):
        return
    if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode == 0:
        os.execv(python, [python, *sys.argv])


try:
    import numpy
except ImportError:
    go_on_with_debians_python()
    print("skipped: the Python package (NumPy is not installed)")
    sys.exit(77)

import semfocus  # noqa: E402

SMALL = {"length": 8, "train_count": 60, "heldout_count": 30, "blocks": 2, "width": 16, "mlp_width": 16, "epochs": 2}


class InFolder(unittest.TestCase):
    """Every test has a folder of its own, and a store in it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.store = str(Path(self.folder) / "runs")

    def train(self, attention="topk:3", **settings):
        return semfocus.train("even-pairs", attention=attention, **{"store": self.store, "seed": 1, **SMALL, **settings})

    def command(self, *words):
        return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, check=True).stdout
