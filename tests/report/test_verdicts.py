"""What a report claims, on made-up curves: chance, significance, equality, grids, thresholds, shares of the machine."""
import json
import os
import re
import unittest
import xml.etree.ElementTree as ET

from page import Case, Page, jump, make_up, read_csv, read_json, run, seal

TINY = ["--length", "12", "--train-count", "4", "--heldout-count", "250", "--blocks", "1", "--width", "4", "--mlp-width", "4",
        "--epochs", "1"]
SVG = "{http://www.w3.org/2000/svg}"


class MadeUp(Case):
    """Real runs of one epoch, whose curves are then replaced."""

    def study(self, curve, *words, task="even-pairs", settings=TINY):
        self.good("compare", task, *settings, *words, "--quiet", cwd=self.folder)
        make_up(self.folder / "semfocus-runs", curve)

    def report(self, *words):
        """Rows of JSON, the text in the terminal, and the page."""
        rows = read_json(self.good("report", *words, "--json", cwd=self.folder).out)
        text = self.good("report", *words, cwd=self.folder).out
        return rows, text, Page((self.folder / "report.html").read_bytes())


class Significance(MadeUp):
    def test_a_finding_stands_out_and_nothing_else_does(self):
        """Sooner by a factor for topk:3; now sooner, now later for topk:4."""
        def curve(run):
            base = 20 + run["place"]
            at = {"full": base, "topk:3": base // 4, "topk:4": base + (5 if run["place"] % 2 else -5)}[run["attention"]]
            return jump(at, 40)
        self.study(curve, "--attention", "full,topk:3,topk:4", "--seeds", "8")
        rows, text, page = self.report()
        self.assertEqual([row["speed"] for row in rows], [None, "better", "no difference found"])
        self.assertEqual([row["comparisons"] for row in rows[1:]], [2, 2])
        self.assertAlmostEqual(rows[1]["p_corrected"], 2 * rows[1]["p"])  # Holm: the smaller of two
        self.assertAlmostEqual(rows[1]["p"], 2 / 2 ** 8)
        items = [item for part in page.root.find("ul", "verdicts") for item in part.find("li")]
        self.assertEqual([len(item.find("span", "factor")) for item in items], [1, 0])
        self.assertIn("faster", items[0].find("span", "direction")[0].text)
        self.assertIn("no difference in speed found (95 % interval of the median per-seed ratio", items[1].text)
        self.assertNotIn("times", items[1].text)
        for where in (text, page.visible_text):
            self.assertRegex(where, "The p-values of (these|the) 2 comparisons")
            self.assertIn("after correction for 2 comparisons", where)

    def test_nine_comparisons_of_which_one_would_be_significant_alone(self):
        """Two of ten seeds are later, by little: p = 0.0098 by SciPy's wilcoxon, 0.088 for nine of them."""
        def curve(run):
            base, i = 40, run["place"]
            if run["attention"] == "full":
                return jump(base, 80)
            if run["attention"] == "topk:2":
                return jump(base + 1 + i if i < 2 else base - 10 - i, 80)
            shift = 10 + (i + int(run["attention"].split(":")[1])) % 10
            return jump(base + (shift if i % 2 else -shift), 80)
        nine = [f"topk:{k}" for k in range(2, 11)]
        self.study(curve, "--attention", ",".join(["full", *nine]), "--seeds", "10")
        rows, text, page = self.report()
        self.assertEqual([row["variant"] for row in rows[1:]], nine)
        self.assertEqual({row["comparisons"] for row in rows[1:]}, {9})
        self.assertAlmostEqual(rows[1]["p"], 0.009765625)
        self.assertAlmostEqual(rows[1]["p_corrected"], 9 * 0.009765625)
        self.assertEqual(sum(row["p"] < 0.05 for row in rows[1:]), 1)
        self.assertEqual({row["speed"] for row in rows[1:]}, {"no difference found"})
        self.assertEqual(page.root.find("span", "factor"), [])
        self.assertIn("p = 0.088 after correction for 9 comparisons, 0.0098 before", rows[1]["verdict"])
        self.assertIn("of these 9 comparisons", text)
        self.assertIn("of the 9 comparisons", page.visible_text)
        alone, _, page = self.report("--where", "attention IN ('full', 'topk:2')")
        self.assertEqual((alone[1]["speed"], alone[1]["comparisons"]), ("better", 1))
        self.assertEqual(len(page.root.find("span", "factor")), 1)

    def test_more_comparisons_need_more_seeds(self):
        self.study(lambda run: jump(40 if run["attention"] == "full" else 10, 50), "--attention", "full,topk:3,topk:4", "--seeds", "6")
        rows, _, page = self.report()
        self.assertEqual([row["speed"] for row in rows[1:]], ["too few seeds"] * 2)
        self.assertIn("6 seeds are too few to test which is faster (at least 7 are needed for 2 comparisons)", rows[1]["verdict"])
        self.assertEqual(page.root.find("span", "factor"), [])
        alone, *_ = self.report("--where", "attention <> 'topk:4'")
        self.assertEqual(alone[1]["speed"], "better")

    def test_the_last_epoch_is_quoted_and_the_best_says_how_it_was_chosen(self):
        def curve(run):
            rows = jump(10, 30, heldout=90.0 if run["attention"] == "full" else 60.0)
            rows[14] = (*rows[14][:3], 97.0)
            return rows
        self.study(curve, "--attention", "full,topk:3", "--seeds", "6")
        rows, text, page = self.report()
        self.assertEqual([(row["last_heldout"], row["best_heldout"]) for row in rows], [(90, 97), (60, 97)])
        self.assertIn("after the last epoch is lower: 60.0 % against 90.0 %", rows[1]["verdict"])
        self.assertNotIn("97", rows[1]["verdict"])
        self.assertEqual(rows[1]["accuracy_difference"], -30)
        self.assertIn("best epoch: chosen on held-out data", text)
        self.assertIn("Best epoch: chosen on the held-out data", page.visible_text)


class Chance(MadeUp):
    def curve(self, run):
        level = {"full": 51.0, "banded:3": 49.0, "topk:3": 99.0}[run["attention"]] + run["place"] / 10
        return jump(5 if run["attention"] == "topk:3" else None, 12, before=60.0, after=99.0, heldout=level)

    def test_in_words_and_figures(self):
        self.study(self.curve, "--attention", "full,banded:3,topk:3", "--seeds", "7")
        rows, text, page = self.report("--figures", "figures", "--plot")
        self.assertEqual([(row["chance"], row["at_chance"]) for row in rows], [(50, True), (50, True), (50, False)])
        self.assertEqual([row["accuracy"] for row in rows[1:]], ["both at chance", "better"])
        self.assertIn("Both are at chance, 50 % (held-out accuracy after the last epoch 49.3 and 51.3 %)", rows[1]["verdict"])
        self.assertIn("higher: 99.3 % against 51.3 % (at chance, 50 %)", rows[2]["verdict"])
        self.assertEqual([cells[-1] for cells in page.rows("even-pairs")], ["at chance", "at chance", ""])
        self.assertIn("Chance is 50 %", text)
        self.assertEqual(len(re.findall(r"(?m)^ +\. chance, 50 %$", text)), 2)
        for figure in ("training-accuracy", "heldout-accuracy"):
            svg = ET.parse(self.folder / "figures" / f"even-pairs-{figure}.svg").getroot()
            line, = [line for line in svg.iter(f"{SVG}line") if line.get("class") == "chance"]
            ticks = {label.text: float(label.get("y")) - 4 for label in svg.iter(f"{SVG}text") if label.get("text-anchor") == "end"
                     and label.get("class") == "tick"}
            self.assertEqual(line.get("y1"), line.get("y2"))
            high, low = ticks["100"], ticks["60"]
            self.assertAlmostEqual(float(line.get("y1")), low + (low - high) / 40 * 10, delta=0.3)  # 50 by the other ticks
            self.assertIn("chance, 50 %", [label.text for label in svg.iter(f"{SVG}text")])
        svg = ET.parse(self.folder / "figures" / "even-pairs-training-loss.svg").getroot()
        self.assertEqual([line for line in svg.iter(f"{SVG}line") if line.get("class") == "chance"], [])

    def test_a_users_file(self):
        """The most frequent of the held-out labels, as long as the files are those that were trained on."""
        rows = "tokens\tlabel\n" + "".join(f"{i % 3} {i % 2}\t{0 if i % 10 < 7 else 1 + i % 2}\n" for i in range(60))
        self.write("train.tsv", rows)
        heldout = self.write("heldout.tsv", "tokens\tlabel\n" + "".join(f"1 {i % 2}\t{0 if i < 33 else 1}\n" for i in range(50)))
        self.study(lambda run: jump(None, 5, heldout=70.0), "--attention", "full,topk:1", "--seeds", "6",
                   task="tsv:train.tsv,heldout.tsv", settings=["--blocks", "1", "--width", "4", "--mlp-width", "4", "--epochs", "1"])
        found, *_ = self.report()
        self.assertEqual([row["chance"] for row in found], [66, 66])  # 33 of 50; 70 % of 50 is within its noise
        self.assertIn("Both are at chance, 66 %", found[1]["verdict"])
        heldout.write_text("tokens\tlabel\n1 0\t1\n")
        for change in (lambda: None, heldout.unlink):
            change()
            found, text, page = self.report()
            self.assertEqual([(row["chance"], row["at_chance"]) for row in found], [(None, False)] * 2)
            self.assertNotIn("chance", found[1]["verdict"])
            self.assertNotIn("Chance is", text)
            self.assertEqual(page.root.find("line", "chance"), [])


class Grids(MadeUp):
    EPOCHS = {("full", "0.05"): 30, ("full", "0.1"): 22, ("full", "0.2"): None, ("topk:3", "0.05"): 25, ("topk:3", "0.1"): 20,
              ("topk:3", "0.2"): 8}

    def curve(self, run):
        at = self.EPOCHS[run["attention"], run["settings"].get("lr", "0.1")]
        return jump(at + run["place"] if at else None, 45)

    def test_best_settings_and_the_figure_of_the_setting(self):
        self.study(self.curve, "--attention", "full,topk:3", "--seeds", "8", "--lr", "0.05,0.1,0.2")
        rows, text, page = self.report("--figures", "figures")
        best = {row["variant"]: row for row in rows if row["best_setting"]}
        self.assertEqual(list(best), ["full lr=0.1", "topk:3 lr=0.2"])
        winner = best["topk:3 lr=0.2"]
        self.assertEqual(winner["best_setting_compared_with"], "full lr=0.1")
        self.assertEqual(winner["compared_with"], "full lr=0.2")  # at equal settings
        self.assertIn("topk:3 lr=0.2 reaches 95 % training accuracy in 11.5 epochs, full lr=0.1 in 25.5 (medians of 8 seeds): "
                      "2.2 times faster", winner["best_setting_verdict"])
        self.assertEqual({row["comparisons"] for row in rows[3:]}, {4})  # three at equal settings, and this one
        self.assertIn("p = 0.031 after correction for 4 comparisons", winner["best_setting_verdict"])
        for where in (text, page.visible_text):
            self.assertIn("at its best setting", where)
            self.assertIn("chosen on the same seeds", where)
            self.assertIn(winner["best_setting_verdict"], where)
        points = {(row["mechanism"], row["lr"]): row["median"] for row in read_csv(self.folder / "figures" / "even-pairs-epochs-by-lr.csv")}
        self.assertEqual(points, {key: str(at + 3.5) if at else "" for key, at in self.EPOCHS.items()})
        svg = ET.parse(self.folder / "figures" / "even-pairs-epochs-by-lr.svg").getroot()
        lines = {group.get("data-mechanism"): group for group in svg.iter(f"{SVG}g") if group.get("data-mechanism")}
        self.assertEqual(list(lines), ["full", "topk:3"])
        ticks = [(float(label.text), float(label.get("y")) - 4) for label in svg.iter(f"{SVG}text")
                 if label.get("text-anchor") == "end"]
        (low, bottom), (high, top) = ticks[0], ticks[-1]
        for (mechanism, rate), at in self.EPOCHS.items():
            dot, = [dot for dot in lines[mechanism].iter(f"{SVG}circle") if f" lr={rate}:" in dot.find(f"{SVG}title").text]
            if at is None:
                self.assertIn("not reached in 45 epochs", dot.find(f"{SVG}title").text)
                self.assertLess(float(dot.get("cy")), top)
            else:
                self.assertAlmostEqual(float(dot.get("cy")), bottom + (at + 3.5 - low) / (high - low) * (top - bottom), delta=0.3)
        self.assertEqual(len(page.root.find("figure", id="epochs-by-lr-0")), 1)

    def test_a_shared_best_setting_is_no_further_comparison(self):
        self.study(lambda run: jump((10 if run["settings"].get("lr") == "0.2" else 20) + run["place"] + (run["attention"] == "full"), 45),
                   "--attention", "full,topk:3", "--seeds", "7", "--lr", "0.1,0.2")
        rows, *_ = self.report()
        winner = rows[3]
        self.assertEqual((winner["variant"], winner["best_setting_compared_with"]), ("topk:3 lr=0.2", "full lr=0.2"))
        self.assertEqual(winner["best_setting_verdict"], winner["verdict"])
        self.assertEqual(winner["comparisons"], 2)

    def test_two_settings(self):
        """Each has a figure, with the best of the other one."""
        def curve(run):
            rate, dropout = (run["settings"].get(name, usual) for name, usual in (("lr", "0.1"), ("dropout", "0.01")))
            return jump({("0.1", "0.01"): 20, ("0.1", "0.3"): 12, ("0.2", "0.01"): 9, ("0.2", "0.3"): None}[rate, dropout], 30)
        self.study(curve, "--attention", "full,topk:3", "--seeds", "2", "--lr", "0.1,0.2", "--dropout", "0.01,0.3")
        rows, *_ = self.report("--figures", "figures")
        def medians(setting):
            return {row[setting]: row["median"] for row in read_csv(self.folder / "figures" / f"even-pairs-epochs-by-{setting}.csv")
                    if row["mechanism"] == "full"}
        self.assertEqual(medians("lr"), {"0.1": "12", "0.2": "9"})
        self.assertEqual(medians("dropout"), {"0.01": "9", "0.3": "12"})
        self.assertEqual([row["variant"] for row in rows if row["best_setting"]],
                         ["full dropout=0.01 lr=0.2", "topk:3 dropout=0.01 lr=0.2"])

    def test_data_is_no_setting_to_choose(self):
        """Shorter sequences are another problem: there is no best length, but a figure of it."""
        settings = [word for word in TINY if word not in ("--length", "12")]
        self.study(lambda run: jump(int(run["settings"]["length"]), 30), "--attention", "full,topk:3", "--seeds", "2", "--length",
                   "8,12", settings=settings)
        rows, *_ = self.report("--figures", "figures")
        self.assertEqual({row["best_setting"] for row in rows}, {False})
        points = read_csv(self.folder / "figures" / "even-pairs-epochs-by-length.csv")
        self.assertEqual([(row["mechanism"], row["length"], row["median"]) for row in points],
                         [("full", "8", "8"), ("full", "12", "12"), ("topk:3", "8", "8"), ("topk:3", "12", "12")])

    def test_no_grid_no_figure(self):
        self.study(lambda run: jump(5, 9), "--attention", "full,topk:3", "--seeds", "2")
        rows, text, page = self.report("--figures", "figures")
        self.assertEqual([row["best_setting"] for row in rows], [False, False])
        self.assertNotIn("best setting", text + page.visible_text)
        self.assertEqual([name for name in os.listdir(self.folder / "figures") if "epochs-by" in name], [])


class Thresholds(MadeUp):
    def curve(self, run):
        """Accuracy rises by 2 points per epoch from 50 to 98; the loss halves every 4 epochs."""
        start = 6 if run["attention"] == "full" else 1
        rows = []
        for e in range(1, 41):
            gained = max(0, e - start - run["place"])
            rows.append((0.5 ** (gained / 4), min(98.0, 50.0 + 2 * gained), 1.0, min(98.0, 50.0 + 2 * gained)))
        return rows

    def test_any(self):
        self.study(self.curve, "--attention", "full,topk:3", "--seeds", "6")
        for words, name, gained in ((["--converged-at", "70"], "70 % training accuracy", 10),
                                    (["--converged-at", "loss:0.25"], "a training loss of 0.25", 8),
                                    ([], "95 % training accuracy", 23)):
            rows, text, page = self.report(*words, "--figures", "figures")
            self.assertEqual([row["epochs_median"] for row in rows], [6 + 2.5 + gained, 1 + 2.5 + gained])
            self.assertEqual({row["converged_at"] for row in rows}, {name})
            for where in (rows[1]["verdict"], text, page.visible_text):
                self.assertIn(name, where)
            (title,) = [figure.find("figcaption")[0].find("b")[0].text for figure in page.root.find("figure")
                        if figure.attributes["id"].startswith("convergence")]
            self.assertEqual(title, f"Epochs to {name}")
            epochs = [int(row["epochs"]) for row in read_csv(self.folder / "figures" / "even-pairs-convergence.csv")]
            self.assertEqual([sorted(epochs[:6]), sorted(epochs[6:])],
                             [[start + place + gained for place in range(6)] for start in (6, 1)])
            lines = {figure: [line for line in ET.parse(self.folder / "figures" / f"even-pairs-{figure}.svg").iter(f"{SVG}line")
                              if line.get("class") == "threshold"] for figure in ("training-loss", "training-accuracy")}
            self.assertEqual([len(found) for found in lines.values()], [1, 0] if "loss" in name else [0, 1])
            told = read_json(self.good("runs", "--json", *words, cwd=self.folder).out)
            self.assertEqual(sorted(row["converged_epoch"] for row in told), sorted(epochs))
        never, text, page = self.report("--converged-at", "99")
        self.assertEqual([row["converged"] for row in never], [0, 0])
        self.assertIn(">40: not reached in 40 epochs", text)
        self.assertIn("not reached", page.rows("even-pairs")[0])

    def test_it_is_no_part_of_a_run(self):
        words = ["compare", "even-pairs", *TINY, "--seeds", "1", "--attention", "full,topk:3", "--dry-run", "--json"]
        ids = [[row["id"] for row in read_json(self.good(*words, *more).out)["runs"]]
               for more in ([], ["--converged-at", "70"], ["--converged-at", "loss:0.1"])]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(ids[0], ids[2])

    def test_a_stop_before_it_is_refused(self):
        words = ["compare", "even-pairs", *TINY, "--seeds", "1", "--dry-run"]
        self.good(*words, "--stop-at", "80", "--converged-at", "80")
        self.refused(*words, "--stop-at", "80", "--converged-at", "80.5", mentions=["stop-at is 80", "80.5 % training accuracy"])
        self.refused(*words, "--stop-at", "99", "--converged-at", "loss:0.1", mentions=["stop-at is 99", "training loss of 0.1"])
        study = self.write("study.ini", "task = even-pairs\nconverged-at = 90\nstop-at = 80\n")
        self.refused("study", study, mentions=["study.ini:3", "90 % training accuracy"], cwd=self.folder)

    def test_values_that_are_none(self):
        for value in ("", "0", "100.1", "95%", "loss", "loss:", "loss:0", "loss:-1", "loss:nan", "accuracy:95", "95,99"):
            for verb in (["compare", "even-pairs", *TINY, "--dry-run"], ["report"], ["runs"]):
                if verb[0] != "compare":
                    self.good("train", "even-pairs", *TINY, "--quiet", cwd=self.folder)
                self.refused(*verb, f"--converged-at={value}", mentions=["converged-at"], cwd=self.folder)


class Shares(MadeUp):
    def environments(self, change):
        with seal.changed(self.folder / "semfocus-runs") as database:
            for number, attention, seed, text in list(database.execute("SELECT number, attention, seed, environment FROM runs")):
                facts = json.loads(text)
                change(attention, seed, facts)
                database.execute("UPDATE runs SET environment = ? WHERE number = ?", (json.dumps(facts), number))

    def test_seconds_are_compared_only_where_the_machine_was_shared_equally(self):
        self.study(lambda run: jump(5, 9), "--attention", "full,topk:3,topk:4", "--seeds", "2", "--threads", "2")
        def seconds():
            rows, text, page = self.report()
            return [row["epoch_seconds"] for row in rows], "not shown for runs under different conditions" in text, \
                "not shown for runs under different conditions" in page.visible_text
        self.assertEqual(seconds(), ([0.01] * 3, False, False))
        def company(attention, _, facts):
            facts["runs_at_a_time"] = 1 if attention == "topk:3" else 2
        self.environments(company)
        self.assertEqual(seconds(), ([0.01, None, 0.01], True, True))
        def processor(attention, seed, facts):
            facts["runs_at_a_time"] = 2
            facts["cpu"] = "another" if attention == "topk:4" and seed == 153476998 else "one"
        self.environments(processor)  # the runs of one group differ
        self.assertEqual(seconds(), ([0.01, 0.01, None], True, True))
        def unknown(_, __, facts):
            facts.pop("runs_at_a_time")
        self.environments(unknown)  # as an older store has them
        self.assertEqual(seconds(), ([None] * 3, True, True))

    def test_a_run_in_parts(self):
        """Epochs under two shares of the machine have no seconds of their own; under the same share they have."""
        words = ["train", "even-pairs", *TINY[:-2], "--quiet"]
        self.good(*words, "--epochs", "2", "--threads", "1", cwd=self.folder)
        self.good(*words, "--epochs", "3", "--threads", "1", cwd=self.folder)
        self.assertIsNotNone(self.report()[0][0]["epoch_seconds"])
        self.good(*words, "--epochs", "4", "--threads", "2", cwd=self.folder)
        self.assertIsNone(self.report()[0][0]["epoch_seconds"])


class Words(MadeUp):
    def test_not_reached_is_not_the_same_as_not_run(self):
        def curve(run):
            return {"full": jump(4, 9), "topk:3": jump(None, 9)}.get(run["attention"])
        self.study(curve, "--attention", "full,topk:3,topk:4,topk:5", "--seeds", "2")
        with seal.changed(self.folder / "semfocus-runs") as database:
            database.execute("DELETE FROM epochs WHERE run IN (SELECT number FROM runs WHERE attention = 'topk:5')")
            database.execute("UPDATE runs SET epochs = 0, checkpoint_epoch = NULL, checkpoint_hash = NULL, converged_epoch = NULL,"
                             " best_epoch = NULL, best_saved_epoch = NULL, best_hash = NULL WHERE attention = 'topk:5'")
            database.execute("UPDATE runs SET status = 'pending' WHERE attention IN ('topk:4', 'topk:5')")
        rows, text, page = self.report()
        lines = {line.split()[0]: line for line in text.splitlines() if re.match(r"\S+ +\d/\d", line)}
        self.assertRegex(lines["topk:3"], r" 0 +>9 +>9 +>9 +>9 ")
        self.assertIn(">9: not reached in 9 epochs.", text)
        self.assertRegex(lines["topk:4"], "0/2 +not finished$")
        self.assertRegex(lines["topk:5"], "0/2 +not run$")
        cells = {row[0]: row for row in page.rows("even-pairs")}
        self.assertEqual(cells["topk:3"][3:7], ["not reached"] * 4)
        self.assertEqual((cells["topk:4"][-1], cells["topk:5"][-1]), ("not finished", "not run"))
        self.assertEqual([row["verdict"] is None for row in rows], [True, False, True, True])
        listed = self.good("runs", cwd=self.folder).out
        self.assertEqual((listed.count("not reached"), listed.count("not run")), (4, 2))
        for told in (text, page.visible_text, listed):
            self.assertNotRegex(told, r"(?i)\bnever\b")

    def test_all_censored(self):
        self.study(lambda run: jump(None, 9, before=60.0), "--attention", "full,topk:3", "--seeds", "6")
        rows, _, page = self.report()
        self.assertIn("Neither topk:3 nor full reaches 95 % training accuracy (both: 6 seeds of 9 epochs)", rows[1]["verdict"])
        self.assertEqual((rows[1]["speed"], rows[1]["speedup"], page.root.find("span", "factor")), ("nothing to compare", None, []))

    def test_one_seed(self):
        self.study(lambda run: jump(3 if run["attention"] == "topk:3" else 30, 40), "--attention", "full,topk:3", "--seeds", "1")
        rows, _, page = self.report()
        self.assertEqual((rows[1]["speed"], rows[1]["accuracy"]), ("too few seeds", "too few seeds"))
        self.assertIn("1 seed is too few to test which is faster (at least 6 are needed)", rows[1]["verdict"])
        self.assertEqual(page.root.find("span", "factor"), [])

    def test_the_example_of_old(self):
        """Medians of 6 and 5 epochs beside a median ratio of 1.4 were called faster."""
        epochs = {"topk:3": (6, 3, 7), "full": (5, 4, 10)}
        self.study(lambda run: jump(epochs[run["attention"]][run["place"]], 12), "--attention", "full,topk:3", "--seeds", "3")
        rows, *_ = self.report()
        self.assertEqual([row["epochs_median"] for row in rows], [5, 6])
        self.assertGreater(rows[1]["speedup"], 1.3)
        self.assertNotRegex(rows[1]["verdict"], "times|faster than|slower")

    def test_equal_within_the_margin(self):
        def curve(run):
            shift = 0.4 if run["place"] % 2 else -0.4
            return jump(20 + 2 * run["place"], 40, heldout=97.0 + (shift if run["attention"] == "topk:3" else 0))
        self.study(curve, "--attention", "full,topk:3", "--seeds", "8")
        rows, _, page = self.report()
        self.assertEqual((rows[1]["speed"], rows[1]["accuracy"]), ("equal", "equal"))
        self.assertIn("equally fast within 10 %", rows[1]["verdict"])
        self.assertIn("equal within 1 point: 97.0 % and 97.0 % (95 % interval of the difference -0.4 to 0.4)", rows[1]["verdict"])
        self.assertIn("is within 1 point of accuracy, or 10 % of the epochs", page.visible_text)


if __name__ == "__main__":
    unittest.main()
