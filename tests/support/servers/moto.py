"""A service of AWS, as moto emulates it, for other processes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests


@contextmanager
def served_by_moto(service: str, region: str) -> Iterator[str]:
    """Yield the address of a server that passes requests on to moto, which answers in this process."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            answer = requests.request(
                self.command,
                f"https://{service}.{region}.amazonaws.com{self.path}",
                headers=headers,
                data=body,
                timeout=10,
                stream=True,
            )
            # The answer to HEAD has the length of a body that it lacks.
            content = b"" if self.command == "HEAD" else answer.content
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = answer.headers.get("content-length", "0") if self.command == "HEAD" else str(len(content))
            self.send_header("content-length", length)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
