package acp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/capabilities"
)

const (
	maxTitle  = 120      // of a call's title, in bytes
	maxResult = 16 << 10 // of a result that is shown, in bytes
)

// Editor is the editor of one session, as its worker sees it. Its methods are called while a prompt
// of the session runs, by one goroutine at a time.
type Editor struct {
	server  *Server
	session string

	calls   int    // of the session
	current string // the call that runs; empty: none does
	bang    bool   // the last words ended in an exclamation mark
}

// Write shows words of the worker, as Markdown. No picture is loaded for them: its address could
// carry what a page or a file says out of the editor.
func (e *Editor) Write(words []byte) (int, error) {
	if len(words) == 0 {
		return 0, nil
	}
	text := string(words)
	if e.bang && text[0] == '[' {
		text = `\` + text
	}
	e.bang = strings.HasSuffix(text, "!")
	e.server.notify(e.session, chunk{"agent_message_chunk", content{Type: "text", Text: strings.ReplaceAll(text, "![", `!\[`)}})
	return len(words), nil
}

// Begins shows a call that begins.
func (e *Editor) Begins(tool capabilities.ToolID, args json.RawMessage) {
	e.calls++
	e.current = fmt.Sprintf("call-%d", e.calls)
	c := callOf(tool, args)
	c.Update, c.ID, c.Status = "tool_call", e.current, callRuns
	e.server.notify(e.session, c)
}

// Ended shows how a call ended; one that was refused before it began is shown whole.
func (e *Editor) Ended(done worker.Called) {
	c := toolCall{Update: "tool_call_update", ID: e.current}
	if e.current == "" {
		e.calls++
		args, _ := json.Marshal(done.Args) // what cannot be written is not shown
		c = callOf(done.Tool, args)
		c.Update, c.ID = "tool_call", fmt.Sprintf("call-%d", e.calls)
	}
	e.current = ""
	if c.Status = callFailed; done.Status == string(capabilities.StatusOK) {
		c.Status = callEnded
	}
	words := cmp.Or(string(done.Code), done.Status)
	if done.Why != "" {
		words += ": " + done.Why
	}
	if done.Effect != "" {
		words += ", effect " + string(done.Effect)
	}
	if done.Evidence != "" {
		words += " (" + done.Evidence + ")"
	}
	c.Content = shown(words)
	if len(done.Result.Output) > 0 {
		c.Content = append(c.Content, shown(capabilities.Clip(string(done.Result.Output), maxResult))...)
	}
	e.server.notify(e.session, c)
}

// Ask asks the person at the editor whether the call that runs may go on, in words that say all
// that it would do. answered is false if they said neither yes nor no.
func (e *Editor) Ask(ctx context.Context, words string) (allow, answered bool) {
	var said permission
	err := e.server.ask(ctx, "session/request_permission", askPermission{
		Session: e.session, Call: toolCall{ID: e.current, Status: "pending", Content: shown(words)},
		Options: []option{{"allow", "Allow this one call", "allow_once"}, {"deny", "Deny", "reject_once"}},
	}, &said)
	if err != nil || said.Outcome.Outcome != "selected" {
		return false, false
	}
	switch said.Outcome.Option {
	case "allow":
		return true, true
	case "deny":
		return false, true
	}
	return false, false
}

// shown are words as a block that is not read as Markdown.
func shown(words string) []toolCallContent {
	safe := capabilities.EscapeBut(words, map[rune]string{'\n': "\n", '\t': "\t"})
	fence := "```"
	for strings.Contains(safe, fence) {
		fence += "`"
	}
	return []toolCallContent{{"content", content{Type: "text", Text: fence + "\n" + strings.TrimRight(safe, "\n") + "\n" + fence}}}
}

// callOf is a call as the editor shows it, without its ID.
func callOf(tool capabilities.ToolID, args json.RawMessage) toolCall {
	c := toolCall{Kind: kindOf(tool), Title: capabilities.Printable(capabilities.Clip(fmt.Sprintf("%s %s", tool, args), maxTitle))}
	if json.Valid(args) {
		c.Input = args
	}
	return c
}

// kindOf says of what kind a call is, for the picture that the editor shows with it.
func kindOf(tool capabilities.ToolID) string {
	switch tool {
	case "tool.fs.read", "tool.fs.list":
		return "read"
	case "tool.fs.glob", "tool.fs.grep", "tool.web.search":
		return "search"
	case "tool.fs.write", "tool.fs.edit", "tool.fs.apply-patch":
		return "edit"
	case "tool.fs.bash":
		return "execute"
	case "tool.web.fetch", "tool.browser.navigate", "tool.browser.snapshot":
		return "fetch"
	}
	return "other"
}

// message is what the person wrote: their text, and the names of what they point at, which ask for
// nothing.
func (p *prompt) message(cwd string) (string, *fault) {
	var parts []string
	for _, c := range p.Prompt {
		switch c.Type {
		case "text":
			parts = append(parts, strings.TrimSpace(c.Text))
		case "resource_link":
			parts = append(parts, nameOf(c.URI, cwd))
		default:
			return "", &fault{Code: codeParams, Message: "a prompt has text and links to files and pages"}
		}
	}
	text := strings.TrimSpace(strings.Join(parts, " "))
	if text == "" || len(text) > maxPrompt {
		return "", &fault{Code: codeParams, Message: fmt.Sprintf("a prompt has 1 to %d bytes of text", maxPrompt)}
	}
	return text, nil
}

// plain is the name of a file, or the address of a page, that is read as one where it stands.
var plain = regexp.MustCompile(`^(\.|~)?/[\pL\d_.~/-]+$|^https?://[^\s"“”„«»]+$`)

// nameOf is what a link names, so that its words are read as a name (agent/worker/named): a file
// below the editor's folder by its path from there. All else is a quotation.
func nameOf(link, cwd string) string {
	name := link
	if u, err := url.Parse(link); err == nil && u.Scheme == "file" {
		name = u.Path
		folder := "/" + strings.Trim(filepath.ToSlash(cwd), "/") + "/"
		if below, ok := strings.CutPrefix(name, folder); ok && folder != "//" {
			name = "./" + below
		}
	}
	if plain.MatchString(name) {
		return name
	}
	return `"` + strings.Map(func(r rune) rune {
		if strings.ContainsRune("\"“”„«»", r) {
			return '_'
		}
		return r
	}, strings.TrimPrefix(capabilities.Printable(name), "./")) + `"`
}

// command is a prefix that the editor offers.
type command struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Input       *commandInput `json:"input"`
}

type commandInput struct {
	Hint string `json:"hint"`
}

type commands struct {
	Update string    `json:"sessionUpdate"`
	List   []command `json:"availableCommands"`
}

// commandsUpdate are the prefixes of intents (S2-14).
func commandsUpdate() commands {
	u := commands{Update: "available_commands_update"}
	for _, i := range intent.All() {
		for _, p := range i.Prefixes {
			u.List = append(u.List, command{strings.TrimPrefix(p, "/"), i.Means, &commandInput{"what you want done"}})
		}
	}
	return u
}

func newSessionID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return "acp_" + hex.EncodeToString(id[:])
}
