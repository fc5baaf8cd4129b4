package bridge

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestReadHead(t *testing.T) {
	for _, c := range []struct {
		data, id, method string
		ok               bool
	}{
		{`{"jsonrpc":"2.0","id":7,"result":{"id":9,"method":"x"}}`, `7`, ``, true},
		{`{"result":{"content":[{"text":"a \"id\":1, } \\"}]},"id":"a,b"}`, `"a,b"`, ``, true},
		{`{ "id" : 7 , "method" : "ping" }`, `7`, `"ping"`, true},
		{`{"id":null,"error":{"code":-1}}`, `null`, ``, true},
		{`{"method":"notifications/progress","params":[{}]}`, ``, `"notifications/progress"`, true},
		{`{}`, ``, ``, true},
		{`[{"id":1}]`, ``, ``, false},
		{"{\"id\":1,\n\"result\":{}}", ``, ``, false},
		{`{"id":1,"result":{}`, ``, ``, false},
		{`{"id":1,"result":"open}`, ``, ``, false},
		{`{"id":}`, ``, ``, false},
		{`{"id":1}{"id":2}`, ``, ``, false},
		{`{1:2}`, ``, ``, false},
		{`hello`, ``, ``, false},
		{``, ``, ``, false},
	} {
		h, ok := readHead([]byte(c.data))
		if ok != c.ok || ok && (string(h.id) != c.id || string(h.method) != c.method) {
			t.Errorf("%s: id %q, method %q, %v", c.data, h.id, h.method, ok)
		}
	}
}

func TestIsRPC(t *testing.T) {
	for data, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":7,"result":{}}`:                         true,
		` {"id":7,"result":{"jsonrpc":"1.0"}, "jsonrpc" : "2.0" }`:     true,
		"{\n\"jsonrpc\": \"2.0\"}":                                     true,
		`[{"jsonrpc":"2.0"}]`:                                          true,
		`{"\u006asonrpc":"2.0"}`:                                       true,
		`{"error":{"code":"unauthorized","detail":{"jsonrpc":"2.0"}}}`: false,
		`{"jsonrpc":"1.0"}`:                                            false, `{"jsonrpc":2.0}`: false, `hello`: false, ``: false, `{"jsonrpc":"2.0"`: false,
	} {
		if isRPC([]byte(data)) != want {
			t.Errorf("%s: %v", data, !want)
		}
	}
}

// A message that encoding/json reads has the same ID and method here.
func FuzzReadHead(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"id":9}}`, `{"id":"\\\"","method":"a\\"}`, `{"a":[{"b":"]}"},1,true],"id":-1.5e3 }`, `{"id":{},"id":2}`, `{"id":[1,2] ,"x":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, ok := readHead(data)
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil || want == nil {
			return // whatever the gateway sends is JSON; the long way says so if not
		}
		if !ok {
			if text := strings.TrimSpace(string(data)); text == string(data) && !strings.ContainsAny(text, "\r\n") {
				t.Fatalf("%q is one message on one line", data)
			}
			return
		}
		for name, got := range map[string][]byte{"id": h.id, "method": h.method, "jsonrpc": h.version} {
			if strings.Contains(string(data), `\u`) {
				continue // a key may be spelt in escapes; the gateway writes none
			}
			if string(want[name]) != string(got) {
				t.Fatalf("%q: %s is %q, want %q", data, name, got, want[name])
			}
		}
	})
}

func BenchmarkReadHead(b *testing.B) {
	data := []byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + strings.Repeat(`- link \"Order\" [ref=e5]\n`, 5000) + `"}]}}`)
	b.Run("head", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, ok := readHead(data); !ok {
				b.Fatal("not read")
			}
		}
	})
	b.Run("decoding", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			var m message
			if err := json.Unmarshal(data, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
