package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// memoryPage is what workers remember of one principal.
type memoryPage struct {
	workerPart
	Facts []factCard
	Of    capabilities.PrincipalID
	Whose *choice // nil if the visitor sees nobody's but their own, or nobody else has any
	Typed string  // what is searched for
	One   bool    // one fact, of all of them
	More  bool    // there are others
}

// The most facts that the page shows, and that an export has.
const (
	maxFactsShown = 200
	maxFacts      = 10_000
)

func (c *Console) memoryPage(v *visit) { v.showMemory("", nil) }

// factPage shows one fact.
func (c *Console) factPage(v *visit) { v.showMemory(v.r.PathValue("fact"), nil) }

func (v *visit) showMemory(one string, problem error) {
	in := v.r.URL.Query()
	shown := memoryPage{workerPart: workerPart{v, "/console/memory"}, Typed: strings.TrimSpace(in.Get("q")), One: one != ""}
	shown.Of, shown.Whose = v.whoseMemory(orElse(v.r.PostForm.Get("principal"), in.Get("principal")))
	var list api.FactList
	var err error
	if shown.One {
		list.Facts = make([]api.Fact, 1)
		err = v.get(v1("memory", one)+"?"+query("principal", string(shown.Of)), &list.Facts[0])
	} else {
		err = v.get(v1("memory")+"?"+query("principal", string(shown.Of), "q", shown.Typed, "limit", strconv.Itoa(maxFactsShown)), &list)
	}
	if err != nil && shown.One {
		v.show(page{name: "problem", title: "Memory", here: "/console/jobs", fault: err})
		return
	}
	if problem == nil {
		problem = err
	}
	for _, f := range list.Facts {
		card := factCard{visit: v, Fact: f, Words: f.Text, Ends: lastDay(f.Expires)}
		if f.ID == v.r.PathValue("fact") && v.r.PostForm.Get("do") == "edit" { // it was refused
			card.Words, card.Ends, card.Open = v.r.PostForm.Get("text"), v.r.PostForm.Get("expires"), true
		}
		shown.Facts = append(shown.Facts, card)
	}
	shown.More = len(list.Facts) == maxFactsShown
	v.show(page{name: "memory", title: "Memory", here: "/console/jobs", live: "packet", fault: problem, data: shown})
}

// whoseMemory returns whose memory is shown, and the choice of those who have one.
func (v *visit) whoseMemory(chosen string) (capabilities.PrincipalID, *choice) {
	var list api.MemoryOwners
	if !v.Offers("GET /v1/memory/principals") || v.get(v1("memory", "principals"), &list) != nil {
		return orOwn(chosen, v.who.Principal), nil
	}
	var options []string
	mine := false
	for _, p := range list.Principals {
		options = append(options, string(p.Principal), string(p.Principal)+": "+count(p.Facts, "fact", "facts"))
		mine = mine || p.Principal == v.who.Principal
	}
	if chosen == "" && !mine && len(list.Principals) > 0 {
		chosen = string(list.Principals[0].Principal)
	}
	of := orOwn(chosen, v.who.Principal)
	if len(list.Principals) == 0 || len(list.Principals) == 1 && list.Principals[0].Principal == of {
		return of, nil
	}
	c := choose("m-whose", "principal", "Whose", string(of), options...)
	return of, &c
}

func orOwn(chosen string, own capabilities.PrincipalID) capabilities.PrincipalID {
	return capabilities.PrincipalID(orElse(chosen, string(own)))
}

// factCard is one fact with what can be done about it.
type factCard struct {
	*visit
	api.Fact
	Words string // in the form that changes it
	Ends  string // the day in that form
	Open  bool   // that form
}

// Until is the last day of one that has an end.
func (f factCard) Until() string { return lastDay(f.Expires) }

// lastDay is the last day, in UTC, on which something holds that expires; "" if it does not.
func lastDay(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return end.UTC().Add(-time.Millisecond).Format(time.DateOnly)
}

// newEnd returns the end that a form asks for, by its last day and the one that it was given; one
// that it left alone stays as it is to the minute.
func newEnd(day, before string) (end time.Time, lasting bool, err error) {
	switch day = strings.TrimSpace(day); day {
	case before:
		return time.Time{}, false, nil
	case "":
		return time.Time{}, true, nil
	}
	if end, err = time.Parse(time.DateOnly, day); err != nil {
		return time.Time{}, false, capabilities.Errorf(capabilities.CodeInvalidRequest, "Last day is no day as 2026-12-31")
	}
	return end.AddDate(0, 0, 1), false, nil
}

// Private reports whether it is kept only because somebody agreed.
func (f factCard) Private() bool { return f.Sensitivity == "high" }

// Href is its own page.
func (f factCard) Href() string {
	return at("memory", f.ID) + "?" + query("principal", string(f.Principal))
}

// Export leads to everything that is remembered of the same principal.
func (m memoryPage) Export() string {
	return "/console/memory/export?" + query("principal", string(m.Of))
}

// All leads to the list that one fact is from.
func (m memoryPage) All() string { return "/console/memory?" + query("principal", string(m.Of)) }

// changeFact edits a fact, or forgets it.
func (c *Console) changeFact(v *visit) {
	f, id := v.r.PostForm, v.r.PathValue("fact")
	target := v1("memory", id) + "?" + query("principal", f.Get("principal"))
	var err error
	done := ""
	switch f.Get("do") {
	case "edit":
		in := api.EditFact{Text: strings.TrimSpace(unixLines(f.Get("text"))), Agreed: f.Get("agreed") == "1"}
		if in.Expires, in.Lasting, err = newEnd(f.Get("expires"), f.Get("expired")); err == nil {
			done, err = "changed", v.ask(http.MethodPatch, target, in, nil)
		}
	case "forget":
		done, err = "factgone", v.ask(http.MethodDelete, target, nil, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showMemory("", err)
		return
	}
	v.seeOther("/console/memory?"+query("principal", f.Get("principal")), done)
}

// exportMemory is everything that is remembered of one principal, one JSON object a line.
func (c *Console) exportMemory(v *visit) {
	var list api.FactList
	target := v1("memory") + "?" + query("principal", v.r.URL.Query().Get("principal"), "limit", strconv.Itoa(maxFacts))
	if err := v.get(target, &list); err != nil {
		v.show(page{name: "problem", title: "Memory", here: "/console/jobs", fault: err})
		return
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, f := range list.Facts {
		if err := enc.Encode(f); err != nil {
			v.show(page{name: "problem", title: "Memory", here: "/console/jobs", fault: err})
			return
		}
	}
	guardHeaders(v.w)
	h := v.w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="handrail-memory.ndjson"`)
	_, _ = v.w.Write(out.Bytes()) // the visitor went away: nobody to tell
}
