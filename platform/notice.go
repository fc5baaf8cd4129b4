package platform

import "context"

// Notice is a short text that the session shows its person, readable by assistive
// technology as every text of the session is. It never says anything by colour
// alone.
type Notice struct {
	Title string // one line
	Body  string // plain text; a line each
	// Lasting notices stay until they are withdrawn or the person puts them away;
	// others go by themselves.
	Lasting bool
	// Actions are buttons, in order; a session may show none.
	Actions []NoticeAction
}

// NoticeAction is one button of a notice.
type NoticeAction struct{ Key, Label string }

// NoticeEvent is what the person did with a notice: pressed a button, or, with an
// empty Key, put it away.
type NoticeEvent struct {
	ID  uint32
	Key string
}

// ErrNoNotices says that there is no session here that shows notices.
const ErrNoNotices DesktopError = "the session shows no notices"

// Notifier shows notices. All methods are safe for concurrent use and bounded by ctx.
type Notifier interface {
	// Show puts up n, in the place of the one with that ID (0: a new one), and returns its ID.
	// ErrNoNotices, wrapped with the reason, where none are shown.
	Show(ctx context.Context, id uint32, n Notice) (uint32, error)
	// Withdraw takes a notice away. One that is not there is no error.
	Withdraw(ctx context.Context, id uint32) error
	// Events returns what the person does with notices; what nobody takes is dropped.
	Events() <-chan NoticeEvent
	// Close ends it. Idempotent.
	Close() error
}
