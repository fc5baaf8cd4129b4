//go:build unix

package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// crowdEnv names, in the process that crowd starts, the folder with its pastes.
const crowdEnv = "HANDRAIL_TEST_CROWD"

// crowd starts so many node agents in a process of their own, and waits until the gateway has them
// all. The function that it returns tells the processor time of that process.
func crowd(t *testing.T, d *desk, size int) (spent func() time.Duration) {
	t.Helper()
	dir := t.TempDir()
	texts := make([]string, size)
	for i := range texts {
		_, paste, err := d.Nodes.Invite(context.Background(), nodes.InviteSpec{By: "admin", Label: fmt.Sprintf("node-%d", i+1), Trust: "test", AutoApprove: true, Allow: []string{"*"}})
		must(t, err)
		paste.Addrs = []string{d.QUICAddr().String()}
		texts[i], err = paste.Encode()
		must(t, err)
	}
	raw, err := json.Marshal(texts)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "pastes"), raw, 0o600))
	self, err := os.Executable()
	must(t, err)
	child := exec.Command(self, "-test.run", "^TestCrowd$", "-test.timeout", "20m")
	child.Env, child.Stderr = append(os.Environ(), crowdEnv+"="+dir), os.Stderr
	in, err := child.StdinPipe()
	must(t, err)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	t.Cleanup(func() { _ = in.Close(); _ = child.Wait() })
	answers := bufio.NewScanner(out)
	spent = func() time.Duration {
		_, err := fmt.Fprintln(in, "time")
		must(t, err)
		for answers.Scan() {
			if rest, ok := strings.CutPrefix(answers.Text(), "spent "); ok {
				n, err := strconv.ParseInt(rest, 10, 64)
				must(t, err)
				return time.Duration(n)
			}
		}
		t.Fatalf("the process with the nodes ended: %v", answers.Err())
		return 0
	}
	d.Await("all nodes to be ready", func() bool {
		ready := 0
		for _, r := range d.Nodes.Snapshot() {
			if r.Connected && len(r.Readiness) > 0 {
				ready++
			}
		}
		return ready == size+1
	})
	return spent
}

// TestCrowd is the process that crowd starts.
func TestCrowd(t *testing.T) {
	dir := os.Getenv(crowdEnv)
	if dir == "" {
		t.Skip("only a process of its own, for TestFigures")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "pastes"))
	must(t, err)
	var texts []string
	must(t, json.Unmarshal(raw, &texts))
	cat, err := site.Catalog()
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, text := range texts {
		running.Go(func() {
			if err := crowdNode(ctx, cat, filepath.Join(dir, strconv.Itoa(i)), text, slots); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		fmt.Printf("spent %d\n", processor())
	}
	cancel()
	running.Wait()
}

// crowdNode joins a gateway and runs until ctx ends; slots bounds how many join at once.
func crowdNode(ctx context.Context, cat *catalog.Catalog, dir, text string, slots chan struct{}) error {
	paste, err := pairing.ParsePaste(text)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	hs := []capabilities.Handler{site.NewHandler()}
	slots <- struct{}{}
	_, err = link.Join(ctx, paste, link.JoinOptions{Dir: dir, Profile: pairing.Profile{Host: "crowd", Offers: agent.Offers(hs)}})
	<-slots
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{Dir: dir, Handlers: hs, Catalog: cat, Addrs: paste.Addrs, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
