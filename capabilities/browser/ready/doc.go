// Package ready says when a page can be worked with: one rule, for navigate, navigate-back, new
// tabs and clicks that navigate. It judges times and requests, and asks nobody.
//
// Promises: the judgement follows from what it is given; a page that goes on loading, showing
// nothing or getting elements is given up after a bound; a stream, a picture or a poll holds none.
//
// It must never import anything of the browser family but record: what a page says of itself, and
// who waits for it, is the tab's matter.
package ready
