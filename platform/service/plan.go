package service

import (
	"encoding/xml"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Role says which of the two services is meant.
type Role string

// The roles.
const (
	Gateway Role = "gateway" // a service of the machine, under an account of its own
	Node    Role = "node"    // a service of one person's session
)

// Spec is what is asked for; all but Args, Root and Always are required.
type Spec struct {
	Role    Role
	Program string   // absolute path of the program
	Args    []string // after the role's own command
	Data    string   // absolute path of the data directory
	Account string   // whom a gateway runs as
	Home    string   // of the person, for a node
	Root    string   // a system's files below this folder, one that does not run; default: this system
	// Always has a node run from the person's first sign-in on, also without a desktop session.
	Always bool
}

// File is one file of a plan.
type File struct {
	Path string
	Text string
}

// Plan is how a service comes and goes on one system.
type Plan struct {
	Name    string // as the system calls it
	Files   []File
	On      [][]string // commands that switch it on, once the files are there
	Off     [][]string // commands that switch it off, while they are there
	Gone    [][]string // commands once they are gone
	Running []string   // ends with 0 if it runs
	Logs    []string   // prints what it logged; nil: nobody keeps it
	Log     string     // the file of that, where it is one
	Hidden  string     // a path of the command's that the service would not see; "": it sees them all
}

// LogsOf returns the command that prints the last lines of the log, and goes on if follow says so.
func (p Plan) LogsOf(lines int, follow bool) []string {
	if p.Logs == nil {
		return nil
	}
	argv := append(slices.Clone(p.Logs), "-n", strconv.Itoa(lines))
	if follow {
		argv = append(argv, "-f")
	}
	if p.Log != "" {
		argv = append(argv, p.Log)
	}
	return argv
}

// mark begins every file that is ours.
const mark = "handrail service install"

// For returns the plan of a system.
func For(goos string, s Spec) (Plan, error) {
	if s.Role != Gateway && s.Role != Node {
		return Plan{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%q is no service: gateway or node", s.Role)
	}
	for _, word := range append([]string{s.Program, s.Data, s.Account}, s.Args...) {
		if strings.ContainsAny(word, "\n\r\x00") {
			return Plan{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "A word of the service's command has a line break.")
		}
	}
	switch goos {
	case "linux":
		return systemd(s), nil
	case "darwin":
		return launchd(s), nil
	case "windows":
		return tasks(s), nil
	}
	return Plan{}, capabilities.Errorf(capabilities.CodeNotSupported, "Handrail keeps no service on %s.", goos).
		WithHint("Have the system start the program by its own means.")
}

// hidden returns the first path of a gateway's that its unit on Linux hides from it; "": none.
func (s Spec) hidden() string {
	for _, p := range []string{s.Program, s.Data} {
		for _, folder := range []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"} {
			if s.Role == Gateway && (p == folder || strings.HasPrefix(path.Clean(p), folder+"/")) {
				return p
			}
		}
	}
	return ""
}

// command is what the service runs.
func (s Spec) command() []string {
	return append([]string{s.Program, string(s.Role), "--data", s.Data}, s.Args...)
}

// Quote returns a word as a command line of systemd reads it: nothing in it is replaced.
func Quote(word string) string {
	r := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$")
	if quoted := r.Replace(word); quoted != word || word == "" || strings.ContainsAny(word, " \t';") {
		return `"` + quoted + `"`
	}
	return word
}

func commandLine(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = Quote(w)
	}
	return strings.Join(all, " ")
}

// hardened is what the gateway does without: it needs its folder, its sockets, and no more.
const hardened = `NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
`

// systemd is the plan of Linux. Exit codes that only a person mends (2: the command line, 3: the
// node was revoked, 7: a later copy of the site) start nothing again.
func systemd(s Spec) Plan {
	p := Plan{Name: "handrail-" + string(s.Role) + ".service", Hidden: s.hidden()}
	if s.Role == Node {
		unit := path.Join(s.Home, ".config/systemd/user", p.Name)
		target, session := "graphical-session.target", "After=graphical-session.target\nPartOf=graphical-session.target\n"
		if s.Always {
			target, session = "default.target", ""
		}
		p.Files = []File{{unit, fmt.Sprintf("# %s\n[Unit]\nDescription=Handrail: this device as a node\n%s\n"+
			"[Service]\nType=exec\nExecStart=%s\n"+
			"Restart=on-failure\nRestartSec=5\nRestartPreventExitStatus=2 3 7\nUMask=0077\nNoNewPrivileges=yes\n\n[Install]\nWantedBy=%s\n",
			mark, session, commandLine(s.command()), target)}}
		p.On = [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", p.Name}}
		p.Off = [][]string{{"systemctl", "--user", "disable", "--now", p.Name}}
		p.Gone = [][]string{{"systemctl", "--user", "daemon-reload"}}
		p.Running = []string{"systemctl", "--user", "is-active", "--quiet", p.Name}
		p.Logs = []string{"journalctl", "--no-pager", "--user-unit", p.Name}
		return p
	}
	write := "ReadWritePaths=" + Quote(s.Data) + "\n"
	if s.Data == "/var/lib/handrail" {
		write = "StateDirectory=handrail\nStateDirectoryMode=0700\n"
	}
	p.Files = []File{
		{path.Join(s.Root, "/etc/sysusers.d/handrail.conf"), fmt.Sprintf("# %s\nu %s - \"Handrail gateway\" %s\n",
			mark, s.Account, s.Data)},
		{path.Join(s.Root, "/etc/systemd/system", p.Name), fmt.Sprintf("# %s\n[Unit]\nDescription=Handrail gateway\n"+
			"Wants=network-online.target\nAfter=network-online.target\n\n[Service]\nType=exec\nUser=%s\nExecStart=%s\n"+
			"Restart=on-failure\nRestartSec=2\n"+
			"RestartPreventExitStatus=2 7\nTimeoutStopSec=20\nLimitNOFILE=65536\n%s%s\n[Install]\nWantedBy=multi-user.target\n",
			mark, s.Account, commandLine(s.command()), write, hardened)},
	}
	if s.Root != "" { // of a system that does not run: links alone
		p.On = [][]string{{"systemctl", "--root=" + s.Root, "enable", p.Name}}
		p.Off = [][]string{{"systemctl", "--root=" + s.Root, "disable", p.Name}}
		return p
	}
	p.On = [][]string{
		{"systemd-sysusers", "handrail.conf"}, {"systemctl", "daemon-reload"}, {"systemctl", "enable", "--now", p.Name},
	}
	p.Off = [][]string{{"systemctl", "disable", "--now", p.Name}}
	p.Gone = [][]string{{"systemctl", "daemon-reload"}}
	p.Running = []string{"systemctl", "is-active", "--quiet", p.Name}
	p.Logs = []string{"journalctl", "--no-pager", "--unit", p.Name}
	return p
}

// launchd is the plan of macOS.
func launchd(s Spec) Plan {
	p := Plan{Name: "dev.handrail." + string(s.Role)}
	folder, domain, log := "/Library/LaunchDaemons", "system", "/var/log/handrail-gateway.log"
	account := "<key>UserName</key><string>" + plist(s.Account) + "</string>\n"
	if s.Role == Node {
		folder, domain, account = path.Join(s.Home, "Library/LaunchAgents"), "gui", ""
		log = path.Join(s.Home, "Library/Logs/handrail-node.log")
	}
	var words strings.Builder
	for _, w := range s.command() {
		words.WriteString("<string>" + plist(w) + "</string>\n")
	}
	file := path.Join(s.Root, folder, p.Name+".plist")
	p.Files = []File{{file, fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!-- %s -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>%s</string>
<key>ProgramArguments</key><array>
%s</array>
%s<key>RunAtLoad</key><true/>
<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
<key>ThrottleInterval</key><integer>5</integer>
<key>Umask</key><integer>63</integer>
<key>StandardErrorPath</key><string>%s</string>
</dict></plist>
`, mark, p.Name, words.String(), account, plist(log))}}
	p.Log = log
	if s.Root != "" {
		return p
	}
	p.On = [][]string{{"launchctl", "bootstrap", domain, file}}
	p.Off = [][]string{{"launchctl", "bootout", domain + "/" + p.Name}}
	p.Running = []string{"launchctl", "print", domain + "/" + p.Name}
	p.Logs = []string{"tail"}
	return p
}

func plist(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}

// tasks is the plan of Windows: a task at logon for the node, which has to be in the person's
// session, and one at the system's start for the gateway. It takes no file.
func tasks(s Spec) Plan {
	p := Plan{Name: `Handrail\` + string(s.Role)}
	var line []string
	for _, w := range s.command() {
		line = append(line, `"`+strings.ReplaceAll(w, `"`, `\"`)+`"`)
	}
	on := []string{"schtasks", "/Create", "/F", "/TN", p.Name, "/TR", strings.Join(line, " ")}
	if s.Role == Gateway {
		on = append(on, "/SC", "ONSTART", "/RU", s.Account)
	} else {
		on = append(on, "/SC", "ONLOGON", "/RL", "LIMITED")
	}
	p.On = [][]string{on, {"schtasks", "/Run", "/TN", p.Name}}
	p.Off = [][]string{{"schtasks", "/End", "/TN", p.Name}, {"schtasks", "/Delete", "/F", "/TN", p.Name}}
	p.Running = []string{"schtasks", "/Query", "/TN", p.Name}
	return p
}
