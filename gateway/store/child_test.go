package store

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// yield lets others run where nothing announces what the test waits for.
func yield() { runtime.Gosched() }

// children are what tests run in a process of their own; each returns what it saw.
var children = map[string]func(dir string) map[string]string{}

// childMode runs one of children.
func childMode() bool {
	run, ok := children[os.Getenv("HANDRAIL_STORE_CHILD")]
	if !ok {
		return false
	}
	json.NewEncoder(os.Stdout).Encode(run(os.Getenv("HANDRAIL_STORE_DIR")))
	return true
}

// runChild runs a child on dir and returns what it saw.
func runChild(t *testing.T, name, dir string) map[string]string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HANDRAIL_STORE_CHILD="+name, "HANDRAIL_STORE_DIR="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("child %s: %v\n%s", name, err, stderr.Bytes())
	}
	saw := map[string]string{}
	if err := json.Unmarshal(out, &saw); err != nil {
		t.Fatalf("child %s printed %q: %v\n%s", name, out, err, stderr.Bytes())
	}
	return saw
}
