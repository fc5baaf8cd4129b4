package subagent

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/canonical/yaml"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Bounds.
const (
	MaxTools    = 64
	MaxTask     = 16 << 10
	defaultTime = 5 * time.Minute
	mostTime    = 10 * time.Minute
)

// Agent is one sub-agent as its file has it.
type Agent struct {
	Name        string
	Title       string
	Description string // says to models and people what it is for
	Prefix      string // stands before each task: the worker's prefix of an intent; may be empty
	Tools       []capabilities.ToolID
	Timeout     time.Duration
}

// ID is the tool that it is.
func (a *Agent) ID() capabilities.ToolID { return capabilities.ToolID("tool.sub-agent." + a.Name) }

// JSON returns the file of a sub-agent, YAML or JSON, as the canonical JSON that Read takes.
func JSON(text []byte) (json.RawMessage, error) { return yaml.JSON(text) }

var prefixFormat = regexp.MustCompile(`^/[a-z]{1,32}$`)

// Read reads a sub-agent: CodeInvalidRequest, which names the field. It knows no tools; Offer does.
func Read(name string, text json.RawMessage) (*Agent, error) {
	bad := func(format string, args ...any) error {
		why := capabilities.Clip(capabilities.Printable(fmt.Sprintf(format, args...)), 500)
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s", why)
	}
	doc, err := canonical.Decode(text, canonical.Limits{MaxBytes: 2 * yaml.MaxBytes})
	if err != nil {
		return nil, err
	}
	if doc.Kind != canonical.Object {
		return nil, bad("a sub-agent's file is an object with description and tools")
	}
	known := []string{"title", "description", "prefix", "tools", "timeout_ms"}
	a := &Agent{Name: name, Timeout: defaultTime}
	texts := map[string]*string{"title": &a.Title, "description": &a.Description, "prefix": &a.Prefix}
	for _, m := range doc.Members {
		switch to, v := texts[m.Key], m.Value; {
		case to != nil && v.Kind == canonical.String:
			*to = v.Str
		case to != nil:
			return nil, bad("%s: a text was expected", m.Key)
		case m.Key == "timeout_ms":
			if !v.Integer() || v.Num < 1000 || v.Num > float64(mostTime.Milliseconds()) {
				return nil, bad("timeout_ms: 1000 to %d", mostTime.Milliseconds())
			}
			a.Timeout = time.Duration(v.Num) * time.Millisecond
		case m.Key == "tools":
			for i, item := range v.Items {
				id := capabilities.ToolID(item.Str)
				if item.Kind != canonical.String || id.Validate() != nil || slices.Contains(a.Tools, id) {
					return nil, bad("tools/%d: the ID of a tool, such as tool.fs.read, once each", i)
				}
				a.Tools = append(a.Tools, id)
			}
		default:
			return nil, bad("unknown field %.64q; known: %s", m.Key, strings.Join(known, ", "))
		}
	}
	switch {
	case a.Description == "":
		return nil, bad("description: says what the sub-agent is for, to models and people")
	case a.Prefix != "" && !prefixFormat.MatchString(a.Prefix):
		return nil, bad("prefix: a prefix of the worker's intents, such as /file")
	case len(a.Tools) == 0 || len(a.Tools) > MaxTools:
		return nil, bad("tools: the IDs of 1 to %d tools that it may call", MaxTools)
	case slices.Contains(a.Tools, a.ID()):
		return nil, bad("tools: a sub-agent does not call itself")
	}
	return a, nil
}

// Offer reads the sub-agent of a provider's record and returns what it says of the one tool that it
// is, with everything that any of its tools may touch.
func Offer(p *tools.Provider, there func(capabilities.ToolID) (*catalog.Descriptor, bool)) (*Agent, tools.ToolManifest, error) {
	a, err := Read(p.Name, p.Manifest)
	if err != nil {
		return nil, tools.ToolManifest{}, err
	}
	t := tools.RemoteTool{
		Name: a.Name, Title: a.Title, Description: a.Description, TimeoutMS: int(a.Timeout.Milliseconds()), Uses: a.Tools,
		Origin: tools.OriginOf(p, p.Manifest), Tags: []string{"sub-agent"},
		Input: json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["task"],`+
			`"properties":{"task":{"type":"string","minLength":1,"maxLength":%d,"description":"What it is to do, in words, with all that it has to know: it sees nothing else."}}}`, MaxTask)),
	}
	for _, id := range a.Tools {
		if desc, ok := there(id); !ok || !desc.ModelFacing {
			return nil, tools.ToolManifest{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
				"tools: there is no tool %s that agents may call", id)
		}
		t.Plan = append(t.Plan, "may call "+string(id))
	}
	t.Reach(there)
	return a, tools.ToolManifest{Provider: p.Name, Tools: []tools.RemoteTool{t}}, nil
}
