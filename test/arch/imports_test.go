package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// language are the packages both sides of the wire speak; all without I/O.
var language = []string{
	"capabilities", "capabilities/canonical", "capabilities/catalog", "capabilities/wire", "capabilities/policy", "capabilities/chain", "capabilities/sealed", "capabilities/artifact",
	"capabilities/address", "capabilities/fact", "capabilities/turn", "capabilities/sse", "capabilities/form", "capabilities/mask", "capabilities/canonical/yaml", "capabilities/catalog/tools",
	"capabilities/catalog/tools/remote", "capabilities/tunnel",
}

// room says what the packages of a folder may import of this module. The first
// room whose folder matches holds. "x/**" means x and everything below.
type room struct {
	dir string
	may []string
	std bool // no third-party module either (tests are free)
	// tests are what its tests may import besides, where they run the real thing.
	tests []string
	why   string
}

var rooms = []room{
	{dir: "cmd/handrail/connect/clientfile", why: "what rewrites other people's files knows no gateway and no token"},
	{dir: "cmd/handrail/connect", may: []string{"capabilities", "capabilities/command", "cmd/handrail/connect/clientfile", "gateway/client", "gateway/mcpclient", "pairing"},
		why: "what connects a client is given its gateway and its folder; what it found the command line words"},
	{dir: "cmd/handrail/bridge", may: []string{"capabilities", "capabilities/command", "gateway/client"}, why: "what relays MCP is given its gateway and its ends"},
	{dir: "cmd/handrail/ci", std: true, why: "what keeps processes together does not know what they do"},
	{dir: "cmd/handrail/firstrun", std: true, why: "what opens a browser knows no secret that it could hand on"},
	{dir: "cmd/handrail/standalone", why: "what shares a gateway is given a command that starts one and a question that says whether it is up"},
	{dir: "cmd/handrail/board", may: []string{"capabilities", "gateway/api", "gateway/client"}, why: "what draws on a terminal is given its gateway and the program's words"},
	{dir: "cmd/handrail/terminal", may: []string{"capabilities", "capabilities/command", "gateway/route"}, tests: []string{"gateway/route"},
		why: "what prints and ends is the same for every command, whatever it calls"},
	{dir: "cmd/handrail/datadir", may: []string{"agent/link", "capabilities", "capabilities/command", "cmd/handrail/terminal", "gateway/client"},
		why: "what knows where things lie opens none of them"},
	{dir: "cmd/handrail/remote", may: []string{"capabilities", "capabilities/command", "cmd/handrail/datadir", "cmd/handrail/terminal", "gateway/api", "gateway/client", "gateway/naming"},
		why: "client commands meet a gateway from outside, here and elsewhere"},
	{dir: "cmd/handrail/record", may: []string{"agent/journal", "agent/link", "capabilities", "capabilities/chain", "capabilities/command", "cmd/handrail/datadir", "cmd/handrail/invoke",
		"cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api", "gateway/ledger", "gateway/ledger/tree", "gateway/rules", "gateway/store", "pairing"},
		why: "what checks a record reads it, and decides nothing"},
	{dir: "cmd/handrail/rules", may: []string{"capabilities", "capabilities/catalog", "capabilities/policy", "cmd/handrail/datadir", "cmd/handrail/invoke", "cmd/handrail/remote",
		"cmd/handrail/terminal", "gateway/api", "gateway/provider", "gateway/registry", "gateway/rules", "gateway/store"}, why: "policies are tried with the one evaluator, and activated by the gateway"},
	{dir: "cmd/handrail/device", may: []string{"agent", "agent/journal", "agent/link", "agent/notice", "agent/owner", "capabilities", "capabilities/catalog", "cmd/handrail/datadir",
		"cmd/handrail/record", "cmd/handrail/remote", "cmd/handrail/terminal"}, why: "an owner's word on the device needs no gateway"},
	{dir: "cmd/handrail/backup", may: []string{"capabilities", "cmd/handrail/datadir", "cmd/handrail/terminal", "gateway", "gateway/backup", "gateway/store", "pairing"},
		why: "a backup is made of files; no running gateway is asked"},
	{dir: "cmd/handrail/storage", may: []string{"capabilities", "cmd/handrail/datadir", "cmd/handrail/terminal", "gateway", "gateway/store"},
		why: "a store is moved while no gateway has it open"},
	{dir: "cmd/handrail/service", may: []string{"capabilities", "cmd/handrail/datadir", "cmd/handrail/terminal", "platform/service"}, why: "it is given the commands that services run"},
	{dir: "cmd/handrail/health", may: []string{"capabilities", "capabilities/browser", "capabilities/command", "capabilities/desktop", "cmd/handrail/datadir", "cmd/handrail/remote",
		"cmd/handrail/terminal", "gateway/api", "platform", "platform/sandbox"}, tests: []string{"platform/fake", "platform/notify"}, why: "it is given the host, and asks the gateway as any client asks"},
	{dir: "cmd/handrail/satellites", may: []string{"agent/provider", "capabilities", "capabilities/catalog/tools", "capabilities/folder", "cmd/handrail/datadir", "cmd/handrail/terminal", "satellite"},
		why: "a satellite meets its gateway over the bus; the walls round its program are given"},
	{dir: "cmd/handrail/trial", may: []string{"capabilities", "capabilities/browser", "capabilities/policy", "cmd/handrail/ci", "cmd/handrail/datadir", "cmd/handrail/remote",
		"cmd/handrail/terminal", "gateway/client", "suite", "suite/browser", "suite/desktop"}, why: "a site is tried from outside, over MCP; it runs in another process"},
	{dir: "cmd/handrail/lane", may: []string{"capabilities", "cmd/handrail/invoke", "cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api"},
		why: "lanes are the gateway's"},
	{dir: "cmd/handrail/consent", may: []string{"capabilities", "cmd/handrail/board", "cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api", "gateway/client"}, tests: []string{"gateway/front"},
		why: "what asks a person is a client of the REST surface"},
	{dir: "cmd/handrail/roster", may: []string{"capabilities", "capabilities/catalog", "capabilities/command", "cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api", "pairing"},
		why: "what lets in is a client of the REST surface"},
	{dir: "cmd/handrail/access", may: []string{"capabilities", "cmd/handrail/datadir", "cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api"},
		why: "what manages who gets in is a client of the REST surface"},
	{dir: "cmd/handrail/update", may: []string{"capabilities", "capabilities/address"},
		why: "what replaces the program knows a release, and nothing that runs"},
	{dir: "cmd/handrail/invoke", may: []string{"capabilities", "capabilities/command", "cmd/handrail/datadir", "cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api"},
		why: "what makes calls is a client of the REST surface"},
	{dir: "cmd/handrail/provider", may: []string{"agent/provider/openapi", "capabilities", "capabilities/catalog/tools", "capabilities/command", "cmd/handrail/remote",
		"cmd/handrail/terminal", "gateway/api"}, why: "providers are the gateway's and its nodes'; of a document on this disk only what makes tools is sent"},
	{dir: "cmd/handrail/workers", may: []string{"agent/worker", "agent/worker/acp", "agent/worker/delegate", "agent/worker/gate", "agent/worker/hook", "agent/worker/memory", "agent/worker/model",
		"agent/worker/pipeline", "agent/worker/router", "agent/worker/template", "capabilities", "capabilities/fact", "capabilities/turn", "cmd/handrail/consent", "cmd/handrail/datadir", "cmd/handrail/invoke",
		"cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api", "gateway/client", "gateway/consent", "pairing", "satellite"}, why: "a worker reaches the gateway as any agent does"},
	{dir: "cmd/handrail/tools", may: []string{"capabilities", "capabilities/command", "cmd/handrail/invoke", "cmd/handrail/record", "cmd/handrail/remote", "cmd/handrail/terminal", "gateway/api"},
		why: "what shows tools is a client of the REST surface"},
	{dir: "cmd/**", may: []string{"cmd/**", "agent/**", "gateway/**", "capabilities/**", "pairing/**", "platform/**", "suite/**", "satellite"}, tests: []string{"test/site"},
		why: "cmd wires everything; only what exists for tests stays out of the binary"},
	{dir: "suite/tracetest", why: "it knows HTML only"},
	{dir: "suite/libraries", may: []string{"suite", "suite/browser"}, why: "other pages, tried in the words of the browser's suite"},
	{dir: "suite/products", may: []string{"suite", "suite/browser", "suite/libraries"}, why: "whole programs, tried in the same words and told in the same table"},
	{dir: "suite/tasks", may: []string{"suite", "suite/browser"}, why: "tasks in the same words, for any tools"},
	{dir: "suite/**", may: []string{"capabilities", "suite"}, tests: []string{"**"},
		why: "a suite judges any gateway from outside, as an agent meets it"},
	{dir: "satellite", may: []string{"capabilities", "capabilities/canonical", "capabilities/catalog/tools", "capabilities/catalog/tools/remote", "platform/boot"},
		why: "other people's programs link it: the vocabulary and the bus, nothing of the gateway or the agent"},
	{dir: "test/**", may: []string{"**"}, why: "tests may look at everything"},
	{dir: "agent/provider/openapi", may: []string{"capabilities", "capabilities/canonical", "capabilities/catalog/tools"},
		why: "what makes requests of documents sends none, so that it can be fuzzed whole"},
	{dir: "agent/worker/acp", may: []string{"agent/worker", "agent/worker/intent", "capabilities"}, std: true, why: "what speaks with an editor has no way to a gateway"},
	{dir: "agent/worker/hook", may: []string{"capabilities"}, std: true, why: "what runs a person's commands calls no tool"},
	{dir: "agent/worker/intent", std: true, why: "what a person can want is data"},
	{dir: "agent/worker/gate", may: []string{"agent/worker/intent", "agent/worker/named", "capabilities", "capabilities/catalog", "capabilities/policy"}, std: true,
		why: "what a message may use is decided by a table, and by nobody who could be talked to"},
	{dir: "agent/worker/named", may: []string{"capabilities"}, std: true, why: "what reads a message knows nothing else"},
	{dir: "agent/worker/delegate", may: []string{"agent/worker", "capabilities"}, std: true, why: "a harness has no way to a tool"},
	{dir: "agent/worker/pipeline", may: []string{"agent/worker/gate", "agent/worker/intent", "capabilities", "capabilities/canonical", "capabilities/canonical/yaml"}, std: true,
		why: "a pipeline is data: what carries it out is the engine"},
	{dir: "agent/worker/router", may: []string{"agent/worker/intent", "agent/worker/named"}, why: "what says what a message wants knows no tool"},
	{dir: "agent/worker/memory", may: []string{"capabilities", "capabilities/fact"}, std: true, why: "what finds wishes in a conversation keeps nothing"},
	{dir: "agent/worker/model", may: []string{"agent/worker", "agent/worker/intent", "agent/worker/router", "agent/worker/model/endpoint", "capabilities", "capabilities/address"}, std: true, tests: []string{"agent/worker/model/modeltest"},
		why: "a harness has no way to a tool"},
	{dir: "agent/worker/model/endpoint", may: []string{"capabilities", "capabilities/sse"}, why: "what sends requests knows neither turns nor tools"},
	{dir: "agent/worker/model/modeltest", std: true, why: "an endpoint for tests knows nothing of workers"},
	{dir: "agent/worker/template", may: []string{"agent/worker", "agent/worker/intent", "agent/worker/named", "capabilities"}, std: true, why: "a harness has no way to a tool"},
	{dir: "agent/worker", may: []string{"agent/worker/**", "capabilities", "capabilities/canonical", "capabilities/fact", "capabilities/turn"}, std: true, why: "a worker reaches tools by what cmd hands it"},
	{dir: "agent/walls", may: []string{"agent/provider", "capabilities", "capabilities/egress", "platform/sandbox"},
		why: "what puts programs behind walls is one, in the binary and in tests of whole sites; cmd hands it in"},
	{dir: "agent/journal", may: []string{"capabilities", "capabilities/chain", "capabilities/policy", "capabilities/wire", "platform/boot"},
		why: "what a power cut may have lost, the journal has to find out by itself"},
	{dir: "agent/**", may: []string{"agent/**", "capabilities/**", "pairing/**", "platform"},
		why: "the edge must work and be judged without the gateway's code, and gets its OS parts handed in by cmd"},
	{dir: "gateway/metrics", why: "every room of the gateway may count"},
	{dir: "gateway/trace", may: []string{"capabilities", "capabilities/address", "gateway/metrics"}, why: "what tells of calls is told how they went, and asks nobody"},
	{dir: "gateway/tally", may: []string{"capabilities", "capabilities/policy"}, std: true, why: "what counts calls makes and judges none"},
	{dir: "gateway/mail", may: []string{"capabilities", "capabilities/canonical", "gateway/consent", "gateway/ledger", "gateway/ledger/packet"}, tests: []string{"capabilities/chain"},
		why: "what tells of a question has no way to an answer"},
	{dir: "gateway/ledger/tree", may: []string{"capabilities/chain"}, why: "a proof is judged by itself and a key, wherever it is read"},
	{dir: "gateway/ledger/packet", may: []string{"capabilities", "capabilities/canonical", "capabilities/policy", "gateway/drift"}, std: true,
		why: "whoever writes or reads a packet's body needs its types, and nothing of who acts"},
	{dir: "gateway/mcpclient", std: true, why: "what is known of other makers' programs is data, which the command line and the console share"},
	{dir: "gateway/backup", may: []string{"capabilities", "gateway/store", "pairing"}, why: "what packs and unpacks a site decides nothing about it"},
	{dir: "gateway/generation", may: []string{"capabilities", "gateway/store", "pairing"}, std: true, why: "which copy is the latest is a number and a proof"},
	{dir: "gateway/naming", std: true, why: "what a person means is found alike by the command line and the console, from values"},
	{dir: "gateway/api", may: []string{"capabilities", "capabilities/turn"}, std: true,
		why: "what is on the wire of the API is types alone, for other people's programs, too"},
	{dir: "gateway/client", may: []string{"capabilities", "capabilities/address", "capabilities/sse", "capabilities/turn", "gateway/api"}, std: true, tests: []string{"gateway/**", "test/site"},
		why: "other people's programs link it: the standard library and the vocabulary, nothing of the gateway"},
	{dir: "gateway/job", may: []string{"capabilities", "gateway/api", "gateway/store"}, tests: []string{"gateway/store/pgtest"}, why: "what queues jobs neither carries them out nor serves them"},
	{dir: "gateway/worker", may: []string{"capabilities", "gateway/api", "gateway/ledger/packet", "gateway/principal", "gateway/route", "gateway/store", "pairing"},
		why: "a worker that is let in is a principal with a token: nothing of jobs, calls or surfaces"},
	{dir: "gateway/subagent", may: []string{"capabilities", "capabilities/canonical", "capabilities/canonical/yaml", "capabilities/catalog", "capabilities/catalog/tools", "gateway/api", "gateway/job", "gateway/registry"}, std: true,
		why: "a sub-agent is a task for a worker, and its calls are made by whom the registry hands it"},
	{dir: "gateway/skill", may: []string{"capabilities", "capabilities/canonical", "capabilities/canonical/yaml", "gateway/api", "gateway/registry"}, std: true, tests: []string{"capabilities/catalog"},
		why: "a skill is text from a folder, and grants nothing"},
	{dir: "gateway/macro", may: []string{"capabilities", "capabilities/canonical", "capabilities/canonical/yaml", "capabilities/catalog", "capabilities/catalog/tools", "gateway/registry"}, std: true,
		why: "a macro is data, and its calls are made by whom the registry hands it"},
	{dir: "gateway/signin", may: []string{"capabilities", "capabilities/address", "capabilities/egress", "gateway/ledger/packet", "gateway/store"}, tests: []string{"gateway/secret", "gateway/signin/signintest"},
		why: "what signs in elsewhere keeps tokens and asks by the rules of the egress; who may begin is a surface's word"},
	{dir: "gateway/oauth", may: []string{"capabilities", "capabilities/address", "capabilities/egress", "gateway/ledger/packet", "gateway/principal", "gateway/store"},
		why: "what lets clients in keeps little and decides nothing about their calls; the person's word comes by a surface"},
	{dir: "gateway/oidc", may: []string{"capabilities", "capabilities/address", "capabilities/egress", "gateway/principal"}, tests: []string{"gateway/oidc/oidctest", "gateway/store"},
		why: "what signs people in keeps nothing and asks by the rules of the egress; what they may do is judged elsewhere"},
	{dir: "gateway/oidc/oidctest", why: "the other side knows nothing of ours"},
	{dir: "gateway/signin/signintest", why: "the other side knows nothing of ours"},
	{dir: "gateway/**", may: append([]string{"gateway/**", "pairing/**", "capabilities/command"}, language...),
		why: "the gateway process holds no tool code, no OS code and nothing of the edge"},
	{dir: "capabilities", std: true, why: "the root of the shared language is imported by everything, so it pulls nothing in"},
	{dir: "capabilities/canonical", may: []string{"capabilities"}, std: true, why: "bytes that are hashed on both sides depend on nothing that can drift"},
	{dir: "capabilities/canonical/yaml", may: []string{"capabilities", "capabilities/canonical"}, why: "people's files enter by one door, which is read by auditors"},
	{dir: "capabilities/chain", may: []string{"capabilities", "capabilities/canonical"}, std: true, why: "an offline verifier must stay small enough to read"},
	{dir: "capabilities/sealed", may: []string{"capabilities"}, std: true, why: "what keeps a secret between two sides is small, and read by auditors"},
	{dir: "capabilities/artifact", may: []string{"capabilities"}, why: "what both sides keep on their disks is sealed in one way, and read by auditors"},
	{dir: "capabilities/catalog/tools", may: []string{"capabilities", "capabilities/address", "capabilities/canonical", "capabilities/catalog"}, std: true,
		why: "what a provider's words become is one pure thing for gateway and node"},
	{dir: "capabilities/catalog/tools/remote", may: []string{"capabilities", "capabilities/canonical", "capabilities/catalog/tools"}, std: true,
		why: "what is said on the bus is read by both ends from hostile bytes, and no transport"},
	{dir: "capabilities/catalog", may: language, why: "the catalog is data with a schema, shared by both sides"},
	{dir: "capabilities/wire", may: language, why: "frames are decoded on both sides from hostile bytes; no I/O here"},
	{dir: "capabilities/policy", may: language, why: "one pure evaluator for gateway and node"},
	{dir: "capabilities/command", may: []string{"capabilities"}, std: true, why: "what words a command knows the actions, and nothing of who asks for one"},
	{dir: "capabilities/address", why: "whoever decides by an address reads it here, so it pulls nothing in"},
	{dir: "capabilities/egress", may: []string{"capabilities", "capabilities/address", "platform"}, std: true,
		why: "what decides where pages and programs may connect is small, and read by auditors; it knows nothing of either"},
	{dir: "capabilities/browser/page", may: []string{"capabilities"}, std: true, why: "the script inside pages is text with names; how a document is reached is the handler's matter"},
	{dir: "capabilities/browser/traffic", std: true, why: "what a rule matches and a recording holds knows neither Chrome nor calls"},
	{dir: "capabilities/browser/trace", std: true, why: "what a recording of a page's work holds is text in, sums out"},
	{dir: "capabilities/browser/devtools", why: "what carries the protocol knows no tab, lane or call"},
	{dir: "capabilities/browser/process", may: []string{"capabilities", "capabilities/browser/devtools", "capabilities/egress", "platform"},
		why: "how Chrome starts, stops and ends knows no tab, lane or call"},
	{dir: "capabilities/browser/record", may: []string{"capabilities", "capabilities/browser/devtools", "capabilities/browser/outline"},
		why: "what a tab told is kept, bounded and copied out; whose a request is stays the tab's matter"},
	{dir: "capabilities/browser/ready", may: []string{"capabilities/browser/record"}, std: true, why: "when a page can be worked with follows from times and requests alone"},
	{dir: "capabilities/browser/outline/outlinetest", std: true, why: "it reads a delta by its text alone"},
	{dir: "capabilities/browser/outline", may: []string{"capabilities"}, std: true, tests: []string{"capabilities/browser/outline/outlinetest"}, why: "text in, text out: what is cut, compared and remembered knows neither pages nor Chrome"},
	{dir: "capabilities/browser/**", may: []string{"capabilities", "capabilities/address", "capabilities/browser/**", "capabilities/egress", "capabilities/markdown", "platform"}, tests: []string{"platform/**", "capabilities/catalog"},
		why: "a family may have rooms of its own; its tests check the steps of scripts by the real schemas"},
	{dir: "capabilities/desktop/selector", may: []string{"capabilities", "platform"}, std: true, why: "what a selector means follows from one reading of a desktop, and asks none"},
	{dir: "capabilities/desktop/picture", why: "it knows pixels only, so that every family that has some can use it"},
	{dir: "capabilities/desktop/**", may: []string{"capabilities", "capabilities/desktop/**", "platform"}, tests: []string{"platform/**", "capabilities/catalog", "test/desk"},
		why: "a family may have rooms of its own; its tests hold answers against the real schemas, on real desktops"},
	{dir: "capabilities/vp8", std: true, why: "it knows pixels and bytes only; its tests hold it against foreign decoders"},
	{dir: "capabilities/sensor/webm", std: true, tests: []string{"capabilities/vp8"}, why: "what reads and writes a recording's bytes knows nothing else"},
	{dir: "capabilities/sensor/sound", why: "what makes a file of samples knows nothing else of ours"},
	{dir: "capabilities/sensor", may: []string{"capabilities", "capabilities/sensor/**", "platform"}, tests: []string{"platform/**", "capabilities/catalog", "capabilities/browser/**"},
		why: "the family gets its backends handed in; its tests hold answers of the real ones against the real schemas"},
	{dir: "capabilities/tunnel", std: true, why: "what carries packets knows neither QUIC nor who speaks it, so that it can be fuzzed whole"},
	{dir: "capabilities/form", may: []string{"capabilities", "capabilities/canonical"}, std: true, why: "both sides judge a foreign form by the same small code"},
	{dir: "capabilities/sse", std: true, why: "what reads a stream's events is one small thing for both sides, and fuzzed whole"},
	{dir: "capabilities/mask", may: []string{"capabilities"}, std: true, why: "what takes personal data out of texts is one pure thing for both sides, and fuzzed whole"},
	{dir: "capabilities/folder", std: true, why: "what keeps files apart is small, and read by auditors"},
	{dir: "capabilities/fs", may: []string{"capabilities", "capabilities/egress", "capabilities/folder"}, std: true, tests: []string{"platform/**", "capabilities/catalog"},
		why: "what decides where files are is small, and read by auditors; what runs commands is handed in"},
	{dir: "capabilities/markdown", may: []string{"capabilities"}, why: "what makes text of a document knows neither where it comes from nor who reads it"},
	{dir: "capabilities/web", may: []string{"capabilities", "capabilities/address", "capabilities/egress", "capabilities/markdown"}, tests: []string{"capabilities/catalog"},
		why: "what fetches pages goes by the rules of the egress, and knows no browser"},
	{dir: "capabilities/**", may: []string{"capabilities", "platform"}, tests: []string{"platform/**"},
		why: "a handler states what it needs as small interfaces; it knows neither wire nor policy nor the system it runs on"},
	{dir: "pairing/**", may: []string{"capabilities", "pairing/**"}, std: true, why: "pairing works over any byte stream and is read by auditors"},
	{dir: "platform/boot", why: "programs that link a satellite link it, too"},
	{dir: "platform", may: []string{"capabilities"}, std: true,
		why: "the types of the OS seam are imported by handlers and the edge; what is safe to show is said in the vocabulary alone"},
	{dir: "platform/apps", may: []string{"platform"}, std: true, why: "what the menus of a desktop name is read alike under X11 and Wayland"},
	{dir: "platform/x11/wire", may: []string{"platform"}, tests: []string{"test/desk"}, why: "a connection knows no part of the desktop that is made of it"},
	{dir: "platform/x11/keyboard", may: []string{"platform", "platform/x11/wire"}, why: "what a key means is one thing for what presses and for what listens"},
	{dir: "platform/x11/x11test", may: []string{"platform", "platform/x11/wire", "test/desk"}, why: "a desk is shared by the tests of these rooms, and by no other code"},
	{dir: "platform/x11/**", may: []string{"platform", "platform/apps", "platform/x11/keyboard", "platform/x11/wire"}, tests: []string{"platform/**", "test/desk"},
		why: "each part of a desktop works without the others, which have connections of their own"},
	{dir: "platform/sandbox/relay", std: true, why: "it runs behind walls, where only a pipe is"},
	{dir: "platform/**", may: []string{"capabilities", "platform/**"}, tests: []string{"test/desk", "test/wine"}, why: "OS code serves handlers; it knows none of them"},
}

// fences keep a third-party module in its rooms; each with its reason. A module
// below the path counts too. Modules not named here may be used where needed,
// with a reason in docs/dependencies.md.
var fences = []struct {
	module string
	rooms  []string
	why    string
}{
	{"github.com/quic-go/quic-go", []string{"agent/link", "gateway/nodes"}, "the transport can be exchanged only while two packages know it"},
	{"github.com/pion", []string{"agent/media", "gateway/live"}, "the gateway hands offers and answers on as text, and makes credentials for TURN servers; only the edge speaks WebRTC"},
	{"github.com/coder/websocket", []string{"agent/link", "gateway/front"}, "one WebSocket, that of nodes"},
	{"github.com/robfig/cron", []string{"gateway/job"}, "one room knows when a job recurs"},
	{"filippo.io/age", []string{"gateway/backup"}, "one room seals backups"},
	{"github.com/klauspost/compress", []string{"gateway/backup"}, "one room packs backups"},
	{"github.com/gofrs/flock", []string{"agent/journal", "cmd/handrail/standalone", "test/site"}, "locks that are handed to children are platform/procguard's own"},
	{"github.com/nats-io", []string{"gateway/bus", "satellite"}, "the bus can be exchanged only while its two ends know it"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"gateway/front/**", "gateway/signin", "agent/provider", "cmd/handrail", "cmd/handrail/bridge", "cmd/handrail/connect", "suite/**"}, "MCP is one projection of the pipeline; behind the front only its metadata of sign-ins is read"},
	{"github.com/coreos/go-oidc", []string{"gateway/oidc"}, "one room believes what providers sign"},
	{"github.com/cedar-policy/cedar-go", []string{"capabilities/policy"}, "there is one evaluator, used by gateway and node"},
	{"github.com/chromedp", []string{"capabilities/browser", "capabilities/browser/devtools", "capabilities/browser/process", "capabilities/browser/record"},
		"only the browser handler drives Chrome"},
	{"modernc.org/quickjs", []string{"capabilities/browser/script"}, "foreign scripts run in the guest process only"},
	{"github.com/jackc", []string{"gateway/store"}, "one writer, one place that knows what a lost connection means"},
	{"modernc.org/sqlite", []string{"gateway/store"}, "one writer, one place where pragmas and failed fsyncs are handled"},
	{"github.com/fxamacker/cbor/v2", []string{"capabilities/wire", "pairing", "agent/journal", "gateway/passkey"}, "byte layouts live beside their decoders"},
	{"github.com/go-webauthn", []string{"gateway/passkey"}, "one room verifies passkeys"},
	{"github.com/santhosh-tekuri/jsonschema", []string{"capabilities/catalog"}, "arguments and results are validated in one place"},
	{"github.com/google/jsonschema-go", []string{"capabilities/catalog", "gateway/front/**"}, "it makes schemas of the REST answers and is a reference in tests; it validates nothing here"},
	{"codeberg.org/readeck/go-readability", []string{"capabilities/markdown"}, "one room makes text of documents"},
	{"github.com/JohannesKaufmann", []string{"capabilities/markdown"}, "one room makes text of documents"},
	{"go.yaml.in/yaml", []string{"capabilities/canonical/yaml", "agent/provider/openapi"}, "one room reads people's YAML, and refuses what grows; one reads foreign documents, which have anchors, at their price"},
	{"github.com/mewkiz", []string{"capabilities/sensor/sound"}, "one room makes files of sound"},
	{"github.com/tailscale/hujson", []string{"cmd/handrail/connect/clientfile"}, "one room edits other people's files"},
	{"github.com/VictoriaMetrics", []string{"gateway/metrics"}, "rooms count in words of ours, into a registry of their gateway's and never a global one"},
	{"charm.land", []string{"cmd/handrail/board"}, "one room draws on terminals"},
	{"github.com/charmbracelet", []string{"cmd/handrail/**"}, "one room draws on terminals; a test shows what is drawn"},
	{"github.com/spf13/cobra", []string{"cmd/handrail", "cmd/handrail/terminal", "cmd/handrail/datadir", "cmd/handrail/remote", "cmd/handrail/invoke", "cmd/handrail/record", "cmd/handrail/consent",
		"cmd/handrail/access", "cmd/handrail/backup", "cmd/handrail/device", "cmd/handrail/health", "cmd/handrail/lane", "cmd/handrail/provider", "cmd/handrail/roster", "cmd/handrail/rules", "cmd/handrail/satellites", "cmd/handrail/service", "cmd/handrail/storage",
		"cmd/handrail/tools", "cmd/handrail/trial", "cmd/handrail/workers"}, "the command line is the binary's own; what draws, relays or connects is given its values"},
	{"github.com/mdp/qrterminal/v3", []string{"cmd/handrail/access", "cmd/handrail/roster"}, "terminals are the binary's own"},
	{"golang.org/x/term", []string{"cmd/handrail/terminal", "cmd/handrail"}, "terminals are the binary's own; a test of it has one"},
	{"github.com/godbus/dbus/v5", []string{"platform/atspi", "platform/desktop", "platform/geoclue", "platform/notify", "platform/portal"}, "what speaks D-Bus stands behind the seam; a new room that needs it is named here"},
	{"github.com/jfreymuth/pulse", []string{"platform/microphone"}, "sound servers stand behind the seam"},
	{"github.com/jezek/xgb", []string{"platform/x11/**"}, "one connection is shared; other rooms see only platform's types"},
	{"golang.design", []string{"platform/win32", "platform/darwin", "platform/x11/clipboard"}, "clipboards stand behind the seam; on X11 it is the other program in tests"},
	{"github.com/kbinani", []string{"platform/screenshot"}, "pixels stand behind the seam, and what is slow is named as such"},
	{"github.com/tetratelabs/wazero", []string{"platform/wasm"}, "one room runs modules, with bounds of its own"},
	{"github.com/ebitengine/purego", []string{"platform/darwin"}, "it makes Linux binaries dynamic: it stays where files are for macOS only"},
}

// covers reports whether pattern ("a/b", "a/**" or "**") names dir.
func covers(pattern, dir string) bool {
	if pattern == "**" || pattern == dir {
		return true
	}
	base, deep := strings.CutSuffix(pattern, "/**")
	return deep && (dir == base || strings.HasPrefix(dir, base+"/"))
}

func coversAny(patterns []string, dir string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, dir) })
}

// broken lists the rules that a file in dir with these imports breaks.
func broken(dir string, imports []string, test bool) []string {
	i := slices.IndexFunc(rooms, func(r room) bool { return covers(r.dir, dir) })
	if i < 0 {
		return []string{"no room of test/arch covers this folder: give it its import rule"}
	}
	r := rooms[i]
	var all []string
	for _, p := range imports {
		first, _, _ := strings.Cut(p, "/")
		inside, ours := strings.CutPrefix(p, module+"/")
		switch {
		case ours && covers("cmd/**", inside) && !covers("cmd/**", dir):
			all = append(all, "imports "+inside+": nothing imports cmd, it is the top")
		case ours && inside == "test/desk" && test: // a real desktop, which every room's tests may need
		case ours && inside != dir && !coversAny(r.may, inside) && !(test && coversAny(r.tests, inside)):
			all = append(all, "imports "+inside+", which "+r.dir+" may not: "+r.why)
		case !ours && strings.Contains(first, ".") && r.std && !test:
			all = append(all, "imports "+p+", but "+r.dir+" keeps to the standard library: "+r.why)
		}
		for _, f := range fences {
			if (p == f.module || strings.HasPrefix(p, f.module+"/")) && !coversAny(f.rooms, dir) && !covers("test/**", dir) {
				all = append(all, "imports "+p+", which is kept to "+strings.Join(f.rooms, ", ")+": "+f.why)
			}
		}
	}
	return all
}

func TestImports(t *testing.T) {
	all := readTree(t)
	for _, s := range all.code {
		for _, b := range broken(s.dir(), s.imports, s.isTest()) {
			t.Errorf("%s %s", s.file, b)
		}
		if !strings.HasSuffix(s.file, "_darwin.go") && slices.ContainsFunc(s.imports, func(p string) bool { return strings.HasPrefix(p, "github.com/ebitengine/purego") }) {
			t.Errorf("%s imports purego, which makes a Linux binary dynamic: its name has to end in _darwin.go", s.file)
		}
	}
}

// The rules themselves are tested: a rule that forbids nothing is a defect. There is one validation
// of schemas (S4-11): no other package may import the library that does it. The registry has no
// tool of its own (S4-06), and no store or policy beside those that there are (S4-09, S4-51).
func TestRulesForbid(t *testing.T) {
	ours := func(p string) string { return path.Join(module, p) }
	for _, c := range []struct {
		dir, imports string
		ok           bool
	}{
		{"agent/link", ours("capabilities/wire"), true},
		{"agent/link", ours("gateway/nodes"), false},
		{"agent/runner", ours("platform/chrome"), false},
		{"agent/runner", "github.com/quic-go/quic-go", false},
		{"agent/journal", ours("agent/runner"), false},
		{"agent/link", "github.com/quic-go/quic-go/http3", true},
		{"gateway/nodes", ours("agent/link"), false},
		{"gateway/dispatch", ours("capabilities/browser"), false},
		{"gateway/dispatch", ours("platform"), false},
		{"gateway/dispatch", "github.com/modelcontextprotocol/go-sdk/mcp", false},
		{"gateway/front/mcp", "github.com/modelcontextprotocol/go-sdk/mcp", true},
		{"gateway/ledger", "modernc.org/sqlite", false},
		{"gateway/registry", "modernc.org/sqlite", false},
		{"gateway/registry", "github.com/cedar-policy/cedar-go", false},
		{"gateway/registry", ours("capabilities/browser"), false},
		{"gateway/registry", ours("capabilities/fs"), false},
		{"gateway/policy", ours("cmd/handrail"), false},
		{"capabilities", "github.com/google/uuid", false},
		{"capabilities/browser", ours("capabilities/wire"), false},
		{"capabilities/browser", "github.com/chromedp/chromedp", true},
		{"capabilities/browser/outline", "github.com/chromedp/cdproto/cdp", false},
		{"capabilities/browser/devtools", ours("capabilities/browser"), false},
		{"capabilities/browser/process", ours("capabilities/browser"), false},
		{"capabilities/browser/record", ours("capabilities/browser"), false},
		{"capabilities/browser/ready", ours("capabilities/browser/devtools"), false},
		{"capabilities/browser/process", ours("platform/chrome"), false},
		{"capabilities/browser/page", "github.com/chromedp/cdproto/page", false},
		{"capabilities/browser/outline", ours("capabilities/browser"), false},
		{"capabilities/catalog", "github.com/cedar-policy/cedar-go/types", false},
		{"pairing", "golang.org/x/crypto/hkdf", false},
		{"platform/chrome", ours("platform"), true},
		{"platform", "golang.org/x/sys/unix", false},
		{"cmd/handrail", ours("test/arch"), false},
		{"cmd/handrail/trial", ours("suite/browser"), true},
		{"cmd/handrail/trial", ours("gateway"), false},
		{"cmd/handrail/satellites", ours("platform/sandbox"), false},
		{"suite/browser", ours("gateway/dispatch"), false},
		{"suite/browser", ours("capabilities/browser"), false},
		{"cmd/handrail/connect/clientfile", ours("capabilities"), false},
		{"cmd/handrail/connect", ours("gateway/front"), false},
		{"cmd/handrail/bridge", "github.com/spf13/cobra", false},
		{"cmd/handrail/ci", ours("capabilities"), false},
		{"cmd/handrail/standalone", ours("gateway"), false},
		{"gateway/client", ours("gateway/front"), false},
		{"gateway/front/mcp", "github.com/santhosh-tekuri/jsonschema/v6", false},
		{"gateway/dispatch", "github.com/santhosh-tekuri/jsonschema/v6", false},
		{"agent/provider", "github.com/santhosh-tekuri/jsonschema/v6", false},
		{"capabilities/catalog", "github.com/santhosh-tekuri/jsonschema/v6", true},
		{"nowhere", "fmt", false},
	} {
		if got := broken(c.dir, []string{c.imports}, false); (len(got) == 0) != c.ok {
			t.Errorf("%s importing %s: broken rules %q, want none: %v", c.dir, c.imports, got, c.ok)
		}
	}
}

// keepers are the folders of the gateway that know a whole catalog; all others ask the
// registry, or a tool that came at run time would be unknown to them. Descriptors they all know.
var keepers = map[string]string{
	"gateway/registry":        "it begins with the catalog",
	"gateway":                 "its options name the catalog that the registry begins with",
	"gateway/front/fronttest": "it stands in for the pipeline in tests of surfaces",
}

// catalogs lists the names of a catalog as a whole that a file of the gateway uses.
func catalogs(dir string, file *ast.File) []string {
	if _, keeps := keepers[dir]; keeps || !covers("gateway/**", dir) || !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return i.Path.Value == `"`+module+`/capabilities/catalog"` && i.Name == nil
	}) {
		return nil
	}
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "catalog" && slices.Contains([]string{"Catalog", "Embedded", "Load"}, s.Sel.Name) {
				all = append(all, s.Sel.Name)
			}
		}
		return true
	})
	return all
}

// There is one registry (S4-10): nothing else of the gateway reads the catalog beside it.
func TestOneRegistry(t *testing.T) {
	all := readTree(t)
	for _, s := range all.code {
		for _, name := range catalogs(s.dir(), s.syntax) {
			if !s.isTest() {
				t.Errorf("%s uses catalog.%s; ask gateway/registry, which knows what was registered since", s.file, name)
			}
		}
	}
	for _, c := range []struct {
		dir, body string
		found     int
	}{
		{"gateway/rules", "var _ *catalog.Catalog", 1},
		{"gateway/nodes", "var _, _ = catalog.Embedded()", 1},
		{"gateway/nodes", "var _ *catalog.Descriptor", 0},
		{"gateway/registry", "var _ *catalog.Catalog", 0},
		{"agent", "var _ *catalog.Catalog", 0},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport \""+module+"/capabilities/catalog\"\n"+c.body, 0)
		if err != nil || len(catalogs(c.dir, file)) != c.found {
			t.Errorf("%s with %q: found %v, want %d (%v)", c.dir, c.body, catalogs(c.dir, file), c.found, err)
		}
	}
}
