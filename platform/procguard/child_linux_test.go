package procguard

import (
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Both ways of finding what is below a process find the same: children, and theirs.
func TestDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & sh -c 'sleep 1000 & wait' & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, pid := range descendants(cmd.Process.Pid) {
			_ = exec.Command("kill", "-9", strconv.Itoa(pid)).Run()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	sorted := func(all []int) []int { slices.Sort(all); return all }
	for until := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		told, read := sorted(closure(cmd.Process.Pid, startedBy)), sorted(closure(cmd.Process.Pid, parents()))
		if len(told) == 3 && slices.Equal(told, read) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("threads tell of %v, processes of %v", told, read)
		}
	}
}
