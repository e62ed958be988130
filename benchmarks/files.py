"""The scripts that BertViz asks the network for, from npm, served on this machine only."""

import http.server
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

# The address asked for, and where npm has the same. jQuery 2.0.0 was never put on npm; 2.1.0 is its next release there.
SCRIPTS = {
    "require.min.js": ("requirejs@2.3.6", "package/require.js"),
    "d3.min.js": ("d3@5.7.0", "package/dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.0", "package/dist/jquery.min.js"),
}
_ADDRESS = re.compile(r"https://cdnjs\.cloudflare\.com/ajax/libs/[^'\"]*/(require\.min\.js|d3\.min|jquery\.min)")


@lru_cache(maxsize=1)
def fetch() -> Mapping[str, bytes]:
    """The scripts by name; empty where there is no npm or no network."""
    npm = shutil.which("npm")
    if npm is None:
        return {}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (package, path) in SCRIPTS.items():
            run = subprocess.run(
                [npm, "pack", "--silent", package], cwd=folder, capture_output=True, text=True, timeout=120
            )
            if run.returncode:
                return {}
            with tarfile.open(Path(folder, run.stdout.strip().splitlines()[-1])) as archive:
                member = archive.extractfile(path)
                assert member is not None, f"{package} has no {path}"
                found[name] = member.read()
    return found


@contextmanager
def served() -> Iterator[str]:
    """Serve the scripts on the loopback address; gives where."""
    scripts = fetch()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = scripts.get(self.path.strip("/"))
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/javascript")
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def localised(page: str, where: str) -> str:
    """The page with its addresses on the network changed to ours. RequireJS adds ``.js`` itself."""
    return _ADDRESS.sub(lambda match: f"{where}/{match[1]}", page)
