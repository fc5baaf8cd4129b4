package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// What is broken costs the command or the event it belongs to; what belongs to nobody is
// no browser's.
func TestBrokenMessages(t *testing.T) {
	for _, broken := range []string{
		`{"id":7,"result":{"a":{"\ud800":1,"\ud801":2}}}`, // two names in one: pages can do that
		`{"id":7,"result":{"a":1,"a":2}}`, `{"id":7,"error":{"code":"x"}}`, `{"id":7,"result":{"a"}`, `{"id":7,"result":"\`, `{"id":7,}`,
	} {
		c := newConn(overPipe(strings.NewReader(broken+"\x00"+`{"id":8,"result":{}}`+"\x00"), io.Discard))
		hit := &pending{conn: c, method: "M", done: make(chan struct{})}
		next := &pending{conn: c, done: make(chan struct{})}
		c.pending[7], c.pending[8] = hit, next
		c.run(func(string, []byte) {})
		if raw, err := hit.wait(t.Context()); !errors.Is(err, errMessage) || raw != nil {
			t.Errorf("%s: %s, %v", broken, raw, err)
		}
		if raw, err := next.wait(t.Context()); err != nil || string(raw) != "{}" {
			t.Errorf("after %s: %s, %v", broken, raw, err)
		}
	}
	for _, broken := range []string{`{"method":"E","params":{"a":{"\ud800":1,"\ud801":2}}}`, `{"method":"E","sessionId":"S","params":{"a"`} {
		c := newConn(overPipe(strings.NewReader(broken+"\x00"+`{"method":"F","params":{"b":"\ud800"}}`+"\x00"), io.Discard))
		c.open("S", func(method string, _ []byte) { t.Error(method) })
		var got []string
		if err := c.run(func(method string, params []byte) { got = append(got, method+string(params)) }); !errors.Is(err, errConnClosed) || !slices.Equal(got, []string{`F{"b":"\ud800"}`}) {
			t.Errorf("%s: %q, %v", broken, got, err)
		}
	}
	for _, nobodys := range []string{`{`, `[]`, `{}`, `{"id":"x"}`, `{"id":0,"result":{}}`, `nul`, `7`, "\xff", `{"result":{}}`} {
		c := newConn(overPipe(strings.NewReader(nobodys+"\x00"+`{"method":"F"}`+"\x00"), io.Discard))
		if err := c.run(func(method string, _ []byte) { t.Error("after", nobodys, "came", method) }); err == nil || errors.Is(err, errConnClosed) {
			t.Errorf("%s: %v", nobodys, err)
		}
	}
}

// Whatever comes down the pipe, what is taken from it is what our own reader took.
func FuzzPipe(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"result":{"a":[1,"\\\""]}}` + "\x00" + `{"method":"m","params":{},"sessionId":"s"}` + "\x00", "\x00\x00" + `{"id":1,"error":{"code":-1,"message":"m"}}` + "\x00{",
		`{"id":`, `{"id":1,"result":"\` + "\x00", ` { "id" : 1 , "result" : { } } ` + "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		now, before := overPipe(bytes.NewReader(in), io.Discard), messages{r: bytes.NewReader(in)}
		for {
			raw, end := before.next()
			if len(bytes.TrimSpace(raw)) == 0 && end == nil {
				continue
			}
			var m cdproto.Message
			err := now.Read(t.Context(), &m)
			if end != nil {
				if err == nil || m.ID != 0 || m.Method != "" {
					t.Fatalf("%+v, %v after the end", m, err)
				}
				return
			}
			same(t, raw, &m, err)
		}
	})
}

// same compares a message as chromedp decodes it with our own reading of it.
func same(t *testing.T, raw []byte, m *cdproto.Message, err error) {
	t.Helper()
	want, wantErr := scanMessage(raw)
	named := m.ID != 0 || m.Method != ""
	if strings.Contains(string(raw), `\u`) {
		return // names are unescaped now
	}
	switch {
	case err != nil && wantErr == nil:
		var shape cdproto.Message
		if jsonv2.Unmarshal(raw, &shape, chromedp.DefaultUnmarshalOptions) == nil {
			t.Fatalf("%q: %v", raw, err)
		}
	case err == nil && named && wantErr == nil:
		if m.ID != want.id || string(m.Method) != want.method || string(m.SessionID) != want.session || (m.Error == nil) != (want.fault == nil || string(want.fault) == "null") {
			t.Fatalf("%q: %+v, want %+v", raw, m, want)
		}
		if part := append(bytes.Clone(m.Result), m.Params...); want.result != nil && (m.Result == nil || m.Params == nil) && !bytes.Equal(part, want.result) {
			t.Fatalf("%q: part %q, want %q", raw, part, want.result)
		}
	}
}

func FuzzUnescape(f *testing.F) {
	f.Add("ü\U0001F642\"\\\n日本")
	f.Fuzz(func(t *testing.T, s string) {
		escaped := []byte{'"'}
		for _, r := range s { // as Chrome writes it: everything but ASCII escaped
			q, _ := json.Marshal(string(r))
			if r < 0x80 {
				escaped = append(escaped, q[1:len(q)-1]...)
				continue
			}
			for _, u := range utf16Units(r) {
				escaped = append(escaped, []byte(`\u`+hex4(u))...)
			}
		}
		escaped = append(escaped, '"')
		var want, got string
		if json.Unmarshal(escaped, &want) != nil {
			t.Skip()
		}
		if err := json.Unmarshal(unescape(escaped), &got); err != nil || got != want {
			t.Fatalf("%s became %s (%v)", escaped, unescape(escaped), err)
		}
	})
}

func utf16Units(r rune) []rune {
	if r < 0x10000 {
		return []rune{r}
	}
	r -= 0x10000
	return []rune{0xd800 + r>>10, 0xdc00 + r&0x3ff}
}

func hex4(r rune) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
}

// fakeChrome answers on the other end of the pipe.
func fakeChrome(t *testing.T, answer func(request string) []string) (*conn, func()) {
	toChrome, w := io.Pipe()
	r, fromChrome := io.Pipe()
	c := newConn(overPipe(r, w))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.run(func(string, []byte) {})
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
	ask := func(e string) reply[runtime.EvaluateResult] {
		return start(ctx, c.root(), runtime.Evaluate, runtime.EvaluateParams{Expression: e})
	}
	first, second := ask("first"), ask("second")
	if r, err := first.get(ctx); err != nil || string(r.Result.Value) != "1" {
		t.Fatal(r, err)
	}
	if r, err := second.get(ctx); err != nil || string(r.Result.Value) != "2" {
		t.Fatal(r, err)
	}
	var refused *protocolError
	if _, err := ask("refuse").get(ctx); !errors.As(err, &refused) || refused.message != "no" {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	p := ask("first")
	if _, err := p.get(gone); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	open := ask("first")
	ask("end")
	if _, err := open.get(ctx); !errors.Is(err, errConnClosed) {
		t.Fatal(err)
	}
	if _, err := ask("later").get(ctx); !errors.Is(err, errConnClosed) {
		t.Fatal(err)
	}
}

func mustJSON(v any) []byte { b, _ := json.Marshal(v); return b }

func TestMessageBound(t *testing.T) {
	in := overPipe(io.MultiReader(strings.NewReader(`{"id":1}`+"\x00"), zeros{}), io.Discard)
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
		many = append(many, strings.NewReader(" "), io.LimitReader(zeros{}, maxMessage*2/3), strings.NewReader("\x00"))
	}
	if n, err := io.Copy(io.Discard, &bounded{r: bufio.NewReaderSize(io.MultiReader(many...), 64<<10)}); err != nil || n != 3*(maxMessage*2/3+2) {
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
		err := newConn(overPipe(in, io.Discard)).run(func(_ string, params []byte) { got = append(got, params) })
		if err != errConnClosed || !slices.EqualFunc(sent, got, func(s string, g []byte) bool { return s == string(g) }) {
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

// The keys are those of before: names, codes, key codes, texts and places.
func TestKeysOfBefore(t *testing.T) {
	if !maps.Equal(namedKeys, oldNamedKeys) || !maps.Equal(otherNames, oldOtherNames) {
		for name, k := range otherNames {
			if old, ok := oldOtherNames[name]; old != k {
				t.Errorf("%s is %+v, was %+v, %v", name, k, old, ok)
			}
		}
		t.Error(len(namedKeys), len(oldNamedKeys), len(otherNames), len(oldOtherNames))
	}
	for r := rune(0); r < 0x1100; r++ {
		k, ok := keyOf(r)
		old, was := oldKeyOf(r)
		if k != old || ok != was {
			t.Errorf("%q is %+v, was %+v", r, k, old)
		}
	}
}

func TestKeyOf(t *testing.T) {
	for r := rune(' '); r < 127; r++ {
		if k, ok := keyOf(r); !ok || k.text != string(r) || k.virtual == 0 || k.code == "" {
			t.Errorf("%q has no key: %+v", r, k)
		}
	}
	if _, ok := keyOf('ü'); ok {
		t.Error("ü is no key of a US keyboard")
	}
}
