#!/usr/bin/env python3
"""Tells Slack that a call waits for a person.

The gateway sends signed messages here (webhooks.json); each question becomes a message
with a link to it in the console. Nothing is answered there: whoever opens the link signs in.
Nothing of the call's arguments is passed on.

Needs Python 3.9 and nothing else. Settings:

  HANDRAIL_URL        where people open the console, such as https://gateway.example
  HANDRAIL_KEY_FILE   the "whsec_..." key of the hook in webhooks.json
  SLACK_WEBHOOK_FILE  the address of an incoming webhook of a Slack app, which is a secret
  LISTEN              address to listen on; default 127.0.0.1:8787
"""
import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 1 << 20  # bytes; the gateway's messages are far smaller
TOLERANCE = 300  # seconds that a signature is good for


def secret(name):
    """Returns the one line of a file that a setting names."""
    with open(os.environ[name], encoding="utf-8") as f:
        return f.read(4096).strip()


URL = os.environ["HANDRAIL_URL"].rstrip("/")
KEY = base64.b64decode(secret("HANDRAIL_KEY_FILE").removeprefix("whsec_"), validate=True)
TARGET = secret("SLACK_WEBHOOK_FILE")


def signed(headers, body):
    """Says whether the gateway sent this (the Standard Webhooks specification)."""
    ident, stamp = headers.get("Webhook-Id", ""), headers.get("Webhook-Timestamp", "")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > TOLERANCE:
        return False
    mac = hmac.new(KEY, f"{ident}.{stamp}.".encode() + body, hashlib.sha256).digest()
    want = "v1," + base64.b64encode(mac).decode()
    return any(hmac.compare_digest(want.encode(), one.encode()) for one in headers.get("Webhook-Signature", "").split())


def word(value, most=80):
    """Returns what somebody named as it may stand in a message: visible, on one line, short."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value or "")).split())
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def lines(a):
    """Returns what people need to know of a question."""
    where = word(a.get("node_label")) or "the gateway"
    return [f"{word(a['principal'])} wants {word(a['tool'])} ({word(a['title'])}) on {where}.", f"Risk: {word(a['risk'])}"]


def message(a):
    """Returns the body of an incoming webhook. Texts are plain_text, in which names mean nothing."""
    first, *more = lines(a)
    plain = lambda text: {"type": "plain_text", "text": text, "emoji": False}
    return {
        # What notifications show; Slack reads &, < and > in it.
        "text": first.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
        "blocks": [
            {"type": "section", "text": plain("\n".join([first, *more]))},
            {"type": "actions", "elements": [{"type": "button", "text": plain("Open in Handrail"), "url": f"{URL}/console/approvals/{a['approval']}"}]},
        ],
    }


def deliver(a):
    """Sends one question; raises OSError where the service did not take it."""
    request = urllib.request.Request(TARGET, json.dumps(message(a)).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read(MAX_BODY)


class Relay(BaseHTTPRequestHandler):
    seen = OrderedDict()  # messages that were passed on: the gateway may send one again

    def do_POST(self):
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or int(size) > MAX_BODY:
            return self.end(413)
        body = self.rfile.read(int(size))
        if not signed(self.headers, body):
            return self.end(401)
        told = json.loads(body)
        ident, a = self.headers["Webhook-Id"], told.get("approval")
        if told["type"] != "approval.asked" or not a or a["state"] != "pending" or ident in self.seen:
            return self.end(204)
        try:
            deliver(a)
        except (OSError, urllib.error.URLError) as e:
            # The address is a secret, so only the kind of the error is said. The gateway tries again.
            print(f"not delivered: {type(e).__name__} {getattr(e, 'code', '')}", file=sys.stderr, flush=True)
            return self.end(503)
        self.seen[ident] = True
        while len(self.seen) > 1000:
            self.seen.popitem(last=False)
        return self.end(204)

    def end(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Says nothing: requests are the gateway's own."""


host, _, port = os.environ.get("LISTEN", "127.0.0.1:8787").rpartition(":")
server = ThreadingHTTPServer((host, int(port)), Relay)
print(f"listening on http://{server.server_address[0]}:{server.server_address[1]}", flush=True)
server.serve_forever()
