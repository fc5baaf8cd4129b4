package ocr

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program reads pictures of whatever a screen shows: one that takes it over reaches no file of
// a person's and no network (S1-63).
func TestProgramIsBehindWalls(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "handrail-ocr-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	secret, made := filepath.Join(dir, "secret"), filepath.Join(dir, "made")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	program := filepath.Join(dir, "tesseract")
	// It says as a word of its table the text that it read.
	script := "#!" + bash + `
word() { printf '5\t1\t1\t1\t1\t1\t1\t1\t1\t1\t99\t%s\n' "$1"; }
read -r -n 2 kind; word "picture:$kind"
read -r text <` + secret + ` && word "$text"
echo x >` + made + ` && word wrote
exec 3<>/dev/tcp/127.0.0.1/9 && word connected
word done
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	seen, err := newReader(program).Read(t.Context(), frame(40, 40))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, w := range seen {
		said = append(said, w.Text)
	}
	if got := strings.Join(said, " "); got != "picture:P5 done" {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Error("it wrote a file")
	}
	if text, err := os.ReadFile(secret); err != nil || !bytes.Equal(text, []byte("canary")) {
		t.Error(err)
	}
}
