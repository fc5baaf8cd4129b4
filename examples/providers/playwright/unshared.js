// Playwright's server finds its own browser by a socket, on which a dashboard could find it, too.
// Programs behind walls listen to nobody: this joins the two ends inside the process.
const net = require('net')
const { duplexPair } = require('stream')
const servers = new Map()

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (where, ...more) {
  if (typeof where !== 'string') return listen.call(this, where, ...more)
  servers.set(where, this)
  const listening = more.find(f => typeof f === 'function')
  setImmediate(() => { this.emit('listening'); if (listening) listening() })
  return this
}

const createConnection = net.createConnection
net.createConnection = net.connect = function (where, ...more) {
  const server = servers.get(typeof where === 'string' ? where : where.path)
  if (!server) return createConnection.call(this, where, ...more)
  const [near, far] = duplexPair()
  const connected = more.find(f => typeof f === 'function')
  setImmediate(() => { server.emit('connection', far); near.emit('connect'); if (connected) connected() })
  return near
}
