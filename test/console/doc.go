// Package console holds no code, only tests of the gateway's pages: a whole site in
// this process, and a real Chrome that a person would use, driven by its protocol.
//
// Promises: what a test says of a page it read in the browser, and what it says was
// done it read at the site; every page is looked at wide and narrow, light and dark,
// and its pictures are kept where HANDRAIL_SHOTS names a folder.
//
// Nothing may import it.
package console
