package browser_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite/browser"
)

// noise draws what no format makes small: of each channel the top byte of a counter
// of its own, so that the test can say every pixel without asking the page.
const noise = `<style>body{margin:0}canvas{display:block}</style><canvas id=c width=1600 height=1200></canvas><script>
let n = 1; const x = c.getContext('2d'), d = x.createImageData(1600, 1200), b = d.data;
for (let i = 0; i < b.length; i++) b[i] = i % 4 == 3 ? 255 : (n = (Math.imul(n, 1664525) + 1013904223) >>> 0) >>> 24;
x.putImageData(d, 0, 0);</script>`

// A result that is too large for an answer goes the whole way as an artifact, from Chrome on the
// node to the gateway's store: the answer links to it, MCP and REST return exactly the bytes that
// the server sent or the page drew, and parts of them.
func TestLargeBytesAreArtifacts(t *testing.T) {
	o := start(t)
	file := make([]byte, 9<<20+123)
	if _, err := rand.NewChaCha8([32]byte{1}).Read(file); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(file)
	id := hex.EncodeToString(sum[:])
	serve(t, o, map[string]func(http.ResponseWriter){
		"/": func(w http.ResponseWriter) {
			fmt.Fprint(w, `<!doctype html><title>list</title><a id=x href=/file>Get</a>`)
		},
		"/noise": func(w http.ResponseWriter) { fmt.Fprint(w, "<!doctype html>"+noise) },
		"/file": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", `attachment; filename="large.bin"`)
			_, _ = w.Write(file)
		},
	})
	c := connect(t, o)
	page := "http://" + o.Pages[0]

	c.must("navigate", obj{"url": page + "/"})
	r := c.must("click", obj{"selector": "#x"})
	var got struct {
		Downloads []struct{ ID, SHA256, State string }
	}
	for deadline := time.Now().Add(60 * time.Second); ; r = c.must("hover", obj{"x": 1, "y": 1}) {
		c.read(r, &got)
		if len(got.Downloads) == 1 && got.Downloads[0].State != "in_progress" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the download has not ended: %+v", got)
		}
	}
	if d := got.Downloads[0]; d.SHA256 != id || d.State != "completed" {
		t.Fatalf("%+v, want %s", d, id)
	}
	r = c.must("network-requests", obj{"download": got.Downloads[0].ID})
	link := c.link(r)
	if link.URI != "handrail://artifact/"+id || link.Name != "large.bin" || link.Size == nil || *link.Size != int64(len(file)) {
		t.Fatalf("%+v, want %s", link, id)
	}
	if data := c.resource(link.URI); !bytes.Equal(data, file) {
		t.Errorf("MCP gives %d other bytes", len(data))
	}
	if status, data := c.fetch(id, ""); status != http.StatusOK || !bytes.Equal(data, file) {
		t.Errorf("REST gives %d and %d bytes, not the file", status, len(data))
	}
	for _, part := range [][2]int{{0, 1}, {256<<10 - 3, 256<<10 + 9}, {5 << 20, 7<<20 + 1}, {len(file) - 1, len(file)}} {
		status, data := c.fetch(id, fmt.Sprintf("bytes=%d-%d", part[0], part[1]-1))
		if status != http.StatusPartialContent || !bytes.Equal(data, file[part[0]:part[1]]) {
			t.Errorf("bytes %v: %d and %d bytes", part, status, len(data))
		}
	}

	c.must("resize", obj{"width": 1600, "height": 1200})
	c.must("navigate", obj{"url": page + "/noise"})
	// For the model it is made smaller, and kept by name it is whole and not in the answer.
	r = c.must("screenshot", obj{})
	if pictures := images(r); len(pictures) != 1 || len(pictures[0]) > 5_000_000/4*3 {
		t.Errorf("%d pictures for the model", len(pictures))
	}
	r = c.must("screenshot", obj{"keep_as": "noise.png"})
	link = c.link(r)
	if link.Size == nil || *link.Size <= capabilities.InlineBytes || link.MIMEType != "image/png" || link.Name != "noise.png" || len(images(r)) > 0 {
		t.Fatalf("%+v, and %d pictures in the answer", link, len(images(r)))
	}
	shot := c.resource(link.URI)
	if sum := sha256.Sum256(shot); link.URI != "handrail://artifact/"+hex.EncodeToString(sum[:]) {
		t.Errorf("the bytes are not those of %s", link.URI)
	}
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil || picture.Bounds().Dx() != 1600 || picture.Bounds().Dy() != 1200 {
		t.Fatalf("%v %v", err, picture)
	}
	n, wrong := uint32(1), 0
	for y := range 1200 {
		for x := range 1600 {
			var want [3]uint32
			for i := range want {
				n = n*1664525 + 1013904223
				want[i] = n >> 24
			}
			r, g, b, _ := picture.At(x, y).RGBA()
			if [3]uint32{r >> 8, g >> 8, b >> 8} != want {
				wrong++
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d pixels are not what the page drew", wrong)
	}

	// Of a script's pictures, too, those with a name are linked and the others come along.
	r = c.must("run-code", obj{"code": "page.screenshot({keep_as: 'again.png'})"})
	if again := c.link(r); !bytes.Equal(c.resource(again.URI), shot) {
		t.Errorf("the script's picture is another: %+v", again)
	}
	r = c.must("run-code", obj{"code": "for (let i = 0; i < 2; i++) page.screenshot({clip: {x: i, y: 0, width: 20, height: 10}})"})
	small := images(r)
	for _, data := range small {
		if p, err := png.Decode(bytes.NewReader(data)); err != nil || p.Bounds().Dx() != 20 || p.Bounds().Dy() != 10 {
			t.Errorf("the small picture: %v %v", err, p)
		}
	}
	if len(small) != 2 {
		t.Errorf("%d small pictures came along", len(small))
	}
}

// images are the pictures in an answer.
func images(r *mcp.CallToolResult) (all [][]byte) {
	for _, content := range r.Content {
		if is, ok := content.(*mcp.ImageContent); ok {
			all = append(all, is.Data)
		}
	}
	return all
}

type obj = map[string]any

// serve answers at the suite's first address until the test ends.
func serve(t *testing.T, o browser.Options, pages map[string]func(http.ResponseWriter)) {
	t.Helper()
	l, err := o.Listen(o.Pages[0])
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := pages[r.URL.Path]; f != nil {
			f(w)
			return
		}
		http.NotFound(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
}

// talker is an agent's conversation by MCP, which may use REST beside it.
type talker struct {
	t       *testing.T
	o       browser.Options
	session *mcp.ClientSession
}

func connect(t *testing.T, o browser.Options) *talker {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "artifacts", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: o.URL, HTTPClient: &http.Client{Transport: bearer(o.Token)}, DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: 128 << 20,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &talker{t, o, session}
}

func (c *talker) must(tool string, args obj) *mcp.CallToolResult {
	c.t.Helper()
	r, err := c.session.CallTool(c.t.Context(), &mcp.CallToolParams{Name: "tool_browser_" + strings.ReplaceAll(tool, "-", "_"), Arguments: args})
	if err != nil || r.IsError {
		c.t.Fatalf("%s: %v %+v", tool, err, r)
	}
	return r
}

func (c *talker) read(r *mcp.CallToolResult, into any) {
	c.t.Helper()
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// link returns the one file that a result links to; it must not hold the bytes, too.
func (c *talker) link(r *mcp.CallToolResult) *mcp.ResourceLink {
	c.t.Helper()
	var link *mcp.ResourceLink
	for _, content := range r.Content {
		switch x := content.(type) {
		case *mcp.ResourceLink:
			if link != nil {
				c.t.Fatal("there are two links")
			}
			link = x
		case *mcp.ImageContent, *mcp.EmbeddedResource:
			c.t.Error("the bytes are in the answer, too")
		}
	}
	if link == nil {
		c.t.Fatalf("there is no link: %+v", r)
	}
	return link
}

func (c *talker) resource(uri string) []byte {
	c.t.Helper()
	r, err := c.session.ReadResource(c.t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil || len(r.Contents) != 1 {
		c.t.Fatalf("%s: %v %+v", uri, err, r)
	}
	return r.Contents[0].Blob
}

// fetch asks REST for an artifact, or for a range of it.
func (c *talker) fetch(id, part string) (int, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, strings.TrimSuffix(c.o.URL, "/mcp")+"/v1/artifacts/"+id, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if part != "" {
		req.Header.Set("Range", part)
		req.Header.Set("If-Range", `"`+id+`"`)
	}
	resp, err := (&http.Client{Transport: bearer(c.o.Token)}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, data
}

// bearer adds the token to every request of a client.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
