"""What the fixture programs share: events as JSON lines in a file, orders as JSON lines on standard input."""
import json, os, sys, threading, time

out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
title = sys.argv[2]
rows = int(sys.argv[3])


def write(kind, **about):
    os.write(out, (json.dumps(dict(kind=kind, **about)) + "\n").encode())


def orders(idle, handle, quit):
    """Reads orders; idle(f) runs f in the main loop; handle(order) does one and gives what the answer says."""

    def one(order):
        if order["do"] == "quit":
            quit()
            return
        if order["do"] == "busy":  # hangs as a program that computes does
            time.sleep(order["number"])
        try:
            write("state", **(handle(order) or {}))
        except Exception as e:
            write("state", text="failed: %r" % e)
            raise

    def read():
        for line in sys.stdin:
            idle(lambda order=json.loads(line): one(order))

    threading.Thread(target=read, daemon=True).start()
