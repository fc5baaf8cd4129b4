package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"handrail": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			return nil
		},
		Cmds:     map[string]func(*testscript.TestScript, bool, []string){"serve": serve, "exits": exits, "await": await},
		TestWork: false,
	})
}

// exits runs handrail and checks its exit code: exits CODE ARG…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE ARG…")
	}
	err := ts.Exec("handrail", args[1:]...)
	got := "0"
	if code, ok := err.(interface{ ExitCode() int }); ok {
		got = strconv.Itoa(code.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("handrail %s ended with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// await waits until a file is there: await FILE
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not come", args[0])
		}
	}
}

// serve stands in for a gateway: it answers the routes of a file, each line
// "METHOD PATH STATUS FILE", notes what it was asked in requests.log, and leaves
// the address and token where the commands look. A route given several times
// answers in turn, the last one from then on.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve ROUTES")
	}
	type answer struct {
		status int
		body   string
	}
	var mu sync.Mutex // guards routes
	routes := map[string][]answer{}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		status, err := strconv.Atoi(f[2])
		ts.Check(err)
		routes[f[0]+" "+f[1]] = append(routes[f[0]+" "+f[1]], answer{status, ts.ReadFile(f[3])})
	}
	requests, err := os.Create(ts.MkAbs("requests.log"))
	ts.Check(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		key := r.Method + " " + r.URL.RequestURI()
		fmt.Fprintf(requests, "%s %s\n", key, body)
		if r.Header.Get("Authorization") != "Bearer hrt_test" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":"unauthenticated","message":"No valid token came with the request.","hint":"Get one."}}`)
			return
		}
		list, ok := routes[key]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":{"code":"not_found","message":"There is no such thing.","hint":"%s"}}`, key)
			return
		}
		if len(list) > 1 {
			routes[key] = list[1:]
		}
		w.WriteHeader(list[0].status)
		fmt.Fprint(w, list[0].body)
	})}
	go func() { _ = server.Serve(listener) }()
	ts.Defer(func() { _ = server.Close(); _ = requests.Close() })
	data := datadir.Dir(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "handrail"))
	ts.Check(data.Make(data.Gateway()))
	ts.Check(os.WriteFile(data.TokenPath(), []byte("hrt_test\n"), 0o600))
	ts.Check(data.WriteRunning(datadir.Running{HTTP: "http://" + listener.Addr().String(), PID: os.Getpid()}))
}
