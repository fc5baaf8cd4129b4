package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/live"
	"github.com/handrail-dev/handrail/gateway/oidc"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// Options of Open; required unless a default is named.
type Options struct {
	// Dir holds everything the gateway keeps: keys, store, policy, tokens. It must
	// exist and be open to its owner only.
	Dir  string
	HTTP string // TCP address of the HTTP surfaces, such as "127.0.0.1:7480"
	QUIC string // UDP address nodes dial, such as ":7443"
	// Store is the PostgreSQL database that the site's store lies in. Default: where it lay before,
	// and for a new site the file store.db in Dir.
	Store store.URL
	// Standby has this be one of several gateways of the site, which serve one at a time: Open waits
	// while another serves, and Run ends with an error that store.Lapsed knows once another may.
	Standby bool
	// Fleet has this be one of several gateways of the site that serve at once: it is the UDP address
	// at which the others reach this one. Run ends as with Standby once this one is put out.
	Fleet string
	// Drains lets people drain the gateway (Drain of rest), which ends Run. Default: they cannot.
	Drains bool
	// Bus is the TCP address that satellites connect to, such as "127.0.0.1:7444"; it is listened
	// at once one is invited. NATS is a server elsewhere in its place, and NATSTLS how it is met.
	Bus     string
	NATS    string
	NATSTLS *tls.Config
	// BusForWorkers has the bus start for workers on other machines, too: with the first that comes
	// in.
	BusForWorkers bool
	// Advertise returns the addresses that pastes carry; default: where the listener can be
	// reached, as far as this host can tell.
	Advertise []string
	// TLSCert and TLSKey are PEM files, read again when they change; TLSGenerated has
	// a certificate made instead that is known by its fingerprint. Beyond loopback one
	// of them is required, or Proxies.
	TLSCert, TLSKey string
	TLSGenerated    bool
	Proxies         []netip.Prefix // in front, that do TLS
	// ICE are the STUN and TURN servers by which viewers and nodes meet. Default: none.
	ICE   live.ICEServers
	Hosts []string // further names clients may call by
	// URL is by which address people and clients come in from elsewhere, such as
	// "https://handrail.example"; its host is one of Hosts then. Default: where HTTP
	// listens.
	URL string
	// Others are the site's other gateways, each by its addresses, which nodes are told of.
	Others [][]string
	// ClientOrigins are web origins whose pages may be clients of MCP. Default: none.
	ClientOrigins []string
	// OIDC is the OpenID provider at which people sign in; nil: there is none.
	OIDC *oidc.Config
	// ClientHosts are hosts beside public ones where OAuth clients' documents may lie, as
	// "host:port". Default: none.
	ClientHosts []string
	PolicyFiles rules.Files // what becomes of the policy folder's files at the start
	// Prepare is called once the data directory is this process's alone, before its policy folder
	// is read. No other gateway works with the secrets that it writes there. Default: nothing.
	Prepare func(context.Context) error
	// Catalog is what the registry begins with. Default: the embedded one.
	Catalog *catalog.Catalog
	// StopGrace is how long a stop waits for calls that run, before it cuts them off; default: not
	// at all.
	StopGrace time.Duration
	// ApprovalWait is how long a call that policy asks about waits for a person.
	// Default: nobody is asked, only grants made ahead count.
	ApprovalWait time.Duration
	// LedgerRetention is how long packets are kept; older segments are pruned with
	// proof. Default: for ever.
	LedgerRetention time.Duration
	// ArtifactQuota is how many bytes of artifacts are kept in all, and ArtifactTTL for
	// how long. Defaults: those of outcome.ArtifactOptions.
	ArtifactQuota int64
	ArtifactTTL   time.Duration
	// NodeLogs reads a node's own log, for comparisons with the ledger. Default: none.
	NodeLogs rest.NodeLogs
	// PushServices are the hosts that messages to browsers may go to, and PushTransport
	// carries them. Defaults: those of push.Options.
	PushServices  []string
	PushTransport http.RoundTripper
	// MailRoots are whose certificates a mail server may have. Default: the system's.
	MailRoots *x509.CertPool
	// TurnLease is how long a worker's turn is said to run without a word of its worker. Default:
	// that of turn.Options.
	TurnLease time.Duration
	// Clock is by which satellites' heartbeats are late. Default: the system's.
	Clock func() time.Time
	// LocalClients are the MCP clients on this machine, which the console connects. Default: none.
	LocalClients rest.LocalClients
	// Skills is a folder with skills beside those that are compiled in. Default: none.
	Skills string
	// Traces is the collector that is told how calls went. Default: nobody is.
	Traces  *trace.Config
	Version string       // of this program
	Log     *slog.Logger // default: discards
}
