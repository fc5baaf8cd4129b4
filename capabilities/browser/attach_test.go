//go:build linux

package browser

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/remote"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// acceptKey is a server's proof that it speaks WebSocket (RFC 6455, 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// debugging answers as Chrome's debugging port does, but for what speak does with a
// connection once it is open. It wants no Origin, as Chrome does.
func debugging(t *testing.T, speak func(c net.Conn, from *bufio.Reader)) *httptest.Server {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/json/version":
			io.WriteString(w, `{"webSocketDebuggerUrl":"ws://elsewhere.test:1/devtools/browser/1"}`) // of it the path counts
		case r.URL.Path != "/devtools/browser/1" || r.Host != s.Listener.Addr().String() || r.Header.Get("Origin") != "":
			t.Errorf("asked for %s of %s from %q", r.URL, r.Host, r.Header.Get("Origin"))
			w.WriteHeader(403)
		default:
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+acceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n")
			speak(c, rw.Reader)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// socketFrame is a whole message of a server.
func socketFrame(op byte, payload string) string {
	head := []byte{0x80 | op, byte(len(payload))}
	if len(payload) > 125 {
		head = binary.BigEndian.AppendUint64([]byte{0x80 | op, 127}, uint64(len(payload)))
	}
	return string(head) + payload
}

// A call ends, and says so, whatever answers where the owner says that a Chrome is.
func TestAttachToWhatIsNoChrome(t *testing.T) {
	t.Parallel()
	says := func(what string) func(*testing.T) *httptest.Server {
		return func(t *testing.T) *httptest.Server {
			return debugging(t, func(c net.Conn, from *bufio.Reader) {
				io.WriteString(c, what)
				io.Copy(io.Discard, from) // until the other side lets go
			})
		}
	}
	cut := func(what string) func(*testing.T) *httptest.Server {
		return func(t *testing.T) *httptest.Server {
			return debugging(t, func(c net.Conn, _ *bufio.Reader) { io.WriteString(c, what) })
		}
	}
	answers := func(h http.HandlerFunc) func(*testing.T) *httptest.Server {
		return func(t *testing.T) *httptest.Server {
			s := httptest.NewServer(h)
			t.Cleanup(s.Close)
			return s
		}
	}
	upgrade := func(status int, headers ...string) func(*testing.T) *httptest.Server {
		return answers(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/json/version" {
				io.WriteString(w, `{"webSocketDebuggerUrl":"ws://x/devtools/browser/1"}`)
				return
			}
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
		})
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Error("a redirect was followed to", r.URL)
	}))
	t.Cleanup(elsewhere.Close)
	for name, make := range map[string]func(*testing.T) *httptest.Server{
		"no JSON": answers(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }),
		"endless JSON": answers(func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, io.MultiReader(strings.NewReader(`{"a":"`), zeros{}))
		}),
		"no socket":             answers(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) }),
		"a redirect":            answers(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }),
		"a redirect of sockets": upgrade(http.StatusFound, "Location", elsewhere.URL),
		"a refusal":             upgrade(http.StatusForbidden),
		"no proof":              upgrade(http.StatusSwitchingProtocols, "Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Accept", "AAAA"),
		"noise":                 says("\xff\x80\x00noise"),
		"a reserved bit":        says("\xc1\x01{"),
		"a mask":                says("\x81\x81\x00\x00\x00\x00{"),
		"more of nothing":       says("\x80\x01{"),
		"a huge frame":          says("\x81\x7f\x00\x00\x01\x00\x00\x00\x00\x00{"),
		"half a message":        cut("\x01\x08{\"id\":1,"),
		"a length that ends":    cut("\x81\x7e\x10"),
		"bytes":                 says(socketFrame(2, `{"id":1,"result":{}}`)),
		"no JSON in a frame":    says(socketFrame(1, `{"id"`)),
		"nothing":               cut(""),
		"nobody's message":      says(socketFrame(1, `{}`)),
		"an empty message":      says(socketFrame(1, ``)),
		"a farewell":            says(socketFrame(8, "")),
		"a refusal of commands": says(socketFrame(1, `{"id":1,"error":{"code":-1,"message":"no"}}`) + socketFrame(1, `{"id":2,"error":{"code":-1,"message":"no"}}`)),
		"answers of nothing":    says(socketFrame(1, `{"id":1,"result":7}`)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := make(t)
			o, log := options(t)
			o.Attach = s.URL
			h, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			n := &node{t: t, h: h, lane: "lane-1", log: log}
			n.refused(capabilities.CodeBrowserUnavailable, "launch", obj{"attach": true})
		})
	}
}

// A call that waits for what never answers ends with the call, and another's does not wait.
func TestAttachToSilence(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"before the handshake": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := make(chan struct{})
			var s *httptest.Server
			if open {
				s = debugging(t, func(_ net.Conn, from *bufio.Reader) {
					from.Peek(1)
					close(reached)
					io.Copy(io.Discard, from)
				})
			} else {
				s = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					close(reached)
					<-r.Context().Done()
				}))
				t.Cleanup(s.Close)
			}
			o, log := options(t)
			o.Attach = s.URL
			h, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			n := &node{t: t, h: h, lane: "lane-1", log: log}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { <-reached; cancel() }()
			if _, err := n.within(ctx, "launch", obj{"attach": true}); err == nil || ctx.Err() == nil {
				t.Error("it is connected to nobody:", err)
			}
		})
	}
}

// Over a socket, too, a Chrome that dies within a message takes its calls with it, a huge
// message ends the connection, and a broken one costs its command alone.
func TestSocketEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says string
		gone bool // as a browser that ended
	}{
		"within a frame":   {"\x81\x40{\"id\":3,", true},
		"within a message": {"\x01\x08{\"id\":3,", true},
		"too large":        {"\x81\x7f\x00\x00\x00\x00\x20\x00\x00\x00{", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := debugging(t, func(conn net.Conn, from *bufio.Reader) {
				for range 3 { // what it does not read would be a reset
					var head [2]byte
					io.ReadFull(from, head[:])
					from.Discard(4 + int(head[1]&127))
				}
				io.WriteString(conn, socketFrame(1, `{"id":1,"result":{"a":1,"a":2}}`)+socketFrame(9, "p")+socketFrame(1, `{"id":2,"result":{}}`)+c.says)
				if c.gone {
					conn.(*net.TCPConn).CloseWrite()
				}
				io.Copy(io.Discard, from)
			})
			ws, err := remote.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/devtools/browser/1")
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Close()
			conn := devtools.New(ws)
			var waits []*devtools.Pending
			for range 3 {
				waits = append(waits, conn.Root().Send(t.Context(), "M", obj{}))
			}
			err = conn.Run(func(string, []byte) {})
			if errors.Is(err, devtools.ErrClosed) != c.gone {
				t.Error(err)
			}
			if _, err := waits[0].Wait(t.Context()); !errors.Is(err, devtools.ErrMessage) {
				t.Error("the broken one:", err)
			}
			if raw, err := waits[1].Wait(t.Context()); string(raw) != "{}" || err != nil {
				t.Error(string(raw), err)
			}
			if _, end := waits[2].Wait(t.Context()); end != err {
				t.Error("the last:", end, "want", err)
			}
		})
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
