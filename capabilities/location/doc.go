// Package location is the location handler: where the device is, from a position that
// its owner set or from the system's own sources.
//
// Promises: it says which source spoke and how accurate that is, and never returns a position older
// than the caller accepts; every wait is bounded by the caller's timeout; what is in the way has a
// code of its own, and readiness says it too.
//
// It must never import the agent, the gateway, wire or OS code: sources come as
// platform.Locator.
package location
