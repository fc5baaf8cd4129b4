#!/usr/bin/env python3
"""A satellite in Python, over a plain socket: tool.NAME.echo says what it heard.

    handrail satellite add NAME --yes --no-wait | python3 echo.py NAME    # the first time: it joins
    python3 echo.py NAME                                                  # from then on

Needs Python 3.9 and its package cryptography (Debian: python3-cryptography), for the signatures.
The identity is kept in NAME.identity, which only its owner reads.
"""
import base64, hashlib, hmac, json, os, platform, secrets, socket, ssl, sys, threading, time
from datetime import datetime, timezone
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

NAME = sys.argv[1]
FILE = NAME + ".identity"


def canonical(value):
    """RFC 8785 for the values that are used here: keys sorted, no blanks, whole numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc.to_bytes(2, "little")


class Key:
    """A user nkey: an Ed25519 key with a text form."""

    def __init__(self, raw):
        self.raw, self.private = raw, Ed25519PrivateKey.from_private_bytes(raw)
        public = bytes([20 << 3]) + self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = base64.b32encode(public + crc16(public)).decode().rstrip("=")

    @classmethod
    def from_seed(cls, text):
        data = base64.b32decode(text + "=" * (-len(text) % 8))
        return cls(data[2:34])

    def sign(self, data):
        return base64url(self.private.sign(data))


class Bus:
    """One connection to NATS: TLS by the certificate's sum, the key's proof, messages."""

    def __init__(self, host, port, total, key):
        plain = socket.create_connection((host, port), 10)
        info = b""
        while not info.endswith(b"\r\n"):
            info += plain.recv(1)  # byte by byte: what follows is TLS
        nonce = json.loads(info[5:])["nonce"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = context.wrap_socket(plain)
        if not secrets.compare_digest(hashlib.sha256(self.socket.getpeercert(True)).hexdigest(), total):
            raise SystemExit("the bus has another certificate than the gateway named")
        self.socket.settimeout(30)
        self.stream, self.lock, self.hears = self.socket.makefile("rb"), threading.Lock(), {}
        self.send(b"CONNECT " + canonical({
            "nkey": key.public, "sig": key.sign(nonce.encode()), "verbose": False, "pedantic": False, "echo": False,
            "protocol": 1, "lang": "python", "version": "1", "name": NAME}) + b"\r\nPING\r\n")
        if (line := self.stream.readline()) != b"PONG\r\n":
            raise SystemExit("the gateway does not let it in: " + line.decode().strip())

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def hear(self, subject, take):
        self.hears[str(len(self.hears) + 1)] = take
        self.send(f"SUB {subject} {len(self.hears)}\r\n".encode())

    def say(self, subject, data, reply=""):
        self.send(f"PUB {subject} {reply} {len(data)}\r\n".replace("  ", " ").encode() + data + b"\r\n")

    def step(self):
        """Reads one line of the protocol, and hands a message on."""
        words = self.stream.readline().decode().split()
        if not words:
            raise ConnectionError("the bus is away")
        if words[0] == "PING":
            self.send(b"PONG\r\n")
        elif words[0] == "-ERR":
            raise ConnectionError(" ".join(words))
        elif words[0] == "MSG":
            data = self.stream.read(int(words[-1]) + 2)[:-2]
            self.hears[words[2]](words[3] if len(words) == 5 else "", data)


def join():
    code = urlsplit(sys.stdin.read().strip())
    if code.scheme != "satellite" or code.path != "/" + NAME:
        raise SystemExit("that is no code for " + NAME)
    total = parse_qs(code.query)["sum"][0]
    door = Key.from_seed(code.netloc.split("@")[0])  # as it was written: urlsplit lowers the case of hosts
    own = Key(Ed25519PrivateKey.generate().private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))
    bus = Bus(code.hostname, code.port, total, door)
    answer = []
    bus.hear(f"_INBOX.{door.public}.>", lambda _, data: answer.append(json.loads(data)))
    ask = canonical({"key": own.public, "host": platform.node(), "platform": sys.platform, "sig": own.sign(door.public.encode())})
    while True:
        bus.say("handrail.join." + door.public, ask, f"_INBOX.{door.public}.1")
        while not answer:
            bus.step()
        said = answer.pop()
        if said.get("code"):
            raise SystemExit(said["message"])
        if said["state"] == "approved":
            break
        if said["state"] != "pending":
            raise SystemExit("the satellite is " + said["state"])
        time.sleep(1)
    identity = {"id": said["satellite_id"], "key": own.raw.hex(), "host": code.hostname, "port": code.port, "sum": total}
    with os.fdopen(os.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        json.dump(identity, f)


TOOL = {
    "name": "echo", "description": "Says what it heard.", "read_only": True,
    "input": {"type": "object", "required": ["text"], "additionalProperties": False,
              "properties": {"text": {"type": "string", "maxLength": 1000}}},
}
MANIFEST = {"provider": NAME, "tools": [TOOL]}


def digest(value):
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


class Satellite:
    def __init__(self, identity):
        self.id, self.key, self.began, self.calls = identity["id"], Key(bytes.fromhex(identity["key"])), time.time(), {}
        domain = "factory.tool." + NAME
        self.bus = Bus(identity["host"], identity["port"], identity["sum"], self.key)
        self.mac, self.keyed = b"", 0.0  # of heartbeats, once the gateway agreed on a key
        self.bus.hear(f"{domain}.{self.id}", self.hear)
        self.heartbeats, self.own = f"{domain}.heartbeat-{self.id}", f"{domain}.{self.id}"
        threading.Thread(target=self.beat, daemon=True).start()
        while True:
            self.bus.step()

    def beat(self):
        while True:
            h = {"contract_version": 1, "satellite_id": self.id, "service": NAME, "host": platform.node(), "subjects": [self.own],
                 "manifest_set_hash": digest(MANIFEST), "ready": True, "active": 0, "load": 0, "connected": True,
                 "uptime_s": int(time.time() - self.began), "ts": datetime.now(timezone.utc).isoformat(), "seq": time.time_ns() // 1_000_000}
            if self.mac and time.monotonic() - self.keyed > 1:
                h["sig"] = base64url(hmac.digest(self.mac, canonical(h), "sha256"))
            else:
                h["sig"] = self.key.sign(canonical(h))
            self.bus.say(self.heartbeats, canonical(h))
            time.sleep(5)

    def hear(self, reply, data):
        r = json.loads(data)
        if r["op"] == "manifest":
            self.bus.say(reply, canonical({"manifest": MANIFEST}))
        elif r["op"] == "key":
            self.bus.say(reply, canonical(self.agree(r["key"])))
        elif r["op"] == "ask":  # calls of an earlier process are not known here
            known = [self.calls.get(c) for c in r["calls"]]
            self.bus.say(reply, canonical({"fates": [
                {"call": c, "state": "finished", "result": k} if k else {"call": c, "state": "unknown"} for c, k in zip(r["calls"], known)]}))
        elif r["op"] == "call":
            if r["call"] not in self.calls:  # one that came before runs no second time
                self.calls[r["call"]] = self.carry_out(r)
            self.bus.say(reply, canonical({"result": self.calls[r["call"]]}))

    def agree(self, half):
        """Agrees on a key for heartbeats: optional, and cheaper for the gateway than signatures."""
        own = X25519PrivateKey.generate()
        mine = base64url(own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        stated = canonical({"contract_version": 1, "purpose": "heartbeat-key", "satellite_id": self.id, "gateway_key": half, "key": mine})
        secret = own.exchange(X25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(half + "=")))
        self.mac, self.keyed = HKDF(SHA256(), 32, None, stated).derive(secret), time.monotonic()
        return {"key": {"key": mine, "sig": self.key.sign(stated)}}

    def carry_out(self, r):
        if r["tool"] != TOOL["name"] or r["hash"] != digest(TOOL):
            return {"status": "error", "code": "node_not_ready", "message": "The tool is another now."}
        return {"status": "ok", "text": r["args"]["text"], "effect": "confirmed"}


if not os.path.exists(FILE):
    join()
with open(FILE) as f:
    me = json.load(f)
while True:
    try:
        Satellite(me)
    except (OSError, ValueError) as problem:
        print("satellite:", problem, file=sys.stderr)
        time.sleep(2)
