// Judges calls with Cedar's own implementation, and with the rules of docs/policy.md
// written down here a second time: entities, arguments, consent, isolation, keys.
//   node cedar.mjs NODE_MODULES
// First line of standard input: {"schema": TEXT, "tools": {ID: {...}}}. Each further
// line {"file": TEXT, "check": BOOL, "calls": [...]} is answered by one: {"errors": [...],
// "decisions": [...]}; check asks the type checker, too, which takes longest.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { BlockList } from 'node:net';
import { join } from 'node:path';

const cedar = createRequire(join(process.argv[2], 'x.js'))('@cedar-policy/cedar-wasm/nodejs');
const uid = (type, id) => ({ type, id });
let tools;

function must(answer) {
  if (answer.type !== 'success') throw new Error(JSON.stringify(answer.errors));
  return answer;
}

// The file's rules, as Cedar's own parser reads them.
function read(file) {
  const texts = must(cedar.policySetTextToParts(file)).policies;
  return texts.map((text) => {
    const { json } = must(cedar.policyToJson(text));
    const notes = json.annotations ?? {};
    const { action } = json;
    const named = action.op === 'All' ? [] : (action.entities ?? [action.entity]).map((e) => (e.__entity ?? e).id);
    return {
      id: notes.id, text, permit: json.effect === 'permit', logOnly: notes.mode === 'log_only', named,
      keys: named.some((n) => n === 'keys' || n.startsWith('keys:') || n.startsWith('key:')),
    };
  });
}

// Sets of rules are parsed once for each file.
let parsed = new Map();
function setOf(name, rules) {
  if (!parsed.has(name)) {
    const staticPolicies = Object.fromEntries(rules.map((r) => [r.id, r.text]));
    must(cedar.preparsePolicySet(name, { staticPolicies, templates: {}, templateLinks: [] }));
    parsed.set(name, Object.fromEntries(rules.map((r) => [r.id, r])));
  }
  return parsed.get(name);
}

function authorize(name, rules, call, action, consent, args) {
  const byID = setOf(name, rules);
  const { response } = must(cedar.statefulIsAuthorized({
    principal: call.principal, action: uid('Action', action), resource: call.resource, context: { ...call.context, consent, args },
    preparsedPolicySetId: name, entities: call.entities,
  }));
  const { decision, diagnostics } = response;
  const broken = diagnostics.errors.map((e) => e.policyId).filter((id) => !byID[id].permit);
  return {
    permits: decision === 'allow' ? diagnostics.reason : [],
    forbids: [...(decision === 'deny' ? diagnostics.reason : []), ...broken],
    failed: broken.length > 0,
    reasons: diagnostics.reason,
  };
}

const permitted = (o) => o.permits.length > 0 && o.forbids.length === 0;
const rank = { deny: 0, ask: 1, allow: 2 };

// Without a person's consent, then with it.
function twoSteps(name, rules, call, action, args) {
  const first = authorize(name, rules, call, action, false, args);
  if (permitted(first)) return { effect: 'allow', by: first.permits };
  const second = authorize(name, rules, call, action, true, args);
  if (permitted(second) && !first.failed) return { effect: 'ask', by: [...second.permits, ...first.forbids] };
  return { effect: 'deny', by: first.failed ? [...first.forbids, ...second.forbids] : second.forbids };
}

function decide(rules, call) {
  const tool = tools[call.tool];
  const enforced = rules.filter((r) => !r.logOnly);
  const watched = [];
  const watch = (action, args, applies) => {
    for (const r of rules.filter((r) => r.logOnly && applies(r))) {
      if (authorize('log ' + r.id, [r], call, action, false, args).reasons.length > 0) watched.push((r.permit ? 'permit ' : 'forbid ') + r.id);
    }
  };
  const out = (effect, by, withheld = [], escalated = []) => ({ effect, by, withheld, escalated, watched });

  let { effect, by } = twoSteps('call', enforced, call, call.tool, call.args);
  watch(call.tool, call.args, () => true);
  if (effect === 'deny') return out(effect, by);
  const asks = tool.approval || tool.keys.some((k) => k.startsWith('privileged.'));
  if (asks && effect === 'allow') effect = 'ask';

  const order = ['', 'none', 't0', 't1', 't2', 't3'];
  const strength = (c) => order.indexOf(c === 'session' ? 't3' : c);
  const elsewhere = call.given === 'session' && !tool.session; // a person's session carries only the tools that name it
  if (tool.node && (call.degraded !== '' || elsewhere || strength(call.given) < strength(tool.isolation))) {
    const accept = 'isolation.accept-degraded';
    const applies = (r) => !r.permit || r.named.includes(accept); // a permit has to say it in so many words
    const accepted = twoSteps('degraded', enforced.filter(applies), call, accept, {});
    watch(accept, {}, applies);
    if (accepted.effect === 'deny') return out('deny', accepted.by);
    if (rank[accepted.effect] < rank[effect]) effect = accepted.effect;
    by = [...by, ...accepted.by];
  }

  const withheld = [];
  const escalated = [];
  for (const key of tool.keys) {
    const applies = (r) => r.keys;
    const judge = (consent) => authorize('keys', enforced.filter(applies), call, 'key:' + key, consent, {});
    watch('key:' + key, {}, applies);
    const first = judge(false);
    if (first.forbids.length === 0) continue;
    const second = judge(true);
    by = [...by, ...first.forbids];
    if (second.forbids.length === 0 && !first.failed) escalated.push(key);
    else if (tool.optional.includes(key)) withheld.push(key);
    else return out('deny', second.forbids);
  }
  if (escalated.length > 0 && effect === 'allow') effect = 'ask';
  return out(effect, by, withheld, escalated);
}

// What a URL points at: Node's own URL parser and its own idea of subnets.
const nets = Object.entries({
  metadata: ['169.254.169.254/32', '168.63.129.16/32'], loopback: ['127.0.0.0/8', '0.0.0.0/8', '::1/128'], link_local: ['169.254.0.0/16', 'fe80::/10'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7', '2001:db8::/32'],
}).map(([name, list]) => {
  const block = new BlockList();
  for (const net of list) {
    const [address, bits] = net.split('/');
    block.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4');
  }
  return [name, block];
});

function destination(text) {
  const none = { scheme: '', host: '', origin: '', port: 0, address: 'none' };
  if (text === undefined) return none;
  const u = new URL(text);
  const scheme = u.protocol.slice(0, -1);
  if (scheme === 'data' || u.href === 'about:blank') return { ...none, scheme, origin: 'null' };
  const ports = { http: 80, https: 443 };
  if (!ports[scheme]) return { ...none, scheme, origin: 'null', address: 'other' };
  const host = u.hostname.replace(/^\[|\]$/g, '');
  const family = host.includes(':') ? 'ipv6' : /^[0-9.]+$/.test(host) ? 'ipv4' : '';
  let address = 'name';
  if (family) address = nets.find(([, block]) => block.check(host, family))?.[0] ?? 'public';
  else if (host === 'localhost') address = 'loopback';
  else if (!host.includes('.') || host.endsWith('.internal')) address = 'private';
  return { scheme, host, origin: u.origin, port: Number(u.port) || ports[scheme], address };
}

// The deepest folder of all paths, which the generator writes absolute and clean.
function root(paths) {
  if (paths.length === 0) return '';
  let folder = paths[0].slice(0, paths[0].lastIndexOf('/') + 1);
  while (!paths.every((p) => p.startsWith(folder))) folder = folder.slice(0, folder.lastIndexOf('/', folder.length - 2) + 1);
  return folder;
}

function kindOf(schema) {
  if (schema.type === 'array') return schema.items && kindOf(schema.items) === 'string' ? 'set' : undefined;
  if (schema.type === undefined) return schema.enum?.every((v) => typeof v === 'string') ? 'string' : undefined;
  return ['string', 'boolean', 'integer'].includes(schema.type) ? schema.type : undefined;
}

// context.args: what the descriptor lets be recorded, and what follows from it.
function visible(tool, given) {
  const args = {};
  const declared = new Set();
  for (const pointer of tool.evidence) {
    const path = pointer.slice(1).split('/');
    let schema = tool.input;
    for (const step of path) schema = schema?.properties?.[step];
    if (!schema || !kindOf(schema)) continue;
    const name = path.join('_').replaceAll('-', '_');
    declared.add(path.at(-1) === 'app' ? 'app' : name);
    let value = given;
    for (const step of path) value = value?.[step];
    if (value !== undefined) args[name] = value;
  }
  if (declared.has('url')) Object.assign(args, destination(args.url));
  if (declared.has('app')) args.application = (given.action?.app ?? '').trim().toLowerCase();
  if (declared.has('paths')) args.root = root(args.paths ?? []);
  return args;
}

function translate(call) {
  const tool = tools[call.tool];
  const principal = uid(call.user ? 'User' : 'Agent', call.principal);
  const resource = tool.node ? uid('Node', call.node.id) : uid('Provider', 'gateway');
  const entity = (id, attrs, parents) => ({ uid: id, attrs, parents });
  const { id: _, ...node } = call.node;
  const action = (id, groups) => entity(uid('Action', id), {}, groups.map((g) => uid('Action', g)));
  return {
    ...call, principal, resource, args: visible(tool, call.args),
    entities: [
      entity(principal, { role: call.role }, [uid('Role', call.role), uid('Lane', call.lane)]),
      entity(resource, tool.node ? node : {}, []),
      action(call.tool, ['all', 'family:' + call.tool.split('.')[1], 'effect:' + tool.effects, tool.effects === 'none' ? 'read' : 'effect']),
      ...tool.keys.map((k) => action('key:' + k, ['keys', 'keys:' + k.split('.')[0]])),
    ],
    context: {
      tool: call.tool, lane: call.lane, keys: tool.keys, risk: tool.risk, isolation: tool.isolation, taint: call.taint, time: call.time,
      given: tool.node ? call.given : '', degraded: tool.node ? call.degraded : '',
    },
  };
}

// Cedar's own type checker. What can never apply is a warning to it, and an error here.
let schema;
function problems(rules) {
  const staticPolicies = Object.fromEntries(rules.map((r) => [r.id, r.text]));
  const policies = { staticPolicies, templates: {}, templateLinks: [] };
  const { validationErrors, validationWarnings } = must(cedar.validate({ validationSettings: { mode: 'strict' }, schema, policies }));
  const never = validationWarnings.filter((e) => e.error.message.includes('unable to find an applicable action'));
  return [...validationErrors, ...never].map((e) => e.policyId + ': ' + e.error.message);
}

for await (const line of createInterface({ input: process.stdin })) {
  const q = JSON.parse(line);
  if (!tools) {
    ({ schema, tools } = q);
    console.log('{}');
    continue;
  }
  const rules = read(q.file);
  const errors = q.check ? problems(rules) : [];
  parsed = new Map();
  console.log(JSON.stringify({ errors, decisions: errors.length > 0 ? [] : q.calls.map((c) => decide(rules, translate(c))) }));
}
