package provider

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func one(t *testing.T, text string) *template {
	t.Helper()
	list, err := readTemplates(json.RawMessage(`{"tools":[` + text + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return &list[0]
}

func TestTemplatesAreFilled(t *testing.T) {
	tool := one(t, `{"name":"a","argv":["prog","--size={size}","{loud}","{n}","{kind}","--","{text}"],"params":{
		"size":{"type":"string"},"loud":{"type":"boolean","flag":["-v","-v"]},"n":{"type":"integer"},"kind":{"type":"enum","values":["x","y"]},"text":{"type":"string"}}}`)
	words, _, _, err := tool.fill(map[string]any{"size": "$(id)", "loud": true, "n": float64(7), "kind": "x", "text": "-rf; rm"}, filling{})
	if want := []string{"prog", "--size=$(id)", "-v", "-v", "7", "x", "--", "-rf; rm"}; err != nil || !slices.Equal(words, want) {
		t.Errorf("%q %v", words, err)
	}
	words, _, _, err = tool.fill(map[string]any{"loud": false}, filling{})
	if want := []string{"prog", "--"}; err != nil || !slices.Equal(words, want) {
		t.Errorf("without arguments: %q %v", words, err)
	}
}

// No value becomes an option: a template in which one could is refused (field reports of
// argument injection in servers that run git, tar and ssh).
func TestTemplatesThatInjectAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"bare string":            `{"name":"a","argv":["git","log","{ref}"],"params":{"ref":{"type":"string"}}}`,
		"pattern with a dash":    `{"name":"a","argv":["git","log","{ref}"],"params":{"ref":{"type":"string","pattern":"[a-z-]+"}}}`,
		"the program":            `{"name":"a","argv":["{prog}"],"params":{"prog":{"type":"string"}}}`,
		"unknown parameter":      `{"name":"a","argv":["x","{y}"]}`,
		"parameter without use":  `{"name":"a","argv":["x"],"params":{"y":{"type":"string"}}}`,
		"boolean inside a word":  `{"name":"a","argv":["x","--a={y}"],"params":{"y":{"type":"boolean","flag":["z"]}}}`,
		"boolean without flag":   `{"name":"a","argv":["x","{y}"],"params":{"y":{"type":"boolean"}}}`,
		"enum without values":    `{"name":"a","argv":["x","{y}"],"params":{"y":{"type":"enum"}}}`,
		"output without suffix":  `{"name":"a","argv":["x","{y}"],"params":{"y":{"type":"output"}}}`,
		"suffix with a folder":   `{"name":"a","argv":["x","{y}"],"params":{"y":{"type":"output","suffix":"/../x"}}}`,
		"output that is none":    `{"name":"a","argv":["x"],"output":"y"}`,
		"required that is none":  `{"name":"a","argv":["x"],"required":["y"]}`,
		"type that is none":      `{"name":"a","argv":["x","{y}"],"params":{"y":{"type":"object"}}}`,
		"standard input of none": `{"name":"a","argv":["x"],"stdin":"y"}`,
	} {
		if _, err := readTemplates(json.RawMessage(`{"tools":[` + text + `]}`)); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, ok := range []string{
		`{"name":"a","argv":["git","log","{ref}"],"params":{"ref":{"type":"string","pattern":"[a-z0-9]+"}}}`,
		`{"name":"a","argv":["git","log","--","{ref}"],"params":{"ref":{"type":"string"}}}`,
	} {
		one(t, ok)
	}
}

// A word that a pattern or a number lets through becomes no option either, unless the template's
// author wrote it as one.
func TestFilledWordsAreNoOptions(t *testing.T) {
	const params = `"params":{"p":{"type":"string","pattern":"[-a-z]{3,5}"},"e":{"type":"string","pattern":"[a-z]*"},"s":{"type":"string"},"n":{"type":"integer"},"k":{"type":"enum","values":["-l","-w"]},"f":{"type":"boolean","flag":["-v"]}}`
	for argv, c := range map[string]struct {
		args map[string]any
		ok   bool
	}{
		`"x","{p}"`:           {map[string]any{"p": "-rf"}, false},
		`"x","{n}"`:           {map[string]any{"n": -9.0}, false},
		`"x","{e}{s}"`:        {map[string]any{"e": "", "s": "--exec=id"}, false},
		`"x","{e}{k}"`:        {map[string]any{"e": "", "k": "-w"}, false},
		`"x","{n}","--"`:      {map[string]any{"n": -9.0}, false},
		`"x","--","{p}"`:      {map[string]any{"p": "-rf"}, true},
		`"x","-n","--","{n}"`: {map[string]any{"n": -9.0}, true},
		`"x","-o{n}"`:         {map[string]any{"n": -9.0}, true},
		`"x","n={n}"`:         {map[string]any{"n": -9.0}, true},
		`"x","{k}","{f}"`:     {map[string]any{"k": "-w", "f": true}, true},
	} {
		var tool template
		if err := json.Unmarshal([]byte(`{"name":"a","argv":[`+argv+`],`+params+`}`), &tool); err != nil {
			t.Fatal(err)
		}
		for name, p := range tool.Params {
			if err := p.check(); err != nil {
				t.Fatal(err)
			}
			tool.Params[name] = p
		}
		words, _, _, err := tool.fill(c.args, filling{})
		if (err == nil) != c.ok || err != nil && capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
			t.Errorf("[%s] with %v: %q %v", argv, c.args, words, err)
		}
	}
}

func TestPathsStayInFolders(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, f := range []string{filepath.Join(dir, "a"), filepath.Join(other, "b")} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "b"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f := filling{read: []string{dir}}
	if got, err := within("a", f, false); err != nil || filepath.Base(got) != "a" {
		t.Errorf("%q %v", got, err)
	}
	for _, bad := range []string{"../" + filepath.Base(other) + "/b", filepath.Join(other, "b"), "link", "/etc/passwd", "gone"} {
		if got, err := within(bad, f, false); err == nil {
			t.Errorf("%s became %s", bad, got)
		}
	}
	if _, err := within("a", f, true); err == nil {
		t.Error("a folder to read was given to write")
	}
	f.write = []string{dir}
	if got, err := within("new", f, true); err != nil || !strings.HasSuffix(got, "/new") {
		t.Errorf("%q %v", got, err)
	}
	if _, err := within("link", f, true); err == nil {
		t.Error("a link led out of the folder to write")
	}
}

func FuzzFill(f *testing.F) {
	f.Add("--help", "x;y")
	f.Add("-", "\x00")
	f.Fuzz(func(t *testing.T, a, b string) {
		tool := one(t, `{"name":"a","argv":["prog","--x={a}","--","{b}"],"params":{"a":{"type":"string"},"b":{"type":"string"}}}`)
		words, _, _, err := tool.fill(map[string]any{"a": a, "b": b}, filling{})
		if err == nil && (len(words) != 4 || words[1] != "--x="+a || words[2] != "--" || words[3] != b) {
			t.Fatalf("%q", words)
		}
	})
}
