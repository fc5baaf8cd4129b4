package principal

import "github.com/handrail-dev/handrail/capabilities"

// Role is what kind of caller a token stands for. The zero value may do nothing.
type Role string

// The roles. An operator may do all that an agent and all that a viewer may, an
// admin all that an operator may; agent and viewer have next to nothing in common.
const (
	RoleAgent    Role = "agent"    // calls tools in its own lanes
	RoleViewer   Role = "viewer"   // sees what an operator sees, calls nothing and changes nothing
	RoleOperator Role = "operator" // also nodes, lanes, events and reading the ledger
	RoleAdmin    Role = "admin"    // also tokens, invites, policy and the ledger's export
)

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case RoleAgent, RoleViewer, RoleOperator, RoleAdmin:
		return r, nil
	}
	return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "role must be agent, viewer, operator or admin")
}

// String returns the role's name.
func (r Role) String() string { return string(r) }

func (r Role) rank() int {
	switch r {
	case RoleAgent, RoleViewer:
		return 1
	case RoleOperator:
		return 2
	case RoleAdmin:
		return 3
	}
	return 0
}

// signsIn reports whether r is a person's.
func (r Role) signsIn() bool { return r.rank() > 0 && r != RoleAgent }

// Covers reports whether r may do all that other may.
func (r Role) Covers(other Role) bool {
	return other.rank() > 0 && (r == other || r.rank() > other.rank())
}

// Action is one thing a surface lets callers do. Every entry point of every surface names exactly
// one (users-and-incidents: one authorisation function), and rules name them as they are called
// here. Which role may do which is data: the role rules that ship, and those of a policy (S1-04).
type Action string

// The actions.
const (
	ActCall             Action = "call"             // call tools the policy permits, in a lane of one's own
	ActReadTools        Action = "tools.read"       // list the tools one may use
	ActReadCalls        Action = "calls.read"       // list one's own calls
	ActReadLanes        Action = "lanes.read"       // list one's own lanes
	ActReadArtifacts    Action = "artifacts.read"   // files that one's own calls made
	ActReadAllArtifacts Action = "artifacts.all"    // everybody's
	ActRemoveArtifacts  Action = "artifacts.remove" // before their time; of what one may read
	ActReadStatus       Action = "status.read"      // addresses, counts and versions
	ActReadAllCalls     Action = "calls.all"        // list everybody's calls
	ActCancelCalls      Action = "calls.cancel"     // end anybody's running call
	ActAnyLane          Action = "lanes.any"        // list, and call in, lanes of other principals
	ActManageLanes      Action = "lanes.manage"     // attach and detach nodes
	ActReadApprovals    Action = "approvals.read"   // see what waits for a person, and the grants
	ActApprove          Action = "approvals"        // answer, grant and revoke
	ActReadStop         Action = "stop.read"        // whether the stop switch is on
	ActStop             Action = "stop"             // stop everything
	ActResume           Action = "resume"           // let it go on
	ActReadNodes        Action = "nodes.read"       // roster and readiness
	ActManageNodes      Action = "nodes.manage"     // approve, deny, revoke, edit
	ActNameOwner        Action = "nodes.owner"      // say whose device a node is
	ActWatch            Action = "live"             // watch a node's screen, camera or microphone live
	ActTakeOver         Action = "live.control"     // take a node over, and have agents wait there
	ActRecord           Action = "live.record"      // record a lane: the screen of its node, as a file
	ActReadEvents       Action = "events.read"      // the event stream
	ActReadLedger       Action = "ledger.read"      // packets and head
	ActReadMetrics      Action = "metrics.read"     // Prometheus metrics
	ActExportLedger     Action = "ledger.export"    // the whole ledger
	ActReadAllTools     Action = "tools.all"        // the catalog beyond what one may use
	ActReadPolicy       Action = "policy.read"      // policy text and explain
	ActActivatePolicy   Action = "policy.activate"  // put another policy in force
	ActSecrets          Action = "secrets"          // set, list, allow and remove; never read a value
	ActInvite           Action = "invites"          // pastes and enrolment keys
	ActReadProviders    Action = "providers.read"   // providers, their tools and manifests
	ActProviders        Action = "providers"        // add, approve and remove providers
	ActDrift            Action = "drift"            // resolve events, lift quarantines, review restricted tools
	ActTokens           Action = "tokens"           // create, list, revoke
	ActSession          Action = "session"          // sign in to the console, for oneself
	ActSurface          Action = "surface"          // say what a page offers oneself
	ActMemory           Action = "memory"           // what one's own worker remembers: read, keep, edit and forget
	ActAllMemory        Action = "memory.all"       // what anybody's does
)

// Identity is who a request comes from, as the token's record says.
type Identity struct {
	TokenID   string
	Principal capabilities.PrincipalID
	Role      Role
	Lane      capabilities.LaneID // the token's default lane
	Face      Face                // how MCP lists tools where an address says nothing
	Tools     string              // the families of tools that it reaches, with commas; empty: what policy permits

	authority *Authority // nil: the shipped roles
}
