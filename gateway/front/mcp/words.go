package mcp

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
)

// A model runs no command on the gateway or the device: it is told what it can do itself, or what
// to tell whom.

// ownWords are for what a model does by itself, in the names that tools have here.
var ownWords = map[capabilities.ActionKey]string{
	capabilities.ActionListNodes:    "Call tool_node_list to see the nodes.",
	capabilities.ActionListDevices:  "Call tool_node_list: it names the devices of each node.",
	capabilities.ActionListTools:    "List the tools: the list has what can be called now.",
	capabilities.ActionListAllTools: "List the tools: the list has what can be called now.",
}

// The people that a model can tell something.
const (
	admin = "an admin"
	owner = "the person at the device"
	user  = "the user"
)

// tells says whom to tell what the command line has for an action.
var tells = map[capabilities.ActionKey]string{
	capabilities.ActionListLanes:        user,
	capabilities.ActionListArtifacts:    user,
	capabilities.ActionListSecrets:      admin,
	capabilities.ActionListUsers:        admin,
	capabilities.ActionListPrincipals:   admin,
	capabilities.ActionListProviders:    admin,
	capabilities.ActionListQuestions:    owner,
	capabilities.ActionPairNode:         admin,
	capabilities.ActionJoinSite:         owner,
	capabilities.ActionApproveNode:      admin,
	capabilities.ActionAllowNode:        admin,
	capabilities.ActionStartNode:        owner,
	capabilities.ActionExamineNode:      owner,
	capabilities.ActionAttachNode:       user,
	capabilities.ActionExplainPolicy:    admin,
	capabilities.ActionReviewPolicy:     admin,
	capabilities.ActionReadLedger:       admin,
	capabilities.ActionCompareLedger:    admin,
	capabilities.ActionExportLog:        owner,
	capabilities.ActionShowRules:        owner,
	capabilities.ActionResumeSite:       admin,
	capabilities.ActionResumeNode:       owner,
	capabilities.ActionStopNode:         owner,
	capabilities.ActionNameHost:         owner,
	capabilities.ActionCreateToken:      admin,
	capabilities.ActionSignIn:           user,
	capabilities.ActionSignInView:       user,
	capabilities.ActionAddUser:          admin,
	capabilities.ActionSetPassword:      admin,
	capabilities.ActionManageUsers:      admin,
	capabilities.ActionApproveOwn:       user,
	capabilities.ActionRevokeGrant:      user,
	capabilities.ActionAcknowledge:      user,
	capabilities.ActionSetSecret:        admin,
	capabilities.ActionReleaseSecret:    user,
	capabilities.ActionCheckProvider:    admin,
	capabilities.ActionShowProvider:     admin,
	capabilities.ActionRemoveProvider:   admin,
	capabilities.ActionApproveProvider:  admin,
	capabilities.ActionReviewTool:       admin,
	capabilities.ActionListDrift:        admin,
	capabilities.ActionReviewDrift:      admin,
	capabilities.ActionLiftQuarantine:   admin,
	capabilities.ActionListSatellites:   admin,
	capabilities.ActionAddSatellite:     admin,
	capabilities.ActionRunSatellite:     admin,
	capabilities.ActionShowSatellite:    admin,
	capabilities.ActionRevokeSatellite:  admin,
	capabilities.ActionRunWorker:        admin,
	capabilities.ActionListWorkers:      admin,
	capabilities.ActionAddWorker:        admin,
	capabilities.ActionNameGateway:      admin,
	capabilities.ActionServeHTTPS:       admin,
	capabilities.ActionTrustProxy:       admin,
	capabilities.ActionTakePolicyFiles:  admin,
	capabilities.ActionNameWorkspace:    owner,
	capabilities.ActionNameSearch:       owner,
	capabilities.ActionAllowOrigin:      owner,
	capabilities.ActionHostProviders:    owner,
	capabilities.ActionAcceptBare:       owner,
	capabilities.ActionAllowAttach:      owner,
	capabilities.ActionAllowUploads:     owner,
	capabilities.ActionNameAudit:        owner,
	capabilities.ActionChooseData:       admin,
	capabilities.ActionAddProvider:      admin,
	capabilities.ActionNameProviderHost: admin,
	capabilities.ActionGiveSignIn:       admin,
}

// words says to a model how an action is done; "" for one that is not known.
func words(a capabilities.Action) string {
	if own, ok := ownWords[a.Key]; ok {
		return own
	}
	if whom, ok := tells[a.Key]; ok {
		return "Tell " + whom + ": " + command.Words(a)
	}
	return ""
}

// worded returns a hint in words for a model.
func worded(hint string, a capabilities.Action) string {
	hint, _ = a.Worded(hint, words(a))
	return hint
}
