package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// registry serves the packages of a folder as npm's registry does, and counts what is fetched.
func registry(t *testing.T, dir string) *httptest.Server {
	t.Helper()
	packages := map[string][]byte{}
	about := map[string]map[string]any{}
	found, err := filepath.Glob(filepath.Join(dir, "npm-*.tgz"))
	must(t, err)
	for _, file := range found {
		b, err := os.ReadFile(file)
		must(t, err)
		manifest := manifestOf(t, b)
		packages[filepath.Base(file)] = b
		about[manifest["name"].(string)] = manifest
	}
	var url string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if b, ok := packages[name]; ok {
			_, _ = w.Write(b)
			return
		}
		manifest, ok := about[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		file := "npm-" + strings.ReplaceAll(strings.TrimPrefix(name, "@"), "/", "-") + "-" + manifest["version"].(string) + ".tgz"
		sum := sha512.Sum512(packages[file])
		manifest["dist"] = map[string]string{"tarball": url + "/" + file, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		version := manifest["version"].(string)
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]any{"latest": version},
			"versions": map[string]any{version: manifest}})
	}))
	t.Cleanup(server.Close)
	url = server.URL
	return server
}

// manifestOf returns the package.json of a packed package.
func manifestOf(t *testing.T, b []byte) map[string]any {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			t.Fatal("a package without package.json")
		}
		must(t, err)
		if h.Name == "package/package.json" {
			manifest := map[string]any{}
			must(t, json.NewDecoder(r).Decode(&manifest))
			return manifest
		}
	}
}

// The npm package is fetched from a registry and run by npx: of the optional dependencies the one
// for this system is installed, no script is run at install time, and the program ends as it does
// by itself.
func TestNpxRunsTheProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("makes packages")
	}
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("this system has no npm")
	}
	server := registry(t, release(t, program(t), "0.1.0", "npm", ""))
	home := t.TempDir()
	npm := func(args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "HOME="+home, "npm_config_registry="+server.URL, "npm_config_ignore_scripts=true",
			"npm_config_update_notifier=false", "npm_config_cache="+filepath.Join(home, "cache"), "HANDRAIL_DATA="+filepath.Join(home, "site"))
		return cmd
	}
	out, err := npm("npx", "--yes", "handrail", "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "handrail ") {
		t.Fatalf("%v: %s", err, out)
	}
	var failed *exec.ExitError
	if out, err := npm("npx", "handrail", "nosuch").CombinedOutput(); !errors.As(err, &failed) || failed.ExitCode() != 2 {
		t.Errorf("a wrong command ends with %v: %s", err, out)
	}
	// Installed below a project, offline from now on, it does a first task.
	if out, err := npm("npm", "install", "--no-audit", "--no-fund", "handrail").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server.Close()
	if out, err := npm("npx", "--offline", "handrail", "up", "--once", "--browser-sandbox", "auto").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// Without the optional dependency it says what is missing.
	must(t, os.RemoveAll(filepath.Join(home, "node_modules", "@handrail")))
	if out, err := npm("npx", "--offline", "handrail", "version").CombinedOutput(); err == nil || !strings.Contains(string(out), "--omit=optional") {
		t.Errorf("%v: %s", err, out)
	}
}
