package console

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
)

// way is how an action is done from the pages: a page that is linked to, and what it shows or
// offers; or, where no page does it, a sentence in After alone.
type way struct {
	Address, Link string
	After         string
}

// pageWays are the actions that pages do: the page, and what it does.
var pageWays = map[capabilities.ActionKey]way{
	capabilities.ActionListNodes:       {"/console/nodes", "Devices", "shows the devices."},
	capabilities.ActionListDevices:     {"/console/nodes", "Devices", "shows what each device has."},
	capabilities.ActionListTools:       {"/console/nodes", "Devices", "shows the tools of each device."},
	capabilities.ActionListAllTools:    {"/console/nodes", "Devices", "shows the tools of each device."},
	capabilities.ActionListSecrets:     {"/console/secrets", "Secrets", "lists them."},
	capabilities.ActionReleaseSecret:   {"/console/calls", "Calls", "has a button for that at the call."},
	capabilities.ActionListUsers:       {"/console/people", "People", "lists them."},
	capabilities.ActionAddUser:         {"/console/people", "People", "adds one."},
	capabilities.ActionSetPassword:     {"/console/people", "People", "makes a sign-in link instead."},
	capabilities.ActionManageUsers:     {"/console/people", "People", "does."},
	capabilities.ActionListPrincipals:  {"/console/people", "People", "lists users, and Agents lists tokens."},
	capabilities.ActionCreateToken:     {"/console/tokens", "Agents", "makes one."},
	capabilities.ActionListProviders:   {"/console/providers", "Providers", "lists those there are."},
	capabilities.ActionCheckProvider:   {"/console/providers", "Providers", "tells it now."},
	capabilities.ActionShowProvider:    {"/console/providers", "Providers", "shows what it says."},
	capabilities.ActionRemoveProvider:  {"/console/providers", "Providers", "takes it away."},
	capabilities.ActionApproveProvider: {"/console/providers", "Providers", "shows its tools and approves them."},
	capabilities.ActionReviewTool:      {"/console/providers", "Providers", "shows the change."},
	capabilities.ActionListDrift:       {"/console/drift", "Drift", "shows them, and what is in quarantine."},
	capabilities.ActionReviewDrift:     {"/console/drift", "Drift", "shows what happened, and lets it be called again."},
	capabilities.ActionLiftQuarantine:  {"/console/drift", "Drift", "shows the events and lifts it."},
	capabilities.ActionListSatellites:  {"/console/providers", "Providers", "lists them, too."},
	capabilities.ActionShowSatellite:   {"/console/providers", "Providers", "shows how it is."},
	capabilities.ActionRevokeSatellite: {"/console/providers", "Providers", "puts it out."},
	capabilities.ActionPairNode:        {"/console/nodes", "Devices", "makes a code, which the device takes."},
	capabilities.ActionJoinSite:        {"/console/nodes", "Devices", "makes a code, which the device takes."},
	capabilities.ActionApproveNode:     {"/console/nodes", "Devices", "approves it."},
	capabilities.ActionAllowNode:       {"/console/nodes", "Devices", "allows it, with Change on the device."},
	capabilities.ActionExplainPolicy:   {"/console/policies", "Policies", "shows which rule decides."},
	capabilities.ActionReviewPolicy:    {"/console/policies", "Policies", "shows the difference."},
	capabilities.ActionReadLedger:      {"/console/ledger", "Ledger", "shows it."},
	capabilities.ActionCompareLedger:   {"/console/ledger", "Ledger", "compares them."},
	capabilities.ActionResumeSite:      {"/console/stop", "The stop switch", "lets calls run again."},
	capabilities.ActionSignIn:          {"/console/login", "The page for signing in", "takes a passkey, a password or a link."},
	capabilities.ActionRevokeGrant:     {"/console/grants", "Grants", "takes it back."},
	capabilities.ActionAcknowledge:     {"/console/approvals", "Approvals", "has a box for it at the question."},
	capabilities.ActionApproveOwn:      {"/console/approvals", "Approvals", "asks the owner of the device."},
}

// byCommand are the actions that no page does: somebody does them at the device or the gateway.
var byCommand = []capabilities.ActionKey{
	capabilities.ActionListLanes, capabilities.ActionListArtifacts, capabilities.ActionListQuestions, capabilities.ActionStartNode,
	capabilities.ActionExamineNode, capabilities.ActionAttachNode, capabilities.ActionExportLog, capabilities.ActionShowRules,
	capabilities.ActionResumeNode, capabilities.ActionStopNode, capabilities.ActionNameHost, capabilities.ActionSignInView,
	capabilities.ActionAddSatellite, capabilities.ActionRunSatellite, capabilities.ActionRunWorker, capabilities.ActionListWorkers,
	capabilities.ActionAddWorker, capabilities.ActionSetSecret, capabilities.ActionNameGateway, capabilities.ActionServeHTTPS,
	capabilities.ActionTrustProxy, capabilities.ActionTakePolicyFiles, capabilities.ActionNameWorkspace, capabilities.ActionNameSearch,
	capabilities.ActionAllowOrigin, capabilities.ActionHostProviders, capabilities.ActionChooseData, capabilities.ActionAddProvider,
	capabilities.ActionNameProviderHost, capabilities.ActionGiveSignIn, capabilities.ActionAcceptBare, capabilities.ActionAllowAttach,
	capabilities.ActionAllowUploads, capabilities.ActionNameAudit,
}

// wayOf returns how an action is done from the pages; zero for one that is not known.
func wayOf(a capabilities.Action) way {
	if w, ok := pageWays[a.Key]; ok {
		return w
	}
	for _, k := range byCommand {
		if k == a.Key {
			return way{After: command.Words(a)}
		}
	}
	return way{}
}

// text is a way without its link.
func (w way) text() string {
	if w.Link == "" {
		return w.After
	}
	return w.Link + " " + w.After
}
