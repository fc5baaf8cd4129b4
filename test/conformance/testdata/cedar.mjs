// Decides generated calls with Cedar's own implementation, and with the steps of
// docs/policy.md written down here a second time.
//   node cedar.mjs NODE_MODULES FILE
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, file] = process.argv.slice(2);
const cedar = createRequire(join(modules, 'x.js'))('@cedar-policy/cedar-wasm/nodejs');

function ask(set, c, action, consent, args, only) {
  const staticPolicies = {};
  for (const p of set.policies) if (!only || only(p)) staticPolicies[p.id] = p.text;
  const answer = cedar.isAuthorized({
    principal: c.principal, action: { type: 'Action', id: action }, resource: c.resource, context: { ...c.context, consent, args },
    policies: { staticPolicies, templates: {}, templateLinks: [] }, entities: c.entities,
  });
  if (answer.type !== 'success') throw new Error(JSON.stringify(answer.errors));
  const { decision, diagnostics } = answer.response;
  const forbid = (id) => set.policies.find((p) => p.id === id).text.includes('forbid (');
  return {
    permitted: decision === 'allow',
    forbids: decision === 'deny' ? diagnostics.reason : [],
    failed: diagnostics.errors.some((e) => forbid(e.policyId)),
  };
}

function decide(set, c) {
  const step = (consent) => ask(set, c, c.action, consent, c.context.args);
  const first = step(false);
  const second = step(true);
  let effect = 'deny';
  if (first.permitted && !first.failed) effect = 'allow';
  else if (second.permitted && !second.failed && !first.failed) effect = 'ask';
  if (effect === 'deny') return effect;
  if (c.privileged && effect === 'allow') effect = 'ask';
  for (const key of c.keys) {
    const named = (p) => p.names_keys && p.text.includes('forbid (');
    const judge = (consent) => {
      const o = ask(set, c, 'key:' + key, consent, {}, named);
      return { taken: o.failed || o.forbids.length > 0, failed: o.failed };
    };
    const without = judge(false);
    if (!without.taken) continue;
    if (!judge(true).taken && !without.failed) effect = 'ask';
    else if (!c.optional.includes(key)) return 'deny';
  }
  return effect;
}

const sets = JSON.parse(readFileSync(file, 'utf8'));
console.log(JSON.stringify(sets.map((set) => set.cases.map((c) => decide(set, c)))));
