package main

import (
	"strings"
	"testing"
)

// Each package is told in one piece when it ends, whichever was listed first; of one that failed,
// tests that passed say nothing.
func TestPackagesAreToldAsTheyEnd(t *testing.T) {
	var out strings.Builder
	relay(strings.NewReader(`{"Action":"start","Package":"m/slow"}
{"Action":"output","Package":"m/slow","Test":"TestLong","Output":"=== RUN   TestLong\n"}
{"Action":"output","Package":"m/quick","Test":"TestA","Output":"    a_test.go:1: of no interest\n"}
{"Action":"pass","Package":"m/quick","Test":"TestA"}
{"Action":"output","Package":"m/quick","Test":"TestB","Output":"    b_test.go:1: wrong\n"}
{"Action":"output","Package":"m/quick","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}
{"Action":"fail","Package":"m/quick","Test":"TestB"}
{"Action":"output","Package":"m/quick","Output":"FAIL\tm/quick\t0.1s\n"}
{"Action":"fail","Package":"m/quick"}
go: a word of the command itself
{"Action":"output","Package":"m/race","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"pass","Package":"m/race","Test":"TestA"}
{"Action":"output","Package":"m/race","Output":"FAIL\tm/race\t0.1s\n"}
{"Action":"fail","Package":"m/race"}
{"Action":"output","Package":"m/slow","Test":"TestLong","Output":"    l_test.go:1: of no interest\n"}
{"Action":"output","Package":"m/slow","Output":"PASS\n"}
{"Action":"output","Package":"m/slow","Output":"ok  \tm/slow\t9.0s\n"}
{"Action":"pass","Package":"m/slow"}
`), &out)
	const want = "    b_test.go:1: wrong\n--- FAIL: TestB (0.00s)\nFAIL\tm/quick\t0.1s\ngo: a word of the command itself\n" +
		"WARNING: DATA RACE\nFAIL\tm/race\t0.1s\nok  \tm/slow\t9.0s\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}
