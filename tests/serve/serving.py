"""What the tests of the live page share: a server on a store of its own, and requests to it as raw as needed."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
PROGRAM = str(Path(os.environ.get("SEMFOCUS", ROOT / "build" / "semfocus")).resolve())
TINY = ["--length", "8", "--train-count", "50", "--heldout-count", "20", "--blocks", "1", "--width", "8", "--mlp-width", "8"]
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/")


def has_server():
    done = subprocess.run([PROGRAM, "doctor", "--json", "--store", "/nonexistent"], capture_output=True, check=False)
    return any(row["name"] == "http" and row["state"] == "works" for row in json.loads(done.stdout)["findings"])


needs_server = unittest.skipUnless(has_server(), "this build has no libmicrohttpd")


class ServeCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="semfocus-serve-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.store = self.folder / "runs"
        self.server = None

    def run_it(self, *words, code=0):
        done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, code, done)
        return done

    def train(self, *words):
        return json.loads(self.run_it("train", "even-pairs", *TINY, "--epochs", "2", "--store", self.store, "--json", *words).stdout)

    def serve(self, *words):
        self.server = subprocess.Popen([PROGRAM, "serve", "--store", str(self.store), *map(str, words)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        self.url = self.server.stdout.readline().strip()
        found = ADDRESS.fullmatch(self.url)
        self.assertIsNotNone(found, self.url)
        self.port, self.token = int(found[1]), found[2]

    def end(self, number=signal.SIGINT):
        """The exit code."""
        if self.server.poll() is None:
            self.server.send_signal(number)
        code = self.server.wait(timeout=30)
        for stream in (self.server.stdout, self.server.stderr):
            stream.close()
        return code

    def get(self, path="", method="GET", host=None, token=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Host": f"127.0.0.1:{self.port}" if host is None else host}
        whole = path if path.startswith("/") else f"/{self.token if token is None else token}/{path}"
        connection.putrequest(method, whole, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response, content

    def good(self, path=""):
        response, content = self.get(path)
        self.assertEqual(response.status, 200, (path, content[:500]))
        return content

    def raw(self, data, timeout=30):
        """What the server says to these bytes, until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(data)
            pieces = []
            try:
                while piece := connection.recv(65536):
                    pieces.append(piece)
            except (ConnectionResetError, socket.timeout):
                pass
        return b"".join(pieces)

    def wait_for(self, what, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        self.fail(f"{what} did not happen within {seconds} s")

    def resident(self):
        """Bytes of memory the server uses."""
        text = Path(f"/proc/{self.server.pid}/status").read_text(encoding="ascii")
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", text)[1])
