package rest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	patch  = http.MethodPatch
	remove = http.MethodDelete
)

var (
	laneParam  = param{"lane", "lane to look from; default: the token's", "string"}
	limitParam = param{"limit", "how many at most", "integer"}
)

// table is every route with the action it takes. Serving, authorisation and the
// OpenAPI document all come from here.
func (s *Server) table() []*endpoint {
	return append(slices.Concat(s.accountTable(), s.pushTable(), s.satelliteTable(), s.providerTable(), s.governanceTable(), s.driftTable(),
		s.memoryTable(), s.turnTable(), s.jobTable(), s.workerTable(), s.clientTable(), s.localTable()),
		serveJSON(endpoint{method: get, path: "/healthz", summary: "Whether the gateway runs; to holders of a token, which one it is"}, s.health),
		serveJSON(endpoint{method: get, path: "/readyz", summary: "Whether the gateway carries calls out; 503 while it does not"}, s.ready),
		serveJSON(endpoint{
			method: get, path: "/v1/status", action: principal.ActReadStatus, summary: "Addresses, counts, and where the ledger stands",
		}, s.status),
		s.raw(endpoint{method: get, path: "/metrics", action: principal.ActReadMetrics, summary: "Metrics for Prometheus", media: "text/plain"},
			s.metrics),
		s.raw(endpoint{method: get, path: "/v1/openapi.json", action: principal.ActReadTools, summary: "This document"}, s.serveDocument),

		serveJSON(endpoint{method: post, path: "/v1/calls", action: principal.ActCall,
			summary: "Call a tool; once the tool pipeline is reached, the answer is 200 with the result, whatever it is"}, s.call),
		serveJSON(endpoint{method: post, path: "/v1/permissions/check", action: principal.ActCall,
			summary: "Find out what covers a call of one's own before it is made; without arguments, any call of the tool"}, s.permission),
		serveJSON(endpoint{method: get, path: "/v1/calls", action: principal.ActReadCalls,
			summary: "The newest calls, one's own or, for operators, everybody's", query: []param{limitParam,
				{"before", "calls that began before this sequence number; the answer's before continues a list", "integer"},
				{"lane", "of this lane", "string"}, {"tool", "of this tool", "string"}, {"principal", "of this principal; for operators", "string"},
				{"node", "of this node", "string"}, {"parent", "the steps of this call; without it and q, no steps are listed", "string"}, {
					"state",
					strings.Join(api.Outcomes(), ", ") + "; over: what it waited for ended without it; ended: by its caller or a person, on purpose",
					"string",
				}, {"q", "with this text in what is recorded of them", "string"},
				{"profile", "decided with this capability profile", "string"}, {"snapshot", "decided under this policy", "string"},
				{"isolation", "that needed this isolation class", "string"},
				{"runner", "of the runner with this fingerprint", "string"}}}, s.calls),
		serveJSON(endpoint{
			method: remove, path: "/v1/calls/{call}", action: principal.ActCall,
			summary: "End a running call, one's own or, as operator, anybody's; what it did so far is done",
		}, s.cancel),
		serveJSON(endpoint{method: post, path: "/v1/calls/{call}/replay", action: principal.ActReadPolicy,
			summary: "Decide a recorded call again, by today's policy and by the one in force at that time; with run, run it again where it " +
				"leaves nothing behind, as a call of the visitor's own"}, s.replayCall),
		serveJSON(endpoint{method: remove, path: "/v1/calls/request/{request}", action: principal.ActCall,
			summary: "End one's own running call by its request ID; what it did so far is done"}, s.cancelRequest),
		serveJSON(endpoint{method: get, path: "/v1/tools", action: principal.ActReadTools,
			summary: "The tools the caller may use now", query: []param{laneParam, {"all", "1: all that are registered, for admins", "boolean"},
				{"tag", "with this tag; several with commas: with all of them", "string"},
				{"side_effects", "none, local or external", "string"}}}, s.tools),
		serveJSON(endpoint{method: get, path: "/v1/tools/{tool}", action: principal.ActReadTools,
			summary: "One tool that the caller may use now",
			query:   []param{laneParam, {"all", "1: whether the caller may use it or not, for admins", "boolean"}}}, s.tool),
		serveJSON(endpoint{method: post, path: "/v1/tools/{tool}/validate", action: principal.ActReadTools,
			summary: "Whether arguments fit a tool's schema, and every reason why not; nothing is carried out"}, s.validateTool),
		serveJSON(endpoint{method: post, path: "/v1/selections", action: principal.ActReadTools,
			summary: "Choose a tool for an intent, by words alone and without carrying anything out; recorded"}, s.selectTool),

		serveJSON(endpoint{
			method: get, path: "/v1/nodes", action: principal.ActReadNodes, summary: "All nodes with what each can do, or why not",
		}, s.nodes),
		serveJSON(endpoint{method: get, path: "/v1/nodes/{node}", action: principal.ActReadNodes, summary: "One node"}, s.node),
		serveJSON(endpoint{
			method: get, path: "/v1/nodes/{node}/policy", action: principal.ActReadPolicy,
			summary: "Whether policy allows, asks about or denies an agent's calls on a node, tool by tool, whatever their arguments are",
			query:   []param{{"principal", "the agent; default: agent", "string"}},
		}, s.nodePolicy),
		serveJSON(endpoint{
			method: post, path: "/v1/nodes/{node}/approve", action: principal.ActManageNodes, does: "tool.admin.node-approve",
			summary: "Let a pending node in",
		}, s.approve),
		serveJSON(endpoint{
			method: post, path: "/v1/nodes/{node}/deny", action: principal.ActManageNodes, does: "tool.admin.node-deny",
			summary: "Refuse a pending node for good",
		}, s.deny),
		serveJSON(endpoint{
			method: post, path: "/v1/nodes/{node}/revoke", action: principal.ActManageNodes, does: "tool.admin.node-revoke",
			summary: "Remove a node, at once and for good",
		}, s.revoke),
		serveJSON(endpoint{
			method: patch, path: "/v1/nodes/{node}", action: principal.ActManageNodes, does: "tool.admin.node-change",
			summary: "Change label, trust, allowlist or labels; for admins, whose device it is",
		}, s.change),

		s.raw(endpoint{method: post, path: "/v1/live/{node}/{source}/whep", action: principal.ActWatch, media: sdpType,
			summary: "Watch a node's screen, camera or microphone by WHEP: an SDP offer in, an SDP answer out"}, s.watch),
		s.raw(endpoint{method: patch, path: "/v1/live/{node}/{source}/whep/{session}", action: principal.ActWatch,
			summary: "Candidates that came after the offer; no restart of ICE"}, s.trickle),
		s.raw(endpoint{method: remove, path: "/v1/live/{node}/{source}/whep/{session}", action: principal.ActWatch, summary: "Stop watching"},
			s.unwatch),
		serveJSON(endpoint{method: post, path: "/v1/control/{node}", action: principal.ActTakeOver,
			summary: "Take a node over, or only have agents wait there; it is handed back unless it is held at least every ten seconds"},
			s.takeOver),
		serveJSON(endpoint{
			method: put, path: "/v1/control/{node}/{session}", action: principal.ActTakeOver, summary: "Hold it: the console is still there",
		}, s.hold),
		serveJSON(endpoint{method: post, path: "/v1/control/{node}/{session}/{with}", action: principal.ActTakeOver,
			summary: "Use its mouse or keyboard: args as tool.desktop.mouse or tool.desktop.keyboard takes them, and that call's result"},
			s.useControl),
		serveJSON(endpoint{method: remove, path: "/v1/control/{node}/{session}", action: principal.ActTakeOver, summary: "Hand it back"},
			s.handBack),
		serveJSON(endpoint{method: post, path: "/v1/recordings", action: principal.ActRecord,
			summary: "Record a lane: the screen of the node where it works, as WebM with its calls as chapters; answers once the first " +
				"frame is taken"}, s.record),
		serveJSON(endpoint{
			method: get, path: "/v1/recordings", action: principal.ActRecord, summary: "Recordings that run, and the latest that are over",
		}, s.recordings),
		serveJSON(endpoint{
			method: get, path: "/v1/recordings/{recording}", action: principal.ActRecord,
			summary: "One recording; once it is over, with its result and file",
		}, s.recording),
		serveJSON(endpoint{
			method: remove, path: "/v1/recordings/{recording}", action: principal.ActRecord, summary: "Stop a recording; its file is kept",
		}, s.stopRecording),
		serveJSON(endpoint{method: get, path: "/v1/live/{node}", action: principal.ActReadNodes, summary: "List those who watch a node now"},
			s.watching),

		serveJSON(endpoint{
			method: post, path: "/v1/invites", action: principal.ActInvite, does: "tool.admin.invite-create",
			summary: "Make a pairing code; it is shown once",
		}, s.invite),
		serveJSON(endpoint{
			method: get, path: "/v1/invites", action: principal.ActInvite, summary: "Invitations and who used them, without their secrets",
		}, s.invites),
		serveJSON(endpoint{
			method: remove, path: "/v1/invites/{invite}", action: principal.ActInvite, does: "tool.admin.invite-withdraw",
			summary: "Withdraw an invitation",
		}, s.withdraw),

		serveJSON(endpoint{
			method: get, path: "/v1/lanes", action: principal.ActReadLanes, summary: "Lanes with their nodes, one's own or, for operators, all",
		}, s.lanes),
		serveJSON(endpoint{
			method: put, path: "/v1/lanes/{lane}/nodes/{node}", action: principal.ActManageLanes, summary: "Attach a node to a lane",
		}, s.attach),
		serveJSON(endpoint{
			method: post, path: "/v1/lanes/{lane}/secrets-done", action: principal.ActApprove,
			summary: "Say that nothing of the secrets which a lane pasted is to be seen any more, so that it may look again",
		}, s.secretsDone),
		serveJSON(endpoint{
			method: remove, path: "/v1/lanes/{lane}/nodes/{node}", action: principal.ActManageLanes, summary: "Detach a node from a lane",
		}, s.detach),

		serveJSON(endpoint{method: get, path: "/v1/approvals", action: principal.ActReadApprovals, summary: "Calls that wait for a person"},
			s.approvals),
		serveJSON(endpoint{method: get, path: "/v1/approvals/{approval}", action: principal.ActReadApprovals,
			summary: "One of them, also for a while after it was answered; with its arguments for those who may answer, while it is open",
			query:   []param{{"args", "1: arguments as long as they are", "boolean"}}}, s.approval),
		s.raw(endpoint{method: get, path: "/v1/approvals/{approval}/frame", action: principal.ActApprove, media: "image/png",
			summary: "The part of the picture that a question quotes, its places marked; for those who may watch that screen"}, s.picture),
		serveJSON(endpoint{method: post, path: "/v1/approvals", action: principal.ActApprove,
			summary: "Answer several questions of one caller in one lane at once; none that is asked at each call"}, s.answerSeveral),
		serveJSON(endpoint{method: post, path: "/v1/approvals/{approval}", action: principal.ActApprove,
			summary: "Answer one: allow (call, lease, session or always) or deny; the first answer counts, later ones are recorded"}, s.answer),
		serveJSON(endpoint{
			method: post, path: "/v1/approvals/{approval}/extend", action: principal.ActApprove,
			summary: "Take more time for one: ten minutes from now, an hour in all",
		}, s.extendApproval),
		serveJSON(endpoint{
			method: get, path: "/v1/tasks", action: principal.ActReadCalls,
			summary: "Calls that are kept until a person answers, one's own or, for operators, all",
		}, s.tasks),
		serveJSON(endpoint{method: remove, path: "/v1/tasks/{task}", action: principal.ActCall, summary: "Forget one of them"}, s.dropTask),
		serveJSON(endpoint{method: get, path: "/v1/artifacts", action: principal.ActReadArtifacts,
			summary: "Files that calls made, one's own or, for operators, everybody's", query: []param{limitParam,
				{"lane", "of this lane", "string"}, {"call", "of this call", "string"},
				{"principal", "of this principal; for operators", "string"}}}, s.artifacts),
		s.raw(endpoint{method: get, path: "/v1/artifacts/{artifact}", action: principal.ActReadArtifacts,
			summary: "The bytes of a file, whole or in ranges; its ID is the SHA-256 of its bytes and its entity tag",
			media:   "application/octet-stream"}, s.artifact),
		serveJSON(endpoint{
			method: remove, path: "/v1/artifacts/{artifact}", action: principal.ActRemoveArtifacts,
			summary: "Remove a file before its time; recorded",
		}, s.removeArtifact),
		serveJSON(endpoint{method: get, path: "/v1/grants", action: principal.ActReadApprovals, summary: "The grants that are good now"},
			s.grants),
		serveJSON(endpoint{method: post, path: "/v1/grants", action: principal.ActApprove, summary: "Grant a lease ahead of any call"}, s.grant),
		serveJSON(endpoint{method: remove, path: "/v1/grants/{grant}", action: principal.ActApprove, summary: "End a grant at once"},
			s.revokeGrant),

		serveJSON(endpoint{
			method: get, path: "/v1/stop", action: principal.ActReadStop, summary: "Whether the stop switch is on, since when and by whom",
		}, s.stopState),
		serveJSON(endpoint{method: post, path: "/v1/stop", action: principal.ActStop,
			summary: "Stop everything: running calls end, grants are revoked, nothing begins until resumed; in effect also when the answer " +
				"is an error"}, s.stop),
		serveJSON(endpoint{
			method: post, path: "/v1/resume", action: principal.ActResume, summary: "Let calls run again; what was granted before stays revoked",
		}, s.resume),
		serveJSON(endpoint{
			method: get, path: "/v1/drain", action: principal.ActReadStop, summary: "Whether this gateway is drained, and how far",
		}, s.drained),
		serveJSON(endpoint{
			method: post, path: "/v1/drain", action: principal.ActStop,
			summary: "Have this gateway take no new calls, and end once none runs; its devices go to other gateways of the site",
		}, s.drain),
		serveJSON(endpoint{method: remove, path: "/v1/drain", action: principal.ActStop, summary: "Have it take calls again"}, s.undrain),

		serveJSON(endpoint{
			method: get, path: "/v1/secrets", action: principal.ActSecrets, summary: "Secrets and who may use them; never a value",
		}, s.secrets),
		serveJSON(endpoint{
			method: put, path: "/v1/secrets/{secret}", action: principal.ActSecrets, does: "tool.admin.secret-set",
			summary: "Keep a value under a name, in place of the one before",
		}, s.setSecret),
		serveJSON(endpoint{
			method: post, path: "/v1/secrets/{secret}/references", action: principal.ActSecrets, does: "tool.admin.secret-allow",
			summary: "Let an agent have a secret delivered",
		}, s.allowSecret),
		serveJSON(endpoint{
			method: remove, path: "/v1/secrets/{secret}", action: principal.ActSecrets, does: "tool.admin.secret-remove",
			summary: "Remove a secret with its references, or one reference",
		}, s.removeSecret),

		serveJSON(endpoint{
			method: post, path: "/v1/tokens", action: principal.ActTokens, does: "tool.admin.token-create",
			summary: "Make a token; it is shown once",
		}, s.createToken),
		serveJSON(endpoint{method: get, path: "/v1/tokens", action: principal.ActTokens, summary: "Tokens, without their secrets"}, s.tokens),
		serveJSON(endpoint{
			method: remove, path: "/v1/tokens/{token}", action: principal.ActTokens, does: "tool.admin.token-revoke",
			summary: "Revoke a token, at once and for good",
		}, s.revokeToken),

		serveJSON(endpoint{
			method: post, path: "/v1/logins", action: principal.ActSession, does: "tool.admin.own-link",
			summary: "Make a one-time link into the console, for oneself and at most one's own role",
		}, s.login),
		serveJSON(endpoint{method: get, path: "/v1/whoami", action: principal.ActReadCalls, summary: "Whose token this is"}, s.whoami),

		serveJSON(endpoint{method: get, path: "/v1/ledger/packets", action: principal.ActReadLedger,
			summary: "Packets in order; without after, the newest", query: []param{
				{"after", "packets after this sequence number", "integer"}, limitParam,
				{"call", "of this call", "string"}, {"lane", "of this lane", "string"}, {"before", "packets before this sequence number", "integer"},
				{"newest", "1: the last ones of these instead of the first", "boolean"},
				{"kind", "of this kind, or of all kinds that begin with it if it ends with a dot", "string"},
			}}, s.packets),
		serveJSON(endpoint{
			method: get, path: "/v1/ledger/head", action: principal.ActReadLedger, summary: "The latest signed head, to keep for a later check",
		}, s.head),
		serveJSON(endpoint{
			method: get, path: "/v1/ledger/checkpoint", action: principal.ActReadLedger,
			summary: "The ledger as a signed checkpoint of a Merkle tree, which witnesses take",
			query:   []param{{"since", "the size of an earlier checkpoint, to prove that this one continues it", "integer"}},
		}, s.checkpoint),
		serveJSON(endpoint{
			method: get, path: "/v1/ledger/packets/{packet}/proof", action: principal.ActReadLedger,
			summary: "A proof that one packet is in the ledger, for anybody who has the key",
		}, s.proof),
		serveJSON(endpoint{
			method: get, path: "/v1/ledger/verify", action: principal.ActReadLedger,
			summary: "Check the whole ledger as an offline verifier would; one at a time",
		}, s.verify),
		serveJSON(endpoint{
			method: post, path: "/v1/ledger/compare", action: principal.ActExportLedger,
			summary: "Hold the ledger against a node's own log, and name every difference",
		}, s.compare),
		serveJSON(endpoint{method: post, path: "/v1/surfaced", action: principal.ActSurface,
			summary: "Say what a page offers its visitor; what it should not is recorded as drift"}, s.surfaced),
		s.raw(endpoint{method: get, path: "/v1/ledger/export", action: principal.ActExportLedger,
			summary: "The whole ledger with its public keys, one JSON object a line", media: "application/x-ndjson"}, s.export),

		serveJSON(endpoint{method: get, path: "/v1/policy", action: principal.ActReadPolicy, summary: "The active policy files"}, s.policy),
		serveJSON(endpoint{
			method: post, path: "/v1/policy/explain", action: principal.ActReadPolicy, summary: "Whether a call would pass, and by which rule",
		}, s.explain),
		serveJSON(endpoint{
			method: get, path: "/v1/policy/tools", action: principal.ActReadPolicy,
			summary: "The descriptors of all tools that rules can name, also of those that nobody may call now",
		}, s.policyTools),
		serveJSON(endpoint{method: get, path: "/v1/policy/sets/{set}", action: principal.ActReadPolicy,
			summary: "The files of a policy: staged, active, or the beginning of a hash"}, s.policySet),
		serveJSON(endpoint{method: get, path: "/v1/policy/history", action: principal.ActReadPolicy,
			summary: "Which policies were in force, newest first", query: []param{limitParam}}, s.policyHistory),
		serveJSON(endpoint{
			method: get, path: "/v1/policy/drafts", action: principal.ActReadPolicy,
			summary: "Policies that were staged here and are not in force, newest first",
		}, s.policyDrafts),
		serveJSON(endpoint{method: post, path: "/v1/policy/drafts", action: principal.ActActivatePolicy, does: "tool.admin.policy-stage",
			summary: "Stage a changed policy under its hash; nothing is in force by it"}, s.stagePolicy),
		serveJSON(endpoint{method: post, path: "/v1/policy/activate", action: principal.ActActivatePolicy, decides: true,
			summary: "Put a policy in force; names the hash that was looked at and the one it replaces"}, s.activatePolicy),
		serveJSON(endpoint{method: post, path: "/v1/policy/replay", action: principal.ActReadPolicy,
			summary: "Replay the recorded calls: what a policy would have decided"}, s.replayPolicy),

		s.raw(endpoint{method: get, path: "/v1/events", action: principal.ActReadEvents,
			summary: "Events as they happen (server-sent events: call, approval, grant, node, packet, and mark: where calls act on a screen that " +
				"one watches); Last-Event-ID is a ledger sequence number and resumes after it",
			query: []param{{"after", "like Last-Event-ID, for clients that cannot send it", "integer"}}, media: "text/event-stream"}, s.events),
	)
}

// raw makes an endpoint that writes its answer itself.
func (s *Server) raw(e endpoint, run func(*visit) error) *endpoint {
	if e.media == "" {
		e.media = "application/json"
	}
	e.run = run
	return &e
}

func (s *Server) metrics(c *visit) error {
	if s.opts.Metrics == nil {
		return capabilities.Errorf(capabilities.CodeNotFound, "this gateway keeps no metrics")
	}
	c.began = true
	s.opts.Metrics.ServeHTTP(c.w, c.r)
	return nil
}
