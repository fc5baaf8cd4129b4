// A satellite for Node: tool.NAME.echo says what it heard.
//
//   handrail satellite add NAME --yes --no-wait | node echo.mjs NAME    # the first time: it joins
//   node echo.mjs NAME                                                  # from then on
//
// Needs Node 20 and npm install @nats-io/transport-node. The identity is kept in NAME.identity.
import { connect, nkeyAuthenticator, nkeys } from "@nats-io/transport-node";
import { createHash, createHmac, createPublicKey, diffieHellman, generateKeyPairSync, hkdfSync } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import net from "node:net";
import tls from "node:tls";

const name = process.argv[2], file = name + ".identity";
const bytes = (text) => new TextEncoder().encode(text);
const base64url = (data) => Buffer.from(data).toString("base64url");
// RFC 8785 for the values that are used here: keys sorted, no blanks.
const canonical = (v) => JSON.stringify(v, (_, o) => o && typeof o === "object" && !Array.isArray(o) ? Object.fromEntries(Object.entries(o).sort(([a], [b]) => (a < b ? -1 : 1))) : o);
const digest = (v) => "sha256:" + createHash("sha256").update(canonical(v)).digest("hex");

// certificate fetches the bus's certificate and returns it as PEM, if its sum is the one the code
// names. NATS speaks plainly first, then TLS.
function certificate({ host, port, sum }) {
  return new Promise((done, fail) => {
    const plain = net.connect(port, host).on("error", fail).once("data", () => {
      const secure = tls.connect({ socket: plain, rejectUnauthorized: false }, () => {
        const { raw } = secure.getPeerCertificate();
        secure.destroy();
        if (createHash("sha256").update(raw).digest("hex") !== sum) return fail(new Error("the bus has another certificate than the gateway named"));
        done(`-----BEGIN CERTIFICATE-----\n${raw.toString("base64").match(/.{1,64}/g).join("\n")}\n-----END CERTIFICATE-----\n`);
      }).on("error", fail);
    });
  });
}

const dial = async (at, seed, options) => connect({
  servers: `${at.host}:${at.port}`, authenticator: nkeyAuthenticator(bytes(seed)), tls: { ca: await certificate(at) }, maxReconnectAttempts: -1, noEcho: true, ...options,
});

async function join() {
  const code = readFileSync(0, "utf8").trim().match(/^satellite:\/\/(SU[A-Z2-7]{56})@(.+):(\d+)\/([a-z0-9-]+)\?(.*)$/);
  if (!code || code[4] !== name) throw new Error("that is no code for " + name);
  const at = { host: code[2].replace(/[[\]]/g, ""), port: Number(code[3]), sum: new URLSearchParams(code[5]).get("sum") };
  const door = nkeys.fromSeed(bytes(code[1])).getPublicKey(), own = nkeys.createUser();
  const nc = await dial(at, code[1], { inboxPrefix: "_INBOX." + door });
  const ask = canonical({ host: hostname(), key: own.getPublicKey(), platform: process.platform, sig: base64url(own.sign(bytes(door))) });
  for (;;) {
    const said = (await nc.request("handrail.join." + door, ask, { timeout: 5000 })).json();
    if (said.code) throw new Error(said.message);
    if (said.state === "approved") {
      await nc.close();
      return writeFileSync(file, JSON.stringify({ ...at, id: said.satellite_id, seed: new TextDecoder().decode(own.getSeed()) }), { mode: 0o600 });
    }
    if (said.state !== "pending") throw new Error("the satellite is " + said.state);
    await new Promise((r) => setTimeout(r, 1000));
  }
}

const tool = {
  name: "echo", description: "Says what it heard.", read_only: true,
  input: { type: "object", required: ["text"], additionalProperties: false, properties: { text: { type: "string", maxLength: 1000 } } },
};
const manifest = { provider: name, tools: [tool] };

if (!existsSync(file)) await join();
const me = JSON.parse(readFileSync(file, "utf8"));
const key = nkeys.fromSeed(bytes(me.seed)), domain = "factory.tool." + name, calls = new Map(), began = Date.now();
const nc = await dial(me, me.seed);
(async () => { for await (const s of nc.status()) if (s.type === "reconnect") { mac = null; beat(); } })();

// agree agrees on a key for heartbeats: optional, and cheaper for the gateway than signatures.
let mac, keyed = 0;
function agree(half) {
  const { publicKey, privateKey } = generateKeyPairSync("x25519");
  const mine = publicKey.export({ format: "jwk" }).x;
  const stated = canonical({ contract_version: 1, purpose: "heartbeat-key", satellite_id: me.id, gateway_key: half, key: mine });
  const secret = diffieHellman({ privateKey, publicKey: createPublicKey({ key: { kty: "OKP", crv: "X25519", x: half }, format: "jwk" }) });
  mac = Buffer.from(hkdfSync("sha256", secret, "", stated, 32));
  keyed = Date.now();
  return { key: { key: mine, sig: base64url(key.sign(bytes(stated))) } };
}

function carryOut(r) {
  if (r.tool !== tool.name || r.hash !== digest(tool)) return { status: "error", code: "node_not_ready", message: "The tool is another now." };
  return { status: "ok", text: r.args.text, effect: "confirmed" };
}

nc.subscribe(`${domain}.${me.id}`, {
  callback(_, m) {
    const r = m.json(), say = (v) => m.respond(canonical(v));
    if (r.op === "manifest") say({ manifest });
    if (r.op === "key") say(agree(r.key));
    if (r.op === "ask") say({ fates: r.calls.map((call) => calls.has(call) ? { call, state: "finished", result: calls.get(call) } : { call, state: "unknown" }) });
    if (r.op === "call") {
      if (!calls.has(r.call)) calls.set(r.call, carryOut(r)); // one that came before runs no second time
      say({ result: calls.get(r.call) });
    }
  },
});

function beat() {
  const h = {
    contract_version: 1, satellite_id: me.id, service: name, host: hostname(), subjects: [`${domain}.${me.id}`], manifest_set_hash: digest(manifest), ready: true,
    active: 0, load: 0, connected: true, uptime_s: Math.floor((Date.now() - began) / 1000), ts: new Date().toISOString(), seq: Date.now(),
  };
  const text = canonical(h), byMac = mac && Date.now() - keyed > 1000;
  const sig = base64url(byMac ? createHmac("sha256", mac).update(text).digest() : key.sign(bytes(text)));
  nc.publish(`${domain}.heartbeat-${me.id}`, canonical({ ...h, sig }));
}
beat();
setInterval(beat, 5000);
