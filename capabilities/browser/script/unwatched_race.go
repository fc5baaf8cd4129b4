//go:build race

package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// unwatchedGuest is all that a guest needs to be.
const unwatchedGuest = `package main

import (
	"github.com/handrail-dev/handrail/capabilities/browser/script"
	"github.com/handrail-dev/handrail/platform/confine"
)

func main() { script.Main(confine.Self) }
`

// Unwatched builds the program whose processes are guests from here on. Watched
// for races, the engine is twenty times slower and meets neither the bounds nor
// the depths that it has in the product. This side of the pipe stays watched.
func Unwatched() (end func(code int)) {
	fail := func(err error, out []byte) {
		fmt.Fprintf(os.Stderr, "building guests that are not watched for races: %v\n%s", err, out)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "handrail-guest-")
	if err != nil {
		fail(err, nil)
	}
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "guest.exe")
	// Guests have an account of their own, which has to reach it.
	err = os.Chmod(dir, 0o755)
	if err == nil {
		err = os.WriteFile(source, []byte(unwatchedGuest), 0o600)
	}
	var out []byte
	if err == nil {
		cmd := exec.Command("go", "build", "-race=false", "-ldflags=-s -w", "-o", program, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err = cmd.CombinedOutput()
	}
	if err == nil {
		err = os.Chmod(program, 0o755)
	}
	if err != nil {
		os.RemoveAll(dir)
		fail(err, out)
	}
	guestPath = func() (string, error) { return program, nil }
	return func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}
}
