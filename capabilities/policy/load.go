package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	cedar "github.com/cedar-policy/cedar-go"
	cedarast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/handrail-dev/handrail/capabilities"
)

// Bounds of what Load reads.
const (
	MaxSourceBytes = 256 << 10 // of one file
	MaxSources     = 256       // every provider has one
	maxTotalBytes  = 16 << 20  // of all files
	MaxPolicies    = 1000
	maxNesting     = 100
	maxComplaints  = 20
)

// Source is one policy file.
type Source struct {
	Name string `json:"name"` // file name; stands in errors and in IDs
	Data []byte `json:"-"`
}

// Engine judges calls by one set of policy files. It never changes; a new set is
// a new Engine.
type Engine struct {
	*vocabulary
	rules    []*rule
	byID     map[cedar.PolicyID]*rule
	byAction map[capabilities.ToolID]*partition
	byKey    map[string]*partition // keys that rules name; most policies name none
	degraded *partition
	// countsByKey says that a rule of a key looks at how often tools are called.
	countsByKey bool
	bySurface   map[string]*partition // the rules of what surfaces let callers do
	judged      judged
	sources     []Source
	snapshot    string
}

// rule is one policy of a file.
type rule struct {
	id       cedar.PolicyID
	source   string
	line     int
	order    int // in file order, of all rules
	why      string
	permit   bool
	logOnly  bool
	consults uses
	ast      *ast.Policy
	// judged is ast without the scope of its action, which has chosen the partitions that the rule
	// is in: the scope may name thousands of actions. policy is judged, compiled.
	judged *ast.Policy
	policy *cedar.Policy
}

// uses says what the conditions of rules look at.
type uses struct{ context, args, consent, calls bool }

// list makes rules a cedar.PolicyIterator.
type list []*rule

func (l list) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, r := range l {
			if !yield(r.id, r.policy) {
				return
			}
		}
	}
}

// Load parses and checks policy files. The order of the sources does not matter. A refusal names
// file and line: text that is no Cedar, a type that does not fit, an unknown tool, attribute,
// argument or annotation, an ID used twice. No sources at all are allowed and deny everything.
func Load(sources []Source, tools Tools) (*Engine, error) {
	v, err := newVocabulary(tools)
	if err != nil {
		return nil, err
	}
	return v.load(sources)
}

func (v *vocabulary) load(sources []Source) (*Engine, error) {
	total := 0
	for _, s := range sources {
		total += len(s.Data)
	}
	switch {
	case len(sources) > MaxSources:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "policy: more than %d files", MaxSources)
	case total > maxTotalBytes:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "policy: the files are larger than %d bytes together", maxTotalBytes)
	}
	e := &Engine{
		vocabulary: v,
		byID:       map[cedar.PolicyID]*rule{},
		byAction:   map[capabilities.ToolID]*partition{},
		byKey:      map[string]*partition{},
	}
	check := &checker{vocabulary: v, names: v.knownNames()}
	e.sources = cloneSources(sources)
	sort.Slice(e.sources, func(i, j int) bool { return e.sources[i].Name < e.sources[j].Name })
	var complaints []error
	for i, s := range e.sources {
		if i > 0 && e.sources[i-1].Name == s.Name {
			complaints = append(complaints, fmt.Errorf("%s: two files have this name", s.Name))
			continue
		}
		complaints = append(complaints, e.read(s, check)...)
	}
	if len(e.rules) > MaxPolicies {
		complaints = append(complaints, fmt.Errorf("%d policies are more than %d", len(e.rules), MaxPolicies))
	}
	if len(complaints) > 0 {
		return nil, refuse(complaints)
	}
	e.index()
	e.snapshot = snapshot(e.sources)
	return e, nil
}

func refuse(complaints []error) error {
	shown := complaints
	if len(shown) > maxComplaints {
		shown = append(slices.Clip(shown[:maxComplaints]), fmt.Errorf("and %d more", len(complaints)-maxComplaints))
	}
	lines := make([]string, len(shown))
	for i, c := range shown {
		lines[i] = c.Error()
	}
	return (&capabilities.Error{
		Code:    capabilities.CodeInvalidRequest,
		Message: "policy does not load: " + strings.Join(lines, "; "),
		Hint:    "Correct the lines named; the policy in force has not changed.",
	}).WithDetails(lines)
}

// SnapshotID addresses the policy text: the same files have the same ID.
func (e *Engine) SnapshotID() string { return e.snapshot }

// Sources returns the files the engine was loaded from, sorted by name.
func (e *Engine) Sources() []Source { return cloneSources(e.sources) }

func cloneSources(in []Source) []Source {
	out := slices.Clone(in)
	for i := range out {
		out[i].Data = slices.Clone(out[i].Data)
	}
	return out
}

// Schema is the Cedar schema that the files were checked against.
func (e *Engine) Schema() string { return schemaText(e.tools, e.keys) + e.surfaceText() }

// Profile returns what all calls of a tool share; nil for an unknown tool.
func (e *Engine) Profile(id capabilities.ToolID) *Profile {
	if t, ok := e.tools[id]; ok {
		return t.profile()
	}
	if s, ok := e.surfaces[string(id)]; ok && s.tool != plainSurface {
		return s.tool.profile()
	}
	return nil
}

func snapshot(sources []Source) string {
	h := sha256.New()
	var n [8]byte
	field := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	field([]byte("handrail policy 1"))
	for _, s := range sources {
		field([]byte(s.Name))
		field(s.Data)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// read parses and checks one file and adds its rules.
func (e *Engine) read(s Source, check *checker) []error {
	switch {
	case s.Name == "" || len(s.Name) > 128 || !plainText(s.Name):
		return []error{errors.New("a file needs a plain name of at most 128 bytes")}
	case len(s.Data) > MaxSourceBytes:
		return []error{fmt.Errorf("%s: larger than %d bytes", s.Name, MaxSourceBytes)}
	case nesting(s.Data) > maxNesting:
		return []error{fmt.Errorf("%s: brackets are nested deeper than %d", s.Name, maxNesting)}
	}
	policies, err := cedar.NewPolicyListFromBytes(s.Name, s.Data)
	if err != nil {
		return []error{parseComplaint(s.Name, err)}
	}
	check.file = sync.OnceValues(func() (*validate.Validator, error) { return e.validatorOf(s.Data) })
	var complaints []error
	for i, p := range policies {
		r := newRule(s.Name, i, p)
		at := fmt.Sprintf("%s:%d: ", s.Name, r.line)
		for _, problem := range check.rule(r) {
			complaints = append(complaints, errors.New(at+problem))
		}
		if other, taken := e.byID[r.id]; taken {
			complaints = append(complaints, fmt.Errorf("%s@id(%q) is used at %s:%d already", at, r.id, other.source, other.line))
			continue
		}
		r.order = len(e.rules)
		e.byID[r.id] = r
		e.rules = append(e.rules, r)
	}
	return complaints
}

// newRule makes a rule of the i-th policy of a file.
func newRule(file string, i int, p *cedar.Policy) *rule {
	r := &rule{
		source: file,
		line:   p.Position().Line,
		permit: p.Effect() == cedar.Permit,
		ast:    (*ast.Policy)(p.AST()),
		id:     cedar.PolicyID(fmt.Sprintf("%s#%d", file, i+1)),
	}
	r.judged = withAction(r.ast, ast.ScopeTypeAll{})
	r.policy = cedar.NewPolicyFromAST((*cedarast.Policy)(r.judged))
	return r
}

// nesting is the deepest level of brackets, outside strings and comments only
// roughly: it guards the parser's stack, nothing else.
func nesting(text []byte) int {
	depth, deepest := 0, 0
	for _, c := range text {
		switch c {
		case '(', '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ')', ']', '}':
			depth--
		}
	}
	return deepest
}

var cedarPosition = regexp.MustCompile(`at <input>:(\d+):(\d+)`)

// cedarExpected is how cedar says which token it found in place of which.
var cedarExpected = regexp.MustCompile(`^".*": (?:exact )?got (.*) want (.+)$`)

// parseComplaint turns cedar's position into file:line, and its commonest sentence into
// a plain one.
func parseComplaint(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "parser error: ")
	if m := cedarPosition.FindStringSubmatch(text); m != nil {
		rest := strings.TrimSpace(cedarPosition.ReplaceAllString(strings.TrimPrefix(text, "parse error"), ""))
		if found := cedarExpected.FindStringSubmatch(rest); found != nil {
			rest = fmt.Sprintf("%q where %q was expected", found[1], found[2])
			if found[1] == "" {
				rest = fmt.Sprintf("the file ends where %q was expected", found[2])
			}
		}
		return fmt.Errorf("%s:%s: column %s: %s", name, m[1], m[2], rest)
	}
	return fmt.Errorf("%s: %s", name, text)
}

// withAction is a rule with another scope of its action.
func withAction(p *ast.Policy, scope ast.IsActionScopeNode) *ast.Policy {
	other := *p
	other.Action = scope
	return &other
}

// checker holds a rule against the schema and against our own stricter rules.
type checker struct {
	*vocabulary
	file  func() (*validate.Validator, error) // of the file at hand
	names map[string]bool
}

// surfaceTypes holds what a rule says of surfaces against their schema; nil: nothing.
func (c *checker) surfaceTypes(p *ast.Policy) error {
	if p == nil {
		return nil
	}
	validator, err := c.surfaceRules()
	if err != nil {
		return err
	}
	return validator.Policy("", p)
}

// types holds what a rule says of tools against the schema; nil: nothing. It is about the typical
// tools of its scope where that says the same, else with all tools that its file names. A complaint
// counts if the schema of all tools has it, too.
func (c *checker) types(p *ast.Policy) error {
	if p == nil {
		return nil
	}
	var err error
	if few, ok := c.about(p); ok {
		validator, failed := c.few()
		if failed != nil {
			return failed
		}
		if err = validator.Policy("", few); err == nil {
			return nil
		}
	}
	for _, of := range []func() (*validate.Validator, error){c.file, c.all} {
		validator, failed := of()
		if failed != nil {
			return failed
		}
		if err = validator.Policy("", p); err == nil {
			return nil
		}
	}
	return err
}

func (c *checker) rule(r *rule) []string {
	var problems []string
	for _, a := range r.ast.Annotations {
		value := string(a.Value)
		switch a.Key {
		case "id":
			if err := capabilities.ValidateName("@id", value, 64); err != nil {
				problems = append(problems, capabilities.AsError(err).PublicMessage())
				continue
			}
			r.id = cedar.PolicyID(value)
		case "why":
			if len(value) > 300 || !plainText(value) {
				problems = append(problems, "@why must be one plain line of at most 300 bytes")
			}
			r.why = value
		case "mode":
			if value != "log_only" {
				problems = append(problems, fmt.Sprintf("@mode(%q) is unknown; the only mode is log_only", value))
			}
			r.logOnly = true
		default:
			if problem, known := checkAdvice(string(a.Key), value); known {
				if problem != "" {
					problems = append(problems, problem)
				}
				continue
			}
			// Cedar ignores an annotation it does not know; a misspelled one must not
			// change what a file means unseen.
			problems = append(problems, fmt.Sprintf("annotation @%s is unknown; known are @id, @why, @mode, @approver, @defer", a.Key))
		}
	}
	if r.permit && namesKey(r.ast.Action) {
		problems = append(problems, "a key comes with its tool; only a forbid may name one")
	}
	tools, surfaces := c.parts(r.ast)
	for _, err := range []error{c.types(tools), c.surfaceTypes(surfaces)} {
		if err != nil {
			problems = append(problems, strings.Split(err.Error(), "\n")...)
		}
	}
	for _, cond := range r.ast.Conditions {
		ast.Inspect(ast.NewNode(cond.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeHas:
				// "has" of a name that nothing has is false for ever, so the type checker
				// is content; the author is not.
				if !c.names[string(n.Value)] {
					problems = append(problems, fmt.Sprintf("no tool, node or principal has %q", n.Value))
				}
				r.consults.args = r.consults.args || n.Value == "args"
			case ast.NodeTypeAccess:
				r.consults.args = r.consults.args || n.Value == "args"
				r.consults.consent = r.consults.consent || n.Value == "consent"
				r.consults.calls = r.consults.calls || countsCalls(string(n.Value))
			}
			return true
		})
		r.consults.context = r.consults.context || anyNode(cond.Body, isContext)
		if mentionsBareContext(cond.Body) {
			r.consults = uses{context: true, args: true, consent: true, calls: true}
		}
	}
	return problems
}
