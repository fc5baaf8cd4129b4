package selector

import "github.com/handrail-dev/handrail/platform"

// OnlyApp returns the process of the windows that the first step names, if it names
// any and they are of one process; else 0.
func (s *Selector) OnlyApp(windows []platform.Window) int {
	if len(s.steps) == 0 {
		return 0
	}
	for _, e := range parts(s.steps[0].filter) {
		t, ok := e.(term)
		if !ok || t.field != "window" {
			continue
		}
		meant, pid := ofWindows(windows).scope(t), 0
		for _, w := range windows {
			if w.Own || !meant[w.Title] && w.Ref != t.value {
				continue
			}
			if w.PID == 0 || pid != 0 && pid != w.PID {
				return 0
			}
			pid = w.PID
		}
		return pid
	}
	return 0
}

// Windows returns the windows that the selector means, by what the desktop says of them; false:
// it says more than in which application or window.
func (s *Selector) Windows(all []platform.Window) ([]platform.Window, bool) {
	if len(s.steps) != 1 || !onlyScope(s.steps[0].filter) {
		return nil, false
	}
	found, among := all, ofWindows(all)
	for _, part := range parts(s.steps[0].filter) {
		t, _ := part.(term)
		meant := among.scope(t)
		var kept []platform.Window
		for _, w := range found {
			if t.field == "window" && (meant[w.Title] || w.Ref == t.value) || t.field == "app" && meant[w.App] {
				kept = append(kept, w)
			}
		}
		found = kept
	}
	return found, true
}

// OfWindow means the windows of a title, or the one of a ref.
func OfWindow(title string) *Selector {
	return &Selector{steps: []step{{filter: term{field: "window", value: title}}}}
}

// parts are what holds at once.
func parts(e expr) both {
	if list, ok := e.(both); ok {
		return list
	}
	return both{e}
}

// ofWindows is a scene of which no more is known than its windows.
func ofWindows(windows []platform.Window) *Scene {
	s := &Scene{Windows: windows, scopes: map[string]map[string]bool{}}
	for _, w := range windows {
		s.Elements = append(s.Elements, platform.Element{App: w.App})
	}
	return s
}
