// The official package for MCP Tasks over a connected official client: it decodes each answer by
// the extension's schemas, and asks after tasks as it is told to.
// Arguments: node_modules, the address. Reads calls as lines of JSON, {"name", "arguments",
// "cancel"}, and prints what became of each: how it began, and how it ended.
import { createInterface } from 'node:readline'
const [modules, address] = process.argv.slice(2)
const { Client, StreamableHTTPClientTransport } = await import(`${modules}/@modelcontextprotocol/client/dist/index.mjs`)
const { createTaskSessionFromClient } = await import(`${modules}/@modelcontextprotocol/ext-tasks/dist/client/index.js`)
const clientInfo = { name: 'test', version: '1' }
const clientCapabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
const protocolVersion = '2026-07-28'
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: 'auto' } })
await client.connect(new StreamableHTTPClientTransport(new URL(address)))
let id = 1000
// What the client's own codecs do not know goes by the same way, written out.
const rawDispatch = async (request, options) => {
  const response = await fetch(address, {
    method: 'POST',
    signal: options?.signal,
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'Mcp-Protocol-Version': protocolVersion,
      'Mcp-Method': request.method,
      'Mcp-Name': request.params.name ?? request.params.taskId,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: id++, ...request }),
  })
  const text = await response.text()
  const answer = JSON.parse(text.startsWith('event:') ? text.split('data: ')[1] : text)
  return answer.error ? { kind: 'error', error: answer.error } : { kind: 'result', result: answer.result }
}
const session = createTaskSessionFromClient(client, {
  endpointId: 'test', rawDispatch, v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
})
for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line)
  const said = {}
  try {
    const execution = await session.callTool(call.name, call.arguments)
    console.log(JSON.stringify({ began: execution.kind })) // "task" or "immediate"
    if (call.cancel) await execution.cancel()
    const { outcome } = await execution.settle()
    said.outcome = outcome
    if (outcome.error) said.threw = String(outcome.error.stack ?? outcome.error) + JSON.stringify(outcome.error) + String(outcome.error.cause?.stack ?? '')
  } catch (e) {
    said.threw = String(e?.stack ?? e)
  }
  console.log(JSON.stringify(said))
}
await session.close()
await client.close()
