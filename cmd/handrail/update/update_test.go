package update

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sealed returns metadata as the release tool writes it.
func sealed(t *testing.T, key ed25519.PrivateKey, kind string, m Metadata) []byte {
	t.Helper()
	payload, err := json.Marshal(m)
	must(t, err)
	e := map[string]any{"payloadType": kind, "payload": payload, "signatures": []any{}}
	if key != nil {
		about := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
		e["signatures"] = []map[string]any{{"keyid": "a", "sig": ed25519.Sign(key, about)}}
	}
	b, err := json.Marshal(e)
	must(t, err)
	return b
}

// endless writes until whoever reads has enough.
func endless(w http.ResponseWriter) {
	chunk := bytes.Repeat([]byte("A"), 1<<16)
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// program is a script that says of itself what a program says.
func program(version, goos, arch string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\necho '{\"version\":\"%s\",\"os\":\"%s\",\"arch\":\"%s\"}'\n", version, goos, arch)
}

// A release other than the publisher signed it is refused. The program is as it was then, and
// nothing is beside it.
func TestUpdatesThatAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs are scripts here")
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	here := runtime.GOOS + "/" + runtime.GOARCH
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for where nobody was sent by the administrator", r.URL)
	}))
	defer elsewhere.Close()
	for name, spoil := range map[string]func(c *attack){
		"unsigned":               func(c *attack) { c.key = nil },
		"signed by another key":  func(c *attack) { c.key = stranger },
		"signed for another use": func(c *attack) { c.kind = "application/json" },
		"expired":                func(c *attack) { c.m.Expires = time.Now().Add(-time.Second) },
		"an older version":       func(c *attack) { c.m.Version = "1.1.9" },
		"a version before this release": func(c *attack) {
			c.m.Version = "1.2.0-rc.9"
		},
		"no version":             func(c *attack) { c.m.Version = "latest" },
		"a name with a path":     func(c *attack) { c.file.Name = "../handrail" },
		"metadata cut short":     func(c *attack) { c.cut = true },
		"changed after signing":  func(c *attack) { c.change = true },
		"a program cut short":    func(c *attack) { c.served = c.served[:len(c.served)-1] },
		"another program":        func(c *attack) { c.served = bytes.Replace(c.served, []byte("echo"), []byte("eval"), 1) },
		"of another processor":   func(c *attack) { c.put(program("1.3.0", runtime.GOOS, "other")) },
		"of another version":     func(c *attack) { c.put(program("1.1.0", runtime.GOOS, runtime.GOARCH)) },
		"that does not start":    func(c *attack) { c.put([]byte("\x7fELF no program")) },
		"endless metadata":       func(c *attack) { c.endlessMetadata = true },
		"an endless program":     func(c *attack) { c.endlessProgram = true },
		"redirected metadata":    func(c *attack) { c.redirect = "/handrail-update.json" },
		"a redirected program":   func(c *attack) { c.redirect = "/handrail-new" },
		"a size beyond all size": func(c *attack) { c.file.Size = maxProgram + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := &attack{key: key, kind: payloadType, m: Metadata{Version: "1.3.0", Expires: time.Now().Add(time.Hour)}}
			c.put(program("1.3.0", runtime.GOOS, runtime.GOARCH))
			spoil(c)
			c.m.Files = map[string]File{here: c.file}
			text := sealed(t, c.key, c.kind, c.m)
			if c.cut {
				text = text[:len(text)/2]
			}
			if c.change {
				m := c.m
				m.Version = "1.4.0"
				payload, err := json.Marshal(m)
				must(t, err)
				var e map[string]any
				must(t, json.Unmarshal(text, &e))
				e["payload"] = payload
				text, err = json.Marshal(e)
				must(t, err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				metadata := r.URL.Path == "/handrail-update.json"
				switch {
				case r.URL.Path == c.redirect:
					http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
				case metadata && c.endlessMetadata, !metadata && c.endlessProgram:
					endless(w)
				case metadata:
					_, _ = w.Write(text)
				default:
					_, _ = w.Write(c.served)
				}
			}))
			defer server.Close()
			dir := t.TempDir()
			file := filepath.Join(dir, "handrail")
			must(t, os.WriteFile(file, []byte("as it was"), 0o755))
			_, err := Job{URL: server.URL + "/handrail-update.json", Key: public, Program: file, Version: "1.2.0", Say: func(string) {}}.Run(t.Context())
			if capabilities.CodeOf(err) != capabilities.CodeUpdateRefused {
				t.Errorf("it ends with %v", err)
			}
			if is, err := os.ReadFile(file); err != nil || string(is) != "as it was" {
				t.Errorf("the program is %.20q, %v", is, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// attack is a place of releases with something wrong.
type attack struct {
	key                             ed25519.PrivateKey
	kind, redirect                  string
	m                               Metadata
	file                            File
	served                          []byte
	cut, change                     bool
	endlessMetadata, endlessProgram bool
}

// put makes b the program that the metadata names.
func (c *attack) put(b []byte) {
	sum := sha256.Sum256(b)
	c.served, c.file = b, File{Name: "handrail-new", Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}

// A place of releases is named by HTTPS; by HTTP on this machine alone.
func TestPlacesOfReleases(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://releases.example/handrail-update.json": true, "http://127.0.0.1:8/x": true, "http://localhost/x": true,
		"http://releases.example/x": false, "file:///etc/passwd": false, "https://user:pass@releases.example/x": false, "": false, "ftp://127.0.0.1/": false,
		"http://127.0.0.1.evil.example/x": false,
	} {
		if _, err := newSource(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestVersionsInOrder(t *testing.T) {
	order := []string{"0.9.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0"}
	for i, a := range order {
		for j, b := range order {
			x, okX := parseVersion(a)
			y, okY := parseVersion("v" + b)
			if !okX || !okY || newer(x, y) != (i > j) {
				t.Errorf("%s after %s: %v", a, b, newer(x, y))
			}
		}
	}
	for _, bad := range []string{"", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.3-", "devel", "1.2.-3"} {
		if _, ok := parseVersion(bad); ok {
			t.Errorf("%q is a version", bad)
		}
	}
}

// A key is read from PEM and from base64, and no other is.
func TestKeys(t *testing.T) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	for _, text := range []string{string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), base64.StdEncoding.EncodeToString(public) + "\n"} {
		if key, err := ParseKey([]byte(text)); err != nil || !key.Equal(public) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "AAAA", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"} {
		if _, err := ParseKey([]byte(text)); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
}

// A program that a package manager keeps is left to it.
func TestKeptByOthers(t *testing.T) {
	for _, program := range []string{"/usr/bin/handrail", "/srv/x/node_modules/@handrail/linux-x64/bin/handrail", "/opt/homebrew/Cellar/handrail/1/bin/handrail"} {
		_, err := Job{URL: "https://releases.example/x", Program: program, Version: "1.0.0"}.Run(context.Background())
		if capabilities.CodeOf(err) != capabilities.CodeNotSupported || !strings.Contains(err.Error(), "kept by") {
			t.Errorf("%s: %v", program, err)
		}
	}
}
