package browser

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

	"github.com/chromedp/cdproto/runtime"
)

func TestScanMessage(t *testing.T) {
	for in, want := range map[string]message{
		`{"id":7,"result":{"a":"}\"]"},"sessionId":"S"}`:      {id: 7, session: "S", result: []byte(`{"a":"}\"]"}`)},
		`{"method":"Page.x","params":{}}`:                     {method: "Page.x", result: []byte(`{}`)},
		` { "id" : 1 , "error" : {"code":-1,"message":"m"} }`: {id: 1, fault: []byte(`{"code":-1,"message":"m"}`)},
	} {
		m, err := scanMessage([]byte(in))
		if err != nil || m.id != want.id || m.method != want.method || m.session != want.session ||
			!bytes.Equal(m.result, want.result) || !bytes.Equal(m.fault, want.fault) {
			t.Errorf("%s: %+v, %v", in, m, err)
		}
	}
	for _, in := range []string{``, `{`, `[]`, `{}`, `{"id":"x"}`, `{"id":1}x`, `{"id":1,}`, `{"method":"a\u0062"}`, `{"id":1,"result":{"a"}`, `{"id":1,"result":"\`, `nul`} {
		if m, err := scanMessage([]byte(in)); err == nil || m.id != 0 || m.result != nil {
			t.Errorf("%s: %+v, %v; want nothing and an error", in, m, err)
		}
	}
}

// What is valid JSON comes out as encoding/json sees it; nothing panics.
func FuzzScanMessage(f *testing.F) {
	for _, seed := range []string{`{"id":1,"result":{"a":[1,"\\\""]}}`, `{"method":"m","params":{},"sessionId":"s"}`, `{"id":1,"error":{}}`, `{"id":`, `{"id":1,"result":"\`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := scanMessage(b)
		if err != nil {
			if m.id != 0 || m.method != "" || m.result != nil {
				t.Fatal("a value came with an error")
			}
			return
		}
		var want struct {
			Result json.RawMessage `json:"result"`
			Params json.RawMessage `json:"params"`
			Keys   map[string]any  `json:"-"`
		}
		if !json.Valid(b) || bytes.Count(b, []byte("result"))+bytes.Count(b, []byte("params")) > 1 || bytes.Contains(b, []byte(`\u`)) || json.Unmarshal(b, &want) != nil {
			return
		}
		if got := append(want.Result, want.Params...); got != nil && m.result != nil && !bytes.Equal(bytes.TrimSpace(got), m.result) {
			t.Fatalf("%s: parts %q, want %q", b, m.result, got)
		}
	})
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
	c := newConn(w)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.run(r, func(string, []byte) {})
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
				if a == "EOF" {
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
		return []string{"EOF"}
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
	in := messages{r: io.MultiReader(strings.NewReader("ab\x00"), zeros{})}
	if b, err := in.next(); err != nil || string(b) != "ab" {
		t.Fatal(b, err)
	}
	if _, err := in.next(); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Fatal("an endless message was read:", err)
	}
}

// However the stream is cut, its messages are the same, and each is the caller's.
func TestMessages(t *testing.T) {
	t.Parallel()
	buffer := len(messages{}.buf)
	random := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		var sent [][]byte
		var stream []byte
		for range 1 + random.IntN(12) {
			n := random.IntN(300)
			switch random.IntN(4) {
			case 0: // about as large as the buffer
				n = buffer - 2 + random.IntN(5)
			case 1:
				n = random.IntN(6 * buffer)
			}
			m := make([]byte, n)
			for i := range m {
				m[i] = byte(1 + random.IntN(255))
			}
			sent = append(sent, m)
			stream = append(append(stream, m...), 0)
		}
		stream = append(stream, "cut of"...)
		most := []int{1, 100, buffer, 3 * buffer}[random.IntN(4)]
		in := messages{r: &pieces{rest: stream, next: func() int { return 1 + random.IntN(most) }}}
		var got [][]byte
		var err error
		for err == nil {
			var m []byte
			if m, err = in.next(); err == nil {
				got = append(got, m)
			}
		}
		if err != io.EOF || !slices.EqualFunc(sent, got, bytes.Equal) {
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

// zeros never gives a zero byte, endlessly.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
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
