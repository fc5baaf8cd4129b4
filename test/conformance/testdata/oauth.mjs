// The official TypeScript client on its way in by OAuth, as a client that has nothing but the
// address. Arguments: node_modules, the address, and the address of its document if it has one. It
// prints where it sends the person's browser, and reads where that was sent back to; then it calls,
// loses its access token and calls again.
import { createInterface } from 'node:readline'
const [modules, address, document] = process.argv.slice(2)
const sdk = (file) => import(`${modules}/@modelcontextprotocol/sdk/dist/esm/client/${file}`)
const { Client } = await sdk('index.js')
const { StreamableHTTPClientTransport } = await sdk('streamableHttp.js')
const { UnauthorizedError } = await sdk('auth.js')
const say = (what) => console.log(JSON.stringify(what))
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
let client, tokens, verifier, sent
const provider = {
  get redirectUrl() { return 'http://127.0.0.1:43117/callback' },
  get clientMetadata() {
    return { client_name: 'Test client', redirect_uris: [this.redirectUrl], token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] }
  },
  get clientMetadataUrl() { return document },
  state() { return 'a state' },
  clientInformation() { return client },
  saveClientInformation(c) { client = c },
  tokens() { return tokens },
  saveTokens(t) { tokens = t },
  redirectToAuthorization(u) { sent = String(u) },
  saveCodeVerifier(v) { verifier = v },
  codeVerifier() { return verifier },
}
const connect = async () => {
  const c = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider: provider })
  try {
    await c.connect(transport)
  } catch (e) {
    if (!(e instanceof UnauthorizedError)) throw e
    return { transport }
  }
  return { c, transport }
}
const { transport } = await connect()
say({ sent })
const back = new URL((await lines.next()).value)
if (back.searchParams.get('state') !== 'a state') throw new Error('the state is another')
if (back.searchParams.get('iss') !== new URL(address).origin) throw new Error('the issuer is another')
await transport.finishAuth(back.searchParams.get('code'))
const { c } = await connect()
const names = async () => (await c.listTools()).tools.map((t) => t.name)
const listed = await names()
const first = tokens
tokens = { ...tokens, access_token: 'hra_lost' }
const again = await names()
say({ listed, same: JSON.stringify(listed) === JSON.stringify(again), refreshed: tokens.access_token !== 'hra_lost' && tokens.refresh_token !== first.refresh_token })
await c.close()
process.exit(0)
