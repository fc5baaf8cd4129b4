// Package acp lets an editor drive a worker: it speaks version 1 of the Agent Client Protocol
// (agentclientprotocol.com), JSON-RPC with one message a line, as the agent.
//
// Promises: each session is a conversation of its own, which has one prompt at a time; of a prompt
// the person's own text is a message, and what it points at is a name, which speaks for nothing; a
// file that an editor attaches, and the servers that it names, are not read; a cancelled prompt
// ends as cancelled; the end of the input ends everything that runs.
//
// It must never import a gateway, and decides nothing: whether the person at the editor is asked is
// for who opens the session.
package acp
