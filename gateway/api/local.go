package api

import "github.com/handrail-dev/handrail/capabilities"

// LocalClientList is the MCP clients that were found on the gateway's machine.
type LocalClientList struct {
	Clients []LocalClient `json:"clients"`
}

// LocalClient is an MCP client of whoever started the gateway.
type LocalClient struct {
	Name      string                   `json:"client"`
	Title     string                   `json:"title"`
	File      string                   `json:"file"` // its settings
	Connected bool                     `json:"connected"`
	Principal capabilities.PrincipalID `json:"principal,omitempty"` // that it calls as, once it is connected
}

// LocalConnection is what was done to connect one, and tried.
type LocalConnection struct {
	LocalClient
	Backup string `json:"backup,omitempty"` // copy of its settings as they were; none: there were none
	Tools  int    `json:"tools"`            // that it is offered
	Reload string `json:"reload"`           // what makes a running client read its settings
}

// NodePolicy is what policy says of an agent's calls on a node, tool by tool.
type NodePolicy struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Tools     []ToolPolicy             `json:"tools"`
}

// ToolPolicy is what policy says of a tool whatever the arguments are: a call that it asks about or
// allows may still be denied by its arguments.
type ToolPolicy struct {
	Tool   capabilities.ToolID `json:"tool_id"`
	Effect string              `json:"effect"` // allow, ask or deny
}
