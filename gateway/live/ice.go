package live

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pion/turn/v5"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxServers bounds the servers of a gateway.
const maxServers = 8

// credentialTime is how long a credential is good: a session and some.
const credentialTime = 20 * time.Minute

// TURNSecret is what a gateway shares with its TURN servers. It does not print itself.
type TURNSecret string

const hiddenSecret = "(TURN secret)"

// String hides it.
func (TURNSecret) String() string { return hiddenSecret }

// GoString hides it.
func (TURNSecret) GoString() string { return hiddenSecret }

// MarshalText hides it.
func (TURNSecret) MarshalText() ([]byte, error) { return []byte(hiddenSecret), nil }

// LogValue hides it.
func (TURNSecret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }

// ICEServers are the STUN and TURN servers by which viewers and nodes find a way to
// each other. The zero value is none.
type ICEServers struct {
	// URLs such as "turn:turn.example:3478?transport=udp" (RFC 7064, RFC 7065), at most 8.
	URLs []string
	// Secret makes the credentials that TURN servers ask for; required with any.
	Secret TURNSecret
}

// Server is one of them with what it asks for.
type Server struct {
	URL        string `json:"url"`
	Username   string `json:"username,omitempty"`
	Credential string `json:"credential,omitempty"`
}

// Check finds mistakes. Its errors are words for whoever configures the gateway.
func (s ICEServers) Check() error {
	if len(s.URLs) > maxServers {
		return fmt.Errorf("%d STUN and TURN servers are the most", maxServers)
	}
	for _, text := range s.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Opaque == "" || strings.ContainsAny(text, "<>\"\\ ") {
			return fmt.Errorf("%.100q is no address such as turn:turn.example:3478", text)
		}
		host, port := u.Opaque, ""
		if h, p, err := net.SplitHostPort(u.Opaque); err == nil {
			host, port = h, p
		}
		if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) || strings.ContainsAny(host, "/@") {
			return fmt.Errorf("%.100q: the address is HOST or HOST:PORT", text)
		}
		switch u.Scheme {
		case "stun", "stuns":
			if u.RawQuery != "" {
				return fmt.Errorf("%.100q: a STUN server's address has nothing after ?", text)
			}
		case "turn", "turns":
			if u.RawQuery != "" && u.RawQuery != "transport=udp" && u.RawQuery != "transport=tcp" {
				return fmt.Errorf("%.100q: after ? comes transport=udp or transport=tcp", text)
			}
			if s.Secret == "" {
				return errors.New("a TURN server needs the secret that this gateway shares with it")
			}
		default:
			return fmt.Errorf("%.100q begins with none of stun:, stuns:, turn: and turns:", text)
		}
	}
	return nil
}

// For returns the servers with credentials for one who is told them now: a user name with
// the second it ends, signed (draft-uberti-behave-turn-rest, as coturn has it).
func (s ICEServers) For(who string) []Server {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, who)
	// It can fail where its hash cannot be written to, which is never.
	username, credential, _ := turn.GenerateLongTermTURNRESTCredentials(string(s.Secret), name[:min(len(name), 64)], credentialTime)
	all := make([]Server, 0, len(s.URLs))
	for _, text := range s.URLs {
		one := Server{URL: text}
		if strings.HasPrefix(text, "turn") {
			one.Username, one.Credential = username, credential
		}
		all = append(all, one)
	}
	return all
}

// Link is the server as a Link header tells viewers of it (RFC 9725 section 4.6).
func (s Server) Link() string {
	text := "<" + s.URL + `>; rel="ice-server"`
	if s.Username != "" {
		text += `; username="` + s.Username + `"; credential="` + s.Credential + `"; credential-type="password"`
	}
	return text
}

// Servers returns those for a principal who watches.
func (s *Sessions) Servers(who capabilities.PrincipalID) []Server {
	return s.opts.ICE.For(string(who))
}
