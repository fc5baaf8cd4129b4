// Package devtools speaks the DevTools protocol with a Chrome: a connection over a transport,
// its sessions, and commands that are sent before the answers to those before them are there.
// The transports and the protocol's types are chromedp's and cdproto's.
//
// Promises: commands of one goroutine stay in order; a message that cannot be decoded costs
// the command or the event that it belongs to, and no more; a wait ends with its context, with
// the session (Abandon) or with the connection; one message is bounded; nothing here starts or
// ends a process, or closes a transport.
//
// It must never import anything of the browser family: it knows no tab, lane or call. A session
// hands what it says to the function that it was opened with, on the reading goroutine: that
// function must not block.
package devtools
