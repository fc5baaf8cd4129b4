//go:build unix

package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/confine"
	"github.com/handrail-dev/handrail/platform/procguard"
)

func TestMain(m *testing.M) {
	Main(confine.Self)
	goleak.VerifyTestMain(m, goleak.Cleanup(Unwatched()))
}

// echo returns its arguments back; fail fails.
func do(_ context.Context, c Call) (json.RawMessage, error) {
	switch c.Tool {
	case "click":
		return nil, capabilities.Errorf(capabilities.CodeElementNotFound, "No element matches #x.")
	case "evaluate":
		return json.RawMessage(`{"result":[1,2]}`), nil
	}
	return json.RawMessage(fmt.Sprintf(`{"tool":%q,"args":%s}`, c.Tool, c.Args)), nil
}

var tools = []string{"navigate", "click", "press-key", "evaluate", "wait-for"}

func try(t *testing.T, code string) (Result, *capabilities.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := Run(ctx, Options{Launcher: procguard.New(procguard.Options{}), Code: code, Tools: tools, Memory: 24 << 20, Do: do})
	if err != nil {
		return r, capabilities.AsError(err)
	}
	return r, nil
}

func TestScripts(t *testing.T) {
	for _, tc := range []struct{ name, code, want string }{
		{"a value", "return 1 + 1", "2"},
		{"nothing", "1", "null"},
		{"await", "await null; return {a: [await Promise.resolve(1)]}", `{"a":[1]}`},
		{"a step", "const r = page.navigate({url: 'u', wait_until: 'none'}); return [r.tool, r.args]", `["navigate",{"url":"u","wait_until":"none"}]`},
		{"an awaited step", "const r = await page.pressKey('Enter'); return r.args.key", `"Enter"`},
		{"a chained step", "return page.waitFor({text: 'x'}).then(r => r.args.text)", `"x"`},
		{"steps together", "return (await Promise.all([page.navigate('a'), page.navigate('b')])).map(r => r.args.url)", `["a","b"]`},
		{"a returned step", "return page.waitFor()", `{"tool":"wait-for","args":{}}`},
		{"evaluate gives the value", "return page.evaluate('x')[1]", "2"},
		{"a function to evaluate", "return page.evaluate(() => document.title)", "[1,2]"},
		{"an error that is caught", "try { page.click('#x') } catch (e) { return [e.code, e.message, e.hint !== ''] }", `["element_not_found","No element matches #x.",true]`},
		{"an error that is caught by await", "try { await page.click('#x') } catch (e) { return e instanceof Error }", "true"},
		{"a function of page", "async (page) => { return page.navigate('u').args.url }", `"u"`},
		{"an old function", "function (page) { return 7 }", "7"},
		{"timers", "let s = ''; setTimeout(x => s += x, 20, 'b'); const id = setTimeout(() => s += 'c', 5); clearTimeout(id); await new Promise(f => setTimeout(f, 30)); return s", `"b"`},
		{"a comment at the end", "return 5 // five", "5"},
		{"no system", "return [typeof require, typeof process, typeof fetch, typeof module, typeof global]", `["undefined","undefined","undefined","undefined","undefined"]`},
		{"text", "return 'Grüße 🙂 \\u2028 <a>'", `"Grüße 🙂 \u2028 <a>"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := try(t, tc.code)
			var got, want any
			json.Unmarshal(r.Value, &got)
			json.Unmarshal([]byte(tc.want), &want)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, %v; want %s", r.Value, err, tc.want)
			}
		})
	}
}

func TestScriptFailures(t *testing.T) {
	for _, tc := range []struct {
		name, code string
		want       capabilities.Code
		message    string
	}{
		{"thrown", "\n\nthrow new Error('boo')", capabilities.CodeScriptFailed, "Error: boo (line 3)"},
		{"thrown in a function", "function f() {\n  null.x\n}\nf()", capabilities.CodeScriptFailed, "(line 2)"},
		{"thrown after a wait", "await 1;\nundefinedName()", capabilities.CodeScriptFailed, "'undefinedName' is not defined (line 2)"},
		{"thrown text", "throw 'plain'", capabilities.CodeScriptFailed, "thrown: plain"},
		{"thrown strangely", "throw {toString() { throw 1 }}", capabilities.CodeScriptFailed, "cannot be read"},
		{"a syntax error", "let a = 1;\nlet b = (;", capabilities.CodeScriptFailed, "(line 2)"},
		{"a failed step", "page.navigate('u');\npage.click('#x')", capabilities.CodeElementNotFound, "page.click (line 2): No element matches #x."},
		{"a failed step, awaited", "await page.click({selector: '#x'})", capabilities.CodeElementNotFound, "page.click (line 1)"},
		{"no such tool", "page.launch()", capabilities.CodeScriptFailed, "page.launch is not a function (line 1)"},
		{"no such tool, further on", "let é = 'ü'; 1\n  ; é; f(page.evaluate.launch (1))\nfunction f() {}", capabilities.CodeScriptFailed, "page.evaluate.launch is not a function (line 2)"},
		{"no such function", "[1].map(7)", capabilities.CodeScriptFailed, "TypeError: not a function (line 1)"},
		{"a bad argument", "page.waitFor('x')", capabilities.CodeScriptFailed, "page.waitFor takes an object"},
		{"a promise nobody keeps", "await new Promise(() => {})", capabilities.CodeScriptFailed, "nothing resolves"},
		{"a function for a value", "return () => 1", capabilities.CodeScriptFailed, "function"},
		{"a circle", "const a = {}; a.a = a; return a", capabilities.CodeScriptFailed, "ircular"},
		{"too deep", "const f = () => f(); f()", capabilities.CodeScriptFailed, ""},
		{"a large value", "return 'x'.repeat(2 << 20)", capabilities.CodeResultTooLarge, ""},
		{"memory, bit by bit", "const a = []; for (;;) a.push('x'.repeat(1000) + a.length)", capabilities.CodeScriptFailed, "than 24 MiB of memory"},
		{"memory, at once", "return 'x'.repeat(1 << 29).length", capabilities.CodeScriptFailed, "than 24 MiB of memory"},
		{"a text that cannot be", "return 'x'.repeat(1 << 30)", capabilities.CodeScriptFailed, "invalid string length (line 1)"},
		{"memory, in small pieces", "let l; for (;;) l = {l}", capabilities.CodeScriptFailed, "memory"},
		{"memory that stays used", "globalThis.a = []; for (;;) a.push({})", capabilities.CodeScriptFailed, "memory"},
		{"memory, after a wait", "await 1; globalThis.a = []; for (;;) a.push([1])", capabilities.CodeScriptFailed, "memory"},
		{"too many steps", "for (;;) page.waitFor()", capabilities.CodeOverloaded, "1000 steps"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := try(t, tc.code)
			if err == nil || err.Code != tc.want || !strings.Contains(err.PublicMessage(), tc.message) || err.PublicHint() == "" {
				t.Errorf("%s, %v (%v); want %s with %q", r.Value, err, errors.Unwrap(err), tc.want, tc.message)
			}
			if len(err.PublicMessage()) > 700 {
				t.Errorf("%d bytes of message", len(err.PublicMessage()))
			}
		})
	}
}

func TestLog(t *testing.T) {
	r, err := try(t, "console.log('a', 1, {b: [2]}, undefined, null); console.error(new Error('c')); throw new Error('end')")
	if err == nil || len(r.Log) != 2 || r.Log[0] != `a 1 {"b":[2]} undefined null` || r.Log[1] != "error: Error: c" {
		t.Errorf("%q, %v", r.Log, err)
	}
	r, err = try(t, "for (let i = 0; i < 5000; i++) console.log('x'.repeat(10000)); return 1")
	n := 0
	for _, l := range r.Log {
		n += len(l)
	}
	if err != nil || n > maxLogBytes+maxLogEntry || r.Log[len(r.Log)-1] != moreLogs {
		t.Errorf("%d entries of %d bytes, %v", len(r.Log), n, err)
	}
}

// A script that never asks for anything ends with its call, at once.
func TestCancel(t *testing.T) {
	for _, code := range []string{"console.log('up'); for (;;);", "console.log('up'); await new Promise(f => setTimeout(f, 1e9))", "page.navigate('slow')"} {
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() {
			_, err := Run(ctx, Options{Launcher: procguard.New(procguard.Options{}), Code: code, Tools: tools, Do: func(ctx context.Context, c Call) (json.RawMessage, error) {
				cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			}})
			end <- err
		}()
		if !strings.Contains(code, "page") {
			time.AfterFunc(100*time.Millisecond, cancel) // any moment of the guest's life will do
		}
		if err := <-end; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// descends reports whether a process is a child of this one, or a child's.
func descends(pid string) bool {
	self := strconv.Itoa(os.Getpid())
	for pid != self && pid != "" && pid != "0" {
		status, _ := os.ReadFile("/proc/" + pid + "/status")
		_, rest, _ := strings.Cut(string(status), "\nPPid:\t")
		pid, _, _ = strings.Cut(rest, "\n")
	}
	return pid == self
}

// The guest holds nothing of this process: no file, no environment.
func TestGuestIsConfined(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc")
	}
	var limits, environ string
	var fds []string
	_, err := Run(t.Context(), Options{
		Launcher: procguard.New(procguard.Options{}), Code: "page.navigate('u')", Tools: tools,
		Do: func(context.Context, Call) (json.RawMessage, error) {
			all, _ := os.ReadDir("/proc")
			for _, e := range all {
				cmdline, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
				if !strings.Contains(string(cmdline), guestArg) || !descends(e.Name()) {
					continue // of another test binary beside this one, for example
				}
				l, _ := os.ReadFile("/proc/" + e.Name() + "/limits")
				env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
				limits, environ = string(l), string(env)
				links, _ := os.ReadDir("/proc/" + e.Name() + "/fd")
				for _, l := range links {
					to, _ := os.Readlink("/proc/" + e.Name() + "/fd/" + l.Name())
					fds = append(fds, to)
				}
			}
			return nil, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(limits, "Max open files            0                    0") {
		t.Errorf("limits:\n%s", limits)
	}
	if os.Geteuid() == 0 && strings.ReplaceAll(environ, "\x00", " ") != "GOMAXPROCS=2 GOTRACEBACK=none " {
		t.Errorf("environment %q", environ)
	}
	for _, to := range fds {
		if !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "/dev/null") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
			t.Errorf("the guest holds %s", to)
		}
	}
}

// A guest that was taken over can only end its call by what it says.
func FuzzFromGuest(f *testing.F) {
	for _, s := range []string{
		`{"call":{"id":1,"tool":"click","args":{"ref":"e1"}}}`, `{"log":"x"}`, `{"done":{"value":null}}`, `{"done":{"value":{"a":1}}}`,
		`{"done":{"failure":{"message":"m","line":3,"call":1}}}`, `{"call":{},"log":""}`, `{}`, `null`, `{"done":{}}`, `{"log":"a"}{"log":"b"}`, `{"LOG":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := decode[toHost](line)
		if err != nil {
			if m != (toHost{}) {
				t.Fatalf("a value beside an error: %+v", m)
			}
			return
		}
		again, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(again), "\n") != 1 {
			t.Fatalf("more than a line: %q", again)
		}
		back, err := decode[toHost](again)
		if err != nil {
			t.Fatalf("%q: %v", again, err)
		}
		a, _ := json.Marshal(m)
		b, _ := json.Marshal(back)
		if string(a) != string(b) {
			t.Fatalf("%s became %s", a, b)
		}
	})
}

func FuzzToGuest(f *testing.F) {
	for _, s := range []string{`{"run":{"code":"1","tools":[],"memory":1}}`, `{"answer":{"id":1,"value":1}}`, `{"answer":{"id":1,"failure":{"message":"x"}}}`, `{}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if m, err := decode[toGuest](line); err != nil && m != (toGuest{}) || err == nil && !m.valid() {
			t.Fatalf("%+v, %v", m, err)
		}
	})
}
