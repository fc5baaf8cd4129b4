package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/store"
)

// childMode runs what a test wants in a process of its own.
func childMode() bool {
	if path := os.Getenv("HANDRAIL_LEDGER_CHILD"); path != "" {
		appendForever(path)
		return true
	}
	return false
}

// appendForever records calls from many goroutines and prints the ID of each one
// that it was told is durable, until it is killed.
func appendForever(path string) {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Options{Path: path, Migrations: Migrations, ReserveBytes: -1})
	if err != nil {
		panic(err)
	}
	l, err := Open(ctx, Options{Store: s, Chain: "gateway-1", Key: testKey(1), SegmentEntries: 500})
	if err != nil {
		panic(err)
	}
	go s.Run(ctx)
	go l.Run(ctx)
	start, _ := l.Tip()
	for c := range 16 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("call-%d-%d-%d", start, c, i)
				if i%7 == 3 { // a failing neighbour in the same groups
					s.Write(ctx, func(tx *store.Tx) error {
						l.AppendIn(tx, call("lost")...)
						return capabilities.Errorf(capabilities.CodeConflict, "no")
					})
				}
				if err := l.Append(ctx, call(id)...); err != nil {
					panic(err)
				}
				os.Stdout.WriteString(id + "\n") // one write: lines do not mix
			}
		}()
	}
	select {}
}

// TestKill kills the process that writes, again and again, and looks whether
// everything it acknowledged is there.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	acknowledged := map[string]bool{}
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HANDRAIL_LEDGER_CHILD="+path)
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
			if n == 300*(round+1) {
				cmd.Process.Kill()
			}
			acknowledged[lines.Text()] = true
		}
		if cmd.Wait(); stderr.Len() > 0 {
			t.Fatalf("the child failed: %s", stderr.Bytes())
		}

		s := openStore(t, path)
		l := openOn(t, s, Options{})
		walk(t, l)
		recorded := map[string]int{}
		if err := l.scan(t.Context(), "ORDER BY seq", nil, func(p *Packet) error { recorded[string(p.Call)]++; return nil }); err != nil {
			t.Fatal(err)
		}
		for id := range acknowledged {
			if recorded[id] != 4 {
				t.Fatalf("round %d: %s was acknowledged and has %d packets", round, id, recorded[id])
			}
		}
		for id, n := range recorded {
			if n != 4 || id == "lost" {
				t.Fatalf("round %d: %s has %d packets", round, id, n)
			}
		}
		if _, err := Verify(bytes.NewReader(export(t, l)), Pins{Keys: []chain.Key{l.Key()}, Heads: []chain.Head{l.Head()}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: %d acknowledged, %d recorded", round, len(acknowledged), len(recorded))
	}
}

func TestPacketJSON(t *testing.T) {
	b, err := json.Marshal(Packet{Seq: 1, TimeUS: 2, Kind: "x.y", Body: json.RawMessage("{}")})
	if err != nil || strings.Contains(string(b), "call_id") || !strings.Contains(string(b), `"body":{}`) {
		t.Errorf("%s, %v", b, err)
	}
}
