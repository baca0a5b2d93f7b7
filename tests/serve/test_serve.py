"""The live page's server over loopback: what it answers, whom it refuses, and that it survives what clients do."""
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from serving import PROGRAM, ROOT, TINY, ServeCase, has_server, needs_server

sys.path.append(str(ROOT / "tests" / "plugins"))
from building import build  # noqa: E402  pylint: disable=wrong-import-position


@needs_server
class Answers(ServeCase):
    def runs(self, since=0):
        return json.loads(self.good(f"runs?since={since}"))

    def test_runs_curves_and_report(self):
        trained = self.train("--attention", "full,topk:3", "--seed", "1,2", "--name", "<b>one & only</b>")
        self.serve()
        rows = {row["id"]: row for row in self.wait_for("reading the store", lambda: self.runs()["runs"])}
        self.assertEqual(set(rows), {run["id"] for run in trained})
        for run in trained:
            row = rows[run["id"]]
            self.assertEqual((row["status"], row["epochs"], row["asked"], row["attention"], row["seed"], row["name"]),
                             ("done", 2, 2, run["attention"], run["seed"], "<b>one & only</b>"))
            one = json.loads(self.good(f"run?id={run['id']}"))
            for name, column in (("train_loss", "tr-ce"), ("heldout_accuracy", "va-ac")):
                for value, epoch in zip(one[name], run["curve"], strict=True):
                    self.assertAlmostEqual(value, epoch[column], delta=1e-5 * max(1, abs(value)))
            self.assertEqual((one["settings"]["length"], one["settings"]["optimizer"]), ("8", "sgd"))
        report = self.good("report").decode()
        self.assertIn("topk:3", report)
        self.assertIn("&lt;b&gt;one &amp; only", report)
        self.assertNotIn("<script", report)
        self.assertNotIn("<style", report)
        self.assertNotIn(" style=", report)

    def test_runs_of_a_plugin_that_is_not_loaded(self):
        near = build(ROOT / "tests" / "plugins" / "near.c", self.folder)
        (own,) = self.train("--attention", "near:0.5", "--plugin", near)
        self.train("--attention", "full")
        self.serve()
        self.wait_for("reading the store", lambda: len(self.runs()["runs"]) == 2)
        self.assertIn("near:0.5 is shown from its stored rows", self.good("report").decode())
        self.assertEqual(json.loads(self.good(f"run?id={own['id']}"))["settings"]["attention"], "near:0.5")

    def test_no_store_yet_then_a_study(self):
        self.serve()
        self.assertEqual(self.runs()["runs"], [])
        self.assertEqual(self.good("report"), b"")
        self.train("--seed", "1")
        self.wait_for("the new store", lambda: [row["status"] for row in self.runs()["runs"]] == ["done"])
        version = self.runs()["version"]
        self.assertEqual(self.runs(version)["runs"], [])
        self.train("--seed", "2")
        change = self.wait_for("the second run", lambda: [row for row in self.runs(version)["runs"] if row["status"] == "done"])
        self.assertEqual([row["seed"] for row in change], [2])
        self.run_it("delete", change[0]["id"], "--store", self.store)
        news = self.wait_for("the deletion", lambda: (lambda now: now if now["all"] else None)(self.runs(version)))
        self.assertEqual([row["seed"] for row in news["runs"]], [1])

    def test_progress_queue_and_news_while_runs_go_on(self):
        self.serve()
        words = [PROGRAM, "train", "even-pairs", *TINY, "--epochs", "200000", "--seed", "1,2,3", "--threads", "1", "--store", str(self.store),
                 "--quiet"]
        with subprocess.Popen(words) as training, socket.create_connection(("127.0.0.1", self.port), timeout=60) as news:
            try:
                news.sendall(f"GET /{self.token}/events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
                seen = b""
                while seen.count(b"data: ") < 3:
                    piece = news.recv(4096)
                    self.assertTrue(piece, seen)
                    seen += piece
                self.assertIn(b"text/event-stream", seen)
                under = self.wait_for("a run with a time left", lambda: [row for row in self.runs()["runs"] if row.get("left", 0) > 0])
                self.assertEqual((under[0]["status"], under[0]["asked"]), ("running", 200000))
                waiting = [row for row in self.runs()["runs"] if row["status"] == "waiting"]
                self.assertGreaterEqual(len(waiting), 1)
            finally:
                training.send_signal(signal.SIGKILL)
        self.wait_for("the death of the training", lambda: not [row for row in self.runs()["runs"] if row["status"] == "running"])

    def test_the_store_is_only_read(self):
        self.train("--seed", "1")
        before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.store.iterdir() if path.name == "runs.db"}
        os.chmod(self.store / "runs.db", 0o444)
        self.serve()
        self.wait_for("reading the store", lambda: self.runs()["runs"])
        self.good("report")
        self.end()
        after = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.store.iterdir() if path.name == "runs.db"}
        self.assertEqual(before, after)

    def test_a_damaged_store_is_refused_or_said(self):
        self.train("--seed", "1")
        self.serve()
        self.wait_for("reading the store", lambda: self.runs()["runs"])
        (self.store / "runs.db").write_bytes(b"no database" * 1000)
        self.wait_for("the damage", lambda: "damaged" in self.runs()["problem"] or "no database" in self.runs()["problem"])
        self.end()
        done = subprocess.run([PROGRAM, "serve", "--store", str(self.store)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done)

    def test_signals_and_ports(self):
        self.serve()
        other = subprocess.run([PROGRAM, "serve", "--store", str(self.store), "--port", str(self.port)], capture_output=True, text=True,
                               timeout=60, check=False)
        self.assertEqual(other.returncode, 1, other)
        self.assertIn("--port", other.stderr)
        self.assertEqual(self.end(signal.SIGINT), 130)
        self.serve()
        self.assertEqual(self.end(signal.SIGTERM), 143)

    def test_it_ends_while_pages_are_open(self):
        self.serve()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as news:
            news.sendall(f"GET /{self.token}/events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
            self.assertIn(b"200", news.recv(4096))
            self.assertEqual(self.end(), 130)


@needs_server
class Refusals(ServeCase):
    def setUp(self):
        super().setUp()
        self.train("--seed", "1")
        self.serve()

    def test_other_hosts(self):
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1", "localhost", f"127.0.0.1:{self.port + 1}", f"127.0.0.1:{self.port}.evil",
                     "", f"[::1]:{self.port}", f"LOCALHOST.evil:{self.port}"):
            for path in ("", "events", "runs"):
                response, _ = self.get(path, host=host)
                self.assertIn(response.status, (400, 403), (host, path))
        self.assertIn(b" 40", self.raw(f"GET /{self.token}/ HTTP/1.1\r\n\r\n".encode())[:20])
        self.assertIn(b" 40", self.raw(f"GET /{self.token}/ HTTP/1.0\r\n\r\n".encode())[:20])
        self.assertEqual(self.get("", host=f"localhost:{self.port}")[0].status, 200)

    def test_without_the_token(self):
        wrong = self.token[:-1] + ("0" if self.token[-1] != "0" else "1")
        for path in ("/", "/runs", "/events", "/report", f"/{wrong}/", f"/{wrong}/events", f"/{self.token[:-1]}/", f"/{self.token}", f"/{self.token}0/",
                     f"/{self.token.upper()}x/", "//", f"/?token={self.token}", f"//{self.token}/", f"/x/{self.token}/"):
            response, content = self.get(path)
            self.assertEqual(response.status, 403, path)
            self.assertNotIn(self.token.encode(), content)
        self.serve_token = self.token
        self.end()
        self.serve()
        self.assertNotEqual(self.token, self.serve_token)

    def test_only_reading_methods(self):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"):
            for body in (None, b"x" * 100):
                response, _ = self.get("runs", method=method, body=body)
                self.assertIn(response.status, (400, 405), method)
                if response.status == 405:
                    self.assertEqual(response.getheader("Allow"), "GET, HEAD")
        response, content = self.get("", method="HEAD")
        self.assertEqual((response.status, content), (200, b""))

    def test_no_way_to_files(self):
        for path in ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "runs.db", "./runs.db", "....//etc/passwd", "live.js/",
                     "live.js%00.css", "/etc/passwd", "report/../runs", "run?id=../../../../etc/passwd", "run?id=" + "a" * 16, "run?id=", "run",
                     "run?id=%27%20OR%201--", "favicon.ico", "\\..\\..\\"):
            response, content = self.get(path)
            self.assertIn(response.status, (400, 403, 404), path)
            self.assertNotIn(b"root:", content)
            self.assertNotIn(b"SQLite", content)

    def test_headers_of_every_answer(self):
        for path, code in (("", 200), ("live.js", 200), ("live.css", 200), ("page.js", 200), ("runs", 200), ("report", 200), ("none", 404), ("/", 403)):
            response, _ = self.get(path)
            self.assertEqual(response.status, code)
            policy = response.getheader("Content-Security-Policy")
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertEqual((response.getheader("X-Content-Type-Options"), response.getheader("Referrer-Policy"), response.getheader("Cache-Control")),
                             ("nosniff", "no-referrer", "no-store"))
            self.assertIsNone(response.getheader("Access-Control-Allow-Origin"))
        page = self.good("").decode()
        for word in ("<style", "style=", "javascript:", " on"):
            self.assertNotIn(f"{word}click" if word == " on" else word, page)
        self.assertNotRegex(page, r"<script(?![^>]*\ssrc=)")

    def test_nonsense_is_survived(self):
        whole = f"GET /{self.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        for data in (b"\0" * 1000, b"\xff" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", ("GET /" + "a" * 100000 + " HTTP/1.1\r\n\r\n").encode(),
                     (whole + "X: " + "y" * 100000 + "\r\n\r\n").encode(), (whole + "A: b\r\n" * 5000 + "\r\n").encode(),
                     (whole + "Content-Length: -1\r\n\r\n").encode(), (whole + "Content-Length: 99999999999999999999\r\n\r\n").encode(),
                     (whole + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n").encode(), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"):
            self.raw(data, timeout=15)
            self.assertIsNone(self.server.poll())
        self.good("")

    def test_a_thousand_slow_connections(self):
        self.good("runs")
        before = self.resident()
        slow = []
        refused = 0
        for _ in range(1000):
            try:
                connection = socket.create_connection(("127.0.0.1", self.port), timeout=0.05)
                connection.setblocking(False)
                connection.send(b"GET / HTTP/1.1\r\nHost: ")
                slow.append(connection)
            except OSError:
                refused += 1
        try:
            for _ in range(3):  # drop by drop
                time.sleep(1)
                for connection in slow:
                    try:
                        connection.send(b"x")
                    except OSError:
                        pass
            self.assertIsNone(self.server.poll())
            grown = self.resident() - before
            self.assertLess(grown, 64 << 20, f"{grown} bytes more for {len(slow)} connections, {refused} refused")
            threads = len(os.listdir(f"/proc/{self.server.pid}/task"))
            self.assertLess(threads, 80)
        finally:
            for connection in slow:
                connection.close()
        self.wait_for("an answer after all that", lambda: self.answers())

    def test_silent_connections_are_closed(self):
        silent = [socket.create_connection(("127.0.0.1", self.port), timeout=40) for _ in range(100)]
        try:
            silent[0].sendall(b"GET /")
            self.assertEqual(silent[0].recv(1) or b"", b"")  # closed, or refused first
        except ConnectionResetError:
            pass
        finally:
            self.wait_for("an answer", lambda: self.answers(), seconds=60)
            for connection in silent:
                connection.close()

    def test_a_request_has_to_be_complete_in_time(self):
        """Who sends a byte now and then is never idle, and may not keep others out."""
        beginnings = (b"GET / HTTP/1.1\r\nHost: ", b"G", b"GET /", f"GET /{self.token}/ HTTP/1.1\r\nX: ".encode())
        slow = [socket.create_connection(("127.0.0.1", self.port), timeout=40) for _ in range(64)]
        ends = threading.Event()

        def drip():
            while not ends.wait(1):
                for connection in slow:
                    try:
                        connection.send(b"a")
                    except OSError:
                        pass
        dripping = threading.Thread(target=drip)
        try:
            for i, connection in enumerate(slow):
                connection.sendall(beginnings[i % len(beginnings)])
            dripping.start()
            self.assertFalse(self.answers())  # they take all the places
            self.wait_for("an answer", self.answers, seconds=30)
            for connection in slow:
                connection.settimeout(30)
                try:
                    while connection.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
        finally:
            ends.set()
            dripping.join()
            for connection in slow:
                connection.close()
        self.assertIsNone(self.server.poll())

    def test_a_request_in_pieces_and_a_long_answer(self):
        host = f"Host: 127.0.0.1:{self.port}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as news:
            for piece in (b"GET /", self.token.encode(), b"/events HTTP/1.1\r\n", host):
                news.sendall(piece)
                time.sleep(1.5)
            end = time.monotonic() + 13  # longer than a request may take
            while time.monotonic() < end:
                self.assertNotEqual(news.recv(4096), b"")  # a sign of life every 5 s

    def answers(self):
        try:
            return self.get("runs")[0].status == 200
        except OSError:
            return False

    def test_too_many_streams(self):
        open_ones = []
        answers = []
        try:
            for _ in range(30):
                connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
                connection.sendall(f"GET /{self.token}/events HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
                answers.append(connection.recv(64)[9:12])
                open_ones.append(connection)
            self.assertEqual(sorted(set(answers)), [b"200", b"503"])
            self.assertEqual(answers.count(b"200"), 24)
            self.good("runs")
        finally:
            for connection in open_ones:
                connection.close()


class Absent(unittest.TestCase):
    @unittest.skipIf(has_server(), "this build has libmicrohttpd")
    def test_one_sentence(self):
        done = subprocess.run([PROGRAM, "serve"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("libmicrohttpd", done.stderr)


if __name__ == "__main__":
    unittest.main()
