package console

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// maxChosen bounds the file that a person chooses: its text travels in a form, where a byte may
// take three.
const maxChosen = 256 << 10

// toolsPage lists the tools that the visitor may use now.
func (c *Console) toolsPage(v *visit) {
	var list api.ToolList
	err := v.get(v1("tools"), &list)
	shown := toolsPage{visit: v}
	for _, t := range list.Tools {
		shown.Tools = append(shown.Tools, toolShown{visit: v, Tool: t})
	}
	v.show(page{name: "tools", title: "Tools", here: "/console/tools", fault: err, data: shown})
}

type toolsPage struct {
	*visit
	Tools []toolShown
}

// toolShown is a tool by what the visitor's calls of it would be granted now.
type toolShown struct {
	*visit
	api.Tool
	Usable bool // by the visitor, now
	Typed  typedFile
}

// typedFile is what a refused form had in it.
type typedFile struct{ Name, Text, Node string }

// HowRisky is its risk in a word and a shape.
func (t toolShown) HowRisky() *risk { return riskOf(t.Risk) }

// Mood is the state of its calls (S1-32).
func (t toolShown) Mood() mood { return moodOf(t.Surface.Mode) }

// Reach says what that state is.
func (t toolShown) Reach() string { return reaches[t.Surface.Mode] }

// Granted are the declared keys that the visitor's calls would have.
func (t toolShown) Granted() []string {
	return slices.DeleteFunc(slices.Clone(t.Manifest), func(key string) bool { return slices.Contains(t.Surface.Withheld, key) })
}

// Picks reports whether a file may be chosen for it (S1-26).
func (t toolShown) Picks() bool {
	return t.Upload != nil && t.Surface != nil && t.Surface.Picker
}

// MaxChosen bounds the file, in bytes.
func (toolShown) MaxChosen() int { return maxChosen }

// toolPage is one tool: what it declares, what a call of the visitor's would be granted now, and
// the controls that follow (S1-25).
func (c *Console) toolPage(v *visit) { v.showTool(nil, typedFile{}) }

func (v *visit) showTool(problem error, typed typedFile) {
	t := toolShown{visit: v, Usable: true, Typed: typed}
	target := v1("tools", v.r.PathValue("tool"))
	err := v.get(target, &t.Tool)
	if capabilities.CodeOf(err) == capabilities.CodeUnknownTool { // an admin is shown what they cannot use, too
		if v.get(target+"?all=1", &t.Tool) == nil {
			err, t.Usable = nil, false
		}
	}
	if err != nil {
		v.show(page{name: "problem", title: "A tool", here: "/console/tools", fault: err})
		return
	}
	v.show(page{name: "tool", title: t.Title, here: "/console/tools", fault: problem, modules: []string{"upload"}, data: t})
}

// upload makes the call that writes a chosen file. Its grants decide: without those of the picker
// it is denied, whatever the page showed (S1-33).
func (c *Console) upload(v *visit) {
	f := v.r.PostForm
	typed := typedFile{strings.TrimSpace(f.Get("name")), f.Get("text"), strings.TrimSpace(f.Get("node"))}
	result, err := v.writes(typed)
	switch {
	case err != nil:
		v.showTool(err, typed)
	case result.Status == capabilities.StatusOK:
		v.seeOther(at("calls", string(result.Call)), "written")
	case result.Code == capabilities.CodeApprovalPending:
		v.seeOther("/console/approvals", "asked")
	default:
		v.showTool((&api.Error{Code: result.Code, Message: result.Message, Hint: result.Hint, Action: result.Action}).Err(), typed)
	}
}

func (v *visit) writes(typed typedFile) (result capabilities.Result, _ error) {
	var t api.Tool
	if err := v.get(v1("tools", v.r.PathValue("tool")), &t); err != nil {
		return result, err
	}
	if t.Upload == nil {
		return result, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s takes no chosen file", t.ID)
	}
	if len(typed.Text) > maxChosen {
		return result, capabilities.Errorf(capabilities.CodeInvalidRequest, "a file that is sent from here has at most %d kB", maxChosen>>10)
	}
	fields := map[string]any{t.Upload.Name: typed.Name, t.Upload.Text: strings.ReplaceAll(typed.Text, "\r\n", "\n")}
	if typed.Node != "" {
		fields["node_id"] = typed.Node
	}
	args, err := json.Marshal(fields)
	if err != nil {
		return result, err
	}
	err = v.ask(http.MethodPost, v1("calls"),
		api.MakeCall{Tool: t.ID, Args: args, Shown: []string{"ui.input.file_upload"}}, &result)
	return result, err
}
