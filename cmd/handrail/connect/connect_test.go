package connect

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/client"
)

// Each client has a file of its own on every system, and the environment of the client moves
// it as it moves the client's own.
func TestEachClientHasAFile(t *testing.T) {
	on := func(goos string, env map[string]string) place {
		return place{goos, func(name string) string { return env[name] }}
	}
	for _, p := range []place{
		on("linux", map[string]string{"HOME": "/h"}),
		on("darwin", map[string]string{"HOME": "/h"}),
		on("windows", map[string]string{"USERPROFILE": "/h", "APPDATA": "/h/roaming"}),
	} {
		var all []string
		for _, c := range Clients() {
			file := filepath.ToSlash(c.file(p))
			if !strings.HasPrefix(file, "/h/") || slices.Contains(all, file) {
				t.Errorf("%s on %s: %s", c.Name, p.goos, file)
			}
			all = append(all, file)
		}
	}
	codex, ok := Named("codex")
	if got := filepath.ToSlash(codex.file(on("linux", map[string]string{"HOME": "/h", "CODEX_HOME": "/c"}))); !ok || got != "/c/config.toml" {
		t.Errorf("with CODEX_HOME: %s", got)
	}
	if _, ok := Named("netscape"); ok {
		t.Error("an unknown client is known")
	}
}

// A connection is read back as it was kept, and its token is in no other form of it.
func TestStoreKeepsConnections(t *testing.T) {
	s := Store{t.TempDir()}
	if _, ok, err := s.Read("codex"); ok || err != nil {
		t.Fatalf("before: %t, %v", ok, err)
	}
	want := Connection{
		Client: "codex", Site: "s", URL: "https://gateway.example", Pin: "", Principal: "research", TokenID: "t1", Token: client.NewToken("hrt_secret"),
		Transport: "http", Node: "n1", File: "/h/config.toml",
	}
	if err := s.save(want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.Read("codex")
	if !ok || err != nil || got != want {
		t.Errorf("read %+v, %t, %v", got, ok, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(text, "hrt_secret") {
		t.Errorf("the token is printed: %s", text)
	}
}

// A connection leads to the address that it names, else to the gateway of the data directory.
func TestReach(t *testing.T) {
	here := &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	s := Site{Running: func() (*url.URL, client.Pin, error) { return here, client.Pin{}, nil }}
	for address, want := range map[string]string{"": "http://127.0.0.1:1", "https://gateway.example": "https://gateway.example", "http://gateway.example": ""} {
		g, err := s.Reach(Connection{URL: address, Token: client.NewToken("hrt_x")})
		if (err != nil) != (want == "") || err == nil && (g.Base.String() != want || g.Address() != want || g.Token.Reveal() != "hrt_x") {
			t.Errorf("%q leads to %v, %v", address, g.Base, err)
		}
	}
}
