package opencalls

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestResultsAreKeptWhole(t *testing.T) {
	r := capabilities.Result{
		Call: "c1", Tool: "tool.browser.screenshot", Status: capabilities.StatusOK, Output: []byte(`{"mime":"image/png"}`), Effect: capabilities.EffectConfirmed,
		Routing:  &capabilities.Routing{Selected: "n1", Mode: capabilities.SelectSole},
		Blobs:    []capabilities.Blob{{Field: "a", MIME: "image/png", Bytes: []byte("one")}, {Field: "b", MIME: "x", Bytes: []byte{}}},
		Duration: 1500 * time.Microsecond, DurationMS: 1.5,
	}
	data, err := Pack(&r)
	must(t, err)
	got, err := Unpack(data)
	must(t, err)
	if !reflect.DeepEqual(*got, r) {
		t.Errorf("got %+v, want %+v", *got, r)
	}
}

func FuzzUnPack(f *testing.F) {
	for _, r := range []capabilities.Result{{}, {Call: "c", Blobs: []capabilities.Blob{{Field: "a", Bytes: []byte("xyz")}}}} {
		data, err := Pack(&r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Unpack(data)
		if (err != nil) != (r == nil) {
			t.Fatalf("%v with %v", r, err)
		}
		if r == nil {
			return
		}
		packed, err := Pack(r)
		must(t, err)
		again, err := Unpack(packed)
		must(t, err)
		for i, b := range again.Blobs {
			if !bytes.Equal(b.Bytes, r.Blobs[i].Bytes) {
				t.Fatal("the bytes changed on the way")
			}
		}
	})
}
