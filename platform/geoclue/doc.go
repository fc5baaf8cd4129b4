// Package geoclue asks GeoClue, the location service of Linux desktops, where the
// device is.
//
// Promises: every wait is bounded, also the one for an agent, which GeoClue itself
// does not bound; what was refused, what is missing and what nobody knew in time are
// told apart; nothing runs between calls, and the service is told when it may rest.
//
// It must never import agent, gateway or handlers.
package geoclue
