package front_test

import (
	"reflect"
	"testing"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// The end of a call tells which programs carried it out, and the walls that stood around each
// (S1-37); one that tells of none, or that cannot be read, has none.
func TestRunnersOfAnEnd(t *testing.T) {
	body := `{"status":"ok","runners":[{"isolation_class":"t2","program":"sha256:aa","runner_fingerprint":"00ff","walls":["files","one door"]}]}`
	want := []api.Ran{{Class: "t2", Program: "sha256:aa", Runner: "00ff", Walls: []string{"files", "one door"}}}
	if got := front.RunnersOf([]byte(body)); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for _, none := range []string{`{"status":"ok"}`, `{"runners":[`, `{"runners":[{"walls":1}]}`} {
		if got := front.RunnersOf([]byte(none)); got != nil {
			t.Errorf("%s: %+v", none, got)
		}
	}
}
