package capabilities

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Code is one entry of the closed, append-only list of error codes. Each maps to
// a public message, a hint, an HTTP status and the status of the call in codeTable;
// unknown codes become CodeInternal at the edges.
type Code string

// The list. Append only: clients and policies depend on the names.
const (
	CodeInvalidRequest   Code = "invalid_request"
	CodeInvalidArguments Code = "invalid_arguments"
	CodeUnknownTool      Code = "unknown_tool"
	CodeBodyTooLarge     Code = "body_too_large"
	CodeUnauthenticated  Code = "unauthenticated"
	CodeForbidden        Code = "forbidden"
	CodeHandsElsewhere   Code = "hands_elsewhere"
	CodeOriginRefused    Code = "origin_refused"
	CodeNotFound         Code = "not_found"
	CodeConflict         Code = "conflict"
	CodeOverloaded       Code = "overloaded"

	CodeNodeNotFound             Code = "node_not_found"
	CodeNodeNotPaired            Code = "node_not_paired"
	CodeCapabilityNotAdvertised  Code = "capability_not_advertised"
	CodeCapabilityNotAllowlisted Code = "capability_not_allowlisted"
	CodeNodeNotReady             Code = "node_not_ready"
	CodeNodeDeniedByPolicy       Code = "node_denied_by_policy"
	CodeAmbiguousNode            Code = "ambiguous_node_selection"

	CodeDeniedByPolicy          Code = "denied_by_policy"
	CodeConsentUnavailable      Code = "consent_unavailable"
	CodeConsentDenied           Code = "consent_denied"
	CodeApprovalPending         Code = "approval_pending"
	CodeAcknowledgementRequired Code = "acknowledgement_required"
	CodeIsolationUnavailable    Code = "isolation_unavailable"
	CodePolicyLocksOut          Code = "policy_locks_out"
	CodeStopped                 Code = "stopped"
	CodeRequestIDConflict       Code = "request_id_conflict"

	CodeLedgerUnavailable Code = "ledger_unavailable"
	CodeNodeDisconnected  Code = "node_disconnected"
	CodeUnknownOutcome    Code = "unknown_outcome"
	CodeDeadlineExceeded  Code = "deadline_exceeded"
	CodeCancelled         Code = "cancelled"
	CodeResultTooLarge    Code = "result_too_large"
	CodeResultExpired     Code = "result_expired"

	CodeDeniedByNode   Code = "denied_by_node"
	CodeDriftCritical  Code = "drift_critical"
	CodeTicketInvalid  Code = "ticket_invalid"
	CodeTicketReplayed Code = "ticket_replayed"
	CodeTicketExpired  Code = "ticket_expired"

	CodeExecutionFailed    Code = "execution_failed"
	CodeNotSupported       Code = "not_supported"
	CodeBrowserUnavailable Code = "browser_unavailable"
	CodeBrowserCrashed     Code = "browser_crashed"
	CodeURLBlocked         Code = "url_blocked"
	CodeNavigationFailed   Code = "navigation_failed"
	CodeElementNotFound    Code = "element_not_found"
	CodeElementNotUnique   Code = "element_not_unique"
	CodeElementObscured    Code = "element_obscured"
	CodeElementDisabled    Code = "element_disabled"
	CodeStaleRef           Code = "stale_ref"
	CodeTabNotFound        Code = "tab_not_found"
	CodeScriptFailed       Code = "script_failed"
	CodeDialogOpen         Code = "dialog_open"

	CodeDesktopUnavailable  Code = "desktop_unavailable"
	CodeSessionLocked       Code = "session_locked"
	CodeStaleFrame          Code = "stale_frame"
	CodeOutsideDesktop      Code = "outside_desktop"
	CodeWindowNotFound      Code = "window_not_found"
	CodeAppNotFound         Code = "app_not_found"
	CodeAppHung             Code = "app_hung"
	CodeActionUnsupported   Code = "action_unsupported"
	CodeTextUntypable       Code = "text_untypable"
	CodeOwnWindow           Code = "own_window"
	CodeInterruptedByPerson Code = "interrupted_by_person"
	CodeTakenOver           Code = "taken_over"

	CodeSensorMissing     Code = "sensor_not_found"
	CodeSensorBusy        Code = "sensor_busy"
	CodeSensorRefused     Code = "sensor_refused"
	CodeFormatUnsupported Code = "format_unsupported"
	CodeCaptureBroken     Code = "capture_broken"

	CodeSecretUnavailable Code = "secret_unavailable"
	CodeSecretHeld        Code = "secret_held"

	CodePasteInvalid   Code = "paste_invalid"
	CodePasteExpired   Code = "paste_expired"
	CodePasteUsed      Code = "paste_used"
	CodeSiteMismatch   Code = "site_mismatch"
	CodePairingDenied  Code = "pairing_denied"
	CodePairingPending Code = "pairing_pending"
	CodeNodeRevoked    Code = "node_revoked"
	CodeVersionSkew    Code = "version_skew"

	CodeLocationUnavailable Code = "location_unavailable"
	CodeLocationRefused     Code = "location_refused"
	CodeLocationTimeout     Code = "location_timeout"

	CodeArtifactUnavailable Code = "artifact_unavailable"
	CodeArtifactSpace       Code = "artifact_space"

	CodePushUnavailable Code = "push_unavailable"

	CodeBackupLocked   Code = "backup_locked"
	CodeBackupDamaged  Code = "backup_damaged"
	CodeDiskFull       Code = "disk_full"
	CodeSiteSuperseded Code = "site_superseded"
	CodeUpdateRefused  Code = "update_refused"

	CodeToolRestricted    Code = "tool_restricted"
	CodeRunnerQuarantined Code = "runner_quarantined"

	CodeLedgerCorrupt Code = "ledger_corrupt"
	CodeInternal      Code = "internal"
)

// CodeInfo is the public side of a code.
type CodeInfo struct {
	Message   string    // one plain sentence
	Hint      string    // what to do about it
	Retryable bool      // the same call may succeed later without a change
	HTTP      int       // status for the REST surface, 400 or more: nobody takes an error for an answer
	Status    Status    // of a call that ends with it: denied, pending or error
	Action    ActionKey // what Hint asks for; empty: Hint says it all
}

var codeTable = map[Code]CodeInfo{
	CodeInvalidRequest:   {"The request is not well formed.", "Correct the field that the message names.", false, 400, StatusError, ""},
	CodeInvalidArguments: {"The arguments do not fit the tool's schema.", "Correct what the message or the details name, and call again.", false, 400, StatusError, ""},
	CodeUnknownTool:      {"There is no such tool.", "Use a name from the list of tools.", false, 404, StatusError, ActionListTools},
	CodeBodyTooLarge:     {"The request is larger than 1 MiB.", "Send less.", false, 413, StatusError, ""},
	CodeUnauthenticated:  {"No valid token came with the request.", "Send 'Authorization: Bearer TOKEN'.", false, 401, StatusError, ActionCreateToken},
	CodeForbidden:        {"This principal may not do that.", "Use a token whose role allows it.", false, 403, StatusError, ""},
	CodeHandsElsewhere:   {"An agent can use mouse, keyboard or browser of a device, and this request may come from there.", "Do it from another device, confirm it with a passkey, or wait until the time that details name.", true, 403, StatusError, ""},
	CodeOriginRefused:    {"The request came from a web origin or host that is not allowed.", "Call the gateway directly by its own address.", false, 403, StatusError, ""},
	CodeNotFound:         {"There is no such thing.", "Check the name or ID.", false, 404, StatusError, ""},
	CodeConflict:         {"The request conflicts with the present state.", "Look again: it may have been changed, answered or ended meanwhile.", false, 409, StatusError, ""},
	CodeOverloaded:       {"Too much is going on at once.", "Wait a moment and try again.", true, 429, StatusError, ""},

	CodeNodeNotFound:             {"There is no node with that ID.", "Name one of the nodes that there are.", false, 404, StatusError, ActionListNodes},
	CodeNodeNotPaired:            {"The node is not paired.", "An admin approves it, or pairs it anew.", false, 409, StatusError, ActionApproveNode},
	CodeCapabilityNotAdvertised:  {"The node does not offer this capability.", "Choose a node for which tool.node.list reports the tool as available.", false, 409, StatusError, ""},
	CodeCapabilityNotAllowlisted: {"The node is not allowed to use this capability here.", "An admin can allow it.", false, 403, StatusDenied, ActionAllowNode},
	CodeNodeNotReady:             {"The node is not ready for this capability.", "See details for the reason and the fix.", true, 503, StatusError, ""},
	CodeNodeDeniedByPolicy:       {"Policy denies this tool on that node.", "Ask the admin, who can see the rule.", false, 403, StatusDenied, ActionReadLedger},
	CodeAmbiguousNode:            {"No single node could be selected.", "Give node_id, or attach a node to the lane.", false, 409, StatusError, ""},

	CodeDeniedByPolicy:          {"Policy denies this call.", "Ask the admin to permit it, or do it another way.", false, 403, StatusDenied, ""},
	CodeConsentUnavailable:      {"Policy wants a person to confirm this call, and no way to ask one is set up.", "Ask the admin to permit it by policy.", false, 403, StatusDenied, ""},
	CodeConsentDenied:           {"A person denied this call.", "Do not repeat it.", false, 403, StatusDenied, ""},
	CodeApprovalPending:         {"A person has to approve this call.", "Repeat the identical call to wait for the answer.", true, 409, StatusPending, ""},
	CodeAcknowledgementRequired: {"An answer has to acknowledge what is privileged or may destroy something.", "Read the question first; the answer has to say that you know it.", false, 409, StatusError, ActionAcknowledge},
	CodeIsolationUnavailable:    {"The node cannot give the isolation this call needs.", "See details; the owner can mend the host, or policy can accept it explicitly.", false, 403, StatusDenied, ""},
	CodePolicyLocksOut:          {"Under that policy nobody could activate another one, so it was not put in force.", "Leave at least one admin the actions policy.read and policy.activate, and activate it then.", false, 409, StatusError, ActionReviewPolicy},
	CodeStopped:                 {"The stop switch is on.", "A person has to resume.", false, 403, StatusDenied, ""},
	CodeRequestIDConflict:       {"This request ID was used with other arguments.", "Use a new request ID for a new request.", false, 409, StatusError, ""},

	CodeLedgerUnavailable: {"The ledger could not record the call, so it was not carried out.", "The admin should look at the gateway's disk.", true, 503, StatusError, ""},
	CodeNodeDisconnected:  {"The node went away before it started the call; nothing was executed.", "Try again when the node is back.", true, 503, StatusError, ""},
	CodeUnknownOutcome:    {"The connection to the node was lost and it is not known whether the call finished.", "Look at the device's state before repeating the call.", false, 502, StatusError, ""},
	CodeDeadlineExceeded:  {"The call did not finish in time.", "Look at what it did so far before repeating it; then give a larger timeout_ms, or do less at once.", true, 504, StatusError, ""},
	CodeCancelled:         {"The caller cancelled the call.", "It may have started: look at what it did before repeating it.", false, 499, StatusError, ""},
	CodeResultTooLarge:    {"The result is larger than the tool may return.", "Ask for less.", false, 502, StatusError, ""},
	CodeResultExpired:     {"The call was carried out, but its result is no longer kept.", "Do not repeat it: look at what it did. A call that only reads can be made again with a new request ID.", false, 410, StatusError, ""},

	CodeDeniedByNode:   {"The device's owner does not allow this call.", "Ask the owner of the device.", false, 403, StatusDenied, ""},
	CodeDriftCritical:  {"The call did something that it was never granted. It was ended, and its result is void.", "An admin looks at the drift event before the tool is used again.", false, 403, StatusError, ""},
	CodeTicketInvalid:  {"The node refused the gateway's order: it does not match what was decided.", "Report this: it should not happen.", false, 502, StatusError, ""},
	CodeTicketReplayed: {"The node refused an order it had seen before.", "Report this: it should not happen.", false, 502, StatusError, ""},
	CodeTicketExpired:  {"The order reached the node too late; nothing was executed.", "Try again.", true, 503, StatusError, ""},

	CodeExecutionFailed:    {"The tool failed.", "See the message.", false, 500, StatusError, ""},
	CodeNotSupported:       {"This host cannot do that.", "See the message for what is missing.", false, 501, StatusError, ""},
	CodeBrowserUnavailable: {"No usable Chrome or Chromium was found.", "Install one on the node.", false, 503, StatusError, ActionExamineNode},
	CodeBrowserCrashed:     {"The browser or the tab crashed.", "Call again: a new one is started.", true, 502, StatusError, ""},
	CodeURLBlocked:         {"That address may not be opened.", "Use a public web address, or ask the owner to allow the origin.", false, 403, StatusDenied, ""},
	CodeNavigationFailed:   {"The page could not be loaded.", "Check the address.", true, 502, StatusError, ""},
	CodeElementNotFound:    {"No element matches.", "Take a snapshot and use a ref from it.", false, 404, StatusError, ""},
	CodeElementNotUnique:   {"More than one element matches.", "Take a snapshot and use a ref, or a narrower selector.", false, 409, StatusError, ""},
	CodeElementObscured:    {"Another element covers this one.", "Deal with the covering element first.", false, 409, StatusError, ""},
	CodeElementDisabled:    {"The element is disabled.", "Do what enables it first.", false, 409, StatusError, ""},
	CodeStaleRef:           {"The element behind this ref is gone.", "Take a new snapshot.", false, 409, StatusError, ""},
	CodeTabNotFound:        {"There is no such tab.", "Call tool.browser.tabs to see the open tabs.", false, 404, StatusError, ""},
	CodeScriptFailed:       {"The script threw an error.", "Correct it; the message says what failed and where.", false, 422, StatusError, ""},
	CodeDialogOpen:         {"A dialog of the page is open and blocks it.", "Answer it with tool.browser.handle-dialog.", false, 409, StatusError, ""},

	CodeDesktopUnavailable:  {"There is no desktop that this node can reach.", "A person has to see what is missing on the node.", true, 503, StatusError, ActionExamineNode},
	CodeSessionLocked:       {"The person's session is locked.", "Ask the person to unlock it.", true, 409, StatusError, ""},
	CodeStaleFrame:          {"The displays have changed since that image was taken.", "Take a new screenshot and use its frame_id.", false, 409, StatusError, ""},
	CodeOutsideDesktop:      {"That point or area is on no display.", "Take a screenshot and use its coordinates and frame_id.", false, 422, StatusError, ""},
	CodeWindowNotFound:      {"There is no such window.", "Take a snapshot to see the open windows.", false, 404, StatusError, ""},
	CodeAppNotFound:         {"No such application is installed.", "Use the name of a program or of an entry in the applications menu.", false, 404, StatusError, ""},
	CodeAppHung:             {"The application does not answer.", "Wait until it answers, or close it.", true, 504, StatusError, ""},
	CodeActionUnsupported:   {"The element cannot do that.", "See the message for what it can do.", false, 422, StatusError, ""},
	CodeTextUntypable:       {"A character of the text cannot be typed on this system.", "Leave it out, or set the field's value with act.", false, 422, StatusError, ""},
	CodeOwnWindow:           {"That is a window of Handrail itself, which calls never touch.", "A person has to use it.", false, 403, StatusError, ""},
	CodeInterruptedByPerson: {"The person at the device took over; the call stopped where it was.", "Wait until they are done, look again, and go on from there.", true, 409, StatusError, ""},
	CodeTakenOver:           {"A person has taken over this device.", "Call again: the call waits until they hand back. Then look again before you go on.", true, 409, StatusError, ""},

	CodeSensorMissing:     {"There is no such camera or microphone.", "Name one of the devices that the node has.", false, 404, StatusError, ActionListDevices},
	CodeSensorBusy:        {"Another program or call is using the camera or microphone.", "Wait until it is free, or ask the person to close what uses it.", true, 409, StatusError, ""},
	CodeSensorRefused:     {"The system does not let this node use the camera or microphone.", "The person has to allow it in the system's privacy settings.", false, 403, StatusError, ActionExamineNode},
	CodeFormatUnsupported: {"The device cannot return that format.", "Leave the format out, or see the message for what it can return.", false, 422, StatusError, ""},
	CodeCaptureBroken:     {"The capture broke off; nothing of it was kept.", "Look whether the camera or microphone is still connected, and call again.", true, 502, StatusError, ""},

	CodeSecretUnavailable: {"The secret could not be read from where it is kept, so nothing was delivered.", "Ask the admin to look at it.", false, 503, StatusError, ActionListSecrets},
	CodeSecretHeld:        {"A secret lies in that device's clipboard, so pictures of its screen, scripts and reads of its clipboard are refused.", "Paste it, then wait until it is cleared; that takes about a minute.", true, 409, StatusDenied, ""},

	CodePasteInvalid:   {"This is not a valid pairing code.", "Copy the whole line that was printed at the gateway.", false, 400, StatusError, ActionJoinSite},
	CodePasteExpired:   {"The pairing code has expired.", "Have a new one made.", false, 410, StatusError, ActionJoinSite},
	CodePasteUsed:      {"The pairing code was used already.", "Have a new one made; if you did not use it, look at who did.", false, 410, StatusError, ActionJoinSite},
	CodeSiteMismatch:   {"The gateway is not the site this node was told to trust.", "Check the address; if the site was rebuilt, pair anew.", false, 403, StatusError, ""},
	CodePairingDenied:  {"The admin denied this node.", "Ask the admin.", false, 403, StatusError, ""},
	CodePairingPending: {"The admin has not confirmed this node yet.", "Wait; the node goes on by itself once it is confirmed.", true, 409, StatusError, ""},
	CodeNodeRevoked:    {"This node's pairing was revoked.", "Ask the admin for a new pairing code and join again.", false, 403, StatusError, ""},
	CodeVersionSkew:    {"The two sides speak protocol versions that do not meet.", "Update the older side.", false, 426, StatusError, ""},

	CodeLocationUnavailable: {"Nothing on this device can say where it is.", "A person has to see what is missing on the node.", true, 503, StatusError, ActionExamineNode},
	CodeLocationRefused:     {"The person or the system does not give out the position.", "Ask the person to allow location for Handrail.", false, 403, StatusError, ""},
	CodeLocationTimeout:     {"No source knew the position in time.", "Give a larger timeout_ms, or accept an older position with maximum_age_ms.", true, 504, StatusError, ""},

	CodeArtifactUnavailable: {"The call was carried out, but a file that it made did not arrive whole, so it is not there.", "Call again for a new one; see that the node is connected.", true, 502, StatusError, ""},
	CodeArtifactSpace:       {"There is no room for the file.", "Fetch and remove what is no longer needed, or ask the admin for more room.", true, 507, StatusError, ActionListArtifacts},

	CodePushUnavailable: {"The browser's push service did not take a message.", "Look into the gateway's log; it needs a way to that service over HTTPS.", true, 502, StatusError, ""},

	CodeBackupLocked:   {"The backup does not open with that passphrase or key.", "Give the passphrase or the key that it was sealed with.", false, 403, StatusError, ""},
	CodeBackupDamaged:  {"The backup is damaged or was cut short, so nothing of it was used.", "Fetch it again from where it was made, or use another one.", false, 422, StatusError, ""},
	CodeDiskFull:       {"There is no room left on the disk, so nothing was kept.", "Free some, and do it again.", true, 507, StatusError, ""},
	CodeSiteSuperseded: {"A later copy of this site was restored, and this gateway is the older one.", "Leave this one stopped and use the later one. Where that one is lost, restore a backup here: it becomes the latest.", false, 409, StatusError, ""},
	CodeUpdateRefused:  {"An update was not taken: it is not what the publisher signed, or it does not work here.", "The message says why. The program that was there is in its place.", false, 422, StatusError, ""},

	CodeToolRestricted:    {"A call of this tool did something privileged that it was never granted, and nobody has reviewed the tool since.", "An admin reviews its manifest and lets it be called again.", false, 403, StatusDenied, ActionReviewDrift},
	CodeRunnerQuarantined: {"The runner of this call did again and again what it was not granted, and takes no calls.", "An admin looks at the drift events and lifts the quarantine.", false, 403, StatusDenied, ActionListDrift},

	CodeLedgerCorrupt: {"The ledger does not verify.", "Keep the files and compare with the nodes' copies of the head.", false, 500, StatusError, ""},
	CodeInternal:      {"Something went wrong inside.", "The log has the details under this call ID.", false, 500, StatusError, ""},
}

// Info returns the public side of c; unknown codes have that of CodeInternal.
func (c Code) Info() CodeInfo {
	if info, ok := codeTable[c]; ok {
		return info
	}
	return codeTable[CodeInternal]
}

// Known reports whether c is in the list.
func (c Code) Known() bool { _, ok := codeTable[c]; return ok }

// Codes returns every code, in no order; for documentation and tests.
func Codes() []Code {
	all := make([]Code, 0, len(codeTable))
	for c := range codeTable {
		all = append(all, c)
	}
	return all
}

// Error is a refusal or failure with a code. Message and Hint are public and
// plain; the cause stays private (logs only) and never crosses a wire.
type Error struct {
	Code    Code
	Message string // empty: the code's own message
	Hint    string // empty: the code's own hint
	Action  Action // what Hint asks for; of the code's own hint the code says it
	Details any    // bounded JSON value, public; shape given by Code
	// Passing says that what refused it may be over by itself, although that is not so
	// of every error with this code.
	Passing bool
	cause   error
}

// Errorf makes an Error with a public message. A %w argument becomes the private
// cause as well, so pass only causes whose text may be public, or use Wrap.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Wrap makes an Error whose public message is the code's own (or message, if not
// empty) and whose cause stays private.
func Wrap(code Code, cause error, message string) *Error {
	return &Error{Code: code, Message: message, cause: cause}
}

// WithHint returns a copy of e with that hint. A hint names no command, page or tool's name on a
// surface: that is WithAction's.
func (e *Error) WithHint(hint string) *Error { return e.WithAction(Action{}, hint) }

// WithAction returns a copy of e with a hint that holds on every surface, and what it asks for,
// which each surface words.
func (e *Error) WithAction(a Action, hint string) *Error {
	c := *e
	c.Hint, c.Action = hint, a
	return &c
}

// WithAdvice returns a copy of e whose hint goes on with text and asks for the same.
func (e *Error) WithAdvice(text string) *Error {
	return e.WithAction(e.PublicAction(), sentences(e.PublicHint(), text))
}

// WithDetails returns a copy of e with those details.
func (e *Error) WithDetails(details any) *Error { c := *e; c.Details = details; return &c }

// Pending returns what the refused call waits for; zero if that is nothing, or was not asked
// here.
func (e *Error) Pending() Pending { p, _ := e.Details.(Pending); return p }

// DetailsOf returns the Details of err as the type that its code gives them, such as Presence
// for CodeHandsElsewhere: as they were put there, or read from JSON where err came over a wire.
// It returns zero if err has none of that form.
func DetailsOf[T any](err error) (details T) {
	var e *Error
	if !errors.As(err, &e) {
		return details
	}
	if own, ok := e.Details.(T); ok {
		return own
	}
	form, sent := e.Details.(map[string]any)
	if !sent {
		return details
	}
	var read T
	if text, err := json.Marshal(form); err != nil || json.Unmarshal(text, &read) != nil {
		return details
	}
	return read
}

// Error returns code and public message; the cause is for logs, by errors.Unwrap.
func (e *Error) Error() string { return string(e.Code) + ": " + e.PublicMessage() }

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is match on the code alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// PublicMessage is the message a caller may see.
func (e *Error) PublicMessage() string {
	if e.Message != "" {
		return e.Message
	}
	return e.Code.Info().Message
}

// PublicHint is the hint a caller may see.
func (e *Error) PublicHint() string {
	if e.Hint != "" {
		return e.Hint
	}
	return e.Code.Info().Hint
}

// PublicAction is what PublicHint asks for.
func (e *Error) PublicAction() Action {
	if e.Hint != "" {
		return e.Action
	}
	return Action{Key: e.Code.Info().Action}
}

// Retryable reports whether the same call may succeed later without a change.
func (e *Error) Retryable() bool { return e.Passing || e.Code.Info().Retryable }

// AsError returns err as an *Error: itself if it is one, CodeInternal with err as
// the private cause otherwise, nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Wrap(CodeInternal, err, "")
}

// CodeOf returns the code of err, CodeInternal for foreign errors, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}
