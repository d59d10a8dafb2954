import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from masscomm_client import WebhookError, verify_webhook


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = verify_webhook([os.environ["WEBHOOK_SECRET"]], self.headers, body)
        except WebhookError:
            self.send_response(400)
        else:
            print(event["type"], flush=True)
            self.send_response(204)
        self.end_headers()


HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
