package command

import (
	"cmp"
	"errors"
	"runtime"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// program is what a command begins with.
const program = "handrail"

// Hint returns a hint and the words for what it asks for. flags are the arguments that commands
// for the same data directory need besides, such as "--data" and a folder.
func Hint(hint string, a capabilities.Action, flags ...string) string {
	hint, _ = a.Worded(hint, Words(a, flags...))
	return hint
}

// Words returns one or two sentences that say how an action is done, or "" for one that is not
// known.
func Words(a capabilities.Action, flags ...string) string {
	say, ok := sayings[a.Key]
	if !ok {
		return ""
	}
	return text(say(a.Printable()), flags)
}

// text writes parts, which are texts and commands, as one text.
func text(parts []any, flags []string) string {
	var b strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			b.WriteString(part)
		case Line:
			words := append([]string{program}, part.argv...)
			if !part.elsewhere {
				words = append(words, flags...)
			}
			b.WriteString("'" + Join(words...) + "'")
		}
	}
	return b.String()
}

// AdvisedError is an error of the command line itself, whose hint names commands.
type AdvisedError struct {
	err   *capabilities.Error
	parts []any
}

// Advise returns e with a hint of parts: texts, and commands between them.
func Advise(e *capabilities.Error, parts ...any) *AdvisedError {
	return &AdvisedError{e.WithHint(text(parts, nil)), parts}
}

func (a *AdvisedError) Error() string { return a.err.Error() }

// Unwrap returns the error, whose hint has no flags.
func (a *AdvisedError) Unwrap() error { return a.err }

// OfError returns the hint of what err says, in the words of the command line.
func OfError(err error, flags ...string) string {
	if own := (*AdvisedError)(nil); errors.As(err, &own) {
		return text(own.parts, flags)
	}
	e := capabilities.AsError(err)
	return Hint(e.PublicHint(), e.PublicAction(), flags...)
}

// Join joins the words of a command, each quoted if a shell needs it.
func Join(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Word(runtime.GOOS, w)
	}
	return strings.Join(quoted, " ")
}

// Word quotes a word for a shell of an operating system, if it has to be.
func Word(goos, word string) string {
	if goos == "windows" {
		if strings.ContainsAny(word, " &()^") {
			return `"` + word + `"`
		}
		return word
	}
	plain := strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r))
	}) < 0
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Line is one command without the program's name.
type Line struct {
	argv      []string
	elsewhere bool // it is for another machine, or needs no data directory
}

// Here is a command for the data directory that the one before it was for.
func Here(argv ...string) Line { return Line{argv: argv} }

// There is a command for another machine, or one that needs no data directory.
func There(argv ...string) Line { return Line{argv: argv, elsewhere: true} }

// or returns an argument, or what stands for one that is not known.
func or[T ~string](argument T, unknown string) string { return cmp.Or(string(argument), unknown) }

// sayings are the words for each key: texts, and commands between them.
var sayings = map[capabilities.ActionKey]func(a capabilities.Action) []any{
	capabilities.ActionListNodes:     listed(Here("nodes"), "lists the nodes."),
	capabilities.ActionListDevices:   listed(Here("nodes"), "names the devices of each node."),
	capabilities.ActionListTools:     listed(Here("tools"), "lists them."),
	capabilities.ActionListAllTools:  listed(Here("tools", "--all"), "lists them."),
	capabilities.ActionListLanes:     listed(Here("lane", "list"), "lists them."),
	capabilities.ActionListArtifacts: listed(Here("artifacts", "list"), "lists what there is."),
	capabilities.ActionListSecrets:   listed(Here("secret", "list"), "lists them."),
	capabilities.ActionListUsers:     listed(Here("user", "list"), "lists them."),
	capabilities.ActionListProviders: listed(Here("provider", "list"), "lists those there are."),
	capabilities.ActionListQuestions: listed(Here("node", "approvals"), "lists them."),
	capabilities.ActionListPrincipals: func(capabilities.Action) []any {
		return []any{Here("user", "list"), " and ", Here("token", "list"), " list them."}
	},

	capabilities.ActionListSatellites: listed(Here("satellite", "list"), "lists those there are."),
	capabilities.ActionAddSatellite: func(a capabilities.Action) []any {
		return []any{
			There("satellite", "add", or(a.Name, "NAME")), " at the gateway prints a code, and ", There("satellite", "join", or(a.Name, "NAME")),
			" on its machine takes it.",
		}
	},
	capabilities.ActionRunSatellite: func(a capabilities.Action) []any {
		return []any{There("satellite", "run", or(a.Name, "NAME")), " on its machine starts it."}
	},
	capabilities.ActionShowSatellite: func(a capabilities.Action) []any {
		return []any{Here("satellite", "show", or(a.Node, "ID")), " shows how it is."}
	},
	capabilities.ActionRevokeSatellite: func(a capabilities.Action) []any {
		return []any{Here("satellite", "revoke", or(a.Node, "ID")), " puts it out."}
	},

	capabilities.ActionRunWorker: func(capabilities.Action) []any {
		return []any{Here("worker", "--offline"), ", or the same with a model's name and endpoint, starts one."}
	},

	capabilities.ActionListWorkers: listed(Here("worker", "list"), "lists those there are."),
	capabilities.ActionAddWorker: func(a capabilities.Action) []any {
		return []any{
			There("worker", "add", or(a.Name, "NAME")), " at the gateway prints a code, and ", There("worker", "join"), " on its machine takes it.",
		}
	},

	capabilities.ActionPairNode: func(capabilities.Action) []any {
		return []any{Here("pair"), " prints a code, and ", There("node", "join"), " on the device takes it."}
	},
	capabilities.ActionJoinSite: func(capabilities.Action) []any {
		return []any{There("pair"), " on the gateway prints a code, and ", There("node", "join"), " on the device takes it."}
	},
	capabilities.ActionApproveNode: func(a capabilities.Action) []any {
		return []any{Here("node", "approve", or(a.Node, "NODE")), " approves it."}
	},
	capabilities.ActionAllowNode: func(a capabilities.Action) []any {
		return []any{Here("node", "allow", or(a.Node, "NODE"), or(a.Capability, "CAPABILITY")), " allows it."}
	},
	capabilities.ActionStartNode:   listed(There("node"), "starts it."),
	capabilities.ActionExamineNode: func(capabilities.Action) []any { return []any{There("doctor"), " on the node says what is missing."} },
	capabilities.ActionAttachNode: func(a capabilities.Action) []any {
		return []any{Here("lane", "attach", or(a.Lane, "LANE"), or(a.Node, "NODE")), " attaches one."}
	},

	capabilities.ActionExplainPolicy: func(a capabilities.Action) []any {
		argv := []string{"policy", "explain", or(a.Tool, "TOOL")}
		if a.Node != "" {
			argv = append(argv, "--node", string(a.Node))
		}
		return []any{Here(argv...), " shows which rule decides."}
	},
	capabilities.ActionReviewPolicy:  listed(Here("policy", "diff"), "shows the difference."),
	capabilities.ActionReadLedger:    listed(Here("ledger", "show"), "shows it."),
	capabilities.ActionCompareLedger: listed(Here("ledger", "compare"), "compares them."),
	capabilities.ActionExportLog:     listed(Here("node", "log", "--out", "FILE"), "writes one."),
	capabilities.ActionShowRules:     listed(Here("node", "rules"), "shows what is in force."),

	capabilities.ActionResumeSite: func(capabilities.Action) []any {
		return []any{There("resume"), " at the gateway lets calls run again."}
	},
	capabilities.ActionResumeNode: func(capabilities.Action) []any {
		return []any{There("node", "resume"), " on the device lets calls run again."}
	},
	capabilities.ActionNameHost: func(a capabilities.Action) []any {
		return []any{There("up"), " and ", There("node"), " take --workspace-net " + or(a.Name, "HOST") + "."}
	},
	capabilities.ActionNameWorkspace: onDevice("--workspace", "DIR"),
	capabilities.ActionNameSearch:    onDevice("--web-search", "http://127.0.0.1:8888"),
	capabilities.ActionHostProviders: onDevice("--host-providers", ""),
	capabilities.ActionAcceptBare:    onDevice("--browser-sandbox", "auto"),
	capabilities.ActionAllowAttach:   onDevice("--browser-attach", "http://127.0.0.1:9222"),
	capabilities.ActionAllowUploads:  onDevice("--browser-upload-root", "DIR"),
	capabilities.ActionNameAudit:     onDevice("--browser-audit", "axe.min.js --browser-audit-sha256 HEX"),
	capabilities.ActionAllowOrigin: func(a capabilities.Action) []any {
		return onDevice("--browser-allow-origin", or(a.Name, "ORIGIN"))(a)
	},
	capabilities.ActionChooseData: func(capabilities.Action) []any {
		return []any{There("gateway"), " and ", There("node"), " take --data with another one."}
	},
	capabilities.ActionStopNode: listed(Here("node", "stop"), "stops it."),

	capabilities.ActionCreateToken: listed(Here("token", "create"), "makes one."),
	capabilities.ActionSignIn:      listed(Here("login"), "prints a link that signs in."),
	capabilities.ActionSignInView:  listed(Here("login", "--role", "viewer"), "prints a link that does."),
	capabilities.ActionAddUser:     listed(Here("user", "add", "NAME", "--role", "operator"), "makes one."),
	capabilities.ActionSetPassword: func(a capabilities.Action) []any {
		return []any{Here("user", "password", or(a.Name, "NAME")), " sets one."}
	},
	capabilities.ActionManageUsers: listed(Here("user", "--help"), "says how."),
	capabilities.ActionApproveOwn: func(capabilities.Action) []any {
		return []any{Here("login"), " signs in, ", Here("node", "owner", "NODE"), " names the owner, and ",
			Here("user", "add", "NAME", "--role", "operator"),
			" makes a user. To try a tool out as an agent: ", Here("call", "--agent"), "."}
	},
	capabilities.ActionRevokeGrant: func(capabilities.Action) []any {
		return []any{Here("grant", "list"), " lists grants, and ", Here("grant", "revoke", "GRANT"), " revokes one."}
	},

	capabilities.ActionAcknowledge: listed(Here("approve", "APPROVAL", "--acknowledge"), "says so."),

	capabilities.ActionSetSecret: func(a capabilities.Action) []any {
		return []any{Here("secret", "set", or(a.Name, "NAME")), " sets it."}
	},
	capabilities.ActionReleaseSecret: func(a capabilities.Action) []any {
		return []any{Here("secret", "done", or(a.Lane, "LANE")), " says so."}
	},

	capabilities.ActionAddProvider: listed(There("provider", "add", "--help"), "says with what."),
	capabilities.ActionGiveSignIn: func(capabilities.Action) []any {
		return []any{There("provider", "add"), " takes --env Authorization=sign-in/NAME."}
	},
	capabilities.ActionNameProviderHost: func(a capabilities.Action) []any {
		return []any{There("provider", "add"), " takes --net " + or(a.Name, "HOST") + "."}
	},
	capabilities.ActionCheckProvider: func(a capabilities.Action) []any {
		return []any{Here("provider", "check", or(a.Name, "PROVIDER")), " tells it now."}
	},
	capabilities.ActionShowProvider: func(a capabilities.Action) []any {
		return []any{Here("provider", "show", or(a.Name, "PROVIDER")), " shows what it says."}
	},
	capabilities.ActionRemoveProvider: func(a capabilities.Action) []any {
		return []any{Here("provider", "remove", or(a.Name, "PROVIDER")), " takes it away."}
	},
	capabilities.ActionApproveProvider: func(a capabilities.Action) []any {
		return []any{Here("provider", "approve", or(a.Name, "PROVIDER")), " shows its tools and approves them."}
	},
	capabilities.ActionReviewTool: func(a capabilities.Action) []any {
		argv := []string{"tools", "diff"}
		if a.Tool != "" {
			argv = append(argv, string(a.Tool))
		}
		return []any{Here(argv...), " shows the change."}
	},

	capabilities.ActionListDrift: listed(Here("drift", "list"), "shows them, and what is in quarantine."),
	capabilities.ActionReviewDrift: func(a capabilities.Action) []any {
		return []any{Here("tools", "approve", or(a.Tool, "TOOL"), "--reason", "TEXT"), " shows it and asks."}
	},
	capabilities.ActionLiftQuarantine: func(a capabilities.Action) []any {
		return []any{
			Here("drift", "list"), " shows the events, and ", Here("drift", "lift", or(a.Name, "RUNNER"), "--reason", "TEXT"), " lifts it.",
		}
	},

	capabilities.ActionNameGateway: func(capabilities.Action) []any {
		return []any{"--host and --url of ", There("gateway"), " tell it one."}
	},
	capabilities.ActionServeHTTPS: func(capabilities.Action) []any {
		return []any{There("gateway"), " takes --tls-generated, or --tls-cert and --tls-key, or --trusted-proxy."}
	},
	capabilities.ActionTrustProxy: func(a capabilities.Action) []any {
		return []any{There("gateway"), " takes --trusted-proxy " + or(a.Name, "ADDRESS") + "."}
	},
	capabilities.ActionTakePolicyFiles: listed(There("gateway", "--policy-from-files"), "does."),
}

// onDevice is a flag of what runs on the device, with its value.
func onDevice(flag, value string) func(capabilities.Action) []any {
	return func(capabilities.Action) []any {
		return []any{There("up"), " and ", There("node"), " take " + strings.TrimSpace(flag+" "+value) + "."}
	}
}

// listed is one command, and what it does.
func listed(command Line, does string) func(capabilities.Action) []any {
	return func(capabilities.Action) []any { return []any{command, " " + does} }
}
