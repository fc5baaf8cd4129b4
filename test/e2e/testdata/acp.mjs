// The official client of the Agent Client Protocol as an editor: it checks every message by the
// protocol's schema. Arguments: node_modules, the program, its arguments, the folder of the session
// and a plan, a list of
// {"prompt": [content, …], "answer": option, "cancelOn": words of an update, "cancelWhen": a file}.
// Prints {"hello": …, "before": [update, …], "turns": [{"stop", "error", "updates", "asked"}, …]}.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { Readable, Writable } from 'node:stream'

const [modules, program, args, cwd, plan] = process.argv.slice(2)
const acp = await import(`${modules}/@agentclientprotocol/sdk/dist/v1/stable/acp.js`)
const { agent, client } = acp.methods
const child = spawn(program, JSON.parse(args), { stdio: ['pipe', 'pipe', 'inherit'] })
const gone = new Promise((resolve) => child.on('exit', resolve))
const out = { before: [], turns: [] }
let turn, cancel

const app = acp
  .client({ name: 'editor' })
  .onRequest(client.session.requestPermission, ({ params }) => {
    turn.asked.push(params)
    const chosen = turn.plan.answer
    return { outcome: chosen ? { outcome: 'selected', optionId: chosen } : { outcome: 'cancelled' } }
  })
  .onNotification(client.session.update, ({ params }) => {
    if (!turn) {
      out.before.push(params.update)
      return
    }
    turn.updates.push(params.update)
    if (turn.plan.cancelOn && JSON.stringify(params.update).includes(turn.plan.cancelOn)) cancel()
  })

await app.connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (ctx) => {
  out.hello = await ctx.request(agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} })
  const { sessionId } = await ctx.request(agent.session.new, { cwd, mcpServers: [] })
  cancel = () => ctx.notify(agent.session.cancel, { sessionId })
  for (const each of JSON.parse(plan)) {
    turn = { plan: each, updates: [], asked: [] }
    let poll
    if (each.cancelWhen) {
      poll = setInterval(() => {
        if (existsSync(each.cancelWhen)) cancel()
      }, 50)
    }
    try {
      turn.stop = (await ctx.request(agent.session.prompt, { sessionId, prompt: each.prompt })).stopReason
    } catch (e) {
      turn.error = { code: e.code, message: e.message, data: e.data }
    }
    clearInterval(poll)
    out.turns.push(turn)
  }
})
child.stdin.end()
await gone
console.log(JSON.stringify(out))
