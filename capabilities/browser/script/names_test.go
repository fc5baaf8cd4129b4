//go:build unix

package script

import (
	"strings"
	"testing"
)

// namesOfScripts are all that a script finds: the language's own, the page, a console and timers.
const namesOfScripts = `AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError
	FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array InternalError Iterator JSON Map Math
	NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set SharedArrayBuffer String Symbol SyntaxError TypeError URIError
	Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet clearTimeout console decodeURI decodeURIComponent encodeURI
	encodeURIComponent escape eval globalThis isFinite isNaN page parseFloat parseInt setTimeout undefined unescape`

// Nothing that a script finds reaches a file, a socket, a program or a module: the engine is a wall
// where the system has no other (S1-63).
func TestScriptsHaveNoOtherNames(t *testing.T) {
	r, err := try(t, "return Object.getOwnPropertyNames(globalThis).sort().join(' ')")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Trim(string(r.Value), `"`), strings.Join(strings.Fields(namesOfScripts), " "); got != want {
		t.Errorf("a script has %s\nand should have %s", got, want)
	}
	for _, code := range []string{"return await import('os')", "return await import('./x.js')", "return (await import('data:text/javascript,export default 1')).default"} {
		if r, err := try(t, code); err == nil {
			t.Errorf("%s: %s", code, r.Value)
		}
	}
}
