package trace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"
)

// Bounds of what is read and of what is told.
const (
	MaxEvents = 200_000
	maxBytes  = 512 << 20
	maxTold   = 10
)

// LongTask is from how many milliseconds on a task is long: a person who clicks meanwhile notices.
const LongTask = 50

// Summary is where the time of the main threads went, in milliseconds.
type Summary struct {
	Span     float64 // from the first event to the last
	Busy     float64 // all tasks together
	Blocking float64 // of long tasks, what is beyond LongTask
	Long     int     // how many tasks were long
	Kinds    []Spent // by kind of work, the most first
	Scripts  []Spent // by the address of the script that ran, with all that it caused
	Tasks    []Task  // the longest of the long ones
	Cut      bool    // there was more than is read
}

// Spent is how much time something took.
type Spent struct {
	Name string
	MS   float64
}

// Task is one that was long.
type Task struct {
	At, MS float64 // At is since the first event
	Due    string  // the work that took most of it
}

// event is what is kept of one.
type event struct {
	ts, dur float64 // microseconds
	name    string
	script  string // what ran, with its place
	url     string // of the script
}

// thread is one, by its process.
type thread struct{ process, id int64 }

// raw is an event as Chrome writes it.
type raw struct {
	Name     string          `json:"name"`
	Phase    string          `json:"ph"`
	Process  int64           `json:"pid"`
	Thread   int64           `json:"tid"`
	Time     float64         `json:"ts"`
	Duration float64         `json:"dur"`
	Args     json.RawMessage `json:"args"`
}

// ErrNoTrace is what Read returns for what is no trace.
var ErrNoTrace = errors.New("trace: no list of events")

// Read sums up a trace: an object whose traceEvents are a list.
func Read(from io.Reader) (Summary, error) {
	limited := &io.LimitedReader{R: from, N: maxBytes}
	d := json.NewDecoder(limited)
	if err := enter(d); err != nil {
		return Summary{}, err
	}
	threads := map[thread][]event{}
	pages := map[thread]bool{}
	n := 0
	for d.More() {
		var r raw
		if err := d.Decode(&r); err != nil {
			if limited.N <= 0 {
				return sum(threads, pages, true), nil
			}
			return Summary{}, fmt.Errorf("%w: %w", ErrNoTrace, err)
		}
		at := thread{r.Process, r.Thread}
		switch {
		case r.Phase == "M" && r.Name == "thread_name":
			pages[at] = nameOf(r.Args) == "CrRendererMain"
		case r.Phase == "X":
			if n++; n > MaxEvents {
				return sum(threads, pages, true), nil
			}
			e := event{ts: r.Time, dur: r.Duration, name: r.Name}
			if kindOf(r.Name) == scripting {
				e.url, e.script = ranIn(r.Args)
			}
			threads[at] = append(threads[at], e)
		}
	}
	return sum(threads, pages, false), nil
}

// enter goes to the first event.
func enter(d *json.Decoder) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ErrNoTrace
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return ErrNoTrace
		}
		if key == "traceEvents" {
			if t, err := d.Token(); err != nil || t != json.Delim('[') {
				return ErrNoTrace
			}
			return nil
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return ErrNoTrace
		}
	}
	return ErrNoTrace
}

// nameOf is the name in an event's arguments.
func nameOf(args json.RawMessage) string {
	var a struct{ Name string }
	_ = json.Unmarshal(args, &a) // none is none
	return a.Name
}

// ranIn is the address of the script that an event ran, and the place in it.
func ranIn(args json.RawMessage) (url, place string) {
	var a struct {
		FileName string `json:"fileName"`
		Data     struct {
			URL      string `json:"url"`
			Function string `json:"functionName"`
			Line     int    `json:"lineNumber"`
			Type     string `json:"type"`
		} `json:"data"`
	}
	if json.Unmarshal(args, &a) != nil {
		return "", ""
	}
	url = cmp.Or(a.Data.URL, a.FileName)
	switch {
	case url == "" && a.Data.Type != "":
		return "", a.Data.Type + " event"
	case url == "":
		return "", ""
	}
	place = url
	if a.Data.Line > 0 {
		place += ":" + strconv.Itoa(a.Data.Line)
	}
	if a.Data.Function != "" {
		place = a.Data.Function + " " + place
	}
	return url, place
}

// sum sums up the main threads of pages.
func sum(threads map[thread][]event, pages map[thread]bool, cut bool) Summary {
	s := Summary{Cut: cut}
	first, last := 0.0, 0.0
	for _, list := range threads {
		for _, e := range list {
			if e.ts <= 0 {
				continue
			}
			if first == 0 || e.ts < first {
				first = e.ts
			}
			last = max(last, e.ts+e.dur)
		}
	}
	kinds, scripts := map[string]float64{}, map[string]float64{}
	for at, list := range threads {
		if pages[at] {
			s.add(list, first, kinds, scripts)
		}
	}
	s.Span, s.Kinds, s.Scripts = round(last-first), most(kinds), most(scripts)
	sort.Slice(s.Tasks, func(i, j int) bool {
		a, b := s.Tasks[i], s.Tasks[j]
		return cmp.Or(cmp.Compare(b.MS, a.MS), cmp.Compare(a.At, b.At)) < 0
	})
	s.Tasks = s.Tasks[:min(len(s.Tasks), maxTold)]
	s.Busy, s.Blocking = round(s.Busy*1000), round(s.Blocking*1000)
	return s
}

// open is an event that others happen in: unless it says its own, it has the kind and the script
// of the one around it.
type open struct {
	event
	kind string
	self float64
}

// add adds one thread: what of an event's time is no other's is its own.
func (s *Summary) add(list []event, first float64, kinds, scripts map[string]float64) {
	sort.SliceStable(list, func(i, j int) bool {
		return cmp.Or(cmp.Compare(list[i].ts, list[j].ts), cmp.Compare(list[j].dur, list[i].dur)) < 0
	})
	var stack []open
	due := map[string]float64{} // in the task that is read
	end := func() {
		e := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		own := max(0, e.self)
		kinds[e.kind] += own
		if e.url != "" {
			scripts[e.url] += own
		}
		due[cmp.Or(e.script, e.kind)] += own
		if len(stack) > 0 {
			return
		}
		s.Busy += e.dur / 1000
		if ms := e.dur / 1000; ms >= LongTask {
			s.Long++
			s.Blocking += ms - LongTask
			s.Tasks = append(s.Tasks, Task{At: round(e.ts - first), MS: round(e.dur), Due: most(due)[0].Name})
		}
		clear(due)
	}
	for _, e := range list {
		for len(stack) > 0 && e.ts >= stack[len(stack)-1].ts+stack[len(stack)-1].dur {
			end()
		}
		o := open{event: e, kind: kindOf(e.name), self: e.dur}
		if len(stack) > 0 {
			above := &stack[len(stack)-1]
			above.self -= e.dur
			o.kind, o.url, o.script = cmp.Or(o.kind, above.kind), cmp.Or(o.url, above.url), cmp.Or(o.script, above.script)
		}
		o.kind = cmp.Or(o.kind, other)
		stack = append(stack, o)
	}
	for len(stack) > 0 {
		end()
	}
}

// most are the largest of some times, in milliseconds.
func most(times map[string]float64) []Spent {
	all := []Spent{}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		all = append(all, Spent{name, round(times[name])})
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].MS > all[j].MS })
	return all[:min(len(all), maxTold)]
}

// round makes microseconds milliseconds with one digit behind the point.
func round(us float64) float64 { return float64(int64(us/100+0.5)) / 10 }
