"""Plug-ins built outside the tree, with the public headers alone."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from harness import *  # noqa: E402,F401,F403  pylint: disable=wrong-import-position,wildcard-import,unused-wildcard-import
from harness import ROOT, StoreCase, read_json  # noqa: E402  pylint: disable=wrong-import-position

HERE = Path(__file__).resolve().parent
COMPILER = os.environ.get("CC", "cc")


def build(source, folder, *defines, name=None):
    """The shared library of a C file, which is copied to the folder first."""
    source = Path(shutil.copy(source, folder))
    library = Path(folder) / ((name or source.stem) + ".so")
    command = [COMPILER, "-shared", "-fPIC", "-O1", "-ffp-contract=off", "-I", ROOT / "include", *defines, "-o", library,
               source]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stderr}")
    return library


def example(name):
    """The C file that CONTRIBUTING.md has under "Write `NAME`"."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    start = text.index(f"Write `{name}`")
    code = text[text.index("```c\n", start) + 5:]
    code = code[:code.index("   ```")]
    return "\n".join(line[3:] if line.startswith("   ") else line for line in code.splitlines()) + "\n"


def commands(after):
    """The shell commands that CONTRIBUTING.md has next after these words."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    text = text[text.index("```sh\n", text.index(after)) + 6:]
    return [line.strip() for line in text[:text.index("   ```")].splitlines()]


class PluginCase(StoreCase):
    """With the plug-ins near, logistic, strided and majority at hand."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="semfocus-plugins-")
        cls.addClassCleanup(folder.cleanup)
        cls.libraries = Path(folder.name)
        for name in ("near", "logistic"):
            setattr(cls, name, build(HERE / f"{name}.c", cls.libraries))
        for name in ("strided", "majority"):
            source = Path(tempfile.mkdtemp(dir=cls.libraries)) / f"{name}.c"
            source.write_text(example(f"{name}.c"), encoding="utf-8")
            setattr(cls, name, build(source, cls.libraries))
        cls.all = ",".join(str(getattr(cls, name)) for name in ("near", "logistic", "strided", "majority"))

    def run_of(self, attention, *words, task="even-pairs"):
        out = self.good("train", task, *self.settings, "--epochs", 1, "--attention", attention, "--json", "--plugin",
                        self.all, *words, "--store", self.store).out
        return read_json(out)[0]


