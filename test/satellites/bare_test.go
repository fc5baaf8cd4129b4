package satellites

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/handrail-dev/handrail/test/bench/figures"
	"github.com/handrail-dev/handrail/test/site"
)

// beatSize is about the length of a heartbeat with its MAC.
const beatSize = 450

// bareServer is a NATS server over TLS with one who listens in the same process, as the gateway
// has it, and nothing else. It writes into a file where it listens, then what its speakers cost it.
func bareServer(file string) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	cert := web.TLS.Certificates[0]
	web.Close()
	alone := resident()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, NoSystemAccount: true, PingInterval: 20 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
	})
	fail(err)
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		fail(fmt.Errorf("the bare server does not listen"))
	}
	here, err := nats.Connect("", nats.InProcessServer(s))
	fail(err)
	var heard atomic.Int64
	_, err = here.Subscribe("beats.*", func(*nats.Msg) { heard.Add(1) })
	fail(err)
	fail(here.Flush())
	say := func(text string) {
		fail(os.WriteFile(file+".new", []byte(text), 0o600))
		fail(os.Rename(file+".new", file))
	}
	say(s.Addr().String())
	for s.NumClients() < many+1 || heard.Load() < many {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(10 * time.Second) // what joining left to do
	least := 100.0
	for range rounds {
		least = min(least, busy(watched))
	}
	say(fmt.Sprintf("cost %g %g", least, resident()-alone))
	select {}
}

// bareCrowd is many who each say something to a server as often as a satellite does.
func bareCrowd(addr string) {
	said := bytes.Repeat([]byte("x"), beatSize)
	for n := range many {
		c, err := nats.Connect("tls://"+addr, nats.Secure(&tls.Config{InsecureSkipVerify: true})) // measures, trusts nobody
		fail(err)
		go func() {
			for ; ; time.Sleep(5 * time.Second) {
				fail(c.Publish(fmt.Sprint("beats.", n), said))
			}
		}()
		time.Sleep(5 * time.Millisecond) // spread over the five seconds
	}
	select {}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bare returns what many speakers cost a bare server: of a core, in percent, and in MB.
func bare(b *testing.B) (percent, memory float64) {
	file := filepath.Join(b.TempDir(), "bare")
	text := func() string { data, _ := os.ReadFile(file); return string(data) }
	srv := process(b, "SATELLITES_BARE="+file)
	within(b, "a bare server", func() bool { return strings.Contains(text(), ":") })
	crowd := process(b, "SATELLITES_BARE_CROWD="+text())
	within(b, "what it costs", func() bool {
		n, _ := fmt.Sscanf(text(), "cost %g %g", &percent, &memory)
		return n == 2
	})
	for _, c := range []*os.Process{srv.Process, crowd.Process} {
		_ = c.Kill()
	}
	return percent, memory
}

// busy is how much of a core this process takes for a while, in percent.
func busy(d time.Duration) float64 {
	before, began := site.ProcessorTime(), time.Now()
	time.Sleep(d)
	return 100 * float64(site.ProcessorTime()-before) / float64(time.Since(began))
}

// resident is the memory of this process, in MB.
func resident() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	return float64(figures.Resident(os.Getpid())) / 1e6
}
