package live

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

func TestServers(t *testing.T) {
	s := ICEServers{URLs: []string{"stun:stun.example", "turn:turn.example:3478?transport=udp"}, Secret: "north"}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	var all []Server
	synctest.Test(t, func(*testing.T) { all = s.For("ann \"of\" the yard") }) // at 2000-01-01T00:00:00Z
	// openssl: printf 946686000:ann__of__the_yard | openssl dgst -binary -sha1 -hmac north | base64
	want := `<turn:turn.example:3478?transport=udp>; rel="ice-server"; username="946686000:ann__of__the_yard"; credential="XpJTRVSzBsOS5/00J79c2KCxB5M="; credential-type="password"`
	if len(all) != 2 || all[0].Link() != `<stun:stun.example>; rel="ice-server"` || all[1].Link() != want {
		t.Errorf("%q\n%q", all[0].Link(), all[1].Link())
	}
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s.Secret)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s.Secret, s.Secret), string(body), log.String()} {
		if strings.Contains(text, "north") {
			t.Errorf("the secret is in %s", text)
		}
	}
	for name, bad := range map[string]ICEServers{
		"no secret": {URLs: []string{"turn:turn.example"}}, "another scheme": {URLs: []string{"http:turn.example"}}, "nothing": {URLs: []string{""}}, "a path": {URLs: []string{"stun:a/b"}},
		"slashes": {URLs: []string{"turn://turn.example"}, Secret: "s"}, "a port that is none": {URLs: []string{"stun:a:99999"}}, "a quote": {URLs: []string{`stun:a">`}},
		"another query": {URLs: []string{"turn:a?transport=sctp"}, Secret: "s"}, "a user": {URLs: []string{"turn:me@a"}, Secret: "s"}, "too many": {URLs: make([]string, maxServers+1)},
	} {
		if err := bad.Check(); err == nil {
			t.Errorf("%s: %v is taken", name, bad.URLs)
		}
	}
	if err := (ICEServers{}).Check(); err != nil || len((ICEServers{}).For("x")) != 0 {
		t.Error("none is not none:", err)
	}
}
