// Package provider hosts providers on a node: commands, HTTP APIs and MCP servers, whose tools
// are the node's capabilities like any other. The gateway keeps each provider's record and
// lifecycle; here is what carries their calls out.
//
// The story in the order of reading: host.go (which providers are hosted, their tools, the
// calls), manage.go (the calls by which the gateway adds and removes them), keep.go (what is on
// disk), backend.go (what a kind of provider is), command.go with argv.go (programs) and module.go
// (WebAssembly modules), mcp.go (MCP servers), api.go (HTTP APIs, whose documents package openapi
// reads), onward.go (where their answers lead).
//
// Promises: a provider's tool runs only if what the provider says of it is what a person
// approved, word for word; a provider that is dead, slow or floods delays no other; programs
// are started by argument lists, never by a shell, and through the Starter alone; a module runs
// only if its bytes are those that a person approved; what a provider returns is bounded, untrusted
// and typed before it leaves.
//
// It must never import the network's rooms (agent/link) or a platform package but the root: cmd
// hands it the Starter.
package provider
