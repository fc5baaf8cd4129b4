package clientfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
)

var (
	jsonPath = []string{"mcpServers", "handrail"}
	tomlPath = []string{"mcp_servers", "handrail"}
	stdio    = []Field{{"command", "/opt/hand rail/handrail"}, {"args", []string{"mcp", "--client", "it's \"quoted\" \\ é"}}}
	http     = []Field{{"url", "http://127.0.0.1:7480/mcp"}, {"headers", map[string]string{"Authorization": "Bearer x"}}}
	notStdio = []string{"command", "args", "env"}
	notHTTP  = []string{"url", "headers"}
)

func TestPutAndRemove(t *testing.T) {
	for _, tc := range []struct {
		name   string
		format Format
		before string
		after  string // with one field, "command": "x"
		again  string // after removing it; "": as before
	}{
		{"nothing", JSON, "", "{\n  \"mcpServers\": {\n    \"handrail\": {\n      \"command\": \"x\"\n    }\n  }\n}\n", "{\n  \"mcpServers\": {\n  }\n}\n"},
		{"others keep order and layout", JSON, "{\n\t\"b\": 1,\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\":\"y\"}\n\t},\n\t\"a\": [1,  2]\n}\n",
			"{\n\t\"b\": 1,\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\":\"y\"},\n\t\t\"handrail\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t},\n\t\"a\": [1,  2]\n}\n", ""},
		{"one line", JSON, `{"mcpServers":{"other":{}}}`, `{"mcpServers":{"other":{},"handrail":{"command":"x"}}}`, ""},
		{"line ends of Windows", JSON, "{\r\n  \"mcpServers\": {\r\n    \"o\": 1\r\n  }\r\n}\r\n", "{\r\n  \"mcpServers\": {\r\n    \"o\": 1,\r\n    \"handrail\": {\r\n      \"command\": \"x\"\r\n    }\r\n  }\r\n}\r\n", ""},
		{"a byte order mark", JSON, "\xef\xbb\xbf{\n  \"mcpServers\": {\n    \"o\": 1\n  }\n}", "\xef\xbb\xbf{\n  \"mcpServers\": {\n    \"o\": 1,\n    \"handrail\": {\n      \"command\": \"x\"\n    }\n  }\n}", ""},
		{"comments", JSONC, "{\n  // ours\n  \"mcpServers\": {\n    \"o\": 1 // one\n    /* none */\n  }, // end\n}\n",
			"{\n  // ours\n  \"mcpServers\": {\n    \"o\": 1, // one\n    /* none */\n    \"handrail\": {\n      \"command\": \"x\"\n    }\n  }, // end\n}\n", ""},
		{"a comment alone", JSONC, "// nothing here\n", "// nothing here\n{\n  \"mcpServers\": {\n    \"handrail\": {\n      \"command\": \"x\"\n    }\n  }\n}\n", "// nothing here\n{\n  \"mcpServers\": {\n  }\n}\n"},
		{"trailing comma", JSONC, "{\n  \"mcpServers\": {\n    \"o\": 1,\n  },\n}\n", "{\n  \"mcpServers\": {\n    \"o\": 1,\n    \"handrail\": {\n      \"command\": \"x\"\n    }\n  },\n}\n", "{\n  \"mcpServers\": {\n    \"o\": 1\n  },\n}\n"},
		{"a comment in braces", JSONC, "{\"mcpServers\": { // none yet\n}}", "{\"mcpServers\": { // none yet\n  \"handrail\": {\n    \"command\": \"x\"\n  }\n}}", "{\"mcpServers\": { // none yet\n}}"},
		{"a comment before a line end of Windows", JSONC, "{ // none yet\r\n}\r\n", "{ // none yet\r\n  \"mcpServers\": {\r\n    \"handrail\": {\r\n      \"command\": \"x\"\r\n    }\r\n  }\r\n}\r\n", "{ // none yet\r\n  \"mcpServers\": {\r\n  }\r\n}\r\n"},

		{"nothing", TOML, "", "[mcp_servers.handrail]\ncommand = \"x\"\n", ""},
		{"others", TOML, "model = \"o\" # mine\n\n[mcp_servers.other]\ncommand = '''\n[mcp_servers.handrail]\n'''\n", "model = \"o\" # mine\n\n[mcp_servers.other]\ncommand = '''\n[mcp_servers.handrail]\n'''\n\n[mcp_servers.handrail]\ncommand = \"x\"\n", ""},
		{"line ends of Windows", TOML, "a = 1\r\n", "a = 1\r\n\r\n[mcp_servers.handrail]\r\ncommand = \"x\"\r\n", ""},
		{"a list over lines", TOML, "a = [ # ]\n  \"]\", # more\n]\n", "a = [ # ]\n  \"]\", # more\n]\n\n[mcp_servers.handrail]\ncommand = \"x\"\n", ""},
	} {
		t.Run(tc.format.String()+"/"+tc.name, func(t *testing.T) {
			path := jsonPath
			if tc.format == TOML {
				path = tomlPath
			}
			got, err := Put(tc.format, []byte(tc.before), path, []Field{{"command", "x"}}, nil)
			if err != nil || string(got) != tc.after {
				t.Fatalf("Put gives %v\n%s\nwant\n%s", err, got, tc.after)
			}
			twice, err := Put(tc.format, got, path, []Field{{"command", "x"}}, nil)
			if err != nil || !bytes.Equal(twice, got) {
				t.Errorf("the second Put changes the file (%v):\n%s", err, twice)
			}
			want := tc.again
			if want == "" {
				want = tc.before
			}
			if again, err := Remove(tc.format, got, path...); err != nil || string(again) != want {
				t.Errorf("Remove gives %v\n%q\nwant\n%q", err, again, want)
			}
		})
	}
}

// A setting that a person added to the entry stays when it is written anew; those that the other
// transport needed go.
func TestPutKeepsWhatAPersonAdded(t *testing.T) {
	text := []byte("{\n  \"mcpServers\": {\n    \"handrail\": {\n      \"command\": \"old\",\n      \"args\": [],\n      \"trust\": true // mine\n    },\n    \"z\": 1\n  }\n}\n")
	got, err := Put(JSONC, text, jsonPath, http, notStdio)
	want := "{\n  \"mcpServers\": {\n    \"handrail\": {\n      \"trust\": true, // mine\n      \"url\": \"http://127.0.0.1:7480/mcp\",\n      \"headers\": {\n        \"Authorization\": \"Bearer x\"\n      }\n    },\n    \"z\": 1\n  }\n}\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	text = []byte("[mcp_servers.handrail] # mine\nurl = \"u\"\nstartup_timeout_sec = 20 # slow\n\n[mcp_servers.handrail.headers]\nA = \"b\"\n\n# about z\n[z]\na = 1\n")
	got, err = Put(TOML, text, tomlPath, stdio, notHTTP)
	want = "[mcp_servers.handrail] # mine\nstartup_timeout_sec = 20 # slow\ncommand = \"/opt/hand rail/handrail\"\nargs = [\"mcp\", \"--client\", \"it's \\\"quoted\\\" \\\\ é\"]\n\n# about z\n[z]\na = 1\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		format Format
		text   string
		form   bool // ErrForm; else a mistake with its place
		place  string
	}{
		{JSON, "{\n  \"a\": 1,\n}", false, "line 3, column 1"},
		{JSON, "{\n  // no\n}", false, "line 2, column 3"},
		{JSON, `{"a": tru}`, false, "line 1, column 7"},
		{JSON, `{"a": 1} x`, false, "line 1, column 10"},
		{JSON, `[]`, false, "line 1, column 1"},
		{JSON, `{"mcpServers": []}`, true, "line 1, column 16"},
		{JSON, `{"mcpServers": {}, "mcpServers": {}}`, true, "2 times"},
		{JSON, `{"a": "` + "\xff" + `"}`, false, "column 8"},
		{JSONC, "{ /* a", false, "no end"},
		{JSON, strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), false, "too deeply"},
		{TOML, "a = \n", false, "line 1, column 5"},
		{TOML, "[a\nb = 1", false, "line 1"},
		{TOML, "a = \"x\nb = 1", false, "no end on its line"},
		{TOML, "a = 1 2 3 x = 4", false, "line 1"},
		{TOML, "mcp_servers = { other = { command = \"x\" } }\n", true, "line 1"},
		{TOML, "[mcp_servers]\nhandrail.command = \"x\"\n", true, "line 2"},
		{TOML, "[mcp_servers]\nhandrail = { command = \"x\" }\n", true, "line 2"},
		{TOML, "mcp_servers.handrail.command = \"x\"\n", true, "line 1"},
		{TOML, "[[mcp_servers]]\na = 1\n", true, "line 1"},
		{TOML, "[mcp_servers.handrail]\n[mcp_servers.handrail]\n", true, "line 2"},
	} {
		path := jsonPath
		if tc.format == TOML {
			path = tomlPath
		}
		got, err := Put(tc.format, []byte(tc.text), path, stdio, nil)
		if err == nil {
			t.Errorf("%.40q is edited:\n%s", tc.text, got)
			continue
		}
		if errors.Is(err, ErrForm) != tc.form || !strings.Contains(err.Error(), tc.place) {
			t.Errorf("%.40q: %v; want %q, form %v", tc.text, err, tc.place, tc.form)
		}
	}
}

func TestEditKeepsACopyAndTheLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "dot", "settings.json"), filepath.Join(dir, "settings.json")
	if err := os.MkdirAll(filepath.Dir(real), 0o755); err != nil {
		t.Fatal(err)
	}
	before := []byte("{\"a\": 1}\n")
	if err := os.WriteFile(real, before, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	at := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	put := func(old []byte) ([]byte, error) { return Put(JSON, old, jsonPath, stdio, nil) }
	backup, err := Edit(link, Options{Private: true, Now: at}, put)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(backup); err != nil || !bytes.Equal(kept, before) || backup != real+".20260102-030405.bak" {
		t.Errorf("the copy %s holds %q (%v)", backup, kept, err)
	}
	for _, name := range []string{real, backup} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v, want mode 0600: it may hold a secret", name, info.Mode(), err)
		}
	}
	if target, err := os.Readlink(link); err != nil || target != real {
		t.Errorf("the link became %q (%v)", target, err)
	}
	if backup, err = Edit(link, Options{Private: true, Now: at}, put); err != nil || backup != "" {
		t.Errorf("an edit that changes nothing leaves %q (%v)", backup, err)
	}
	if _, err := Edit(link, Options{}, func([]byte) ([]byte, error) { return nil, ErrForm }); !errors.Is(err, ErrForm) {
		t.Error(err)
	}
	// Its owner writes while we do: nothing of what it wrote is lost.
	theirs, calls := []byte("{\"b\": 2}\n"), 0
	_, err = Edit(real, Options{Now: at}, func(old []byte) ([]byte, error) {
		if calls++; calls == 1 {
			if err := os.WriteFile(real, theirs, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return Put(JSON, old, jsonPath, http, notStdio)
	})
	if now, _ := os.ReadFile(real); err != nil || calls != 2 || !bytes.Contains(now, []byte(`"b": 2`)) || !bytes.Contains(now, []byte("handrail")) {
		t.Errorf("after %d tries (%v) the file holds %s", calls, err, now)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "dot", "*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// contains reports whether all of part is in whole, in order.
func contains(whole, part []byte) bool {
	for _, c := range whole {
		if len(part) > 0 && part[0] == c {
			part = part[1:]
		}
	}
	return len(part) == 0
}

func inked(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, text)
}

// without returns a decoded file without the entry, and without the tables that
// were made for it.
func without(v map[string]any, path []string) map[string]any {
	if inner, ok := v[path[0]].(map[string]any); ok {
		delete(inner, path[1])
		if len(inner) == 0 {
			delete(v, path[0])
		}
	}
	return v
}

// plainJSON takes comments and trailing commas out, by rules of its own.
func plainJSON(text []byte) []byte {
	text = bytes.TrimPrefix(text, mark)
	var out []byte
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case text[i] == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			out = append(out, text[i:min(end+1, len(text))]...)
			i = end
		case bytes.HasPrefix(rest, []byte("//")):
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			i += 2 + max(0, bytes.Index(rest[2:], []byte("*/"))) + 1
		case text[i] == '}' || text[i] == ']':
			out = bytes.TrimSuffix(bytes.TrimRight(out, " \t\r\n"), []byte(","))
			out = append(out, text[i])
		default:
			out = append(out, text[i])
		}
	}
	return out
}

func checkEdit(t *testing.T, f Format, path []string, text []byte, decode func([]byte) (map[string]any, bool)) {
	_, had, _ := Get(f, text, path...)
	after, err := Put(f, text, path, stdio, notHTTP)
	if err != nil {
		if after != nil {
			t.Fatal("a value comes with the error")
		}
		if !errors.Is(err, ErrForm) && !errors.As(err, new(*SyntaxError)) {
			t.Fatalf("an error without a place: %v", err)
		}
		return
	}
	entry, ok, err := Get(f, after, path...)
	if err != nil || !ok || entry["command"] != stdio[0].Value || !reflect.DeepEqual(entry["args"], []any{"mcp", "--client", "it's \"quoted\" \\ é"}) || entry["url"] != nil {
		t.Fatalf("the entry reads back as %v %v %v in\n%s", entry, ok, err, after)
	}
	if !had && !contains(after, text) {
		t.Fatalf("bytes were lost:\n%q\n%q", text, after)
	}
	gone, err := Remove(f, after, path...)
	if err != nil {
		t.Fatalf("what was put cannot be removed: %v\n%s", err, after)
	}
	if _, ok, err := Get(f, gone, path...); ok || err != nil {
		t.Fatalf("it is still there (%v):\n%s", err, gone)
	}
	// A trailing comma is the one thing that may go, because it became ours.
	if !had && !contains(inked(gone), bytes.ReplaceAll(inked(text), []byte(","), nil)) {
		t.Fatalf("bytes were lost:\n%q\n%q", text, gone)
	}
	before, valid := decode(text)
	if !valid {
		return
	}
	want := without(before, path)
	for _, now := range [][]byte{after, gone} {
		got, valid := decode(now)
		if !valid || !reflect.DeepEqual(without(got, path), want) {
			t.Fatalf("the rest changed:\n%s\n%s\n%v\n%v", text, now, want, got)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"", "{}", "{\n  \"mcpServers\": {\n    \"handrail\": {\"command\": 1, \"url\": \"x\" /* y */ ,}, // z\n  },\n}", `{"a":[1,{"b":"\u00e9\""}],"mcpServers":{"x":{}}}`,
		"// only\n", "{\"a\" : 1 // x\n , \"mcpServers\":{ }\n}", "\xef\xbb\xbf{\r\n\t\"mcpServers\": {\r\n\t}\r\n}\r\n", `{"mcpServers":{"handrail":{"url":1},"z":2}}`} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, relaxed bool) {
		format := JSON
		if relaxed {
			format = JSONC
		}
		checkEdit(t, format, jsonPath, text, func(text []byte) (map[string]any, bool) {
			v := map[string]any{}
			text = plainJSON(text)
			if len(bytes.TrimSpace(text)) == 0 {
				return v, true
			}
			return v, json.Unmarshal(text, &v) == nil
		})
		if _, _, err := Get(JSON, text); err == nil && !relaxed { // what is strict JSON here is JSON for everybody
			if body := bytes.TrimPrefix(text, mark); len(bytes.TrimSpace(body)) > 0 && !json.Valid(body) {
				t.Fatalf("%q is taken for JSON", text)
			}
		}
	})
}

func FuzzTOML(f *testing.F) {
	for _, seed := range []string{"", "a = 1\n", "[mcp_servers.handrail]\nurl = \"x\" # y\n[mcp_servers.handrail.env]\nA = 'b'\n# z\n[q]\n", "a = \"\"\"\n[x]\n\"\"\"\nb = [\n1, # ]\n]\n",
		"[mcp_servers]\nother = { command = \"x\", args = [\"]\"] }\n", "[[a]]\nb = 1979-05-27 07:32:00\n", "\"a.b\".c = '''x'''\r\n", "[ mcp_servers . \"handrail\" ]\nargs = []", "x = \"\\u00e9\\U0001F600\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		checkEdit(t, TOML, tomlPath, text, func(text []byte) (map[string]any, bool) {
			v := map[string]any{}
			_, err := toml.Decode(string(bytes.TrimPrefix(text, mark)), &v)
			return v, err == nil
		})
	})
}

func TestTOMLStrings(t *testing.T) {
	for text, want := range map[string]string{
		`"a\tb\u00e9\U0001F600\"\\"`: "a\tbé😀\"\\", `'a\b'`: `a\b`, "\"\"\"\na \\\n   b\"\"\"": "a b", "'''\nx\ny'''": "x\ny",
	} {
		if got := decodeTOML([]byte(text)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
		var v struct{ A string }
		if _, err := toml.Decode("A = "+text, &v); err != nil || v.A != want {
			t.Errorf("the reference reads %s as %q (%v)", text, v.A, err)
		}
	}
	table, ok := decodeTOML([]byte(`{ Authorization = "Bearer x", b = ["1", '2'] }`)).(map[string]any)
	if !ok || table["Authorization"] != "Bearer x" || !slices.Equal(table["b"].([]any), []any{"1", "2"}) {
		t.Errorf("%v", table)
	}
}
