"""Web servers for tests: lighttpd, and one that misbehaves as it is told."""
import contextlib
import http.server
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process=None):
    for _ in range(300):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        assert process is None or process.poll() is None, "the server ended"
        time.sleep(0.1)
    raise AssertionError("the server does not answer")


@contextlib.contextmanager
def lighttpd(folder, state):
    program = shutil.which("lighttpd") or "/usr/sbin/lighttpd"
    port = free_port()
    config = pathlib.Path(state) / "lighttpd.conf"
    config.write_text(f'server.document-root = "{folder}"\nserver.port = {port}\nserver.bind = "127.0.0.1"\n'
                      f'server.errorlog = "{state}/error.log"\n')
    process = subprocess.Popen([program, "-D", "-f", str(config)])
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


class Faulty(http.server.ThreadingHTTPServer):
    """Serves a folder. `fail(path, n)` is asked before each reply and says what goes wrong, or None."""
    daemon_threads = True

    def __init__(self, folder, fail=lambda path, n: None, delay=0, ranges=True):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.fail, self.delay, self.ranges = pathlib.Path(folder), fail, delay, ranges
        self.lock, self.counts, self.log, self.active, self.most = threading.Lock(), {}, [], 0, 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        with server.lock:
            n = server.counts[self.path] = server.counts.get(self.path, 0) + 1
            server.log.append((self.command, self.path, self.headers.get("Range")))
            server.active += 1
            server.most = max(server.most, server.active)
        try:
            time.sleep(server.delay)
            self.reply(server.fail(self.path, n))
        finally:
            with server.lock:
                server.active -= 1

    do_HEAD = do_GET

    def reply(self, fault):
        path = self.server.folder / self.path.split("?")[0].lstrip("/")
        if isinstance(fault, int):
            return self.head(fault, {"Content-Length": 4}, b"oops")
        if fault == "drop":
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if not path.is_file():
            return self.head(404, {"Content-Length": 0})
        body = path.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")) if self.server.ranges else None
        if not wanted:
            return self.head(200, {"Content-Length": len(body)}, body[:len(body) // 2] if fault == "cut" else body, fault)
        first = int(wanted[1]) if wanted[1] else max(0, len(body) - int(wanted[2]))
        end = min(int(wanted[2]) + 1 if wanted[1] and wanted[2] else len(body), len(body))
        if first >= len(body):
            return self.head(416, {"Content-Length": 0, "Content-Range": f"bytes */{len(body)}"})
        claimed = first + 1 if fault == "other range" else first
        sent = body[first:first + (end - first) // 2] if fault == "cut" else body[first:end]
        self.head(206, {"Content-Length": end - first, "Content-Range": f"bytes {claimed}-{end - 1}/{len(body)}"}, sent, fault)

    def head(self, status, headers, body=b"", fault=None):
        """The reply, in one packet: with a head of its own each would wait 40 ms for the client's acknowledgement."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        if fault == "gzip":
            self.send_header("Content-Encoding", "gzip")
        self._headers_buffer += [b"\r\n", body if self.command != "HEAD" else b""]
        self.flush_headers()
        if fault == "cut":
            self.close_connection = True

    def log_message(self, *_):
        pass
