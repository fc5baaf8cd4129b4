//go:build linux

package confine

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test's process is confined for good, so it is another one.
func TestMain(m *testing.M) {
	switch os.Getenv("CONFINE_TEST") {
	case "":
		os.Exit(m.Run())
	case "memory":
		if err := Self(64 << 20); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		var kept [][]byte
		for range 4096 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
		}
		fmt.Println("took", len(kept), "MiB")
		os.Exit(0)
	}
	if err := Self(64 << 20); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, file := os.Open("/etc/hostname")
	_, create := os.Create("/tmp/confine-test")
	_, dial := net.Dial("tcp", "127.0.0.1:1")
	run := exec.Command("/bin/true").Run()
	for _, err := range []error{file, create, dial, run} {
		fmt.Println(err)
	}
	os.Exit(0)
}

func child(t *testing.T, mode string) (string, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"CONFINE_TEST=" + mode}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestNothingCanBeOpened(t *testing.T) {
	out, err := child(t, "open")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 4 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, what := range []string{"a file", "a new file", "a connection", "a program"} {
		if lines[i] == "<nil>" {
			t.Errorf("%s could be used", what)
		}
	}
	for _, i := range []int{0, 1, 2} {
		if !strings.Contains(lines[i], "too many open files") {
			t.Errorf("refused for another reason: %s", lines[i])
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	out, err := child(t, "memory")
	// Whoever asks the system in vain says so in his own words: the allocator, or
	// the race detector's.
	for _, refusal := range []string{"out of memory", "cannot allocate memory", "address space", "failed to allocate"} {
		if err != nil && strings.Contains(out, refusal) {
			return
		}
	}
	t.Fatalf("%v\n%.500s", err, out)
}
