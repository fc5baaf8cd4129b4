package attack

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// One process without a token holds more connections than the gateway has, each with a
// request answered on it, and goes on opening: a person's stop and approvals, by a new
// connection each time, are answered as if nobody was there.
func TestIdleStrangersDoNotHoldUpStop(t *testing.T) {
	const strangers, within = 5000, 2 * time.Second
	a := enter(t, site.Options{})
	address := strings.TrimPrefix(a.URL(), "http://")
	held := make([]net.Conn, 0, strangers)
	t.Cleanup(func() {
		for _, c := range held {
			_ = c.Close()
		}
	})
	idle := func() {
		c, err := net.DialTimeout("tcp", address, within)
		if err != nil {
			t.Fatalf("stranger %d: %v", len(held), err)
		}
		held = append(held, c)
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err = fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
			t.Fatal(err)
		}
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("stranger %d: %v", len(held), err)
		}
	}
	for range strangers {
		idle()
	}
	person := a.MustToken("root", principal.RoleAdmin)
	a.client.Timeout = within
	for range 3 {
		for _, ask := range [][2]string{{"GET", "/v1/approvals"}, {"POST", "/v1/stop"}, {"POST", "/v1/resume"}} {
			a.client.CloseIdleConnections() // each by a connection of its own
			if status, body := a.do(person, ask[0], ask[1], map[string]string{"POST": "{}"}[ask[0]]); status != 200 {
				t.Errorf("%s: %d %s", ask[1], status, body)
			}
		}
		for range 200 {
			idle()
		}
	}
}
