package devtools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/runtime"
)

// A broken message costs the command or the event it belongs to; one that belongs to nobody
// is no browser's.
func TestBrokenMessages(t *testing.T) {
	for _, broken := range []string{
		`{"id":7,"result":{"a":{"\ud800":1,"\ud801":2}}}`, // two names in one: pages can do that
		`{"id":7,"result":{"a":1,"a":2}}`, `{"id":7,"error":{"code":"x"}}`, `{"id":7,"result":{"a"}`, `{"id":7,"result":"\`, `{"id":7,}`,
	} {
		c := New(OverPipe(strings.NewReader(broken+"\x00"+`{"id":8,"result":{}}`+"\x00"), io.Discard))
		hit := &Pending{conn: c, method: "M", done: make(chan struct{})}
		next := &Pending{conn: c, done: make(chan struct{})}
		c.pending[7], c.pending[8] = hit, next
		c.Run(func(string, []byte) {})
		if raw, err := hit.Wait(t.Context()); !errors.Is(err, ErrMessage) || raw != nil {
			t.Errorf("%s: %s, %v", broken, raw, err)
		}
		if raw, err := next.Wait(t.Context()); err != nil || string(raw) != "{}" {
			t.Errorf("after %s: %s, %v", broken, raw, err)
		}
	}
	for _, broken := range []string{`{"method":"E","params":{"a":{"\ud800":1,"\ud801":2}}}`, `{"method":"E","sessionId":"S","params":{"a"`} {
		c := New(OverPipe(strings.NewReader(broken+"\x00"+`{"method":"F","params":{"b":"\ud800"}}`+"\x00"), io.Discard))
		c.Open("S", func(method string, _ []byte) { t.Error(method) })
		var got []string
		if err := c.Run(func(method string, params []byte) { got = append(got, method+string(params)) }); !errors.Is(err, ErrClosed) || !slices.Equal(got, []string{`F{"b":"\ud800"}`}) {
			t.Errorf("%s: %q, %v", broken, got, err)
		}
	}
	for _, nobodys := range []string{`{`, `[]`, `{}`, `{"id":"x"}`, `{"id":0,"result":{}}`, `nul`, `7`, "\xff", `{"result":{}}`} {
		c := New(OverPipe(strings.NewReader(nobodys+"\x00"+`{"method":"F"}`+"\x00"), io.Discard))
		if err := c.Run(func(method string, _ []byte) { t.Error("after", nobodys, "came", method) }); err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", nobodys, err)
		}
	}
}

// From any bytes of the pipe a message is taken where there is one, as encoding/json
// reads it, or its error; none is skipped, and nothing panics.
func FuzzPipe(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"result":{"a":[1,"\\\""]}}` + "\x00" + `{"method":"m","params":{},"sessionId":"s"}` + "\x00", "\x00\x00" + `{"id":1,"error":{"code":-1,"message":"m"}}` + "\x00{",
		`{"id":`, `{"id":1,"result":"\` + "\x00", ` { "id" : 1 , "result" : { } } ` + "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		pipe := OverPipe(bytes.NewReader(in), io.Discard)
		all := bytes.Split(in, []byte{0})
		for _, raw := range all[:len(all)-1] {
			if len(bytes.TrimSpace(raw)) == 0 {
				continue
			}
			var m cdproto.Message
			err := pipe.Read(t.Context(), &m)
			var want map[string]json.RawMessage // encoding/json would take names in any case
			if err != nil || json.Unmarshal(raw, &want) != nil {
				continue
			}
			part := func(name string, into any) {
				if raw := want[name]; raw != nil && string(raw) != "null" && json.Unmarshal(raw, into) != nil {
					t.Fatalf("%q has a %s", raw, name)
				}
			}
			var id int64
			var method, session string
			part("id", &id)
			part("method", &method)
			part("sessionId", &session)
			if m.ID != id || string(m.Method) != method || string(m.SessionID) != session || !bytes.Equal(m.Result, want["result"]) || !bytes.Equal(m.Params, want["params"]) {
				t.Fatalf("%q: %+v", raw, m)
			}
		}
		var m cdproto.Message
		if err := pipe.Read(t.Context(), &m); err != io.EOF && err != io.ErrUnexpectedEOF || m.ID != 0 || m.Method != "" {
			t.Fatalf("%+v, %v after the end", m, err)
		}
	})
}

// fakeChrome answers on the other end of the pipe.
func fakeChrome(t *testing.T, answer func(request string) []string) (*Conn, func()) {
	toChrome, w := io.Pipe()
	r, fromChrome := io.Pipe()
	c := New(OverPipe(r, w))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(func(string, []byte) {})
		w.Close()
	}()
	go func() {
		br := bufio.NewReader(toChrome)
		for {
			request, err := br.ReadString(0)
			if err != nil {
				return
			}
			for _, a := range answer(strings.TrimSuffix(request, "\x00")) {
				if cut, ends := strings.CutSuffix(a, "EOF"); ends {
					io.WriteString(fromChrome, cut)
					fromChrome.Close()
					return
				}
				io.WriteString(fromChrome, a+"\x00")
			}
		}
	}()
	return c, func() { fromChrome.Close(); <-ended; toChrome.Close() }
}

func TestConn(t *testing.T) {
	var held []string
	c, stop := fakeChrome(t, func(request string) []string {
		var m struct {
			ID     int64 `json:"id"`
			Method string
		}
		json.Unmarshal([]byte(request), &m)
		id := string(json.RawMessage(mustJSON(m.ID)))
		switch {
		case strings.Contains(request, "first"): // answered after the second
			held = []string{`{"id":` + id + `,"result":{"result":{"type":"number","value":1}}}`}
			return nil
		case strings.Contains(request, "second"):
			return append([]string{`{"id":` + id + `,"result":{"result":{"type":"number","value":2}}}`, `{"method":"Nobody.cares","params":{}}`, `{"id":999,"result":{}}`}, held...)
		case strings.Contains(request, "refuse"):
			return []string{`{"id":` + id + `,"error":{"code":-32000,"message":"no"}}`}
		}
		return []string{`{"id":` + id + `,"result":{"EOF`} // it is killed within a message
	})
	defer stop()
	ctx := t.Context()
	ask := func(e string) Reply[runtime.EvaluateResult] {
		return Start(ctx, c.Root(), runtime.Evaluate, runtime.EvaluateParams{Expression: e})
	}
	first, second := ask("first"), ask("second")
	if r, err := first.Get(ctx); err != nil || string(r.Result.Value) != "1" {
		t.Fatal(r, err)
	}
	if r, err := second.Get(ctx); err != nil || string(r.Result.Value) != "2" {
		t.Fatal(r, err)
	}
	var refused *ProtocolError
	if _, err := ask("refuse").Get(ctx); !errors.As(err, &refused) || refused.Message != "no" {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	p := ask("first")
	if _, err := p.Get(gone); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	open := ask("first")
	ask("end")
	if _, err := open.Get(ctx); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := ask("later").Get(ctx); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func mustJSON(v any) []byte { b, _ := json.Marshal(v); return b }

func TestMessageBound(t *testing.T) {
	in := OverPipe(io.MultiReader(strings.NewReader(`{"id":1}`+"\x00"), zeros{}), io.Discard)
	var m cdproto.Message
	if err := in.Read(t.Context(), &m); err != nil || m.ID != 1 {
		t.Fatal(m, err)
	}
	if err := in.Read(t.Context(), &m); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Fatal("an endless message was read:", err)
	}
	// It counts anew for each message, however they lie in what is read.
	var many []io.Reader
	for range 3 {
		many = append(many, strings.NewReader(" "), io.LimitReader(zeros{}, MaxMessage*2/3), strings.NewReader("\x00"))
	}
	if n, err := io.Copy(io.Discard, &bounded{r: bufio.NewReaderSize(io.MultiReader(many...), 64<<10)}); err != nil || n != 3*(MaxMessage*2/3+2) {
		t.Error(n, err)
	}
}

// However the stream is cut, its messages are the same, and each is the caller's.
func TestMessages(t *testing.T) {
	t.Parallel()
	buffer := 64 << 10
	random := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		var sent []string
		var stream []byte
		for range 1 + random.IntN(12) {
			n := random.IntN(300)
			switch random.IntN(4) {
			case 0: // about as large as the buffer
				n = buffer - 40 + random.IntN(50)
			case 1:
				n = random.IntN(6 * buffer)
			}
			m := make([]byte, n)
			for i := range m {
				m[i] = byte('a' + random.IntN(26))
			}
			sent = append(sent, `"`+string(m)+`"`)
			stream = append(stream, `{"method":"m","params":"`+string(m)+"\"}\x00"...)
		}
		stream = append(stream, "cut of"...)
		most := []int{1, 100, buffer, 3 * buffer}[random.IntN(4)]
		in := &pieces{rest: stream, next: func() int { return 1 + random.IntN(most) }}
		var got [][]byte
		err := New(OverPipe(in, io.Discard)).Run(func(_ string, params []byte) { got = append(got, params) })
		if err != ErrClosed || !slices.EqualFunc(sent, got, func(s string, g []byte) bool { return s == string(g) }) {
			t.Fatalf("%d messages became %d (%v), pieces of at most %d", len(sent), len(got), err, most)
		}
	}
}

// pieces gives its bytes in pieces of the lengths that next says.
type pieces struct {
	rest []byte
	next func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.next())], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// zeros never ends, and never ends a message.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
