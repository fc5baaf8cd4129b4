package intent

import (
	"math"
	"slices"
)

// Name is an intent. The zero value is none.
type Name string

// The intents of rule S2-04, and two more so that forms and desktops can be worked with.
const (
	ChatOnly         Name = "chat_only"
	LookupSearch     Name = "lookup_search"
	BrowseOnce       Name = "browse_once"
	OneShotDiscovery Name = "one_shot_discovery"
	ScreenObserve    Name = "screen_observe"
	FileTask         Name = "file_task"
	SystemTask       Name = "system_task"
	MemoryRead       Name = "memory_read"
	MemoryWrite      Name = "memory_write"
	BrowserTask      Name = "browser_task"
	DesktopTask      Name = "desktop_task"
)

// Risk is how much an intent can harm.
type Risk string

// The levels.
const (
	Low    Risk = "low"    // nothing outside the conversation changes
	Medium Risk = "medium" // something private is read, or something small changes
	High   Risk = "high"   // programs run, or things are sent in a person's name
)

// Needs are what an intent needs of the world (S2-03).
type Needs struct {
	Web               bool `json:"needs_web"`
	BrowserAutomation bool `json:"needs_browser_automation"`
	Search            bool `json:"needs_search"`
	MemoryRead        bool `json:"needs_memory_read"`
	MemoryWrite       bool `json:"needs_memory_write"`
	FileAccess        bool `json:"needs_file_access"`
	ScreenRead        bool `json:"needs_screen_read"`
	SystemExecute     bool `json:"needs_system_execute"`
}

// Intent is one row of the table.
type Intent struct {
	Name     Name
	Asks     string // what a person is asked where it is unclear: "Do you want me to …?"
	Means    string // what it means, for a model that classifies
	Prefixes []string
	Needs    Needs
	Risk     Risk
}

var all = []Intent{
	{ChatOnly, "just talk", "casual talk, greetings, questions that need no look at the world", []string{"/chat"}, Needs{}, Low},
	{LookupSearch, "search the web", "search the web for current information",
		[]string{"/search", "/lookup"}, Needs{Web: true, Search: true}, Low},
	{BrowseOnce, "read that page", "open one page that the user named and read it", []string{"/browse", "/read"}, Needs{Web: true}, Low},
	{OneShotDiscovery, "research that on the web", "research: search, read several pages and judge",
		[]string{"/research", "/discover"}, Needs{Web: true, Search: true}, Medium},
	{ScreenObserve, "look at your screen", "say what is on the user's screen", []string{"/screen"}, Needs{ScreenRead: true}, Medium},
	{FileTask, "work with your files", "read, list, find or edit files", []string{"/file", "/files"}, Needs{FileAccess: true}, Medium},
	{SystemTask, "run a command", "run a command or change the system", []string{"/run", "/system"}, Needs{SystemExecute: true}, High},
	{MemoryRead, "recall what you told me", "recall what the user said before", []string{"/recall"}, Needs{MemoryRead: true}, Low},
	{MemoryWrite, "remember that", "the user asks for something to be remembered or forgotten",
		[]string{"/remember"}, Needs{MemoryWrite: true}, Medium},
	{BrowserTask, "do that in the browser", "do something on a website: fill forms, click, order, log in",
		[]string{"/web"}, Needs{Web: true, BrowserAutomation: true}, High},
	{DesktopTask, "do that on your desktop", "use programs and windows of the user's desktop",
		[]string{"/desktop"}, Needs{ScreenRead: true}, High},
}

// All returns every intent, in one order.
func All() []Intent { return slices.Clone(all) }

// Get finds an intent by its name.
func Get(n Name) (Intent, bool) {
	i := slices.IndexFunc(all, func(i Intent) bool { return i.Name == n })
	if i < 0 {
		return Intent{}, false
	}
	return all[i], true
}

// includes are intents that serve others' messages, too: a click on a page needs the page.
var includes = map[Name][]Name{
	OneShotDiscovery: {LookupSearch, BrowseOnce},
	BrowserTask:      {BrowseOnce},
	DesktopTask:      {ScreenObserve},
}

// Includes reports whether an intent serves what messages of another want, too.
func Includes(n, other Name) bool { return slices.Contains(includes[n], other) }

// Route is what a router says of one message: the RouterOutput of rule S2-03.
type Route struct {
	Intent Name `json:"intent"`
	Needs
	RiskLevel  Risk    `json:"risk_level"`
	Confidence float64 `json:"confidence"` // 0 to 1
}

// Default is the confidence of a route that nothing speaks for (S2-03).
const Default = 0.5

// To returns the route to an intent. An unknown name is ChatOnly, which needs nothing.
func To(n Name, confidence float64) Route {
	i, ok := Get(n)
	if !ok {
		i, confidence = all[0], Default
	}
	return Route{i.Name, i.Needs, i.Risk, math.Floor(min(max(confidence, 0), 1)*100+1e-9) / 100}
}
