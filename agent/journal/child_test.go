package journal

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// children are what tests run in a process of their own.
var children = map[string]func(dir string){"forever": startForever}

// childMode runs one of children.
func childMode() bool {
	run, ok := children[os.Getenv("HANDRAIL_JOURNAL_CHILD")]
	if ok {
		run(os.Getenv("HANDRAIL_JOURNAL_DIR"))
	}
	return ok
}

func child(name, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HANDRAIL_JOURNAL_CHILD="+name, "HANDRAIL_JOURNAL_DIR="+dir)
	return cmd
}

// longOptions keep every segment: of a pruned call nothing is known any more.
func longOptions(dir string) Options {
	o := options(dir)
	o.Segments = 1000
	return o
}

// startForever starts and finishes calls from many goroutines and prints each
// thing once the journal said so, until it is killed.
func startForever(dir string) {
	ctx := context.Background()
	j, err := Open(longOptions(dir))
	if err != nil {
		panic(err)
	}
	go j.Run(ctx)
	from := j.tail.seq
	for c := range 16 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("call-%d-%d-%d", from, c, i)
				if err := j.Started(ctx, ticket(id)); err != nil {
					panic(err)
				}
				os.Stdout.WriteString("started " + id + "\n") // one write: lines do not mix
				if i%3 == 0 {
					continue
				}
				if err := j.Finished(capabilities.CallID(id), answer(id)); err != nil {
					panic(err)
				}
				os.Stdout.WriteString("finished " + id + "\n")
			}
		}()
	}
	select {}
}

// TestKill kills the process that writes, again and again, and looks whether
// everything it said is known.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	o := longOptions(dir)
	told := map[string]wire.CallState{}
	for round := range 4 {
		cmd := child("forever", dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if n == 700*(round+1) {
				cmd.Process.Kill()
			}
			var what, id string
			if _, err := fmt.Sscan(lines.Text(), &what, &id); err != nil {
				t.Fatal(err)
			}
			if what == "finished" {
				told[id] = wire.StateFinished
			} else {
				told[id] = wire.StateUnknown // started, and its process is gone
			}
		}
		if cmd.Wait(); stderr.Len() > 0 {
			t.Fatalf("the child failed: %s", stderr.Bytes())
		}
		j, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range told {
			got := state(j, id).State
			// A finish may have been recorded and not printed any more.
			if got != want && !(want == wire.StateUnknown && got == wire.StateFinished) {
				t.Errorf("round %d: %s is %q, want %q", round, id, got, want)
			}
		}
		wantState(t, j, "never", wire.StateNeverStarted) // the system goes on: nothing is lost
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %d calls, %d records in %d segments", round, len(told), j.tail.seq, len(j.files))
	}
}
