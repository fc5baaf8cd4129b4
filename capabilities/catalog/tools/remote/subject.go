package remote

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// The subjects of one satellite (S3-24, S3-25). <domain> is factory.tool.<service>, or
// factory.<service> where the service is plumbing:
//
//	<domain>.heartbeat-<id>  satellite → gateway   every Period; only this satellite may say it
//	<domain>.<id>            gateway → satellite   requests; only this satellite hears them
//	_INBOX.<id>.<token>      satellite → gateway   replies to one request
//	handrail.join.<key>      who holds a paste → gateway, by the paste's key alone
const (
	heartbeat  = ".heartbeat-"
	inbox      = "_INBOX."
	join       = "handrail.join."
	AllInboxes = inbox + ">" // what the gateway hears replies by
	AllJoins   = join + "*"  // and those who join
)

// Heartbeats is where one satellite says that it is there. It is a subject of its own, so that the
// server of the bus can keep others from it, and none spends what another may say.
func Heartbeats(service, id string) string { return tools.Subject(service) + heartbeat + id }

// Own is where one satellite hears requests.
func Own(service, id string) string { return tools.Subject(service) + "." + id }

// Inbox is the prefix of all replies of one satellite, or of one who joins.
func Inbox(id string) string { return inbox + id }

// Join is where the one who holds a paste asks to be let in.
func Join(key string) string { return join + key }

// JoinKey returns the key that a subject of Join names; "" for any other subject.
func JoinKey(subject string) string {
	key, ok := strings.CutPrefix(subject, join)
	if !ok || strings.Contains(key, ".") {
		return ""
	}
	return key
}

// Discovery is what the gateway subscribes to: the whole tool plane at once (S3-26), and the
// domains of plumbing, which may have tools, too (S3-29).
func Discovery() []string {
	all := []string{tools.AllTools}
	for _, d := range tools.PlumbingDomains() {
		all = append(all, tools.Subject(d)+".*")
	}
	return all
}

// HeartbeatOf returns the ID of the satellite that a subject of Discovery is the heartbeats of;
// "" for any other subject.
func HeartbeatOf(subject string) string {
	last := subject[strings.LastIndexByte(subject, '.')+1:]
	id, ok := strings.CutPrefix(last, heartbeat[1:])
	if !ok {
		return ""
	}
	return id
}
