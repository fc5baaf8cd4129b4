// Package media is cameras and microphones by Chrome's own media stack: what works
// wherever Chrome does. It has a browser of its own (process.Private), never the one
// that calls drive: headless, without any network, with one page, which this package
// brings. The browser stays for a while after use, so that the next use is quick; the
// devices are closed as soon as a capture ends.
//
// Promises: when Record or Photo returns, the device is free; a page that does not
// answer in time is ended with its browser; what a recording lost is an error, never a
// shorter recording.
//
// It must never import handlers of other families, and knows neither calls nor lanes.
package media
