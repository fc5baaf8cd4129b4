package owner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// FileName is the owner's file in the node's folder.
const FileName = "owner.json"

// Bounds of the file.
const (
	maxFileBytes = 256 << 10
	maxNames     = 256 // of one list
	maxQuiet     = 16
)

// Mode is what the owner says about a kind of call. The zero value allows, which
// means no more than "the gateway's policy and the Cedar rules decide".
type Mode string

// The modes, from most lenient to strictest.
const (
	ModeAllow Mode = "allow"
	ModeAsk   Mode = "ask"
	ModeNever Mode = "never"
)

var modes = []Mode{ModeAllow, ModeAsk, ModeNever}

// stricter returns the stricter of two modes.
func stricter(a, b Mode) Mode {
	if slices.Index(modes, b) > slices.Index(modes, a) {
		return b
	}
	return a
}

// File is owner.json. Everything but Version may be left out.
type File struct {
	Version int `json:"version"` // 1
	// Default is for every capability that is not named; default: allow.
	Default Mode `json:"default,omitempty"`
	// Capabilities has a mode for a family ("browser") or one capability of it
	// ("browser.evaluate"); the longer name wins.
	Capabilities map[string]Mode `json:"capabilities,omitempty"`
	// Domains are hosts that calls open, as "example.com" or "*.example.com" (the
	// domain and everything below it).
	Domains Limits `json:"domains"`
	// Apps are applications that calls start or read by name, such as "keepassxc";
	// letter case, folder and ".desktop" or ".exe" do not count.
	Apps Limits `json:"apps"`
	// Folders are absolute folders whose files calls hand out, with all below them.
	Folders Limits `json:"folders"`
	// QuietHours are times at which calls are refused or asked about.
	QuietHours []Quiet `json:"quiet_hours,omitempty"`
}

// Limits are three lists of names. Only, unless it is empty, refuses everything
// that is not in it; the strictest list that a name is in holds.
type Limits struct {
	Only  []string `json:"only,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Never []string `json:"never,omitempty"`
}

// Quiet is one time of day, in the device's local time. It may pass midnight; the
// days are those on which it begins.
type Quiet struct {
	Days         []string `json:"days,omitempty"` // mon … sun; default: every day
	From         string   `json:"from"`           // "22:00"
	To           string   `json:"to"`             // "07:00"; equal to From: the whole day
	Capabilities []string `json:"capabilities,omitempty"`
	Mode         Mode     `json:"mode,omitempty"` // ask or never; default never

	from, to time.Duration // since midnight
	days     [7]bool       // by time.Weekday
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// DefaultFile is what a new node gets: nothing beyond the gateway's policy.
func DefaultFile() []byte {
	return []byte(`{
  "version": 1,
  "default": "allow",
  "capabilities": {},
  "domains": {},
  "apps": {},
  "folders": {},
  "quiet_hours": []
}
`)
}

// Parse reads an owner's file. A word that it does not understand is CodeInvalidRequest and names
// the place: a misspelled word must not widen anything unseen.
func Parse(data []byte, cat *catalog.Catalog) (*File, error) {
	if len(data) > maxFileBytes {
		return nil, mistake("it is larger than %d bytes", maxFileBytes)
	}
	if _, err := canonical.Parse(data, canonical.Limits{MaxBytes: maxFileBytes}); err != nil {
		return nil, mistake("%s", strings.TrimSuffix(capabilities.AsError(err).PublicMessage(), "."))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f File
	if err := dec.Decode(&f); err != nil {
		return nil, mistake("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if f.Version != 1 {
		return nil, mistake("version is %d; this program reads version 1", f.Version)
	}
	if err := f.check(cat); err != nil {
		return nil, err
	}
	return &f, nil
}

func mistake(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s: "+format, append([]any{FileName}, args...)...).
		WithAction(capabilities.Action{Key: capabilities.ActionShowRules}, "Correct it.")
}

func (f *File) check(cat *catalog.Catalog) error {
	names := vocabulary(cat)
	mode := func(at string, m *Mode, fallback Mode) error {
		if *m == "" {
			*m = fallback
		}
		if !slices.Contains(modes, *m) {
			return mistake("%s is %q; it may be allow, ask or never", at, *m)
		}
		return nil
	}
	if err := mode("default", &f.Default, ModeAllow); err != nil {
		return err
	}
	for name, m := range f.Capabilities {
		if !names[name] {
			return mistake("capabilities: there is no %q%s", name, nearest(name, names))
		}
		if err := mode("capabilities."+name, &m, ""); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		at    string
		list  *Limits
		clean func(string) (string, bool)
		want  string
	}{
		{"domains", &f.Domains, cleanDomain, "example.com or *.example.com"},
		{"apps", &f.Apps, cleanApp, "the name of an application, such as keepassxc"},
		{"folders", &f.Folders, cleanFolder, "an absolute folder"},
	} {
		for _, part := range []struct {
			at   string
			list *[]string
		}{{"only", &l.list.Only}, {"ask", &l.list.Ask}, {"never", &l.list.Never}} {
			if len(*part.list) > maxNames {
				return mistake("%s.%s has more than %d names", l.at, part.at, maxNames)
			}
			for i, name := range *part.list {
				clean, ok := l.clean(name)
				if !ok {
					return mistake("%s.%s[%d] is %q; it must be %s", l.at, part.at, i, name, l.want)
				}
				(*part.list)[i] = clean
			}
		}
	}
	if len(f.QuietHours) > maxQuiet {
		return mistake("quiet_hours has more than %d entries", maxQuiet)
	}
	for i := range f.QuietHours {
		q, at := &f.QuietHours[i], fmt.Sprintf("quiet_hours[%d]", i)
		if err := mode(at+".mode", &q.Mode, ModeNever); err != nil {
			return err
		}
		if q.Mode == ModeAllow {
			return mistake("%s.mode may be ask or never", at)
		}
		if len(q.Capabilities) > maxNames {
			return mistake("%s.capabilities has more than %d names", at, maxNames)
		}
		for _, name := range q.Capabilities {
			if !names[name] {
				return mistake("%s.capabilities: there is no %q%s", at, name, nearest(name, names))
			}
		}
		if err := q.read(at); err != nil {
			return err
		}
	}
	return nil
}

func (q *Quiet) read(at string) error {
	for _, clock := range []struct {
		at, text string
		into     *time.Duration
	}{{"from", q.From, &q.from}, {"to", q.To, &q.to}} {
		t, err := time.Parse("15:04", clock.text)
		if err != nil {
			return mistake("%s.%s is %q; write a time of day as 22:00", at, clock.at, clock.text)
		}
		*clock.into = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
	if len(q.Days) == 0 {
		q.days = [7]bool{true, true, true, true, true, true, true}
	}
	for _, day := range q.Days {
		n := slices.Index(weekdays, day)
		if n < 0 {
			return mistake("%s.days: there is no day %q; they are %s", at, day, strings.Join(weekdays, ", "))
		}
		q.days[n] = true
	}
	return nil
}

// active reports whether it is quiet at t, which is in the device's local time. By
// the clock on the wall: a day with a change of time is no exception.
func (q *Quiet) active(t time.Time) bool {
	now := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second
	today, yesterday := q.days[t.Weekday()], q.days[(t.Weekday()+6)%7]
	switch {
	case q.from < q.to:
		return today && now >= q.from && now < q.to
	case q.from == q.to: // from one day's From to the next day's
		return today && now >= q.from || yesterday && now < q.to
	}
	return today && now >= q.from || yesterday && now < q.to
}

// vocabulary is every name that stands for capabilities.
func vocabulary(cat *catalog.Catalog) map[string]bool {
	names := map[string]bool{}
	for _, d := range cat.All() {
		if d.NodeCapability() != "" {
			names[d.Tool.Family()], names[capabilityName(d.Tool)] = true, true
		}
	}
	return names
}

func capabilityName(t capabilities.ToolID) string { return strings.TrimPrefix(string(t), "tool.") }

// nearest offers the name that was probably meant.
func nearest(name string, names map[string]bool) string {
	var close []string
	last := name[strings.LastIndexByte(name, '.')+1:]
	for n := range names {
		if strings.HasSuffix(n, "."+last) || last != "" && strings.HasPrefix(n, last) {
			close = append(close, n)
		}
	}
	if len(close) == 0 {
		return ""
	}
	slices.Sort(close)
	return "; did you mean " + close[0] + "?"
}

func cleanDomain(name string) (string, bool) {
	base, below := strings.CutPrefix(name, "*.")
	host := base
	if strings.Count(base, ":") > 1 && base[0] != '[' {
		host = "[" + base + "]"
	}
	d := policy.ClassifyURL("https://" + host + "/")
	if base == "" || d.Host == "" || d.Port != 443 || strings.ContainsAny(base, "/\\@#?*\"") || strings.Contains(d.Host, ":") && below {
		return "", false
	}
	if strings.Trim(d.Host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != "" {
		return "", false // it will stand inside a string of Cedar's
	}
	if below {
		return "*." + d.Host, true
	}
	return d.Host, true
}

// cleanApp returns an application's name as it is compared.
func cleanApp(name string) (string, bool) {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.ToLower(strings.TrimSpace(name))
	for _, suffix := range []string{".desktop", ".exe", ".app"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name, name != ""
}

func cleanFolder(name string) (string, bool) {
	return filepath.Clean(name), filepath.IsAbs(name)
}
