// Package canonical is the one door through which JSON enters Handrail: strict
// JSON in, RFC 8785 (JSON Canonicalization Scheme) bytes out.
//
// Promises: what two decoders could read differently is refused, not repaired (duplicate keys, keys
// that differ only in letter case, numbers a double cannot hold, lone surrogates, invalid UTF-8,
// bytes after the value); size, depth and number of values are bounded before memory is spent;
// equal values have equal bytes, so a digest of them is a digest of the meaning; and parsing what
// it printed makes the same bytes again. It does no I/O and keeps no state.
//
// It must never import anything of this module but the capabilities root.
package canonical
