"""What 'cmake --install' and CPack put on a user's machine: examples built outside of the tree against it, in C and
C++, with the shared and the static library; headers that compile alone; exported names; the Debian package.

$SEMFOCUS_BUILD is the build folder (default build), $CC the C compiler."""
import gzip
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEMFOCUS_BUILD", ROOT / "build")).resolve()
CC = os.environ.get("CC", "cc")
CXX = os.environ.get("CXX", CC + "++" if Path(CC).name.startswith("clang") else re.sub("g?cc", "g++", CC))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
LANGUAGES = {"c": [CC, "-std=c11", "-x", "c"], "c++": [CXX, "-std=c++11", "-x", "c++"]}
PARALLEL_REGION = re.compile(rb";[^;\0]*;\w+;\d+;\d+;;")  # clang's OpenMP notes where one stands
LEARNED = re.compile(r"epoch +6 +training +(\S+) % +held-out")


def run(*words, cwd=None, env=None, code=0):
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300,
                          check=False)
    if done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, words))}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    """Everything is installed once, then moved: nothing may remember where it was put."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="semfocus-install-"))
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        (cls.folder / "first").rename(cls.folder / "moved")
        cls.prefix = cls.folder / "moved"
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(cls.prefix / "lib" / "pkgconfig"),
                           "LD_LIBRARY_PATH": str(cls.prefix / "lib")}
        cls.examples = sorted((cls.prefix / "share/doc/semfocus/examples").glob("*.c"))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def headers(self):
        return sorted(path.name for path in (self.prefix / "include/semfocus").glob("*.h"))


class Headers(Installed):
    def test_every_header_compiles_alone_as_c_and_as_cplusplus(self):
        self.assertEqual(self.headers(), sorted(path.name for path in (ROOT / "include/semfocus").glob("*.h")))
        for language, compiler in LANGUAGES.items():
            for name in self.headers():
                with self.subTest(language=language, header=name):
                    source = self.folder / "alone"
                    source.write_text(f"#include <semfocus/{name}>\n", encoding="utf-8")
                    run(*compiler, *STRICT, f"-I{self.prefix}/include", "-fsyntax-only", source)

    def test_the_main_header_includes_all_others(self):
        text = (self.prefix / "include/semfocus/semfocus.h").read_text(encoding="utf-8")
        self.assertEqual(sorted(re.findall(r'#include "semfocus/(\S+)"', text) + ["semfocus.h"]), self.headers())

    def test_the_shared_library_exports_what_the_headers_declare_and_nothing_else(self):
        text = run(CC, "-E", "-P", f"-I{self.prefix}/include", self.prefix / "include/semfocus/semfocus.h")
        text = re.sub(r"\btypedef [^;{]*;", "", text)  # types of functions
        functions = set(re.findall(r"\b(sf_\w+)\s*\((?!\*)", text))  # and no pointers to functions
        variables = set(re.findall(r"\bextern const \w+ (sf_\w+)\[", text))
        lines = run("nm", "-D", "--defined-only", self.prefix / "lib/libsemfocus.so").splitlines()
        exported = {line.split()[-1].split("@")[0] for line in lines}
        self.assertGreater(len(exported), 100)
        self.assertEqual([name for name in exported if not name.startswith("sf_")], [])
        self.assertEqual(exported, (functions | variables) - {"sf_plugin_entry"})  # which plug-ins export

    def test_versions_agree(self):
        version = run("pkg-config", "--modversion", "semfocus", env=self.environment).strip()
        self.assertEqual(run(self.prefix / "bin/semfocus", "--version").strip(), "semfocus " + version)
        major, minor, _ = version.split(".")
        dynamic = run("readelf", "-d", self.prefix / "lib/libsemfocus.so")
        self.assertIn(f"Library soname: [libsemfocus.so.{major}.{minor}]", dynamic)
        source = self.folder / "version.c"
        source.write_text('#include <semfocus/version.h>\n#include <stdio.h>\n'
                          'int main(void) { printf("%s %s\\n", sf_version(), SF_VERSION); return 0; }\n', encoding="utf-8")
        flags = run("pkg-config", "--cflags", "--libs", "semfocus", env=self.environment).split()
        run(CC, source, *flags, "-o", self.folder / "version")
        self.assertEqual(run(self.folder / "version", env=self.environment).split(), [version, version])


class Examples(Installed):
    def check_train_one(self, program):
        learned = LEARNED.search(run(program, env=self.environment))
        self.assertIsNotNone(learned)
        self.assertGreater(float(learned[1]), 95)
        refused = subprocess.run([program, "topk:0"], env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("topk", refused.stderr)

    def check_study(self, program):
        with tempfile.TemporaryDirectory() as store:
            first = run(program, store + "/runs", env=self.environment)
            again = run(program, store + "/runs", env=self.environment)
        self.assertEqual(first.count("is finished"), 12)
        self.assertIn("72 epochs were trained", first)
        self.assertIn("0 epochs were trained", again)
        self.assertEqual(first.splitlines()[-2:], again.splitlines()[-2:])
        self.assertRegex(first.splitlines()[-1], r"^topk:3: [1-6] of 6 runs converged\. \S")

    def check_mechanism(self, program):
        self.assertRegex(run(program, env=self.environment), r"^strided:2: training \S+ %, held-out \S+ % after 6 epochs$")
        self.assertIn("strided:8: ", run(program, "strided:8", env=self.environment))
        refused = subprocess.run([program, "strided"], env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("strided:5", refused.stderr)

    def build(self, example, language, static, prefix):
        environment = {**self.environment, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        flags = run("pkg-config", *(["--static"] if static else []), "--cflags", "--libs", "semfocus", env=environment).split()
        program = self.folder / f"{example.stem}-{language}-{'static' if static else 'shared'}"
        run(*LANGUAGES[language], *STRICT, example, "-x", "none", *flags, "-o", program, cwd=self.folder)
        needed = run("readelf", "-d", program)
        self.assertEqual("libsemfocus" in needed, not static)
        return program

    def test_pkg_config(self):
        checks = {"train_one": self.check_train_one, "study": self.check_study, "mechanism": self.check_mechanism}
        self.assertLessEqual(set(checks), {example.stem for example in self.examples})
        only_static = self.folder / "static"
        shutil.copytree(self.prefix, only_static, symlinks=True)
        for library in (only_static / "lib").glob("*.so*"):
            library.unlink()
        for example in self.examples:
            for language in LANGUAGES:
                for static in (False, True):
                    with self.subTest(example=example.stem, language=language, static=static):
                        program = self.build(example, language, static, only_static if static else self.prefix)
                        both = (language == "c") != static  # the longer one runs with each language and each library once
                        if example.stem in checks and (both or example.stem != "study"):
                            checks[example.stem](program)

    def test_cmake_package(self):
        source = self.prefix / "share/doc/semfocus/examples"
        built = self.folder / "cmake"
        run("cmake", "-S", source, "-B", built, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_C_COMPILER={CC}")
        run("cmake", "--build", built)
        for library in ("shared", "static"):
            with self.subTest(library=library):
                self.check_train_one(built / f"train_one_{library}")


class Files(Installed):
    def test_no_file_names_a_folder_of_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                content = gzip.decompress(content) if path.suffix == ".gz" else content
                content = PARALLEL_REGION.sub(b"", content)
                for folder in (ROOT, BUILD, self.folder):
                    self.assertFalse(os.fsencode(folder) in content, f"{path} names {folder}")

    def test_a_gpu_is_looked_for_at_run_time(self):
        """With CUDA or without: no driver or runtime is needed to start, and no C++ library but for SentencePiece."""
        for path in ("bin/semfocus", "lib/libsemfocus.so"):
            needed = re.findall(r"\(NEEDED\).*\[(\S+)\]", run("readelf", "-d", self.prefix / path))
            self.assertIn("libc.so.6", needed)
            self.assertEqual([name for name in needed if re.match("libcuda|libnv", name)], [])
            self.assertEqual(any(name.startswith("libstdc") for name in needed),
                             any(name.startswith("libsentencepiece") for name in needed))

    def test_manual_and_completion_are_the_program_s_own(self):
        program = self.prefix / "bin/semfocus"
        share = self.prefix / "share"
        self.assertEqual(gzip.decompress((share / "man/man1/semfocus.1.gz").read_bytes()).decode(), run(program, "man"))
        for shell, path in (("bash", "bash-completion/completions/semfocus"), ("zsh", "zsh/vendor-completions/_semfocus"),
                            ("fish", "fish/vendor_completions.d/semfocus.fish")):
            self.assertEqual((share / path).read_text(encoding="utf-8"), run(program, "completion", shell))


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("file"), "dpkg-dev or file is not installed")
class DebianPackage(unittest.TestCase):
    def test_package_names_what_it_needs_and_runs_unpacked(self):
        with tempfile.TemporaryDirectory() as folder:
            run("cpack", "-B", folder, cwd=BUILD)
            package, = Path(folder).glob("semfocus_*.deb")
            needed = run("dpkg-deb", "--field", package, "Depends")
            for name in ("libc6", "libgomp1", "libjansson4", "libsqlite3-0", "libinih1"):
                self.assertIn(name, needed.replace("libomp5", "libgomp1"))
            self.assertIn("attention", run("dpkg-deb", "--field", package, "Description"))
            run("dpkg-deb", "--extract", package, Path(folder) / "root")
            root = Path(folder) / "root/usr"
            for path in ("include/semfocus/semfocus.h", "lib/pkgconfig/semfocus.pc", "share/man/man1/semfocus.1.gz",
                         "share/bash-completion/completions/semfocus", "share/doc/semfocus/copyright"):
                self.assertTrue((root / path).is_file(), path)
            self.assertIn("even-pairs", run(root / "bin/semfocus", "list", "tasks"))


if __name__ == "__main__":
    unittest.main()
