package browser

// aimArgs is the question of part 1.
type aimArgs struct {
	Ref      string   `json:"ref,omitzero"`
	Selector string   `json:"selector,omitzero"`
	X        *float64 `json:"x,omitempty"`
	Y        *float64 `json:"y,omitempty"`
	// Kind says what for: rect and place only look; type, fill and choose are about
	// fields; key about the keyboard; click, down, up, hover, wheel and drag about
	// the pointer.
	Kind     string    `json:"kind"`
	Button   string    `json:"button,omitzero"`
	Count    int       `json:"count,omitzero"`
	Position *position `json:"position,omitzero"`
	Clear    bool      `json:"clear,omitzero"`
	Values   []string  `json:"values,omitzero"` // choose: labels or values
	Fields   []field   `json:"fields,omitzero"` // fill: all that are in one document
	Keyed    []int     `json:"keyed,omitzero"`  // fill: the places of fields that listen to keys
	// Within is how long the page's own view transition may be waited out, in milliseconds.
	Within int64 `json:"within,omitzero"`
}

type position struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// aimed is its answer: where to click, and of a field how to type into it.
type aimed struct {
	X         float64  `json:"x"`
	Y         float64  `json:"y"`
	Width     float64  `json:"width"`
	Height    float64  `json:"height"`
	Secret    bool     `json:"secret"`    // a password or code: nothing of it may be shown
	Names     []string `json:"names"`     // of such a field: what a form calls it
	Bare      bool     `json:"bare"`      // no field has the focus: the text goes in as keys
	Direct    bool     `json:"direct"`    // a date, colour or slider: set, not typed
	End       bool     `json:"end"`       // the caret has to be moved to the end by key
	Empty     bool     `json:"empty"`     // the field holds nothing
	Multiline bool     `json:"multiline"` // a line break is part of the text
	Rich      bool     `json:"rich"`      // it is an editor of rich text
	Drawn     bool     `json:"drawn"`     // an editor draws elsewhere what it holds
	Listed    bool     `json:"listed"`    // a list of proposals belongs to it
	Line      bool     `json:"line"`      // such an editor of one line, as a terminal
	Veiled    bool     `json:"veiled"`    // nobody can tell whether it listens to keys
	Moved     bool     `json:"moved"`     // it was scrolled into view
	ScrollX   float64  `json:"scroll_x"`  // how far the document is scrolled, beside a rectangle
	ScrollY   float64  `json:"scroll_y"`
	Drop      bool     `json:"drop"`    // files are to be dropped on it
	Foreign   bool     `json:"foreign"` // a frame is there that only another world can look into

	Verdict  string   `json:"verdict"`  // choose: what the list holds then
	Selected []string `json:"selected"` // choose: its labels
	Key      string   `json:"key"`      // choose: selects it
	Fields   []filled `json:"fields"`   // fill: of each field
}
