package geoclue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

const patience = 45 * time.Second

// real is a private system bus for the real GeoClue, with a receiver for satellites
// that this test plays.
type real struct {
	t   testing.TB
	dir string
	bus string

	mu      sync.Mutex
	silent  bool
	waiting map[net.Conn]bool
}

const busConfig = `<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/><allow receive_sender="*" eavesdrop="true"/></policy></busconfig>`

const geoclueConfig = `[agent]
whitelist=geoclue-demo-agent
[network-nmea]
enable=true
nmea-socket=%s
[3g]
enable=false
[cdma]
enable=false
[modem-gps]
enable=false
[wifi]
enable=false
[handrail]
allowed=%v
system=true
users=
`

const (
	geoclueProgram = "/usr/libexec/geoclue"
	agentProgram   = "/usr/libexec/geoclue-2.0/demos/agent"
)

func start(t testing.TB, allowed, agent bool) *real {
	t.Helper()
	for _, p := range []string{geoclueProgram, agentProgram, "/usr/bin/dbus-daemon", "/usr/bin/bwrap"} {
		if _, err := os.Stat(p); err != nil {
			t.Skipf("%s is not here (packages geoclue-2.0, dbus, bubblewrap): .ci/setup test", p)
		}
	}
	if out, err := exec.Command("bwrap", "--dev-bind", "/", "/", "true").CombinedOutput(); err != nil {
		t.Skipf("GeoClue reads its settings from /etc alone, and nobody may put others there without a namespace of their own: %s", out)
	}
	r := &real{t: t, dir: t.TempDir(), waiting: map[net.Conn]bool{}}
	socket, nmea, config := filepath.Join(r.dir, "bus"), filepath.Join(r.dir, "nmea"), filepath.Join(r.dir, "geoclue.conf")
	r.bus = "unix:path=" + socket
	r.write("bus.conf", fmt.Sprintf(busConfig, socket))
	r.write("geoclue.conf", fmt.Sprintf(geoclueConfig, nmea, allowed))
	r.satellites(nmea)
	r.run("dbus-daemon", "--config-file="+filepath.Join(r.dir, "bus.conf"), "--nofork", "--nopidfile")
	r.await("the bus", func() bool { // its socket is there a moment before anybody listens at it
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	r.run("bwrap", "--dev-bind", "/", "/", "--bind", config, "/etc/geoclue/geoclue.conf", "--die-with-parent", geoclueProgram)
	if agent {
		r.run(agentProgram)
	}
	r.await("GeoClue", func() bool { return (&Source{Bus: r.bus}).Usable(context.Background()) == nil })
	return r
}

func (r *real) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) run(name string, args ...string) {
	r.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+r.bus)
	out := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if r.t.Failed() {
			r.t.Logf("%s: %s", name, out)
		}
	})
}

func (r *real) await(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s did not come", what)
		}
	}
}

// satellites speaks NMEA to whoever connects, as a receiver does: each second.
func (r *real) satellites(path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		r.t.Fatal(err)
	}
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				tick := time.NewTicker(200 * time.Millisecond)
				defer tick.Stop()
				w := bufio.NewWriter(c)
				for {
					r.mu.Lock()
					silent := r.silent
					r.mu.Unlock()
					if !silent {
						line := fmt.Sprintf("GPGGA,%s,4851.396,N,00221.132,E,1,08,0.9,35.0,M,46.9,M,,", time.Now().UTC().Format("150405.00"))
						sum := byte(0)
						for i := range len(line) {
							sum ^= line[i]
						}
						fmt.Fprintf(w, "$%s*%02X\r\n", line, sum)
						if w.Flush() != nil {
							return
						}
					}
					select {
					case <-tick.C:
					case <-ended:
						return
					}
				}
			})
		}
	})
	r.t.Cleanup(func() { close(ended); _ = l.Close(); wg.Wait() })
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// The real GeoClue tells what its receiver says.
func TestPosition(t *testing.T) {
	r := start(t, true, true)
	s := &Source{Bus: r.bus}
	// The agent may still be on its way when the service is there.
	var p platform.Position
	r.await("a position", func() (ok bool) {
		var err error
		if p, err = s.Locate(within(t, patience), true, time.Now().Add(-5*time.Second)); err != nil && !errors.Is(err, platform.ErrNoLocationAgent) {
			t.Fatal(err)
		}
		return err == nil
	})
	if p.Latitude < 48.8565 || p.Latitude > 48.8567 || p.Longitude < 2.3521 || p.Longitude > 2.3523 || p.Altitude == nil || *p.Altitude != 35 {
		t.Errorf("%+v", p)
	}
	if p.Heading != nil || p.Speed != nil || time.Since(p.At).Abs() > patience {
		t.Errorf("%+v", p)
	}
	// One that must be newer than any: the wait is the caller's.
	if _, err := s.Locate(within(t, time.Second), true, time.Now().Add(time.Hour)); !errors.Is(err, platform.ErrNoFix) {
		t.Errorf("a position of the future: %v", err)
	}
}

// BenchmarkPosition asks where a fix is at hand.
func BenchmarkPosition(b *testing.B) {
	r := start(b, true, true)
	s := &Source{Bus: r.bus}
	locate := func() error {
		_, err := s.Locate(within(b, patience), true, time.Now().Add(-5*time.Second))
		return err
	}
	r.await("a position", func() bool { return locate() == nil })
	for b.Loop() {
		if err := locate(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNoAgent(t *testing.T) {
	r := start(t, true, false)
	if _, err := (&Source{Bus: r.bus}).Locate(within(t, patience), true, time.Now()); !errors.Is(err, platform.ErrNoLocationAgent) {
		t.Errorf("%v", err)
	}
}

func TestRefused(t *testing.T) {
	r := start(t, false, true)
	var err error
	r.await("an agent", func() bool {
		_, err = (&Source{Bus: r.bus}).Locate(within(t, patience), true, time.Now())
		return !errors.Is(err, platform.ErrNoLocationAgent)
	})
	if !errors.Is(err, platform.ErrLocationRefused) {
		t.Errorf("%v", err)
	}
}

func TestNothingThere(t *testing.T) {
	var missing *platform.MissingError
	s := &Source{Bus: "unix:path=" + filepath.Join(t.TempDir(), "none")}
	if err := s.Usable(t.Context()); !errors.As(err, &missing) || missing.Fix == "" {
		t.Errorf("%v", err)
	}
	if _, err := s.Locate(t.Context(), false, time.Now()); !errors.As(err, &missing) {
		t.Errorf("%v", err)
	}
}
