//go:build linux

package browser

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// fileServer gives pages with links to files; slow ones go on when told.
type fileServer struct {
	*httptest.Server
	data  []byte
	more  chan struct{} // one for each further piece of /slow
	begun chan struct{} // one for each /slow that sent its first piece
}

func newFileServer(t testing.TB) *fileServer {
	s := &fileServer{data: make([]byte, 300_000), more: make(chan struct{}), begun: make(chan struct{}, 8)}
	rand.Read(s.data)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file := func(disposition string) { w.Header().Set("Content-Disposition", disposition) }
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, html(`<a id=file href=/file>F</a><a id=again href=/file>F</a><a id=slow href=/slow>S</a><button id=held onclick="document.body.appendChild(document.createElement('iframe')).src='/held'">H</button><a id=cut href=/cut>C</a><a id=chunkcut href=/chunkcut>C</a>
<a id=evil href=/evil>E</a><a id=tab target=_blank href=/file>T</a><a id=big href=/big>B</a><iframe id=frame srcdoc="<a id=inner href=/file>I</a>"></iframe>
<button id=blob onclick="const a=document.createElement('a');a.href=window.URL.createObjectURL(new Blob(['from a blob']));a.download='made.txt';a.click()">Blob</button>
<button id=count onclick="this.textContent=Number(this.textContent||0)+1">0</button>`))
		case "/file":
			file(`attachment; filename="report.bin"`)
			w.Write(s.data)
		case "/evil":
			file(`attachment; filename="..%2F..%2Fetc%2Fpass\u202ewd.sh"; filename*=UTF-8''..%2f..%2f.%2ehidden%E2%80%AEexe.txt`)
			fmt.Fprint(w, "evil")
		case "/slow":
			file(`attachment; filename=slow.bin`)
			w.Header().Set("Content-Length", "2000")
			w.Write(make([]byte, 1000))
			w.(http.Flusher).Flush()
			s.begun <- struct{}{}
			select {
			case <-s.more:
				w.Write(make([]byte, 1000))
			case <-r.Context().Done():
			}
		case "/held": // no answer until told
			select {
			case <-s.more:
				file(`attachment; filename=held.bin`)
				w.Write(make([]byte, 1000))
			case <-r.Context().Done():
			}
		case "/cut":
			file(`attachment; filename=cut.bin`)
			w.Header().Set("Content-Length", "2000")
			w.Write(make([]byte, 1000))
		case "/chunkcut":
			file(`attachment; filename=cut2.bin`)
			w.Write(make([]byte, 1000))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/big":
			file(`attachment; filename=big.bin`)
			w.Header().Set("Content-Length", "50000000")
			w.Write(make([]byte, 1000))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func nodeWith(t testing.TB, change func(*Options), origins ...string) *node {
	o, log := options(t, origins...)
	change(&o)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return &node{t: t, h: h, lane: "lane-1", log: log}
}

// downloadsOf returns what a result tells of downloads.
func downloadsOf(t testing.TB, a answer) []downloaded {
	t.Helper()
	raw, _ := json.Marshal(a.m["downloads"])
	var list []downloaded
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func (n *node) oneDownload(a answer) downloaded {
	n.t.Helper()
	list := downloadsOf(n.t, a)
	if len(list) != 1 {
		n.t.Fatalf("want one download: %s (%s)", a.json, a.Evidence)
	}
	return list[0]
}

// nextDownload acts until a download is told, unless the last answer did.
func (n *node) nextDownload(last answer) downloaded {
	n.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if list := downloadsOf(n.t, last); len(list) == 1 {
			return list[0]
		}
		if time.Now().After(deadline) {
			n.t.Fatal("no download was told")
		}
		last = n.must("click", obj{"selector": "#count"})
	}
}

func sum(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }

func TestDownload(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	d := n.nextDownload(n.must("click", obj{"selector": "#file"}))
	if d.State != "completed" || d.Name != "report.bin" || d.Bytes != 300_000 || d.SHA256 != sum(s.data) {
		t.Fatalf("%+v", d)
	}
	if on, err := os.ReadFile(d.Path); err != nil || sum(on) != d.SHA256 || filepath.Base(d.Path) != "report.bin" {
		t.Errorf("on the node: %v %s", err, d.Path)
	}
	if a := n.must("click", obj{"selector": "#count"}); a.m["downloads"] != nil {
		t.Errorf("told twice: %s", a.json)
	}
	got := n.must("network-requests", obj{"download": d.ID})
	if len(got.Blobs) != 1 || sum(got.Blobs[0].Bytes) != d.SHA256 || got.Blobs[0].Field != "bytesBase64" || got.Blobs[0].MIME != "application/octet-stream" {
		t.Errorf("fetched: %s", got.json)
	}
	// Same name again, from a frame, by a link that opens a tab, made by script.
	again := n.nextDownload(n.must("click", obj{"selector": "#again"}))
	if again.Name != "report.bin" || again.ID == d.ID || filepath.Base(again.Path) != "report (1).bin" {
		t.Errorf("again: %+v", again)
	}
	n.eval(`document.querySelector('#frame').contentDocument.querySelector('#inner').click()`)
	if inner := n.nextDownload(answer{}); inner.State != "completed" || inner.SHA256 != d.SHA256 {
		t.Errorf("in a frame: %+v", inner)
	}
	opened := n.must("click", obj{"selector": "#tab"})
	n.must("tabs", obj{"action": "select", "index": 0})
	if tab := n.nextDownload(opened); tab.State != "completed" {
		t.Errorf("in a tab: %+v", tab)
	}
	if blob := n.nextDownload(n.must("click", obj{"selector": "#blob"})); blob.Name != "made.txt" || blob.SHA256 != sum([]byte("from a blob")) {
		t.Errorf("of a blob: %+v", blob)
	}
	// By its address.
	nav := n.must("navigate", obj{"url": s.URL + "/file"})
	if d := n.oneDownload(nav); d.State != "completed" || nav.m["url"] != s.URL+"/" {
		t.Errorf("by address: %s", nav.json)
	}
	n.refused(capabilities.CodeNotFound, "network-requests", obj{"download": "d99"})
	// Another lane has no part in it; the files go with their lane.
	n.on("lane-2").refused(capabilities.CodeNotFound, "network-requests", obj{"download": d.ID})
	other := n.on("lane-2")
	other.goTo(s.URL + "/")
	kept := other.nextDownload(other.must("click", obj{"selector": "#file"}))
	n.must("close", obj{})
	awaitGone(t, d.Path)
	if _, err := os.Stat(kept.Path); err != nil {
		t.Errorf("closing a lane took another's file: %v", err)
	}
}

func awaitGone(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(path); os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", path)
		}
	}
}

func TestDownloadThatTakesLong(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	d := n.nextDownload(n.must("click", obj{"selector": "#slow"}))
	if d.State != "in_progress" || d.SHA256 != "" || d.Path != "" {
		t.Fatalf("%+v", d)
	}
	n.refused(capabilities.CodeConflict, "network-requests", obj{"download": d.ID})
	if a := n.must("click", obj{"selector": "#count"}); a.m["downloads"] != nil {
		t.Errorf("told without news: %s", a.json)
	}
	close(s.more)
	if end := n.nextDownload(answer{}); end.State != "completed" || end.Bytes != 2000 || end.SHA256 != sum(make([]byte, 2000)) || end.ID != d.ID {
		t.Fatalf("%+v", end)
	}
}

// A download is of the call that had its file asked for, although its own has ended and a later one
// that may acts when the file comes. The next call tells it, under that call's name (S1-45).
func TestDownloadIsOfTheCallThatAskedForIt(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	var mu sync.Mutex
	var told []string
	tell := func(what ...any) {
		mu.Lock()
		defer mu.Unlock()
		if line := fmt.Sprintln(what...); strings.Contains(line, observedDownload) {
			told = append(told, strings.TrimSpace(line))
		}
	}
	act := func(call capabilities.CallID, tool string, args obj) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		raw, _ := json.Marshal(args)
		_, err := n.h.Handle(ctx, capabilities.Invocation{
			Capability: capabilities.CapabilityID("tyrum.browser." + tool), Lane: n.lane, Call: call, Args: raw, Grants: []string{observedKey, observedDownload},
			Observe: func(key, detail string) { tell(call, key, detail) },
			Earlier: func(key, detail string, of capabilities.CallID, granted bool) {
				tell(call, "tells of", of, key, detail, granted)
			},
		})
		if err != nil {
			t.Fatal(call, err)
		}
	}
	act("first", "click", obj{"selector": "#held"})
	act("second", "click", obj{"selector": "#count"})
	select {
	case s.more <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("the file was not asked for")
	}
	for deadline := time.Now().Add(patience); len(told) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody was told of the download")
		}
		act("third", "snapshot", obj{})
	}
	if want := []string{"third tells of first " + observedDownload + " download held.bin true"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

// A download that is cut, too large or badly named is never shown as a good file.
func TestDownloadFaults(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := nodeWith(t, func(o *Options) { o.MaxDownloadBytes = 1 << 20 }, s.URL)
	n.goTo(s.URL + "/")
	for sel, state := range map[string]string{"#cut": "failed", "#chunkcut": "failed", "#big": "too_large"} {
		d := n.nextDownload(n.must("click", obj{"selector": sel}))
		if d.State != state || d.SHA256 != "" || d.Path != "" {
			t.Errorf("%s: %+v", sel, d)
		}
		n.refused(capabilities.CodeExecutionFailed, "network-requests", obj{"download": d.ID})
	}
	d := n.nextDownload(n.must("click", obj{"selector": "#evil"}))
	if d.State != "completed" || strings.ContainsAny(d.Name, "/\\\u202e") || strings.HasPrefix(d.Name, ".") || filepath.Base(d.Path) != d.Name {
		t.Errorf("%+v", d)
	}
	// A file that was swapped or changed after its hash is not given.
	if err := os.WriteFile(d.Path, []byte("good"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.refused(capabilities.CodeConflict, "network-requests", obj{"download": d.ID})
	os.Remove(d.Path)
	if err := os.Symlink("/etc/hostname", d.Path); err != nil {
		t.Fatal(err)
	}
	n.refused(capabilities.CodeResultExpired, "network-requests", obj{"download": d.ID})
}

// One more download than a lane may have is cancelled, and said to be.
func TestDownloadsOverTheLimit(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	ds := &n.h.lanes[n.lane].downloads
	ds.mu.Lock()
	for len(ds.list) < maxDownloads {
		ds.list = append(ds.list, &download{id: "old", lane: n.h.lanes[n.lane]})
	}
	ds.mu.Unlock()
	for range 2 {
		d := n.nextDownload(n.must("click", obj{"selector": "#slow"}))
		if d.ID != "d201" || d.State != "over_limit" || d.Path != "" {
			t.Errorf("%+v", d)
		}
	}
	n.refused(capabilities.CodeExecutionFailed, "network-requests", obj{"download": "d201"})
}

// In the owner's folder a file stays, whatever ends; nothing else is in it.
func TestDownloadDir(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	dir := filepath.Join(t.TempDir(), "Downloads")
	stale := filepath.Join(dir, laneFolder("old lane"), partPrefix+"x")
	mine := filepath.Join(dir, "mine.txt")
	os.MkdirAll(filepath.Dir(stale), 0o700)
	os.WriteFile(stale, []byte("half"), 0o600)
	os.WriteFile(mine, []byte("mine"), 0o600)
	n := nodeWith(t, func(o *Options) { o.DownloadDir = dir }, s.URL)
	n.goTo(s.URL + "/")
	if _, err := os.Lstat(stale); err == nil {
		t.Error("half a file of a killed node is still there")
	}
	var seen sync.Map
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var list []downloaded
	for selector := "#file"; len(list) == 0; selector = "#count" {
		raw, _ := json.Marshal(obj{"selector": selector})
		out, err := n.h.Handle(ctx, capabilities.Invocation{Capability: "tyrum.browser.click", Lane: n.lane, Args: raw,
			Observe: func(key, detail string) { seen.Store(key+" "+detail, true) }})
		if err != nil {
			t.Fatal(err)
		}
		list = out.Result.(acted).Downloads
	}
	d := list[0]
	if want := filepath.Join(dir, laneFolder(n.lane), "report.bin"); d.Path != want || d.SHA256 != sum(s.data) {
		t.Errorf("%+v, want it at %s", d, want)
	}
	if _, ok := seen.Load("data.write.temp download report.bin"); !ok {
		t.Error("the download was not observed")
	}
	if info, err := os.Stat(d.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	n.nextDownload(n.must("click", obj{"selector": "#slow"}))
	n.must("close", obj{})
	n.h.Close()
	var left []string
	filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if !e.IsDir() {
			left = append(left, strings.TrimPrefix(path, dir))
		}
		return nil
	})
	if len(left) != 2 {
		t.Errorf("left: %q", left)
	}
	if on, err := os.ReadFile(d.Path); err != nil || sum(on) != d.SHA256 {
		t.Errorf("the owner's file: %v", err)
	}
}

// Chrome ends in the middle: the download failed, and nothing of it is left.
func TestDownloadWhenChromeDies(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := newNodeAlone(t, s.URL)
	n.goTo(s.URL + "/")
	done := n.nextDownload(n.must("click", obj{"selector": "#file"}))
	slow := n.nextDownload(n.must("click", obj{"selector": "#slow"}))
	n.h.mu.Lock()
	c := n.h.chromes[true]
	n.h.mu.Unlock()
	scratch := c.Program.Scratch()
	c.Program.Close()
	awaitGone(t, scratch)
	n.try("tabs", obj{})
	n.goTo(s.URL + "/")
	n.refused(capabilities.CodeExecutionFailed, "network-requests", obj{"download": slow.ID})
	n.refused(capabilities.CodeResultExpired, "network-requests", obj{"download": done.ID})
}

func TestSafeName(t *testing.T) {
	for in, want := range map[string]string{
		"report.pdf": "report.pdf", "": "download", "..": "download", "../../etc/passwd": "passwd", `C:\x\y.txt`: "y.txt", "a<b>:c?.txt": "a_b__c_.txt",
		"CON": "_CON", "com1.txt": "_com1.txt", "nul.tar.gz": "_nul.tar.gz", "consul.txt": "consul.txt", ".bashrc": "bashrc", "x\x00\n.txt": "x.txt",
		"gpj\u202eexe.txt": "gpjexe.txt", "name. . ": "name", strings.Repeat("ä", 200) + ".pdf": strings.Repeat("ä", 73) + ".pdf",
	} {
		if got := safeName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzSafeName(f *testing.F) {
	f.Add("report.pdf")
	f.Add("..\\\u202e")
	f.Fuzz(func(t *testing.T, in string) {
		got := safeName(in)
		if got == "" || len(got) > 160 || strings.ContainsAny(got, "/\\\x00\n<>:\"|?*") || strings.HasPrefix(got, ".") || filepath.Base(got) != got || !filepath.IsLocal(got) {
			t.Errorf("%q: %q", in, got)
		}
		if safeName(got) != got {
			t.Errorf("%q: %q, then %q", in, got, safeName(got))
		}
	})
}

// A request whose answer became a download names it, and is not called cancelled.
func TestRequestThatBecameADownload(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	var want []any
	for range 2 {
		want = append(want, n.nextDownload(n.must("click", obj{"selector": "#file"})).ID)
	}
	var got []any
	for _, q := range n.must("network-requests", obj{"filter": s.URL + "/file"}).m["requests"].([]any) {
		if q := q.(obj); q["failure"] != nil || q["status"] != 200. {
			t.Errorf("%v", q)
		}
		got = append(got, q.(obj)["download"])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the requests became %v, want %v", got, want)
	}
}

// A download can be kept by name, without its bytes in the answer.
func TestDownloadIsKept(t *testing.T) {
	t.Parallel()
	s := newFileServer(t)
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	d := n.nextDownload(n.must("click", obj{"selector": "#file"}))
	n.refused(capabilities.CodeNotSupported, "network-requests", obj{"download": d.ID, "keep_as": "mine.bin"})
	spool := &spooled{}
	n.spool = spool
	n.refused(capabilities.CodeInvalidArguments, "network-requests", obj{"keep_as": "mine.bin"})
	n.refused(capabilities.CodeInvalidArguments, "network-requests", obj{"download": d.ID, "keep_as": "../mine.bin"})
	a := n.must("network-requests", obj{"download": d.ID, "keep_as": "mine.bin"})
	if len(a.Blobs) != 0 || len(a.Artifacts) != 1 || a.Artifacts[0].Name != "mine.bin" || a.Artifacts[0].Field != "" || string(a.Artifacts[0].ID) != d.SHA256 {
		t.Fatalf("%d in the answer, %+v", len(a.Blobs), a.Artifacts)
	}
	if sum := sha256.Sum256(spool.data["mine.bin"]); hex.EncodeToString(sum[:]) != d.SHA256 {
		t.Error("what was kept is something else")
	}
}
