package rest_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// fetch sends one request for a file and returns the answer with its body.
func (a *surface) fetch(token, method string, id capabilities.ArtifactID, header ...string) (*http.Response, []byte) {
	a.t.Helper()
	req, err := http.NewRequest(method, a.URL+"/v1/artifacts/"+string(id), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp, body
}

func TestArtifactBytes(t *testing.T) {
	a := start(t)
	data := bytes.Repeat([]byte("0123456789"), artifact.ChunkSize/5)
	id := a.MustKeep(a.files, outcome.Kept{
		Artifact: capabilities.Artifact{Name: "clip \"a\".webm", MIME: "video/webm"}, Call: "c1", Principal: "alice", Lane: "alice", Tool: "test.simple-text",
	}, data)
	tag := `"` + string(id) + `"`
	resp, body := a.fetch(a.agent, "GET", id)
	if resp.StatusCode != 200 || !bytes.Equal(body, data) || resp.Header.Get("ETag") != tag || resp.Header.Get("Content-Type") != "video/webm" {
		t.Errorf("%d, %d bytes, %v", resp.StatusCode, len(body), resp.Header)
	}
	if h := resp.Header; !strings.HasPrefix(h.Get("Content-Disposition"), "attachment;") || h.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("Cache-Control") != "no-store" {
		t.Errorf("a browser may take it for a page: %v", h)
	}
	at := artifact.ChunkSize - 3 // over a chunk's border
	for name, c := range map[string]struct {
		method string
		header []string
		status int
		want   []byte
	}{
		"head":             {"HEAD", nil, 200, nil},
		"range":            {"GET", []string{"Range", "bytes=262141-262150"}, 206, data[at : at+10]},
		"the end":          {"GET", []string{"Range", "bytes=-5"}, 206, data[len(data)-5:]},
		"beyond":           {"GET", []string{"Range", "bytes=99999999-"}, 416, nil},
		"same":             {"GET", []string{"If-None-Match", tag}, 304, nil},
		"range, if same":   {"GET", []string{"Range", "bytes=0-1", "If-Range", tag}, 206, data[:2]},
		"range, if other":  {"GET", []string{"Range", "bytes=0-1", "If-Range", `"x"`}, 200, data},
		"only if it is so": {"GET", []string{"If-Match", `"x"`}, 412, nil},
	} {
		resp, body := a.fetch(a.agent, c.method, id, c.header...)
		if resp.StatusCode != c.status || c.want != nil && !bytes.Equal(body, c.want) {
			t.Errorf("%s: %d, %d bytes", name, resp.StatusCode, len(body))
		}
		if c.method == "HEAD" && resp.ContentLength != int64(len(data)) {
			t.Errorf("%s says %d bytes", name, resp.ContentLength)
		}
	}
}

// A caller who may not have a file learns nothing of it.
func TestWhoMayHaveArtifacts(t *testing.T) {
	a := start(t)
	bob := a.Token("bob", principal.RoleAgent)
	viewer := a.Token("eve", principal.RoleViewer)
	mine := a.MustKeep(a.files, outcome.Kept{Artifact: capabilities.Artifact{Name: "a", MIME: "a/b"}, Call: "c1", Principal: "alice", Lane: "l", Tool: "test.simple-text"}, []byte("alice's"))
	shared := a.MustKeep(a.files, outcome.Kept{Artifact: capabilities.Artifact{Name: "b", MIME: "a/b"}, Call: "c2", Principal: "alice", Lane: "l", Tool: "test.simple-text"}, []byte("both"))
	if again := a.MustKeep(a.files, outcome.Kept{Artifact: capabilities.Artifact{Name: "c", MIME: "a/b"}, Call: "c3", Principal: "bob", Lane: "l2", Tool: "test.simple-text"}, []byte("both")); again != shared {
		t.Fatal("the same bytes have another ID")
	}
	hidden := a.MustKeep(a.files, outcome.Kept{Artifact: capabilities.Artifact{Name: "d", MIME: "a/b"}, Call: "c4", Principal: "alice", Lane: "l", Tool: "tool.not.visible"}, []byte("policy says no by now"))
	for _, c := range []struct {
		who, token string
		id         capabilities.ArtifactID
		code       capabilities.Code
	}{
		{"owner", a.agent, mine, ""}, {"operator", a.operator, mine, ""}, {"another agent", bob, mine, capabilities.CodeNotFound},
		{"viewer", viewer, mine, capabilities.CodeForbidden}, {"another agent, its own", bob, shared, ""},
		{"owner, whose tool policy hides", a.agent, hidden, capabilities.CodeNotFound}, {"operator, of any tool", a.operator, hidden, ""},
		{"nothing", a.agent, "x", capabilities.CodeInvalidRequest}, {"no such", a.agent, capabilities.ArtifactIDOf([32]byte{}), capabilities.CodeNotFound},
	} {
		if c.code == "" {
			a.ok(c.token, "GET", "/v1/artifacts/"+string(c.id), "", nil)
		} else {
			a.fails(c.token, "GET", "/v1/artifacts/"+string(c.id), "", c.code)
		}
	}
	var list struct {
		Artifacts []struct {
			ID   capabilities.ArtifactID `json:"artifact_id"`
			Name string                  `json:"name"`
		} `json:"artifacts"`
	}
	for token, want := range map[string]int{a.agent: 2, bob: 1, a.operator: 4} {
		a.ok(token, "GET", "/v1/artifacts", "", &list)
		if len(list.Artifacts) != want {
			t.Errorf("%d listed, want %d", len(list.Artifacts), want)
		}
	}
	a.fails(bob, "GET", "/v1/artifacts?principal=alice", "", capabilities.CodeForbidden)
	a.fails(bob, "DELETE", "/v1/artifacts/"+string(mine), "", capabilities.CodeNotFound)
	a.ok(bob, "DELETE", "/v1/artifacts/"+string(shared), "", nil)
	a.fails(bob, "GET", "/v1/artifacts/"+string(shared), "", capabilities.CodeNotFound)
	a.ok(a.agent, "GET", "/v1/artifacts/"+string(shared), "", nil) // hers stays
	packets, err := a.Ledger.Packets(t.Context(), ledger.Query{Kind: "artifact.", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, p := range packets {
		if p.Kind == ledger.KindArtifactRemoved && p.Principal == "bob" && p.Call == "c3" {
			removed++
		}
	}
	if removed != 1 || len(packets) < 5 {
		t.Errorf("%d packets, %d removals", len(packets), removed)
	}
	a.Clock.Advance(25 * time.Hour)
	fresh := a.Token("alice", principal.RoleAgent)
	a.fails(fresh, "GET", "/v1/artifacts/"+string(mine), "", capabilities.CodeNotFound)
}
