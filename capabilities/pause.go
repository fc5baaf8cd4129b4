package capabilities

// Pauser is a Handler in which something goes on between calls, such as the pages of
// a browser.
type Pauser interface {
	// Pause is called with true when a stop switch stops the node, after every running
	// call's context has ended, and with false when none stops it any more. Until then
	// nothing that the handler drives may go on: no script of a page, no event of input.
	// It returns soon, is idempotent and is called in order.
	Pause(on bool)
}
