// Package record shows what was written down: calls, drift and packets, checks exports of a ledger
// offline, and holds the gateway's log and a node's against each other.
//
// Promises: an export is checked without trust in the gateway that made it; what was changed, left
// out or cut off is named, with an exit code of its own; nothing here changes a ledger but 'drift',
// which ends what drift brought about.
//
// It must never import what decides or dispatches: of the gateway it knows the ledger, of the
// agent the journal, and both are read only.
package record
