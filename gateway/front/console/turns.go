package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway/api"
)

// stageWords are the stages of a turn as people read them.
var stageWords = map[string]string{
	string(turn.Router): "the router", string(turn.Policy): "the gate", string(turn.Permission): "a check of permission",
	string(turn.ToolCall): "a tool call", string(turn.Response): "the answer", string(turn.Memory): "its memory",
	string(turn.Cleanup): "the clean-up", string(turn.Pipeline): "the end",
}

// turnsPage is what workers say of their turns.
type turnsPage struct {
	workerPart
	Turns   []turnRow
	Session string // that they are narrowed to
	More    bool   // there are older ones
}

// maxTurnsShown is how many turns the page lists.
const maxTurnsShown = 100

func (c *Console) turnsPage(v *visit) {
	var list api.TurnList
	session := strings.TrimSpace(v.r.URL.Query().Get("session"))
	err := v.get(v1("turns")+"?"+query("limit", strconv.Itoa(maxTurnsShown), "session", session, "state", "all"), &list)
	shown := turnsPage{workerPart: workerPart{v, "/console/turns"}, Session: session, More: len(list.Turns) == maxTurnsShown}
	for i := range list.Turns {
		shown.Turns = append(shown.Turns, turnRow{v, list.Turns[i]})
	}
	v.show(page{name: "turns", title: "Turns", here: "/console/jobs", live: "packet call", fault: err, data: shown})
}

// turnRow is one turn in a list.
type turnRow struct {
	*visit
	api.Turn
}

// Intent is what the router found, for people.
func (t turnRow) Intent() string { s := t.SoFar(); return s.Intent }

// Sure is how sure the router was.
func (t turnRow) Sure() string {
	s := t.SoFar()
	if s.Intent == "" {
		return ""
	}
	return percent(s.Confidence)
}

// Calls is how many calls of it the gateway saw, as the worker says.
func (t turnRow) Calls() int { s := t.SoFar(); return len(s.Calls) }

// Took is how long it took; of one that runs, so far.
func (t turnRow) Took() string { return took(float64(t.Claim.Took(time.Now()).Microseconds()) / 1000) }

// Open reports whether it has no end, because it runs or was lost.
func (t turnRow) Open() bool { return t.State == turn.Running || t.State == turn.Lost }

// Mood is the class of its state.
func (t turnRow) Mood() string {
	if t.State == turn.Running {
		return "busy"
	}
	return "bad"
}

// Word is its state.
func (t turnRow) Word() string { return string(t.State) }

// OfSession leads to the job that it belongs to, or to the turns of the same conversation.
func (t turnRow) OfSession() string {
	if strings.HasPrefix(t.Session, "job_") {
		return at("jobs", t.Session)
	}
	return "/console/turns?" + query("session", t.Session)
}

// turnPage is one turn, phase by phase.
type turnPage struct {
	workerPart
	Turn   turnRow
	Phases []phase
}

// phase is one of the four things that a pipeline does.
type phase struct {
	Name, Says string
	Steps      []turnStep
}

// turnStep is one stage with the packet that recorded it.
type turnStep struct {
	turn.Stage
	By     capabilities.PrincipalID // whose turn it is
	Since  string                   // the turn's beginning
	Packet *packetRow               // nil if the visitor may not read it, or it is not kept any more
}

// phases are the four, with the stages of each.
var phases = []struct {
	name, says string
	stages     []turn.Name
}{
	{"Router", "It found out what the message wants.", []turn.Name{turn.Router}},
	{"Gate", "A table opened the tools of that intent, and no other.", []turn.Name{turn.Policy}},
	{"Executor", "It called tools through the gateway, which judged each call by itself.",
		[]turn.Name{turn.Permission, turn.ToolCall, turn.Response}},
	{"After it", "It kept what it was asked to keep, and took back its permissions.", []turn.Name{turn.Memory, turn.Cleanup, turn.Pipeline}},
}

func (c *Console) turnPage(v *visit) {
	shown := turnPage{workerPart: workerPart{v, "/console/turns"}, Turn: turnRow{visit: v}}
	if err := v.get(v1("turns", v.r.PathValue("turn")), &shown.Turn.Turn); err != nil {
		v.show(page{name: "problem", title: "A turn", here: "/console/jobs", fault: err})
		return
	}
	packets, err := v.packetsOf(&shown.Turn.Turn)
	for _, p := range phases {
		one := phase{Name: p.name, Says: p.says}
		for i, s := range shown.Turn.Stages {
			for _, name := range p.stages {
				if s.Stage == name {
					one.Steps = append(one.Steps, turnStep{Stage: s, By: shown.Turn.Principal, Since: since(shown.Turn.Started, s.At), Packet: packets[i]})
				}
			}
		}
		shown.Phases = append(shown.Phases, one)
	}
	live := ""
	if shown.Turn.State == turn.Running {
		live = "packet call"
	}
	v.show(page{name: "turn", title: "A turn", here: "/console/jobs", live: live, fault: err, data: shown})
}

// packetsOf returns the packets of a turn's stages by the stages' places.
func (v *visit) packetsOf(t *api.Turn) (map[int]*packetRow, error) {
	if t.First == 0 || !v.Offers("GET /v1/ledger/packets") {
		return nil, nil
	}
	var list api.PacketList
	if err := v.get(v1("ledger", "packets")+fmt.Sprintf("?after=%d&limit=%d", t.First-1, len(t.Stages)), &list); err != nil {
		return nil, err
	}
	all := map[int]*packetRow{}
	for i := range list.Packets {
		p := &list.Packets[i]
		if p.Seq < t.First || p.Seq >= t.First+uint64(len(t.Stages)) { // those of before were pruned
			continue
		}
		row := rowOf(p)
		all[int(p.Seq-t.First)] = &row
	}
	return all, nil
}

// Name is the stage as the seeds name it.
func (s turnStep) Name() string { return string(s.Stage.Stage) }

// Sure is how sure the router was.
func (s turnStep) Sure() string {
	if s.Router == nil {
		return ""
	}
	return percent(s.Router.Confidence)
}

// Took is how long a call took.
func (s turnStep) Took() string {
	if s.Call == nil {
		return ""
	}
	return took(s.Call.DurationMS)
}

// Mood is the class of a call's status.
func (s turnStep) Mood() string {
	if s.Call == nil {
		return ""
	}
	return map[string]string{"ok": "good", "denied": "no", "refused": "no", "error": "bad", "pending": "busy"}[s.Call.Status]
}

// Word is a call's status.
func (s turnStep) Word() string {
	if s.Call == nil {
		return ""
	}
	return s.Call.Status
}

// MemoryHref leads to what a worker's principal has in memory.
func (s turnStep) MemoryHref() string { return "/console/memory?" + query("principal", string(s.By)) }

// Facts are the facts that the turn wrote or read, by their IDs.
func (s turnStep) Facts() []string {
	var ids []string
	for _, n := range s.Memory {
		ids = append(ids, strings.TrimSpace(n.Status+" "+n.Fact))
	}
	return ids
}

// since is how long after the beginning of a turn something was.
func since(began, at time.Time) string {
	return "+" + orElse(took(float64(max(0, at.Sub(began)).Microseconds())/1000), "0 ms")
}

func percent(part float64) string { return strconv.Itoa(int(part*100+0.5)) + " %" }
