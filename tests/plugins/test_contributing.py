"""CONTRIBUTING.md's examples: the code and the commands, taken out of the text and run."""
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from building import PROGRAM, ROOT, TINY, Case, commands, example


class Contributing(Case):
    def follow(self, name, after):
        self.write(f"{name}.c", example(f"{name}.c"))
        shutil.copytree(ROOT / "include", self.folder / "include")
        path = f"{Path(PROGRAM).parent}:{os.environ['PATH']}"
        done = []
        for line in commands(after):
            if " train " in line or " compare " in line:
                line += " " + " ".join(TINY)
            ran = subprocess.run(line, shell=True, cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True,
                                 text=True, check=False, timeout=120)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), line)
            done.append(ran.stdout)
        return done

    def test_mechanism(self):
        built, listed, trained, compared = self.follow("strided", "Write `strided.c`")
        self.assertEqual(built, "")
        self.assertIn("strided:K              every K-th key", listed)
        self.assertIn("strided:5", trained)
        self.assertIn("strided:5", compared)
        self.assertTrue((self.folder / "report.html").exists())

    def test_task(self):
        _, _, solved = self.follow("majority", "Write `majority.c`")
        self.assertIn("100 of 100 labels agree", solved)


if __name__ == "__main__":
    unittest.main()
