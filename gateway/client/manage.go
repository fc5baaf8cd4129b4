package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Nodes lists every node.
func (c *Client) Nodes(ctx context.Context) ([]api.Node, error) {
	list, err := get[api.NodeList](ctx, c, Path("nodes"))
	return list.Nodes, err
}

// Node returns one.
func (c *Client) Node(ctx context.Context, id capabilities.NodeID) (api.Node, error) {
	return get[api.Node](ctx, c, Path("nodes", string(id)))
}

// ApproveNode lets a pending node in.
func (c *Client) ApproveNode(ctx context.Context, id capabilities.NodeID, a api.NodeApproval) (api.Node, error) {
	return do[api.Node](ctx, c, http.MethodPost, Path("nodes", string(id), "approve"), a)
}

// DenyNode refuses a pending node for good.
func (c *Client) DenyNode(ctx context.Context, id capabilities.NodeID, reason string) (api.Node, error) {
	return do[api.Node](ctx, c, http.MethodPost, Path("nodes", string(id), "deny"), api.Reason{Reason: reason})
}

// RevokeNode puts a node out, at once and for good.
func (c *Client) RevokeNode(ctx context.Context, id capabilities.NodeID, reason string) (api.Node, error) {
	return do[api.Node](ctx, c, http.MethodPost, Path("nodes", string(id), "revoke"), api.Reason{Reason: reason})
}

// ChangeNode edits a node.
func (c *Client) ChangeNode(ctx context.Context, id capabilities.NodeID, change api.NodeChange) (api.Node, error) {
	return do[api.Node](ctx, c, http.MethodPatch, Path("nodes", string(id)), change)
}

// Invite makes a pairing paste.
func (c *Client) Invite(ctx context.Context, i api.NewInvite) (api.Invited, error) {
	return do[api.Invited](ctx, c, http.MethodPost, Path("invites"), i)
}

// Lanes lists the caller's own or, for operators, all.
func (c *Client) Lanes(ctx context.Context) ([]api.Lane, error) {
	list, err := get[api.LaneList](ctx, c, Path("lanes"))
	return list.Lanes, err
}

// Attach attaches a node to a lane.
func (c *Client) Attach(ctx context.Context, lane capabilities.LaneID, node capabilities.NodeID) (api.Lane, error) {
	return do[api.Lane](ctx, c, http.MethodPut, Path("lanes", string(lane), "nodes", string(node)), nil)
}

// Detach detaches a node from a lane.
func (c *Client) Detach(ctx context.Context, lane capabilities.LaneID, node capabilities.NodeID) (api.Lane, error) {
	return do[api.Lane](ctx, c, http.MethodDelete, Path("lanes", string(lane), "nodes", string(node)), nil)
}

// CreateToken makes a token; it is shown this once. lane "" is one named like the
// principal, ttl 0 is for ever.
func (c *Client) CreateToken(ctx context.Context, principal capabilities.PrincipalID, role string, lane capabilities.LaneID,
	ttl time.Duration) (api.Token, Token, error) {
	in := api.CreateToken{Principal: principal, Role: role, Lane: lane, TTLSeconds: int64(ttl.Seconds())}
	made, err := do[api.MadeToken](ctx, c, http.MethodPost, Path("tokens"), in)
	return made.Token, NewToken(made.Secret), err
}

// Tokens lists the tokens.
func (c *Client) Tokens(ctx context.Context) ([]api.Token, error) {
	list, err := get[api.TokenList](ctx, c, Path("tokens"))
	return list.Tokens, err
}

// RevokeToken makes a token worthless at once.
func (c *Client) RevokeToken(ctx context.Context, id string) (api.Token, error) {
	return do[api.Token](ctx, c, http.MethodDelete, Path("tokens", id), nil)
}

// PacketQuery narrows Packets; the zero value is the newest.
type PacketQuery struct {
	After uint64 // only later ones
	Limit int
	Call  capabilities.CallID
	Kind  string // or, with a dot at its end, all kinds that begin with it
}

// Packets reads the ledger in order.
func (c *Client) Packets(ctx context.Context, q PacketQuery) ([]api.Packet, error) {
	after := ""
	if q.After > 0 {
		after = strconv.FormatUint(q.After, 10)
	}
	list, err := get[api.PacketList](ctx, c, Query(Path("ledger", "packets"), "after", after, "limit", number(q.Limit),
		"call", string(q.Call), "kind", q.Kind))
	return list.Packets, err
}

// ExportLedger writes the whole ledger with its public keys, one JSON object a line,
// for 'handrail ledger verify'.
func (c *Client) ExportLedger(ctx context.Context, w io.Writer) error {
	body, err := c.Open(ctx, http.MethodGet, Path("ledger", "export"), nil)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

// Question asks what policy would decide.
type Question struct {
	Principal capabilities.PrincipalID
	Role      string
	Tool      capabilities.ToolID
	Node      capabilities.NodeID
	Lane      capabilities.LaneID
	Args      any // an object; nil: none
}

// Explain returns the decision and the rules behind it, as the gateway's JSON.
func (c *Client) Explain(ctx context.Context, q Question) (json.RawMessage, error) {
	args, err := arguments(q.Args)
	if err != nil {
		return nil, err
	}
	return do[json.RawMessage](ctx, c, http.MethodPost, Path("policy", "explain"), api.ExplainPolicy{
		Principal: q.Principal, Role: q.Role, Tool: q.Tool, Node: q.Node, Lane: q.Lane, Args: args,
	})
}
