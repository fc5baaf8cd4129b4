package capabilities

import (
	"path/filepath"
	"regexp"
	"strings"
)

// KeyPages is the capability key of what works in pages of a browser.
const KeyPages = "network.browser.session"

// KeyFetch is the capability key of what sends requests by plain HTTP itself.
const KeyFetch = "network.egress.http"

// NarrowDomains begins a key of an envelope that narrows a lane's way to the network to one host,
// such as "network.egress.domain_allowlist:example.com". Tools with KeyPages go that way, and
// built-in ones with KeyFetch.
const NarrowDomains = "network.egress.domain_allowlist:"

// KeyEgress is the capability key of what reaches hosts through the egress proxy of its node.
const KeyEgress = "network.egress.https"

// Keys under which attempts are told that walls refused; no tool declares them.
const (
	KeyLookup    = "network.dns.lookup"         // a datagram, by which names are looked up
	KeyListen    = "network.ingress.listen"     // a port on which others connect to the program
	KeyTrace     = "execution.proc.trace"       // looking into a process that the program did not start
	KeyControl   = "execution.proc.control"     // a signal to such a process, or its limits and its place
	KeyShared    = "execution.proc.shared"      // memory, messages and semaphores that others share
	KeySystem    = "execution.system.change"    // changing the system: mounts, namespaces, kernel modules, clocks
	KeyInterface = "execution.system.interface" // another way of the kernel to what the program has
	KeyKeyring   = "data.read.keyring"          // keys that the kernel keeps for an account
)

// KeySecret is the capability key of what a secret is handed out by.
const KeySecret = "privileged.secret.read"

// FitsHost reports whether a host fits a key after NarrowDomains, as Readiness.Hosts are: a name,
// "*." before one, an IPv4 address, each with or without a port.
func FitsHost(host string) bool {
	return host != "" && len(host) <= MaxHostText && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.*:_-") == ""
}

// Keys that decide what the program of a call gets (S1-13), and what becomes of what it returns.
const (
	KeySpawn    = "execution.proc.spawn"       // it may start others
	KeyExtended = "execution.timeout.extended" // ten minutes of processor time
	KeyBurst    = "execution.cpu.burst"        // processor time until the call's deadline
	KeyMemory   = "execution.memory.high"      // 4 GiB of memory
	KeyRead     = "data.read.workspace"        // the folders of its record to read
	KeyWrite    = "data.write.workspace"       // and to write
	KeyMasked   = "data.access.pii_masked"     // what it returns is without personal data (S1-17)
	KeyRetained = "data.retention.extended"    // its artifacts are kept for longer (S1-17)
	// KeyLanguage begins the key of an interpreter, such as "execution.language.python".
	KeyLanguage = "execution.language."
)

// KeyTemp is the capability key of temporary files.
const KeyTemp = "data.write.temp"

// WriteKey returns the key under which a program's writing to a path outside its folders is seen.
// Directly in the folders that all programs of a system have for temporary files, it is KeyTemp.
func WriteKey(path string) string {
	switch filepath.Dir(path) {
	case "/tmp", "/var/tmp":
		return KeyTemp
	}
	return KeyWrite
}

// interpreters are the programs that run whatever text they are given, by the language of
// their key.
var interpreters = map[string]*regexp.Regexp{
	"node":   regexp.MustCompile(`^(node|nodejs|npx|npm|deno|bun)$`),
	"perl":   regexp.MustCompile(`^perl[0-9.]*$`),
	"php":    regexp.MustCompile(`^php[0-9.]*$`),
	"python": regexp.MustCompile(`^(python|pypy|uvx?|pipx)[0-9.]*$`),
	"ruby":   regexp.MustCompile(`^(ruby|irb)[0-9.]*$`),
}

// LanguageKey returns the key of the interpreter that a program is, by its name or path; "" if it
// is none that is known.
func LanguageKey(program string) string {
	name := strings.ToLower(filepath.Base(program))
	for language, form := range interpreters {
		if form.MatchString(name) {
			return KeyLanguage + language
		}
	}
	return ""
}
