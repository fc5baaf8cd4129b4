// The official TypeScript client over the list: it checks the structured content
// of answers, also of failures, against the output schemas it was given.
// Arguments: node_modules, the address, {"name": [arguments, …], …}. Prints what
// each call gave: "ok", "error" (the tool's), or what the client threw.
const [modules, address, calls] = process.argv.slice(2)
const sdk = (file) => import(`${modules}/@modelcontextprotocol/sdk/dist/esm/client/${file}`)
const { Client } = await sdk('index.js')
const { StreamableHTTPClientTransport } = await sdk('streamableHttp.js')
const client = new Client({ name: 'test', version: '1' })
await client.connect(new StreamableHTTPClientTransport(new URL(address)))
const { tools } = await client.listTools()
const gave = { listed: tools.length, unchecked: tools.filter((t) => !t.outputSchema).map((t) => t.name) }
for (const [name, each] of Object.entries(JSON.parse(calls))) {
  gave[name] = []
  for (const args of each) {
    try {
      const answer = await client.callTool({ name, arguments: args })
      gave[name].push(answer.isError ? 'error' : 'ok')
    } catch (e) {
      gave[name].push(String(e))
    }
  }
}
await client.close()
console.log(JSON.stringify(gave))
