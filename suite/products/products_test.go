package products

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/suite"
)

// Every task has an ID of its own, and every product a version that is pinned.
func TestCatalogue(t *testing.T) {
	data, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var pinned struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &pinned); err != nil {
		t.Fatal(err)
	}
	exact := regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	for name, version := range pinned.Dependencies {
		if !exact.MatchString(version) {
			t.Errorf("%s is pinned to %q, which is no exact version", name, version)
		}
	}
	for _, p := range all() {
		program, _, _ := strings.Cut(p.server.program, "/")
		if pinned.Dependencies[p.pkg] == "" || pinned.Dependencies[program] == "" {
			t.Errorf("%s is about the packages %s and %s, which package.json does not have both", p.name, p.pkg, program)
		}
		if len(p.behaviours) == 0 {
			t.Errorf("%s has no task", p.name)
		}
	}
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, b := range All() {
		if !form.MatchString(b.ID) || seen[b.ID] || b.Title == "" || b.Proves == "" {
			t.Errorf("%q is no ID, is there twice, or has no title or purpose", b.ID)
		}
		seen[b.ID] = true
	}
}

// small is a server as products are: it reads a file of its folder, and its port.
const small = `const fs = require('fs'), http = require('http')
if (process.argv[3] === 'broken') { console.log('no such setting'); process.exit(1) }
http.createServer((q, a) => a.end(fs.readFileSync('data/note.txt') + ' ' + process.env.MODE)).listen(process.argv[2], '127.0.0.1')
`

// A server has its files, its port and its environment, and both it and its folder are gone with
// whoever started it.
func TestServerEndsWithItsParent(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no Node.js here")
	}
	packages := t.TempDir()
	if err := os.MkdirAll(filepath.Join(packages, "node_modules", "small"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(packages, "node_modules", "small", "run.js"), []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	filled := ""
	s := server{
		program: "small/run.js", ready: "/", files: map[string]string{"data/note.txt": "at {port}"},
		args: func(p place) []string { return []string{p.port, "well"} },
		env:  func(place) []string { return []string{"MODE=tried"} },
		fill: func(_ context.Context, address string) error {
			filled = address
			return nil
		},
	}
	r, err := s.start(t.Context(), packages)
	if err != nil {
		t.Fatal(err)
	}
	port := r.address[strings.LastIndex(r.address, ":")+1:]
	if status, text, err := ask(t.Context(), http.MethodGet, r.address, nil); err != nil || status != 200 || text != "at "+port+" tried" {
		t.Errorf("answered %d %q, %v", status, text, err)
	}
	if filled != r.address {
		t.Errorf("filled %q, want %q", filled, r.address)
	}
	// Closing its standard input is what the end of this process does, too.
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	<-r.ended
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
		t.Errorf("its folder is there: %v", err)
	}

	s.args = func(p place) []string { return []string{p.port, "broken"} }
	r, err = s.start(t.Context(), packages)
	if err == nil || !strings.Contains(err.Error(), "no such setting") {
		t.Errorf("a server that ends at once is told as %v", err)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// Only the servers of the chosen tasks are started.
func TestNothingIsStartedUnasked(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no Node.js here")
	}
	s, err := Start(t.Context(), t.TempDir(), nil)
	if err != nil || len(s.Addresses()) != 0 {
		t.Errorf("started %v, %v", s, err)
	}
	if _, err := Start(t.Context(), t.TempDir(), []*suite.Behaviour{All()[0]}); err == nil {
		t.Error("a product without its package was started")
	}
}
