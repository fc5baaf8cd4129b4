//go:build linux

package console

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/pion/turn/v5"

	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/live"
)

// turnServer is a real TURN server that relays from an address of its own.
type turnServer struct {
	url string
	mu  sync.Mutex // above what follows
	who map[string]bool
}

// relayIP is where it relays from: nobody else of a test is there, so what comes from
// elsewhere has no permission.
const relayIP = "127.0.0.2"

func startTURN(t *testing.T, secret live.TURNSecret, transport string) *turnServer {
	t.Helper()
	host := "127.0.0.1" // Chrome takes no way by loopback where there is another
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			host = n.IP.String()
		}
	}
	s := &turnServer{who: map[string]bool{}}
	config := turn.ServerConfig{Realm: "handrail.test"}
	from := &turn.RelayAddressGeneratorStatic{RelayAddress: net.ParseIP(relayIP), Address: relayIP}
	var at net.Addr
	if transport == "tcp" { // and nothing else: who would come by UDP meets nobody
		l, err := net.Listen("tcp4", net.JoinHostPort(host, "0"))
		must(t, err)
		at, config.ListenerConfigs = l.Addr(), []turn.ListenerConfig{{Listener: l, RelayAddressGenerator: from}}
	} else {
		conn, err := net.ListenPacket("udp4", net.JoinHostPort(host, "0"))
		must(t, err)
		at, config.PacketConnConfigs = conn.LocalAddr(), []turn.PacketConnConfig{{PacketConn: conn, RelayAddressGenerator: from}}
	}
	s.url = "turn:" + at.String() + "?transport=" + transport
	check := turn.LongTermTURNRESTAuthHandler(string(secret), nil)
	config.AuthHandler = func(a *turn.RequestAttributes) (string, []byte, bool) {
		user, key, ok := check(a)
		s.mu.Lock()
		_, name, _ := strings.Cut(a.Username, ":")
		s.who[name] = ok
		s.mu.Unlock()
		return user, key, ok
	}
	server, err := turn.NewServer(config)
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// Where viewer and node reach each other by no way of their own, a TURN server that both
// were told of carries the view, with credentials for each that the gateway made.
func TestWatchByRelay(t *testing.T) { watchByRelay(t, "udp") }

// The same where neither reaches the relay by UDP.
func TestWatchByRelayOverTCP(t *testing.T) { watchByRelay(t, "tcp") }

func watchByRelay(t *testing.T, transport string) {
	const secret = live.TURNSecret("shared with the relay alone")
	relay := startTURN(t, secret, transport)
	w := startWatchedBy(t, "320x208", func(o *gateway.Options) {
		o.ICE = live.ICEServers{URLs: []string{relay.url}, Secret: secret}
	})
	w.browser = startChrome(t)
	w.Grant("ann", w.node, "tool.live.screen")
	w.browser.open(w.URL() + "/healthz")
	must(t, w.run(receiver, nil))
	var offer string
	must(t, w.run(`whep.offer({ iceTransportPolicy: "relay" })`, &offer))
	answer, body := w.whep("POST", w.door(), "application/sdp", offer)
	if answer.StatusCode != 201 {
		t.Fatalf("POST: %d %s", answer.StatusCode, body)
	}
	link := answer.Header.Get("Link")
	parts := strings.Split(link, "\"")
	if !strings.HasPrefix(link, "<"+relay.url+`>; rel="ice-server"; username="`) || len(parts) != 9 || parts[7] != "password" || !strings.HasSuffix(parts[3], ":ann") || strings.Contains(link, string(secret)) {
		t.Fatalf("Link: %s", link)
	}
	servers, err := json.Marshal([]object{{"urls": relay.url, "username": parts[3], "credential": parts[5]}})
	must(t, err)
	var byRelay strings.Builder
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "a=candidate:") || strings.Contains(line, " "+relayIP+" ") && strings.Contains(line, " typ relay ") {
			byRelay.WriteString(line)
		}
	}
	if !strings.Contains(byRelay.String(), "a=candidate:") {
		t.Fatalf("the node has no address at the relay:\n%s", body)
	}
	must(t, w.run(fmt.Sprintf(`(async () => {
		whep.pc.setConfiguration({ iceServers: %s, iceTransportPolicy: "relay" });
		await whep.pc.setLocalDescription(whep.made);
		await whep.pc.setRemoteDescription({ type: "answer", sdp: %q });
		whep.video.play();
	})()`, servers, byRelay.String()), nil))
	w.await("whep.gathered")
	var found []string
	must(t, w.run("whep.found", &found))
	if len(found) == 0 {
		t.Fatal("the viewer has no address at the relay")
	}
	if answer, body := w.whepOf(answer.Header.Get("ETag"), "PATCH", answer.Header.Get("Location"), fragmentType, strings.Join(found, "\r\n")); answer.StatusCode != 204 {
		t.Fatalf("PATCH: %d %s", answer.StatusCode, body)
	}
	w.await("whep.frames > 0 && whep.video.videoWidth === 320")
	var way string
	must(t, w.run(`whep.pc.getStats().then((all) => {
		const pair = [...all.values()].find((s) => s.type === "candidate-pair" && s.nominated && s.state === "succeeded");
		return all.get(pair.localCandidateId).candidateType + " " + all.get(pair.remoteCandidateId).candidateType;
	})`, &way))
	if way != "relay relay" {
		t.Errorf("it goes by %s", way)
	}
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if !relay.who["ann"] || !relay.who["node-"+string(w.node.ID)] {
		t.Errorf("the relay let in %v", relay.who)
	}
}
