// Package page is Handrail's code inside pages: the page script, its functions' names, and how
// one is called. It lives in an isolated world: it sees the page's DOM, the page can neither
// see nor change it. It changes nothing in the DOM itself.
//
// Promises: a page cannot mislead it by names of fields or images, since what it asks of forms
// and documents it asks by second names that no page knows (names.go, names.js); the script is
// put together at its first use, so that programs without a browser do not pay for it.
//
// It must never import anything but the standard library and capabilities: how a document is
// reached is the handler's matter.
package page
