package satellites

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/handrail-dev/handrail/satellite"
)

// The test binary is also a satellite, or a nats-server, in a process of its own that a test can
// kill.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("SATELLITES_SERVER") != "":
		serve(os.Getenv("SATELLITES_SERVER"))
	case os.Getenv("SATELLITES_CHILD") != "":
		child()
	case os.Getenv("SATELLITES_BARE") != "":
		bareServer(os.Getenv("SATELLITES_BARE"))
	case os.Getenv("SATELLITES_BARE_CROWD") != "":
		bareCrowd(os.Getenv("SATELLITES_BARE_CROWD"))
	case os.Getenv("SATELLITES_CROWD") != "":
		crowd(os.Getenv("SATELLITES_CROWD"))
	default:
		os.Exit(m.Run())
	}
}

// serve is the nats-server as its own program has it, with a configuration file.
func serve(config string) {
	o, err := server.ProcessConfigFile(config)
	if err == nil {
		var s *server.Server
		if s, err = server.NewServer(o); err == nil {
			s.ConfigureLogger()
			s.Start()
			s.WaitForShutdown()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is a satellite that writes a line into a file when a call begins, and then waits.
func child() {
	var o struct{ Dir, Paste, Log string }
	if err := json.Unmarshal([]byte(os.Getenv("SATELLITES_CHILD")), &o); err != nil {
		panic(err)
	}
	err := satellite.Run(context.Background(), satellite.Options{
		Name: "slow", Dir: o.Dir, Paste: o.Paste, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Tools: []satellite.Tool{{
			Name: "work", Description: "Works.",
			Run: func(ctx context.Context, c satellite.Call) (satellite.Result, error) {
				f, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					return satellite.Result{}, err
				}
				fmt.Fprintln(f, c.ID)
				_ = f.Close()
				<-ctx.Done()
				return satellite.Result{}, ctx.Err()
			},
		}},
	})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// process starts the test binary as something else; it is gone with the test.
func process(t testing.TB, env string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), env), testLog{t}
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

type testLog struct{ t testing.TB }

func (w testLog) Write(p []byte) (int, error) { w.t.Logf("%s", p); return len(p), nil }

// within waits for something that nobody tells of, for as long as a test may take.
func within(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}
