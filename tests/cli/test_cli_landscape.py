"""semfocus landscape: the loss around stored runs, the same after kills and on any number of threads; figures, page, refusals."""
import contextlib
import csv
import json
import math
import os
import random
import re
import shutil
import sqlite3
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from harness import PROGRAM, StoreCase, run

SMALL = ["even-pairs", "--length", "8", "--train-count", "60", "--heldout-count", "20", "--blocks", "2", "--width", "8",
         "--mlp-width", "8", "--epochs", "3", "--lr", "0.5", "--quiet"]
MECHANISMS = ["full", "topk:3", "banded:3+global:2", "random:3"]
DIVERGING = [*SMALL, "--epochs", "50", "--lr", "200", "--clip", "0", "--seed", "9"]


class Landscape(StoreCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory(prefix="semfocus-landscape-")
        cls.addClassCleanup(cls.made.cleanup)
        cls.trained = Path(cls.made.name) / "runs"
        for words in ([*SMALL, "--attention", ",".join(MECHANISMS)], DIVERGING):
            done = run("train", *words, "--store", cls.trained)
            assert done.code == 0, done
        rows = json.loads(run("runs", "--store", cls.trained, "--json").out)
        cls.rows = {"diverged" if row["status"] == "diverged" else row["attention"]: row for row in rows}
        cls.ids = {name: row["id"] for name, row in cls.rows.items()}

    def setUp(self):
        super().setUp()
        shutil.copytree(self.trained, self.store)

    def words(self, *names, store=None):
        return ["landscape", *(self.ids.get(name, name) for name in names), "--store", store or self.store]

    def surfaces(self, *words, names=("full", "topk:3"), store=None, **options):
        return json.loads(self.good(*self.words(*names, store=store), *words, "--json", **options).out)

    def curve(self, name, epoch):
        text = self.good("export", self.ids[name], "--store", self.store).out
        row = {int(row["epoch"]): row for row in csv.DictReader(text.splitlines())}[epoch]
        return float(row["tr-ce"]), float(row["tr-ac"])

    def points(self, store=None):
        if not self.sql("SELECT 1 FROM sqlite_master WHERE name = 'surface_points'", store=store):
            return []
        return self.sql("SELECT s.run, p.point, p.loss, p.correct FROM surface_points p"
                        " JOIN surfaces s ON s.number = p.surface ORDER BY 1, 2", store=store)


class Values(Landscape):
    def test_the_centre_is_the_runs_own_loss(self):
        for name in MECHANISMS:
            for grid in (1, 2, 3):
                with self.subTest(name, grid=grid):
                    surface, = self.surfaces("--grid", grid, "--samples", "0", names=[name])
                    loss, accuracy = self.curve(name, 3)
                    self.assertAlmostEqual(surface["centre_loss"] / loss, 1, 8)
                    self.assertAlmostEqual(surface["centre_accuracy"], accuracy, 6)
                    self.assertEqual((surface["samples"], surface["epoch"]), (60, 3))
                    self.assertEqual(surface["weights"], self.rows[name]["weights"])
                    if grid % 2:
                        self.assertEqual(surface["losses"][grid // 2][grid // 2], surface["centre_loss"])

    def test_which_weights(self):
        best = self.rows["topk:3"]["best_epoch"]
        surface, = self.surfaces("--grid", 1, "--samples", "0", "--at", "best", names=["topk:3"])
        self.assertEqual(surface["epoch"], best)
        self.assertAlmostEqual(surface["centre_loss"] / self.curve("topk:3", best)[0], 1, 8)
        first, = self.surfaces("--grid", 1, "--at", "init", names=["topk:3"])
        self.assertEqual(first["epoch"], 0)
        self.assertNotEqual(first["centre_loss"], surface["centre_loss"])

    def test_json(self):
        rows = self.surfaces("--grid", 7, "--samples", 20, "--extent", 0.5, "--direction-seed", 3)
        self.assertEqual([row["attention"] for row in rows], ["full", "topk:3"])
        for row in rows:
            self.assertEqual((row["grid"], row["samples"], row["extent"], row["direction_seed"], row["not_finite"]),
                             (7, 20, 0.5, 3, 0))
            losses = [loss for line in row["losses"] for loss in line]
            self.assertEqual((len(losses), [len(line) for line in row["accuracies"]]), (49, [7] * 7))
            self.assertEqual((row["least_loss"], row["most_loss"]), (min(losses), max(losses)))
            self.assertGreater(len(set(losses)), 40)
            for accuracy in (value for line in row["accuracies"] for value in line):
                self.assertAlmostEqual(accuracy * 20 / 100, round(accuracy * 20 / 100), 9)
            self.check_constants(row)
        self.assertEqual((rows[0]["compared_with"], rows[1]["compared_with"]), (None, self.ids["full"]))
        for name, ratio in zip(("q50", "q75", "q95", "q99"), rows[1]["ratios"]):
            self.assertAlmostEqual(ratio, rows[1]["lipschitz"][-1][name] / rows[0]["lipschitz"][-1][name], 9)
        self.assertIn("topk:3 has", rows[1]["comparison"])
        other, = self.surfaces("--grid", 7, "--samples", 20, "--extent", 0.5, "--direction-seed", 4, names=["full"])
        self.assertEqual(other["centre_loss"], rows[0]["centre_loss"])
        self.assertNotEqual(other["losses"][0], rows[0]["losses"][0])

    def check_constants(self, row):
        """|difference| / step of neighbours inside the squares, counted in whole steps from the middle."""
        losses, half, step = row["losses"], row["grid"] // 2, 2 * row["extent"] / (row["grid"] - 1)
        for entry in row["lipschitz"]:
            reach = math.floor(entry["radius"] / step + 1e-9)
            inside = range(half - reach, half + reach + 1)
            slopes = [abs(losses[i][j] - losses[i + down][j + 1 - down]) / step for i in inside for j in inside
                      for down in (0, 1) if i + down in inside and j + 1 - down in inside]
            self.assertEqual(entry["pairs"], len(slopes))
            slopes.sort()
            for share in (50, 75, 95, 99):
                place = share / 100 * (len(slopes) - 1)
                low, high = slopes[math.floor(place)], slopes[math.ceil(place)]
                self.assertAlmostEqual(entry[f"q{share}"], low + (place - math.floor(place)) * (high - low), 9)

    def test_threads_and_company_do_not_matter(self):
        outputs = set()
        for threads in (1, 2, 3):
            store = self.folder / f"threads-{threads}"
            shutil.copytree(self.trained, store)
            outputs.add(self.good(*self.words("full", "topk:3", store=store), "--grid", 5, "--threads", threads, "--json").out)
        self.assertEqual(len(outputs), 1)
        together, alone = json.loads(outputs.pop())[1], self.surfaces("--grid", 5, names=["topk:3"])[0]
        self.assertEqual(together["losses"], alone["losses"])

    def test_text(self):
        out = self.good(*self.words("full", "topk:3"), "--grid", 5, "--plot").out
        for name in ("full", "topk:3"):
            self.assertRegex(out, rf"(?m)^{name} +{self.ids[name]} +3 ")
        self.assertIn("topk:3 has", out)
        self.assertIn("not a test", out)
        maps = re.findall(r"(?m)^(\S+): training loss from \S+ \(blank\) to \S+ \(@\)(?:, logarithmic)?$", out)
        self.assertEqual(maps, ["full", "topk:3"])

    def test_two_runs_of_one_mechanism_are_told_apart(self):
        self.good("train", *SMALL, "--seed", "5", "--store", self.store)
        ids = [row["id"] for row in json.loads(self.good("runs", "--store", self.store, "--json").out)
               if row["attention"] == "full" and row["status"] == "done"]
        out = self.good("landscape", *ids, "--store", self.store, "--grid", 3).out
        self.assertRegex(out, r"(?m)^full seed 153476998 ")
        self.assertRegex(out, r"(?m)^full seed 5 ")

    def test_sequences_are_told_of_each_run_where_they_differ(self):
        self.good("train", *SMALL, "--train-count", 50, "--seed", 5, "--store", self.store)
        other = next(row["id"] for row in json.loads(self.good("runs", "--store", self.store, "--json").out)
                     if row["seed"] == 5)
        page = self.folder / "p.html"
        out = self.good(*self.words("full", other), "--grid", 3, "--out", page).out
        self.assertNotRegex(out, r"\d training sequences")
        self.assertRegex(out, r"(?m)^training loss +run +epoch sequences +the weights ")
        self.assertRegex(out, rf" {self.ids['full']} +3 +60 ")
        self.assertRegex(out, rf" {other} +3 +50 ")
        self.assertIn("<dt>training sequences</dt><dd>full seed 153476998: 60, full seed 5: 50</dd>", page.read_text())
        out = self.good(*self.words("full", other), "--grid", 3, "--samples", 50, "--out", page).out
        self.assertIn(", 50 training sequences\n", out)
        self.assertNotIn(" sequences ", out.split("\n", 1)[1])
        self.assertIn("<dt>training sequences</dt><dd>50</dd>", page.read_text())

    def test_only_runs_that_differ_in_the_mechanism_alone_are_compared(self):
        """One setting at a time beside topk:3; then the settings of full, with another seed in between."""
        for setting in (["--seed", 5], ["--lr", 1], ["--blocks", 1], ["--width", 4], ["--length", 10], ["--train-count", 50]):
            with self.subTest(setting):
                before = {row["id"] for row in json.loads(self.good("runs", "--store", self.store, "--json").out)}
                self.good("train", *SMALL, *setting, "--store", self.store)
                other, = (row["id"] for row in json.loads(self.good("runs", "--store", self.store, "--json").out)
                          if row["id"] not in before)
                rows = self.surfaces("--grid", 7, names=["topk:3", other])
                self.assertEqual([(row["compared_with"], row["comparison"]) for row in rows], [(None, None)] * 2)
                out = self.good(*self.words("topk:3", other), "--grid", 7).out
                self.assertIn("Not compared:", out)
                self.assertNotIn("Lipschitz constants than", out)
        rows = self.surfaces("--grid", 7, names=["topk:3", other, "random:3", "full"])
        self.assertEqual([row["compared_with"] for row in rows], [self.ids["full"], None, self.ids["full"], None])
        rows = self.surfaces("--grid", 7, names=["topk:3", other, "random:3"])  # without full: the first of their kind
        self.assertEqual([row["compared_with"] for row in rows], [None, None, self.ids["topk:3"]])

    def test_a_diverged_run_is_not_compared(self):
        self.good("train", *DIVERGING, "--epochs", 1, "--attention", "topk:3", "--store", self.store)
        partner = next(row["id"] for row in json.loads(self.good("runs", "--store", self.store, "--json").out)
                       if row["seed"] == 9 and row["attention"] == "topk:3" and row["status"] == "done")
        rows = self.surfaces("--grid", 7, names=["diverged", partner])
        self.assertEqual([row["compared_with"] for row in rows], [None, None])
        self.sql("UPDATE runs SET status = 'done' WHERE status = 'diverged'")  # nothing else stood between them
        rows = self.surfaces("--grid", 7, names=["diverged", partner])
        self.assertEqual([row["compared_with"] for row in rows], [None, self.ids["diverged"]])


class Degenerate(Landscape):
    def test_small_grids(self):
        for grid in (1, 2, 3):
            rows = self.surfaces("--grid", grid)
            self.assertEqual([row["lipschitz"] for row in rows], [[], []])
            self.assertEqual(rows[1]["ratios"], [None] * 4)
            self.assertIn("cannot be compared", rows[1]["comparison"])
            self.good(*self.words("full", "topk:3"), "--grid", grid, "--plot", "--figures", self.folder / f"f{grid}",
                      "--out", self.folder / f"{grid}.html")
            self.assertNotIn("Quantiles over the pairs", (self.folder / f"{grid}.html").read_text())  # no empty figure
            self.assertEqual(list((self.folder / f"f{grid}").glob("lipschitz*")), [])

    def test_untrained_and_diverged_runs(self):
        surface, = self.surfaces("--grid", 3, "--extent", 1000, names=["diverged"])  # from before it diverged
        self.assertEqual(surface["epoch"], self.rows["diverged"]["diverged_epoch"] - 1)
        self.sql("UPDATE runs SET checkpoint_epoch = NULL, best_saved_epoch = NULL WHERE status = 'diverged'")
        self.sql("UPDATE runs SET checkpoint_epoch = NULL, best_saved_epoch = NULL, status = 'pending'"
                 " WHERE attention = 'topk:3'")
        self.refused(*self.words("diverged"), mentions=["diverged", "--at init"])
        self.refused(*self.words("topk:3"), mentions=["no checkpoint", "--at init"])
        self.assertEqual(self.surfaces("--grid", 3, "--at", "init", names=["topk:3"])[0]["epoch"], 0)

    def test_losses_that_are_not_finite(self):
        self.surfaces("--grid", 9)
        wild, = self.surfaces("--grid", 9, "--extent", 1e12, names=["diverged"])
        self.assertGreater(wild["not_finite"], 0)  # from arithmetic, not from what follows
        self.sql("UPDATE surface_points SET loss = NULL WHERE surface = 2 AND point < 23")
        rows = self.surfaces("--grid", 9)
        self.assertEqual([row["not_finite"] for row in rows], [0, 23])
        self.assertEqual(rows[1]["losses"][0], [None] * 9)
        self.assertTrue(math.isfinite(rows[1]["lipschitz"][-1]["q99"]))
        # the largest square has 5 points per side; three of its first row are gone
        self.assertEqual([row["lipschitz"][-1]["pairs"] for row in rows], [20 + 20, 1 + 16 + 2 + 15])
        out = self.good(*self.words("full", "topk:3"), "--grid", 9, "--plot", "--figures", self.folder / "f", "--out",
                        self.folder / "p.html").out
        self.assertRegex(out, r"(?m)^topk:3 .* 23$")
        self.assertIn("??", out)
        self.assertIn("not-finite", (self.folder / "f" / f"surface-loss-{self.ids['topk:3']}.svg").read_text())
        self.assertIn("not finite (23 points)", (self.folder / "p.html").read_text())
        self.sql("UPDATE surface_points SET loss = NULL")
        rows = self.surfaces("--grid", 9)
        self.assertEqual([(row["centre_loss"], row["least_loss"], row["lipschitz"]) for row in rows], [(None, None, [])] * 2)
        self.good(*self.words("full", "topk:3"), "--grid", 9, "--plot", "--figures", self.folder / "g", "--out",
                  self.folder / "q.html")

    def test_refusals(self):
        self.refused("landscape")
        self.refused(*self.words("ffffffffffffffff"), mentions=["no run begins with"])
        self.refused(*self.words(""), mentions=["no run begins with"])
        self.refused(*self.words("full", "full"), mentions=["named twice", self.ids["full"]])
        self.refused(*self.words(*(f"{i:016x}" for i in range(17))), mentions=["1 to 16"])
        self.assertIn("at most 16", self.good("landscape", "--help").out)
        self.refused(*self.words("full"), "--grid", 0, mentions=["grid"])
        self.refused(*self.words("full"), "--extent", 0, mentions=["extent"])
        self.refused(*self.words("full"), "--at", "middle", mentions=["last|best|init"])
        for precision in ("f32", "bf16"):
            self.refused(*self.words("full"), "--precision", precision, mentions=["--precision has no effect", "f32"])
        self.refused(*self.words("full"), "--out", "-", mentions=["standard output"])
        notes = self.write("notes.html", "mine")
        self.refused(*self.words("full"), "--out", notes, mentions=["not written by semfocus"])
        self.assertEqual(notes.read_text(), "mine")
        nowhere = self.folder / "nowhere"
        self.refused(*self.words("full", store=nowhere), mentions=["no store", str(nowhere)])
        self.assertFalse(nowhere.exists())
        self.assertEqual(self.points(), [])

    def test_any_instruction_set_goes_on_with_a_surface(self):
        here = self.surfaces("--grid", 3)
        points = self.points()
        self.assertEqual(self.surfaces("--grid", 3, env={"SEMFOCUS_ISA": "scalar"}), here)
        self.assertEqual(self.points(), points)
        self.assertEqual(self.sql("SELECT COUNT(*) FROM surfaces"), [(2,)])

    def test_damaged_points(self):
        self.surfaces("--grid", 3)
        with contextlib.closing(sqlite3.connect(self.store / "runs.db")) as database, database:
            database.execute("UPDATE surface_points SET loss = loss + 1 WHERE point = 4 AND surface = 1")
        self.refused(*self.words("full", "topk:3"), "--grid", 3, codes=(1,), mentions=["loss surface", "restore a copy"])

    def test_damaged_checkpoint(self):
        path = next(path for path in (self.store / "checkpoints").glob(f"{self.ids['full']}-[0-9]*"))
        path.write_bytes(path.read_bytes()[:-1])
        self.refused(*self.words("full"), codes=(1,), mentions=["damaged"])

    def test_a_store_of_the_schema_before(self):
        self.unseal(1)
        self.assertEqual(len(self.surfaces("--grid", 3)), 2)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mount"), "needs root to mount")
    def test_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        words = ["--grid", 61, "--samples", 2]
        expected = self.surfaces(*words)
        used = sum(path.stat().st_size for path in self.trained.rglob("*")) // 1024 + 150
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={used}k", "tmpfs", disk], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount a small disk here")
        try:
            shutil.copytree(self.trained, disk / "runs")
            self.refused(*self.words("full", "topk:3", store=disk / "runs"), *words, codes=(1,), mentions=["disk"])
            subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
            self.assertEqual(self.surfaces(*words, store=disk / "runs"), expected)
        finally:
            subprocess.run(["umount", disk], check=False)


class Resume(Landscape):
    GRID = ["--grid", 41, "--samples", 60]

    def start(self):
        words = [*self.words("full", "topk:3"), *self.GRID]
        return subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def undisturbed(self):
        store = self.folder / "undisturbed"
        shutil.copytree(self.trained, store)
        return self.good(*self.words("full", "topk:3", store=store), *self.GRID, "--json").out, self.points(store)

    def test_killed_at_random_moments(self):
        output, points = self.undisturbed()
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        moments, counts = random.Random(seed), [0]
        while len(counts) < 9 or (len(counts) < 200 and not any(0 < count < len(points) for count in counts)):
            if counts[-1] == len(points):  # it was too fast: once more from the beginning
                shutil.rmtree(self.store)
                shutil.copytree(self.trained, self.store)
                counts = [0]
            process = self.start()
            time.sleep(moments.uniform(0.01, 0.3))
            process.kill()
            process.communicate()
            counts.append(len(self.points()))
            self.assertEqual(counts, sorted(counts), "points were lost")
            if counts[-1] == len(points) and any(0 < count < len(points) for count in counts):
                break
        print(f"points after each kill: {counts[1:]} of {len(points)}")
        self.assertEqual(self.good(*self.words("full", "topk:3"), *self.GRID, "--json").out, output)
        self.assertEqual(self.points(), points)

    def test_what_is_there_is_not_computed_again(self):
        self.surfaces("--grid", 5)
        self.sql("UPDATE surface_points SET loss = 123 WHERE point = 7")
        self.sql("DELETE FROM surface_points WHERE point = 8")
        rows = self.surfaces("--grid", 5)
        self.assertEqual([row["losses"][1][2] for row in rows], [123, 123])
        self.assertNotIn(123, [row["losses"][1][3] for row in rows])

    def test_interrupt_keeps_points_and_says_how_to_go_on(self):
        output, points = self.undisturbed()
        process = subprocess.Popen([PROGRAM, *map(str, [*self.words("full", "topk:3"), "--grid", 401, "--threads", 2])],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 30
        while len(self.points()) < 300 and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (128 + signal.SIGINT, ""), err)
        self.assertIn("repeat the command to continue", err)
        self.assertGreaterEqual(len(self.points()), 300)
        self.assertEqual(self.good(*self.words("full", "topk:3"), *self.GRID, "--json").out, output)

    def test_two_processes_at_once(self):
        output, points = self.undisturbed()
        processes = [self.start() for _ in range(2)]
        for process in processes:
            self.assertEqual(process.communicate(timeout=60)[1], "")
            self.assertEqual(process.returncode, 0)
        self.assertEqual(self.points(), points)

    def test_a_run_that_goes_on_gets_a_new_surface(self):
        first, = self.surfaces("--grid", 3, names=["full"])
        self.good("train", *SMALL, "--epochs", "4", "--store", self.store)
        second, = self.surfaces("--grid", 3, names=["full"])
        self.assertEqual((first["epoch"], second["epoch"]), (3, 4))
        self.assertNotEqual(first["losses"], second["losses"])
        self.assertEqual(len(self.points()), 18)


class Figures(Landscape):
    def test_files(self):
        rows = self.surfaces("--grid", 6, "--figures", self.folder / "f")
        folder = self.folder / "f"
        names = {"lipschitz.svg", "lipschitz.csv"}
        for row in rows:
            names |= {f"surface-{row['id']}.csv", f"surface-loss-{row['id']}.svg", f"surface-accuracy-{row['id']}.svg"}
            points = list(csv.DictReader((folder / f"surface-{row['id']}.csv").read_text().splitlines()))
            self.assertEqual(len(points), 36)
            for n, point in enumerate(points):
                self.assertAlmostEqual(float(point["x"]), -1 + 0.4 * (n % 6), 9)
                self.assertAlmostEqual(float(point["y"]), -1 + 0.4 * (n // 6), 9)
                self.assertAlmostEqual(float(point["loss"]), row["losses"][n // 6][n % 6], 8)
                self.assertAlmostEqual(float(point["accuracy"]), row["accuracies"][n // 6][n % 6], 8)
        self.assertEqual({path.name for path in folder.iterdir()}, names)
        curves = list(csv.DictReader((folder / "lipschitz.csv").read_text().splitlines()))
        self.assertEqual(len(curves), sum(len(row["lipschitz"]) for row in rows))
        for entry, written in zip(rows[0]["lipschitz"], curves):
            self.assertAlmostEqual(float(written["q95"]) / entry["q95"], 1, 8)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        for path in folder.glob("*.svg"):
            self.assertEqual(ElementTree.parse(path).getroot().tag, "{http://www.w3.org/2000/svg}svg")
        self.surfaces("--grid", 6, "--figures", folder)
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, before)

    def test_cells_cover_the_map(self):
        """Every cell has one colour: areas add up to the whole square."""
        for grid in (1, 2, 5, 12):
            folder = self.folder / f"f{grid}"
            self.surfaces("--grid", grid, "--samples", 5, "--figures", folder, names=["full"])
            root = ElementTree.parse(folder / f"surface-loss-{self.ids['full']}.svg").getroot()
            cells = root.find("{http://www.w3.org/2000/svg}g").findall("{http://www.w3.org/2000/svg}path")
            area = 0
            for path in cells:
                for piece in path.get("d").split("M")[1:]:
                    left, bottom, right, top = map(float, piece.replace("H", " ").replace("V", " ").split("Z")[0].split()[:4])
                    area += (right - left) * (bottom - top)
            self.assertAlmostEqual(area / 210 ** 2, 1, 3)

    def test_losses_many_orders_apart_keep_their_places(self):
        """On 25 points at powers of ten each has a colour of its own."""
        self.surfaces("--grid", 5, names=["full"])
        for point in range(25):
            self.sql(f"UPDATE surface_points SET loss = 1e{point - 5} WHERE point = {point}")
        self.surfaces("--grid", 5, "--figures", self.folder / "f", names=["full"])
        root = ElementTree.parse(self.folder / "f" / f"surface-loss-{self.ids['full']}.svg").getroot()
        cells = root.find("{http://www.w3.org/2000/svg}g").findall("{http://www.w3.org/2000/svg}path")
        self.assertEqual(len({cell.get("fill") for cell in cells}), 25)

    def test_constants_many_orders_apart_keep_their_places(self):
        """Places are linear in the logarithms of all values in a panel; the sentence stays readable."""
        names = ["full", "topk:3", "random:3"]
        self.surfaces("--grid", 9, names=names)
        self.sql("UPDATE surface_points SET loss = loss * 1e7 WHERE surface = 2")
        self.sql("UPDATE surface_points SET loss = loss * 1e14 WHERE surface = 3")
        rows = self.surfaces("--grid", 9, "--figures", self.folder / "f", "--out", self.folder / "p.html", names=names)
        curves = list(csv.DictReader((self.folder / "f" / "lipschitz.csv").read_text().splitlines()))
        root = ElementTree.parse(self.folder / "f" / "lipschitz.svg").getroot()
        groups = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("data-series")]
        places = []
        for group in groups[:3]:
            steps = re.findall(r"[ML]\S+ ([\d.]+)", group.find("{http://www.w3.org/2000/svg}path").get("d"))
            places += [float(y) for y in steps]
        drawn = sorted(zip((math.log10(float(row["q50"])) for row in curves), places, strict=True))
        (low, bottom), (high, top) = drawn[0], drawn[-1]
        self.assertGreater(high - low, 10)
        for value, y in drawn:
            self.assertAlmostEqual(y, bottom + (value - low) / (high - low) * (top - bottom), delta=0.2)
        self.assertRegex(rows[1]["comparison"], r": \d(\.\d+)?e\+0[678], .* times as large")

    def test_the_sentence_agrees_with_the_table_beside_it(self):
        """Its factors are those of the constants in the page's table, and no other number stands out."""
        page = self.folder / "p.html"
        self.good(*self.words("full", "topk:3"), "--grid", 9, "--out", page)
        text = page.read_text()
        said = re.search(r"<li><p>topk:3 has [^:]*: (\S+), (\S+), (\S+) and (\S+) times as large", text).groups()
        rows = [re.findall(r"<td>([^<]*)</td>", row)[-4:] for row in re.findall(r"<tr.*?</tr>", text) if "<small>" in row]
        for factor, theirs, ours in zip(said, *rows, strict=True):
            self.assertAlmostEqual(float(factor), float(ours) / float(theirs), delta=0.01 * float(factor))
        self.assertNotIn('class="factor"', text)

    def test_page(self):
        page = self.folder / "p.html"
        out = self.good(*self.words("full", "topk:3"), "--grid", 6, "--out", page).out
        self.assertIn(f"page: {page}", out)
        text = page.read_text()
        self.assertIn("topk:3 has", text)
        self.assertIn(f"semfocus landscape {self.ids['full']} {self.ids['topk:3']}", text)
        self.assertEqual(text.count("<figure"), 5)
        self.assertEqual(text.count('<svg class="figure"'), 8)  # the constants have four panels
        self.assertNotIn("http://", text.replace("http://www.w3.org/2000/svg", ""))
        self.good(*self.words("full"), "--grid", 6, "--out", page)  # a page replaces a page


if __name__ == "__main__":
    unittest.main()
