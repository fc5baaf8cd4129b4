package boot

import (
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("HANDRAIL_BOOT_CHILD") != "" {
		os.Stdout.WriteString(ID())
		return
	}
	os.Exit(m.Run())
}

// Another process of the same run of the system finds the same ID.
func TestAnotherProcessFindsTheSame(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HANDRAIL_BOOT_CHILD=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := ID(); got != string(out) {
		t.Errorf("%q here, %q in another process", got, out)
	}
}
