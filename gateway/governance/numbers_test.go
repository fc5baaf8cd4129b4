package governance

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/gateway/store"
)

// The quick way reads what the plain one reads, or leaves it.
func TestParse(t *testing.T) {
	for text, want := range map[string][]int64{
		"": nil, "[]": nil, "[1,2]": {1, 2}, "[1,2,30,40]": {1, 2, 30, 40}, "[1, 2]": {1, 2}, "[1,-2]": {1, -2}, "[1,999999999999999999]": {1, 999999999999999999},
		"[1,1000000000000000000]": {1, 1000000000000000000}, "[7,1,3,2]": {3, 2, 7, 1}, "[3,1,3,2]": {3, 3}, "[2147483647,1]": {2147483647, 1},
	} {
		var got []int64
		list, err := parse([]byte(text))
		for i, series := range list.series {
			got = append(got, int64(series), list.n[i])
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"[1,2", "1,2]", "[1,,2]", "[1,2]]", "[a]", "[1,2,]", "[2147483648,1]", "[-1,1]"} {
		if list, err := parse([]byte(text)); err == nil {
			t.Errorf("%s is read as %v", text, list)
		}
	}
}

// Sums are those of each series, and a text has what it was made of.
func TestNumbersAddUp(t *testing.T) {
	some := rapid.MapOf(rapid.Int64Range(1, 40), rapid.Int64Range(0, 1<<40))
	rapid.Check(t, func(t *rapid.T) {
		a, b := some.Draw(t, "a"), some.Draw(t, "b")
		got := numbersOf(a).plus(numbersOf(b))
		for series, n := range b {
			a[series] += n
		}
		want := numbersOf(a)
		read, err := parse([]byte(got.text()))
		if err != nil || !slices.Equal(got.series, want.series) || !slices.Equal(got.n, want.n) || got.sum != want.sum || got.text() != want.text() || read.text() != want.text() {
			t.Fatalf("%+v, want %+v, read as %+v, %v", got, want, read, err)
		}
		for at := range got.series {
			if to := rapid.Int32Range(0, 41).Draw(t, "to"); ahead(got.series[at:], to) != max(0, firstFrom(got.series, to)-at) {
				t.Fatalf("%d from %d on in %v is at %d", to, at, got.series, ahead(got.series[at:], to))
			}
		}
	})
}

func firstFrom(list []int32, to int32) int {
	at, _ := slices.BinarySearch(list, to)
	return at
}

// A transaction that runs again, because another of its group failed, counts once.
func TestFoldThatRunsAgain(t *testing.T) {
	h, r := newHouse(t), rand.New(rand.NewPCG(5, 6))
	refused := errors.New("refused")
	for range 40 {
		h.put(t, random(r)...)
		var others sync.WaitGroup
		for range 8 { // some of them share the fold's group
			others.Go(func() {
				if err := h.opts.Store.Write(t.Context(), func(*store.Tx) error { return refused }); !errors.Is(err, refused) {
					t.Error(err)
				}
			})
		}
		if _, err := h.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		others.Wait()
	}
	again := New(h.opts)
	live := h.cells(t)
	if _, err := again.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	if anew := h.cells(t); !reflect.DeepEqual(live, anew) {
		t.Errorf("%v, from nothing %v", live, anew)
	}
}
