package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test's own program is started as a gateway or a conversation, too.
const (
	asVar  = "STANDALONE_TEST_AS"
	dirVar = "STANDALONE_TEST_DIR"
)

const patience = time.Minute

func TestMain(m *testing.M) {
	dir := os.Getenv(dirVar)
	switch os.Getenv(asVar) {
	case "gateway":
		err := At(dir).Serve(context.Background(), 300*time.Millisecond, func(ctx context.Context) error {
			note, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			fmt.Fprintln(note, os.Getpid())
			_ = note.Close()
			if err := os.WriteFile(filepath.Join(dir, "up"), nil, 0o600); err != nil {
				return err
			}
			fmt.Println("ready")
			<-ctx.Done()
			_ = os.Remove(filepath.Join(dir, "up")) // from here on nobody is served
			time.Sleep(300 * time.Millisecond)
			return os.WriteFile(filepath.Join(dir, "ended"), nil, 0o600)
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "refusal":
		fmt.Fprintln(os.Stderr, "it cannot start here\n  -> do this")
		os.Exit(7)
	case "conversation":
		if _, err := At(dir).Join(context.Background(), gateway(dir, "gateway")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("joined")
		select {}
	}
	os.Exit(m.Run())
}

// gateway is one that keeps its state in dir.
func gateway(dir, as string) Gateway {
	return Gateway{
		Command: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), asVar+"="+as, dirVar+"="+dir)
			return cmd
		},
		Up: func(context.Context) bool {
			_, err := os.Stat(filepath.Join(dir, "up"))
			return err == nil
		},
		Ready: func(said []byte) bool { return bytes.Contains(said, []byte("ready")) },
	}
}

// starts are the processes of all gateways of dir so far.
func starts(t *testing.T, dir string) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "starts"))
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, line := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func exists(path ...string) func() bool {
	return func() bool { _, err := os.Stat(filepath.Join(path...)); return err == nil }
}

func join(t *testing.T, dir string) *Share {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	s, err := At(dir).Join(ctx, gateway(dir, "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Leave)
	return s
}

// Many that begin at once share one gateway. It stays for the last of them, and ends then.
func TestManyShareOne(t *testing.T) {
	dir := t.TempDir()
	shares := make([]*Share, 8)
	var all sync.WaitGroup
	for i := range shares {
		all.Go(func() { shares[i], _ = At(dir).Join(t.Context(), gateway(dir, "gateway")) })
	}
	all.Wait()
	for i, s := range shares {
		if s == nil {
			t.Fatalf("%d has no gateway", i)
		}
	}
	for _, s := range shares[1:] {
		s.Leave()
	}
	time.Sleep(2 * unusedEvery) // in which a gateway that nobody uses ends
	if exists(dir, "ended")() {
		t.Error("it ended while one was there")
	}
	shares[0].Leave()
	await(t, "its end", exists(dir, "ended"))
	if n := len(starts(t, dir)); n != 1 {
		t.Errorf("%d gateways for %d conversations", n, len(shares))
	}
}

// A conversation that comes while a gateway ends waits for that, and has the next.
func TestOneThatComesWhileItEnds(t *testing.T) {
	dir := t.TempDir()
	join(t, dir).Leave()
	await(t, "it to be on its way", func() bool { return !exists(dir, "up")() })
	join(t, dir)
	if !exists(dir, "ended")() {
		t.Error("the next began before the one before it had ended")
	}
	if n := len(starts(t, dir)); n != 2 || !exists(dir, "up")() {
		t.Errorf("%d gateways", n)
	}
}

// A conversation that is killed leaves nothing behind that holds the gateway.
func TestAKilledConversationHasLeft(t *testing.T) {
	dir := t.TempDir()
	cmd := gateway(dir, "conversation").Command()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, len("joined"))
	if _, err := out.Read(word); err != nil || string(word) != "joined" {
		t.Fatalf("%q, %v", word, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await(t, "the gateway's end", exists(dir, "ended"))
}

// A gateway that was killed is started anew by a conversation that goes on.
func TestAKilledGatewayIsStartedAnew(t *testing.T) {
	dir := t.TempDir()
	s := join(t, dir)
	p, err := os.FindProcess(starts(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "up")); err != nil {
		t.Fatal(err)
	}
	if err := s.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(starts(t, dir)); n != 2 {
		t.Errorf("%d gateways", n)
	}
}

// A gateway whose folder was deleted ends, since nobody can join it.
func TestADeletedPlaceEndsItsGateway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "place")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	join(t, dir).Leave()
	p, err := os.FindProcess(starts(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	await(t, "the gateway's end", func() bool { return p.Signal(syscall.Signal(0)) != nil })
}

// Each conversation hears why a gateway refuses to start.
func TestARefusalIsTold(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		_, err := At(dir).Join(t.Context(), gateway(dir, "refusal"))
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Code != 7 || string(refused.Said) != "it cannot start here\n  -> do this\n" {
			t.Fatalf("%v %+v", err, refused)
		}
	}
}

// Nobody waits for longer than asked for.
func TestAWaitHasAnEnd(t *testing.T) {
	dir := t.TempDir()
	never := gateway(dir, "gateway")
	never.Ready = func([]byte) bool { return false }
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := At(dir).Join(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	await(t, "the end of a gateway that nobody waits for", exists(dir, "ended"))
}
