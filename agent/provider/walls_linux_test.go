package provider

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// program is one that makes its output, whose path is its only argument, in the way of a test.
type program func(t *testing.T, output string)

type starts struct {
	t    *testing.T
	make program
}

func (starts) Runs(Program) (string, string) { return "", "" }

func (starts) Class(Program) (capabilities.IsolationClass, string, error) {
	return capabilities.ClassT1, "", nil
}

func (s starts) Start(_ context.Context, p Program) (Process, error) {
	if len(p.Argv) > 1 && s.make != nil {
		s.make(s.t, p.Argv[1])
	}
	child := newPiped()
	go func() { _, _ = io.Copy(io.Discard, child.in) }()
	_ = child.to.Close()
	child.end()
	return child, nil
}

const pictures = `{"tools":[{"name":"a","argv":["prog","{o}"],"params":{"o":{"type":"output","suffix":".png"}},"output":"o"}]}`

// The node reads what a program made, with rights that the program has not: only a file that lies
// where it belongs is read, and a pipe is not waited for.
func TestAnOutputIsTheProgramsOwnFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(secret, []byte("PRIVATE"), 0o600); err != nil {
		t.Fatal(err)
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		make program
		ok   bool
	}{
		"a file": {func(t *testing.T, at string) { must(t, os.WriteFile(at, []byte("made"), 0o600)) }, true},
		"a link": {func(t *testing.T, at string) { must(t, os.Symlink(secret, at)) }, false},
		"a link beside it": {func(t *testing.T, at string) {
			must(t, os.WriteFile(at+"x", []byte("made"), 0o600))
			must(t, os.Symlink(filepath.Base(at)+"x", at))
		}, false},
		"another's folder": {func(t *testing.T, at string) {
			dir, other := filepath.Dir(at), t.TempDir()
			must(t, os.WriteFile(filepath.Join(other, filepath.Base(at)), []byte("PRIVATE"), 0o600))
			must(t, os.Rename(dir, dir+"-was"))
			t.Cleanup(func() { _ = os.RemoveAll(dir + "-was") })
			must(t, os.Symlink(other, dir))
		}, false},
		"a folder": {func(t *testing.T, at string) { must(t, os.Mkdir(at, 0o700)) }, false},
		"a pipe":   {func(t *testing.T, at string) { must(t, syscall.Mkfifo(at, 0o600)) }, false},
		"nothing":  {func(*testing.T, string) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			command, err := newCommand(&tools.Provider{Name: "c", Kind: tools.KindCommand, Manifest: json.RawMessage(pictures)}, starts{t, c.make}, nil, newCredentials(&tools.Provider{}))
			must(t, err)
			type end struct {
				out capabilities.Output
				err error
			}
			done := make(chan end, 1)
			go func() {
				out, err := command.call(context.Background(), call{upstream: "a", args: json.RawMessage(`{}`)})
				done <- end{out, err}
			}()
			select {
			case e := <-done:
				if c.ok && (e.err != nil || len(e.out.Blobs) != 1 || string(e.out.Blobs[0].Bytes) != "made") || !c.ok && (capabilities.CodeOf(e.err) != capabilities.CodeExecutionFailed || len(e.out.Blobs) > 0) {
					t.Errorf("%+v %v", e.out, e.err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it waits")
			}
		})
	}
}

func newHost(t *testing.T, o Options) *Host {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	o.Catalog = cat
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func words(read ...string) tools.Provider {
	return tools.Provider{Name: "words", Kind: tools.KindCommand, Read: read}
}

const counting = `{"tools":[{"name":"a","description":"Counts.","argv":["wc"]}]}`

func take(h *Host, p tools.Provider) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = manage(h, capHost, map[string]any{"provider": p.Name, "record": json.RawMessage(text), "manifest": counting})
	return err
}

func reasonOf(h *Host, c capabilities.CapabilityID) capabilities.Reason {
	for _, r := range h.Readiness(context.Background()) {
		if r.Capability == c {
			return r.Reason
		}
	}
	return "absent"
}

// No provider reaches the data that Handrail keeps for itself: not by a folder above it, not below
// it, not by a link, and not by a record from before.
func TestFoldersThatNoProviderReaches(t *testing.T) {
	base := t.TempDir()
	data, fine := filepath.Join(base, "data"), filepath.Join(base, "fine")
	for _, dir := range []string{filepath.Join(data, "node"), fine} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(data, filepath.Join(base, "link")); err != nil {
		t.Skip(err)
	}
	h := newHost(t, Options{Dir: t.TempDir(), Start: starts{}, Allowed: true, Forbidden: []string{data}})
	for _, dir := range []string{data, filepath.Join(data, "node"), filepath.Join(data, "later"), base, filepath.Join(base, "link"), filepath.Join(base, "link", "node")} {
		write := words()
		write.Write = []string{dir}
		for _, p := range []tools.Provider{words(dir), write} {
			if err := take(h, p); capabilities.CodeOf(err) != capabilities.CodeForbidden {
				t.Errorf("%+v: %v", p, err)
			}
		}
	}
	if err := take(h, words(fine)); err != nil {
		t.Fatal(err)
	}
	approve(t, h, "words")

	// The folder leads elsewhere by now.
	if err := os.Remove(fine); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data, fine); err != nil {
		t.Fatal(err)
	}
	if r := reasonOf(h, "tyrum.words.a"); r != capabilities.ReasonOwnerDisabled {
		t.Errorf("it is %q", r)
	}
	if _, err := h.Handle(context.Background(), invocation("tyrum.words.a", `{}`)); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("it was called: %v", err)
	}

	// A record from before the rule.
	dir := t.TempDir()
	before := newHost(t, Options{Dir: dir, Start: starts{}, Allowed: true})
	if err := take(before, words(base)); err != nil {
		t.Fatal(err)
	}
	approve(t, before, "words")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	after := newHost(t, Options{Dir: dir, Start: starts{}, Allowed: true, Forbidden: []string{data}})
	if list, _ := after.Tools(); len(list) != 0 {
		t.Errorf("%d tools are offered", len(list))
	}
}

// A program that writes a folder cannot have another place opened to it or to another provider: no
// folder lies in one that a program writes, and one that leads elsewhere than when its provider was
// added is refused, after a start of the node, too.
func TestFoldersStayWhereTheyWere(t *testing.T) {
	base, records := t.TempDir(), t.TempDir()
	at := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(base, n)
		}
		return names
	}
	for _, dir := range at("p/x", "q", "secret") {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("q")[0], at("p/link")[0]); err != nil {
		t.Fatal(err)
	}
	named := func(name string, read, write []string) tools.Provider {
		return tools.Provider{Name: name, Kind: tools.KindCommand, Read: read, Write: write}
	}
	o := Options{Dir: records, Start: starts{}, Allowed: true}
	h := newHost(t, o)
	for _, p := range []tools.Provider{
		named("words", nil, at("p", "p/x")), named("words", at("p/x"), at("p")), named("words", nil, at("p", "p/later")), named("words", nil, at("p", "p/link")),
	} {
		if err := take(h, p); capabilities.CodeOf(err) != capabilities.CodeForbidden || capabilities.AsError(err).PublicHint() == "" {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, p := range []tools.Provider{named("inner", at("p"), at("p/x")), named("apart", nil, at("q"))} {
		if err := take(h, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := take(h, named("words", nil, at("p"))); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("around another's: %v", err)
	}
	if err := take(h, named("words", at("q"), at("q"))); err != nil { // the folder itself stays
		t.Errorf("the same folder: %v", err)
	}
	approve(t, h, "inner")
	if err := os.Remove(at("p/x")[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("secret")[0], at("p/x")[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := reasonOf(h, "tyrum.inner.a"); r != capabilities.ReasonOwnerDisabled {
			t.Errorf("it is %q", r)
		}
		_, err := h.Handle(t.Context(), invocation("tyrum.inner.a", `{}`))
		if capabilities.CodeOf(err) != capabilities.CodeForbidden || capabilities.AsError(err).PublicHint() == "" {
			t.Errorf("called: %v", err)
		}
		if err := take(h, named("inner", at("p"), at("p/x"))); capabilities.CodeOf(err) != capabilities.CodeForbidden {
			t.Errorf("asked again: %v", err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		h = newHost(t, o)
	}
	if _, err := manage(h, capDrop, map[string]any{"provider": "inner"}); err != nil {
		t.Fatal(err)
	}
	if err := take(h, named("inner", at("p"), at("p/x"))); err != nil {
		t.Errorf("added again: %v", err)
	}
}

// The owner's file holds for what a provider reads and writes, from the moment that it says so.
func TestTheOwnersFoldersHoldForProviders(t *testing.T) {
	refused := ""
	dir, records := t.TempDir(), t.TempDir()
	o := Options{Dir: records, Start: starts{}, Allowed: true, Check: func(folder string) *capabilities.Error {
		if folder == refused {
			return &capabilities.Error{Code: capabilities.CodeDeniedByNode}
		}
		return nil
	}}
	h := newHost(t, o)
	if err := take(h, words(dir)); err != nil {
		t.Fatal(err)
	}
	approve(t, h, "words")
	if _, err := h.Handle(context.Background(), invocation("tyrum.words.a", `{}`)); err != nil {
		t.Fatal(err)
	}
	refused = dir
	if err := take(h, words(dir)); capabilities.CodeOf(err) != capabilities.CodeDeniedByNode {
		t.Errorf("taken: %v", err)
	}
	if _, err := h.Handle(context.Background(), invocation("tyrum.words.a", `{}`)); capabilities.CodeOf(err) != capabilities.CodeDeniedByNode {
		t.Errorf("called: %v", err)
	}
	if r := reasonOf(h, "tyrum.words.a"); r != capabilities.ReasonOwnerDisabled {
		t.Errorf("it is %q", r)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	again := newHost(t, o) // a node starts before its rules are read
	if r := reasonOf(again, "tyrum.words.a"); r != capabilities.ReasonOwnerDisabled {
		t.Errorf("after a start it is %q", r)
	}
	if refused = ""; reasonOf(again, "tyrum.words.a") != "" {
		t.Error("it stays refused")
	}
}

// A node that may not host any more carries out nothing of what it hosted.
func TestAnOwnerWhoAllowsProvidersNoMore(t *testing.T) {
	dir := t.TempDir()
	before := newHost(t, Options{Dir: dir, Start: starts{}, Allowed: true})
	if err := take(before, words()); err != nil {
		t.Fatal(err)
	}
	approve(t, before, "words")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	after := newHost(t, Options{Dir: dir, Start: starts{}})
	if _, err := after.Handle(context.Background(), invocation("tyrum.words.a", `{}`)); capabilities.CodeOf(err) != capabilities.CodeNodeNotReady {
		t.Errorf("called: %v", err)
	}
}

// One record that cannot be read costs its provider, not the node.
func TestABrokenRecordIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	before := newHost(t, Options{Dir: dir, Start: starts{}, Allowed: true})
	if err := take(before, words()); err != nil {
		t.Fatal(err)
	}
	approve(t, before, "words")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"half": `{"version":1,"rec`, "later": `{"version":9,"record":{"name":"later"}}`, "alias": `{"version":1,"record":{"name":"words"}}`} {
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	after := newHost(t, Options{Dir: dir, Start: starts{}, Allowed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if list, _ := after.Tools(); len(list) != 1 || list[0].Tool != "tool.words.a" {
		t.Errorf("%d tools", len(list))
	}
	for _, name := range []string{"half", "later", "alias"} {
		if !slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool { return strings.Contains(line, "provider "+name+":") }) {
			t.Errorf("nobody hears of %s: %s", name, &log)
		}
	}
}

// A provider with credentials is taken up without them, so that somebody can look at its tools, and
// carries no call out before they came. Another record of its name gets nothing of them.
func TestCredentialsComeBeforeCalls(t *testing.T) {
	h := newHost(t, Options{Dir: t.TempDir(), Start: &inside{make: echoServer}, Allowed: true})
	for _, record := range []tools.Provider{echoRecord(), words()} {
		record.Env = []tools.Credential{{Name: "TOKEN", Secret: "token"}}
		if err := take(h, record); err != nil {
			t.Fatalf("%s: %v", record.Kind, err)
		}
		has := func() *credentials {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.providers[record.Name].credentials
		}
		if err := has().missing(); err == nil || has().env()[0] != "TOKEN="+notYet {
			t.Errorf("%s: %v %v", record.Kind, err, has().env())
		}
		give := func(name, value string) error {
			_, err := h.Handle(t.Context(), capabilities.Invocation{
				Call: "c", Capability: capCredential, Args: json.RawMessage(`{"provider":"` + record.Name + `","name":"` + name + `"}`), Secret: capabilities.NewSecret([]byte(value)),
				Progress: func(capabilities.Progress) {}, Observe: func(string, string) {},
			})
			return err
		}
		if err := give("OTHER", "value"); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
			t.Errorf("%s: %v", record.Kind, err)
		}
		if err := give("TOKEN", "value"); err != nil || has().missing() != nil || has().env()[0] != "TOKEN=value" {
			t.Errorf("%s: %v %v", record.Kind, err, has().env())
		}
		if err := take(h, record); err != nil || has().missing() != nil {
			t.Errorf("%s: asked again, it lost them: %v", record.Kind, err)
		}
		record.Env = append(record.Env, tools.Credential{Name: "MORE", Secret: "more"})
		if err := take(h, record); err != nil || has().env()[0] != "TOKEN="+notYet {
			t.Errorf("%s: another record has %v, %v", record.Kind, has().env(), err)
		}
	}
}
