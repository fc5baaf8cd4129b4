package capabilities

import (
	"slices"
	"strings"
)

// ActionKey names what a hint asks for. Each surface has words of its own for every key: a
// command, a page, a sentence for an agent. Append only: clients depend on the names.
type ActionKey string

// The actions, with the arguments that they may have.
const (
	ActionListNodes      ActionKey = "list_nodes"      // look which nodes there are, and what is ready on each
	ActionListDevices    ActionKey = "list_devices"    // look which cameras and microphones each node has
	ActionListTools      ActionKey = "list_tools"      // look which tools the caller may use
	ActionListAllTools   ActionKey = "list_all_tools"  // look which tools there are at all
	ActionListLanes      ActionKey = "list_lanes"      // look which lanes there are
	ActionListArtifacts  ActionKey = "list_artifacts"  // look which files calls made, and remove some
	ActionListSecrets    ActionKey = "list_secrets"    // look which secrets there are, and where each is kept
	ActionListUsers      ActionKey = "list_users"      // look which users there are
	ActionListPrincipals ActionKey = "list_principals" // look which users and tokens there are
	ActionListProviders  ActionKey = "list_providers"  // look which providers there are
	ActionListQuestions  ActionKey = "list_questions"  // on the device: look what waits for its owner

	ActionPairNode    ActionKey = "pair_node"    // at the gateway: let a device in
	ActionJoinSite    ActionKey = "join_site"    // at the device: have the gateway let it in
	ActionApproveNode ActionKey = "approve_node" // Node
	ActionAllowNode   ActionKey = "allow_node"   // Node, Capability
	ActionStartNode   ActionKey = "start_node"   // on the device: start the node agent
	ActionExamineNode ActionKey = "examine_node" // on the device: look what is missing for its capabilities
	ActionAttachNode  ActionKey = "attach_node"  // Lane, Node

	ActionExplainPolicy ActionKey = "explain_policy" // Tool, Node; see which rule decides
	ActionReviewPolicy  ActionKey = "review_policy"  // look how the staged policy differs from the one in force
	ActionReadLedger    ActionKey = "read_ledger"
	ActionCompareLedger ActionKey = "compare_ledger" // hold the ledger against a node's log
	ActionExportLog     ActionKey = "export_log"     // on the device: write the node's own log to a file
	ActionShowRules     ActionKey = "show_rules"     // on the device: look what its owner's rules are

	ActionResumeSite ActionKey = "resume_site" // at the gateway: let calls run again
	ActionResumeNode ActionKey = "resume_node" // on the device: let calls run again
	ActionStopNode   ActionKey = "stop_node"   // on the device: end what runs, and let nothing run
	ActionNameHost   ActionKey = "name_host"   // on the device: let commands reach the host Name

	ActionNameWorkspace ActionKey = "name_workspace" // on the device: name the folder that agents work in
	ActionNameSearch    ActionKey = "name_search"    // on the device: name the server that searches are sent to
	ActionAllowOrigin   ActionKey = "allow_origin"   // on the device: let agents reach the origin Name
	ActionAcceptBare    ActionKey = "accept_bare"    // on the device: let Chrome run without its sandbox where the host has none
	ActionAllowAttach   ActionKey = "allow_attach"   // on the device: let calls work in a Chrome that its person runs
	ActionAllowUploads  ActionKey = "allow_uploads"  // on the device: name a folder whose files may be handed to pages
	ActionNameAudit     ActionKey = "name_audit"     // on the device: name the axe-core that pages are audited with
	ActionHostProviders ActionKey = "host_providers" // on the device: let it host providers
	ActionChooseData    ActionKey = "choose_data"    // start with another data directory

	ActionCreateToken ActionKey = "create_token"
	ActionSignIn      ActionKey = "sign_in"         // get a link that signs in
	ActionSignInView  ActionKey = "sign_in_to_view" // get a link that signs in as a viewer
	ActionAddUser     ActionKey = "add_user"
	ActionSetPassword ActionKey = "set_password" // Name of the user
	ActionManageUsers ActionKey = "manage_users"
	ActionApproveOwn  ActionKey = "approve_own" // have what one asked for oneself approved
	ActionRevokeGrant ActionKey = "revoke_grant"
	ActionAcknowledge ActionKey = "acknowledge" // say with the answer that one knows what it allows

	ActionSetSecret     ActionKey = "set_secret"     // Name
	ActionReleaseSecret ActionKey = "release_secret" // Lane; say that a delivered secret is done with

	ActionAddProvider      ActionKey = "add_provider"       // Name; say anew what it has and may reach
	ActionNameProviderHost ActionKey = "name_provider_host" // let a provider reach the host Name
	ActionGiveSignIn       ActionKey = "give_sign_in"       // add an MCP server with a sign-in as its credential
	ActionCheckProvider    ActionKey = "check_provider"     // Name; have its host ask it anew
	ActionShowProvider     ActionKey = "show_provider"      // Name; look at what it says of its tools
	ActionRemoveProvider   ActionKey = "remove_provider"    // Name
	ActionApproveProvider  ActionKey = "approve_provider"   // Name; look at its tools, and have them called
	ActionReviewTool       ActionKey = "review_tool"        // Tool; look at what its provider changed

	ActionListSatellites  ActionKey = "list_satellites"
	ActionAddSatellite    ActionKey = "add_satellite"    // Name; at the gateway: let one in
	ActionRunSatellite    ActionKey = "run_satellite"    // Name; on its machine
	ActionShowSatellite   ActionKey = "show_satellite"   // Node
	ActionRevokeSatellite ActionKey = "revoke_satellite" // Node

	ActionRunWorker   ActionKey = "run_worker" // have a worker take jobs
	ActionListWorkers ActionKey = "list_workers"
	ActionAddWorker   ActionKey = "add_worker" // Name; at the gateway: let one in that is elsewhere

	ActionListDrift      ActionKey = "list_drift"      // look what calls did without a grant
	ActionReviewDrift    ActionKey = "review_drift"    // Tool; review its manifest after critical drift
	ActionLiftQuarantine ActionKey = "lift_quarantine" // Name of the runner; let it take calls again

	ActionNameGateway ActionKey = "name_gateway" // serve the console under a name
	ActionServeHTTPS  ActionKey = "serve_https"
	ActionTrustProxy  ActionKey = "trust_proxy" // at the gateway: name the TLS proxy at Name

	ActionTakePolicyFiles ActionKey = "take_policy_files" // at the gateway: start with the files of the policy folder
)

var actionKeys = []ActionKey{
	ActionListNodes, ActionListDevices, ActionListTools, ActionListAllTools, ActionListLanes, ActionListArtifacts, ActionListSecrets,
	ActionListUsers, ActionListPrincipals, ActionListProviders, ActionListQuestions, ActionPairNode, ActionJoinSite, ActionApproveNode,
	ActionAllowNode, ActionStartNode, ActionExamineNode, ActionAttachNode, ActionExplainPolicy, ActionReviewPolicy, ActionReadLedger,
	ActionCompareLedger, ActionExportLog, ActionShowRules, ActionResumeSite, ActionResumeNode, ActionStopNode, ActionNameHost,
	ActionCreateToken, ActionSignIn, ActionSignInView, ActionAddUser, ActionSetPassword, ActionManageUsers, ActionApproveOwn,
	ActionRevokeGrant, ActionAcknowledge, ActionSetSecret, ActionReleaseSecret, ActionCheckProvider, ActionShowProvider, ActionRemoveProvider,
	ActionApproveProvider, ActionReviewTool, ActionListSatellites, ActionAddSatellite, ActionRunSatellite, ActionShowSatellite,
	ActionRevokeSatellite, ActionRunWorker, ActionListWorkers, ActionAddWorker, ActionListDrift, ActionReviewDrift, ActionLiftQuarantine,
	ActionNameGateway, ActionServeHTTPS, ActionTrustProxy, ActionTakePolicyFiles, ActionNameWorkspace, ActionNameSearch, ActionAllowOrigin,
	ActionHostProviders, ActionChooseData, ActionAddProvider, ActionNameProviderHost, ActionGiveSignIn,
	ActionAcceptBare, ActionAllowAttach, ActionAllowUploads, ActionNameAudit,
}

// ActionKeys returns every key, in the order of the list; for surfaces' tests.
func ActionKeys() []ActionKey { return slices.Clone(actionKeys) }

// Known reports whether k is in the list.
func (k ActionKey) Known() bool { return slices.Contains(actionKeys, k) }

// Action is what a hint asks for, as a value: the hint itself says what holds on every surface,
// and each surface puts its words for the action after it. The zero value asks for nothing. An
// argument that is empty is not known; each has at most 256 bytes on the wire.
type Action struct {
	Key        ActionKey    `json:"key" cbor:"1,keyasint"`
	Node       NodeID       `json:"node_id,omitempty" cbor:"2,keyasint,omitempty"`
	Tool       ToolID       `json:"tool_id,omitempty" cbor:"3,keyasint,omitempty"`
	Capability CapabilityID `json:"capability,omitempty" cbor:"4,keyasint,omitempty"`
	Lane       LaneID       `json:"lane,omitempty" cbor:"5,keyasint,omitempty"`
	Name       string       `json:"name,omitempty" cbor:"6,keyasint,omitempty"` // of a provider, user or secret
	// Advice is the hint without the words of a surface, where one has put its own into the hint
	// already; else empty. It is on no wire between node and gateway.
	Advice string `json:"advice,omitempty" cbor:"-"`
}

// IsZero reports whether nothing is asked for.
func (a Action) IsZero() bool { return a == Action{} }

// Printable returns a with arguments that are safe to show.
func (a Action) Printable() Action {
	a.Node, a.Tool, a.Capability = NodeID(Printable(string(a.Node))), ToolID(Printable(string(a.Tool))),
		CapabilityID(Printable(string(a.Capability)))
	a.Lane, a.Name = LaneID(Printable(string(a.Lane))), Printable(a.Name)
	return a
}

// Worded returns the hint in a surface's words, and the action that still has the hint without
// them: Unworded is its opposite. words is empty for an action that the surface has no words for.
func (a Action) Worded(hint, words string) (string, Action) {
	if a.IsZero() || a.Advice != "" || words == "" {
		return hint, a
	}
	a.Advice = hint
	return sentences(hint, words), a
}

// sentences joins two texts; the first ends as a sentence does.
func sentences(first, second string) string {
	if first != "" && !strings.ContainsAny(first[len(first)-1:], ".!?:)") {
		first += "."
	}
	return strings.TrimSpace(first + " " + second)
}

// Unworded returns the hint without the words of the surface that a came from.
func (a Action) Unworded(hint string) (string, Action) {
	if a.Advice != "" {
		hint, a.Advice = a.Advice, ""
	}
	return hint, a
}
