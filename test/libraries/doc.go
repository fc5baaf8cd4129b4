// Command libraries tries the browser's tools on pages of real npm packages, against
// the gateway that `handrail ci` tells it of: `make libraries`. With -of products it starts
// whole products and such a gateway itself: `make products`. With -peer the same behaviours are
// done by Playwright MCP, too, and compared: `make bench-libraries`; with -of tasks as well, those
// of suite/tasks by tokens, calls and times: `make bench-tasks`. It prints each outcome,
// and with -out writes the table between the marks of a document. It fails where a
// behaviour does not work that the table there said works.
//
// It must never import what serves calls: it is a client like an agent.
package main
