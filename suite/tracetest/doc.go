// Package tracetest holds what every trace of a suite has to pass, for the tests of
// the suites. It is never part of the binary, and must never import anything of this
// module.
package tracetest
