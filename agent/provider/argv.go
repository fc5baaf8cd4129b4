package provider

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// A command's tool is an argument template: each word of argv is a fixed text in which
// "{name}" stands for an argument. No shell reads it, and no value can become an option.

// template is one tool of a command, as its manifest has it.
type template struct {
	Name        string           `json:"name"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Argv        []string         `json:"argv"`
	Params      map[string]param `json:"params,omitempty"`
	Required    []string         `json:"required,omitempty"`
	Stdin       string           `json:"stdin,omitempty"` // the parameter whose text is written there
	// Output is what standard output is: "text" (default), "json" (one JSON value), or the
	// name of the output parameter whose file is the result.
	Output      string   `json:"output,omitempty"`
	MIME        string   `json:"mime,omitempty"` // of that file
	ReadOnly    *bool    `json:"read_only,omitempty"`
	Destructive *bool    `json:"destructive,omitempty"`
	Idempotent  *bool    `json:"idempotent,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	TimeoutMS   int      `json:"timeout_ms,omitempty"`
	// Alone says that the program starts no others.
	Alone bool `json:"alone,omitempty"`
	// Keys are those of raisable that it needs.
	Keys []string `json:"keys,omitempty"`
	// Class is the isolation class that it says it is of; t0 says Alone, too. It has to be the one
	// that what it may reach takes. Default: that one.
	Class capabilities.IsolationClass `json:"class,omitempty"`
}

// raisable are the keys by which a template asks for more than a call's program has by default, or
// says what becomes of what it returns.
var raisable = []string{
	capabilities.KeyBurst, capabilities.KeyMemory, capabilities.KeyExtended, capabilities.KeyMasked, capabilities.KeyRetained,
}

// keys are those that the template declares beside its provider's. A module's first word is a name
// and no program.
func (t *template) keys(module bool) []string {
	keys := slices.Clone(t.Keys)
	if language := capabilities.LanguageKey(t.Argv[0]); language != "" && !module {
		keys = append(keys, language)
	}
	for _, p := range t.Params {
		if p.Type == "output" {
			return append(keys, keyOutput)
		}
	}
	return keys
}

// keyOutput is the key of a program that makes files for its call.
const keyOutput = "data.write.temp"

// param is one argument of a template.
type param struct {
	Type        string   `json:"type"` // string, integer, number, boolean, enum, path, output
	Description string   `json:"description,omitempty"`
	Max         float64  `json:"max,omitempty"` // of a string: characters (default 4,096); of a number: its value
	Min         *float64 `json:"min,omitempty"`
	Pattern     string   `json:"pattern,omitempty"` // of a string, RE2, the whole of it
	Values      []string `json:"values,omitempty"`  // of an enum
	Flag        []string `json:"flag,omitempty"`    // of a boolean: the words that stand for true
	Write       bool     `json:"write,omitempty"`   // of a path: it may be written
	Suffix      string   `json:"suffix,omitempty"`  // of an output: how its file's name ends, such as ".png"

	pattern *regexp.Regexp
}

var (
	placeholder = regexp.MustCompile(`\{([a-z][a-z0-9_]{0,31})\}`)
	suffixForm  = regexp.MustCompile(`^\.[a-z0-9]{1,8}$`)
)

const (
	maxTemplates = 200
	maxParams    = 32
	maxText      = 4096
)

func readTemplates(manifest json.RawMessage) ([]template, error) {
	var doc struct {
		Tools []template `json:"tools"`
	}
	if len(manifest) > tools.MaxManifest {
		return nil, badManifest("it is larger than %d bytes", tools.MaxManifest)
	}
	if err := json.Unmarshal(manifest, &doc); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The manifest cannot be read: "+err.Error())
	}
	if len(doc.Tools) == 0 || len(doc.Tools) > maxTemplates {
		return nil, badManifest("it has 1 to %d tools", maxTemplates)
	}
	for i := range doc.Tools {
		if err := doc.Tools[i].check(); err != nil {
			return nil, badManifest("tools/%d: %v", i, err)
		}
	}
	return doc.Tools, nil
}

func badManifest(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "the manifest: "+format, args...)
}

// check refuses a template that means nothing, or that would let a value become an option.
func (t *template) check() error {
	t.Alone = t.Alone || t.Class == capabilities.ClassT0
	if t.Name == "" || len(t.Argv) == 0 || len(t.Argv) > tools.MaxCommand || len(t.Params) > maxParams {
		return fmt.Errorf("a tool has a name, 1 to %d words in argv and at most %d params", tools.MaxCommand, maxParams)
	}
	if placeholder.MatchString(t.Argv[0]) || strings.HasPrefix(t.Argv[0], "-") {
		return fmt.Errorf("the program is a fixed name")
	}
	for _, key := range t.Keys {
		if !slices.Contains(raisable, key) {
			return fmt.Errorf("keys: %.64q is none of %s", key, strings.Join(raisable, ", "))
		}
	}
	for name, p := range t.Params {
		if err := p.check(); err != nil {
			return fmt.Errorf("params/%s: %w", name, err)
		}
		t.Params[name] = p
	}
	used := map[string]bool{}
	guarded := false
	for _, word := range t.Argv {
		guarded = guarded || word == "--"
		for _, m := range placeholder.FindAllStringSubmatch(word, -1) {
			p, ok := t.Params[m[1]]
			used[m[1]] = true
			switch whole := m[0] == word; {
			case !ok:
				return fmt.Errorf("argv names {%s}, which is no parameter", m[1])
			case p.Type == "boolean" && !whole:
				return fmt.Errorf("{%s} is a word of its own", m[1])
			case p.Type == "string" && p.Pattern == "" && !guarded && strings.HasPrefix(word, m[0]):
				return fmt.Errorf(`{%s} could become an option: put "--" before it, text in front of it (--name={%s}), or give it a pattern`, m[1],
					m[1])
			}
		}
	}
	if t.Stdin != "" {
		if p, ok := t.Params[t.Stdin]; !ok || p.Type != "string" {
			return fmt.Errorf("stdin names no parameter of type string")
		}
		used[t.Stdin] = true
	}
	for name := range t.Params {
		if !used[name] {
			return fmt.Errorf("the parameter %s is used nowhere", name)
		}
	}
	for _, name := range t.Required {
		if p, ok := t.Params[name]; !ok || p.Type == "output" {
			return fmt.Errorf("required names %s, which is no parameter that callers give", name)
		}
	}
	if p, ok := t.Params[t.Output]; t.Output != "" && t.Output != "text" && t.Output != "json" && (!ok || p.Type != "output") {
		return fmt.Errorf(`output is "text", "json" or the name of a parameter of type output`)
	}
	return nil
}

func (p *param) check() (err error) {
	switch p.Type {
	case "string":
		if p.Pattern != "" {
			if p.pattern, err = regexp.Compile(`^(?:` + p.Pattern + `)$`); err != nil {
				return err
			}
			if p.pattern.MatchString("-") || p.pattern.MatchString("--help") || p.pattern.MatchString("-x") {
				return fmt.Errorf("the pattern admits an option, such as --help")
			}
		}
	case "integer", "number", "path":
	case "boolean":
		if len(p.Flag) == 0 {
			return fmt.Errorf("flag: the words that stand for true")
		}
	case "enum":
		if len(p.Values) == 0 {
			return fmt.Errorf("values: what it may be")
		}
	case "output":
		if !suffixForm.MatchString(p.Suffix) {
			return fmt.Errorf(`suffix: such as ".png"`)
		}
	default:
		return fmt.Errorf("type: string, integer, number, boolean, enum, path or output")
	}
	return nil
}

// remote is the template as a tool of its provider.
func (t *template) remote(p *tools.Provider) (tools.RemoteTool, error) {
	props := map[string]any{}
	for name, p := range t.Params {
		if p.Type != "output" {
			props[name] = p.schema()
		}
	}
	schema := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if len(t.Required) > 0 {
		schema["required"] = t.Required
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return tools.RemoteTool{}, err
	}
	remote := tools.RemoteTool{
		Name: t.Name, Title: t.Title, Description: t.Description, Input: data, ReadOnly: t.ReadOnly, Destructive: t.Destructive,
		Idempotent: t.Idempotent, Tags: t.Tags, TimeoutMS: t.TimeoutMS, Runs: t.Argv, Keys: t.keys(p.Module() != ""), Alone: t.Alone,
		Origin: tools.OriginOf(p, t),
	}
	if takes := tools.Isolation(p, &remote); t.Class != "" && t.Class != takes {
		return tools.RemoteTool{}, fmt.Errorf("it says class %.16q, and what it may reach takes %s (%s)", t.Class, takes,
			strings.Join(tools.Declared(p, &remote), ", "))
	}
	return remote, nil
}

func (p *param) schema() map[string]any {
	out := map[string]any{}
	if p.Description != "" {
		out["description"] = p.Description
	}
	switch p.Type {
	case "integer", "number":
		out["type"] = p.Type
		if p.Min != nil {
			out["minimum"] = *p.Min
		}
		if p.Max != 0 {
			out["maximum"] = p.Max
		}
	case "boolean":
		out["type"] = "boolean"
	case "enum":
		out["enum"] = p.Values
	default:
		out["type"], out["maxLength"] = "string", p.length()
	}
	return out
}

func (p *param) length() int {
	if p.Max > 0 && p.Max < 1<<20 {
		return int(p.Max)
	}
	return maxText
}

// words fills the template with a call's arguments, which fit the schema.
type filling struct {
	read, write []string // folders that paths may lie in
	scratch     string   // where outputs are made
}

// fill returns the words of one call, its standard input, and the file of each output.
func (t *template) fill(args map[string]any, f filling) (words []string, stdin string, outputs map[string]string, err error) {
	outputs = map[string]string{}
	value := func(name string) (string, bool, error) {
		p := t.Params[name]
		if p.Type == "output" {
			outputs[name] = filepath.Join(f.scratch, name+p.Suffix)
			return outputs[name], true, nil
		}
		v, given := args[name]
		if !given {
			return "", false, nil
		}
		text, err := p.text(v, f)
		if err != nil {
			err = capabilities.Errorf(capabilities.CodeInvalidArguments, "%s: %v", name, err)
		}
		return text, true, err
	}
	guarded := false // by a literal "--", after which nothing is an option
	for _, word := range t.Argv {
		guarded = guarded || word == "--"
		missing := false
		filled := placeholder.ReplaceAllStringFunc(word, func(m string) string {
			text, given, e := value(m[1 : len(m)-1])
			missing = missing || !given
			if err == nil {
				err = e
			}
			return text
		})
		switch p, whole := t.Params[strings.Trim(word, "{}")]; {
		case missing: // an argument that was not given takes its word with it
		case whole && p.Type == "boolean" && placeholder.FindString(word) == word:
			if filled == "true" {
				words = append(words, p.Flag...)
			}
		case !guarded && strings.HasPrefix(filled, "-") && !strings.HasPrefix(word, "-") && !(whole && p.Type == "enum"):
			// A pattern or a number may admit it; an enum's words are the template's own.
			if err == nil {
				err = capabilities.Errorf(capabilities.CodeInvalidArguments, "%.200q would be taken for an option", filled)
			}
		default:
			words = append(words, filled)
		}
	}
	if err == nil && t.Stdin != "" {
		stdin, _, err = value(t.Stdin)
	}
	return words, stdin, outputs, err
}

func (p *param) text(v any, f filling) (string, error) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case string:
		switch {
		case strings.ContainsRune(v, 0):
			return "", fmt.Errorf("a zero byte")
		case p.pattern != nil && !p.pattern.MatchString(v):
			return "", fmt.Errorf("does not match %s", p.Pattern)
		case p.Type == "path":
			return within(v, f, p.Write)
		case p.Type == "enum" && !slices.Contains(p.Values, v):
			return "", fmt.Errorf("is none of its values")
		}
		return v, nil
	}
	return "", fmt.Errorf("is of another type")
}

// within returns the real path of what a caller names, if it lies in a folder that the
// provider may reach. A relative path is taken below the first of them.
func within(name string, f filling, write bool) (string, error) {
	folders := append(slices.Clone(f.write), f.read...)
	if write {
		folders = f.write
	}
	if len(folders) == 0 {
		return "", fmt.Errorf("this provider reaches no files")
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(folders[0], name)
	}
	real, err := filepath.EvalSymlinks(name)
	if os.IsNotExist(err) && write {
		var dir string
		if dir, err = filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
			real = filepath.Join(dir, filepath.Base(name))
		}
	}
	if err != nil {
		return "", fmt.Errorf("there is no such file")
	}
	for _, folder := range folders {
		base, err := filepath.EvalSymlinks(folder)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(base, real); err == nil && filepath.IsLocal(rel) {
			return real, nil
		}
	}
	return "", fmt.Errorf("lies outside the folders that the provider may reach")
}
