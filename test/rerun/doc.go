// Command rerun runs `go test`, and a test that failed again, alone, up to twice:
// `go run ./test/rerun FLAGS -- PACKAGES`. It prints what go test prints, a package
// as soon as it ends. A test that passes then is told as `flaky:` at the end and counts as passed.
// Where a subtest failed, the first of the two runs is of it, the second of the whole test.
//
// Promises: what cannot be chance is never forgiven: a data race, a panic, a timeout, a
// package that does not build or whose TestMain fails, a test of test/attack that says anything
// but `slow:` (a wait ran out, and nothing got through), a test that says `grave:` (something
// lost, doubled or unrecorded), and more than ten failures.
//
// It must never import a package of this module.
package main
