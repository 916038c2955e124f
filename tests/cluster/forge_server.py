"""The test's git server over https: runs in a pod, on git's own CGI program. Only /public* needs no password.

Usage: forge_server.py <folder with repositories> <certificate> <key> <user> <file with the password>
"""

import base64
import http.server
import os
import ssl
import subprocess
import sys
from pathlib import Path

ROOT, CERTIFICATE, KEY, USER, PASSWORD = sys.argv[1:6]
ALLOWED = "Basic " + base64.b64encode(f"{USER}:{Path(PASSWORD).read_text()}".encode()).decode()


class Forge(http.server.BaseHTTPRequestHandler):
    """git http-backend behind a password. Source: https://git-scm.com/docs/git-http-backend"""

    def do_GET(self) -> None:
        """Advertisements."""
        self.answer(b"")

    def do_POST(self) -> None:
        """Requests for objects."""
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        """Run the program and send its response."""
        path, _, query = self.path.partition("?")
        if not path.startswith("/public") and self.headers["Authorization"] != ALLOWED:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="forge"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        variables = {
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROJECT_ROOT": ROOT,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers["Content-Type"] or "",
            "HTTP_CONTENT_ENCODING": self.headers["Content-Encoding"] or "",
            "GIT_PROTOCOL": self.headers["Git-Protocol"] or "",
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, check=False, env={**os.environ, **variables}
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.partition(": ")[::2] for line in head.decode().split("\r\n")]
        self.send_response(int(dict(fields).get("Status", "200").split()[0]))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERTIFICATE, KEY)
server = http.server.ThreadingHTTPServer(("", 8443), Forge)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
