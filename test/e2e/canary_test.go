package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// canary is a value with every form it could be written in.
type canary struct {
	value string
	forms map[string][]byte
}

func newCanary(value string) canary {
	c := canary{value, map[string][]byte{}}
	all := ""
	for _, b := range []byte(value) {
		all += fmt.Sprintf("%%%02X", b)
	}
	quoted, _ := json.Marshal(value)
	ascii := ""
	for _, r := range value {
		if r < 0x80 {
			ascii += string(r)
		} else {
			ascii += fmt.Sprintf(`\u%04x`, r)
		}
	}
	for name, form := range map[string]string{
		"plain": value, "hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
		"percent of every byte": all, "percent in lower case": strings.ToLower(all),
		"query": url.QueryEscape(value), "path": url.PathEscape(value), "JSON": strings.Trim(string(quoted), `"`), "ASCII": ascii, "Go": strings.Trim(fmt.Sprintf("%q", value), `"`),
		"bytes in decimal": strings.Trim(fmt.Sprint([]byte(value)), "[]"), "UTF-16": wide(value),
	} {
		c.forms[name] = []byte(form)
	}
	// In base64 a value looks different for each place in a group of three that it
	// begins at; the characters that its neighbours share are left out.
	for shift := range 3 {
		for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			text := enc.EncodeToString(append(make([]byte, shift), value...))
			from, to := 0, len(text)
			if shift > 0 {
				from = shift + 1
			}
			if (shift+len(value))%3 != 0 {
				to--
			}
			c.forms[fmt.Sprint(name, " at ", shift)] = []byte(text[from:to])
		}
	}
	return c
}

func wide(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteByte(byte(r))
		b.WriteByte(byte(r >> 8))
	}
	return b.String()
}

// in returns the forms of the value that data holds.
func (c canary) in(data []byte) (found []string) {
	for name, form := range c.forms {
		if bytes.Contains(data, form) {
			found = append(found, name)
		}
	}
	return found
}

// mine is what a canary test looks into.
type mine struct {
	t        *testing.T
	canaries []canary

	mu   sync.Mutex
	logs bytes.Buffer
}

// Write takes log lines.
func (m *mine) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.logs.Write(p)
}

// free fails the test if data holds a canary.
func (m *mine) free(where string, data []byte) {
	m.t.Helper()
	for i, c := range m.canaries {
		if found := c.in(data); len(found) > 0 {
			m.t.Errorf("%s holds secret %d as %q", where, i, found)
		}
	}
}

// result looks into all that a caller gets of a result.
func (m *mine) result(where string, r capabilities.Result) {
	m.t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		m.t.Fatal(err)
	}
	m.free(where, text)
	m.free(where, fmt.Appendf(nil, "%+v", r))
	m.free(where, r.Output)
	for _, b := range r.Blobs {
		m.free(where+" blob", b.Bytes)
	}
}

// folder looks into every file below dir and at its name.
func (m *mine) folder(dir string) {
	m.t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		m.free(filepath.Base(path), data)
		m.free("a file's name", []byte(path))
		return nil
	})
	if err != nil || files == 0 {
		m.t.Errorf("%s: %d files, %v", dir, files, err)
	}
}

// log looks into the log so far.
func (m *mine) log() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logs.Len() == 0 {
		m.t.Error("nothing was logged: this shows nothing")
	}
	m.free("the log", m.logs.Bytes())
}

// ask makes an HTTP request and looks into the whole answer.
func (m *mine) ask(method, address, token, body string) (status int, answer []byte) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	m.free(method+" "+address, answer)
	m.free("headers", fmt.Append(nil, resp.Header))
	return resp.StatusCode, answer
}

// The search finds what it is for: a test that cannot fail is a defect.
func TestCanaryIsFound(t *testing.T) {
	c := newCanary("pass \"wörd\"/%+ 1\n2")
	for name, text := range map[string]string{
		"plain": "x" + c.value + "y", "percent": "q=" + url.QueryEscape(c.value), "hex": "0a" + hex.EncodeToString([]byte(c.value)),
		"go": fmt.Sprintf("%q", c.value), "bytes": fmt.Sprint([]byte(c.value)),
	} {
		if len(c.in([]byte(text))) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
	for i := range 7 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("~", i) + c.value + "after"))
		if len(c.in([]byte(text))) == 0 {
			t.Errorf("base64 after %d bytes is not found", i)
		}
	}
	if found := c.in([]byte("nothing of it: pass word")); len(found) > 0 {
		t.Errorf("%q in nothing", found)
	}
}
