package governance

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// A model whose rows stayed in memory says what one says that reads them all, whatever came between
// and however few may stay.
func TestRowsThatStayAreTheSame(t *testing.T) {
	for _, most := range []int{keptNumbers, 100} {
		h, r := newHouse(t), rand.New(rand.NewPCG(3, 4))
		h.most = most
		for range 25 {
			for range 1 + r.IntN(20) {
				h.put(t, random(r)...)
			}
			h.now = h.now.Add(time.Duration(r.Int64N(int64(60 * time.Hour))))
			again := New(h.opts)
			for _, days := range []int{1, 7, 90, 400} {
				in := Span{From: h.now.AddDate(0, 0, -days)}
				for name, view := range map[string]func(m *Model) (any, error){
					"kpis":      func(m *Model) (any, error) { return m.KPIs(t.Context(), in) },
					"coverage":  func(m *Model) (any, error) { return m.Coverage(t.Context(), in) },
					"isolation": func(m *Model) (any, error) { return m.Isolation(t.Context(), in) },
					"drift":     func(m *Model) (any, error) { return m.Drift(t.Context(), in) },
					"privilege": func(m *Model) (any, error) { return m.Privilege(t.Context(), in) },
					"friction":  func(m *Model) (any, error) { return m.Friction(t.Context(), in) },
					"profiles":  func(m *Model) (any, error) { return m.Profiles(t.Context(), in) },
				} {
					live, err := view(h.Model)
					if err != nil {
						t.Fatal(err)
					}
					read, err := view(again)
					if err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(live, read) {
						t.Fatalf("%s of %d days: %+v, read anew %+v", name, days, live, read)
					}
				}
			}
		}
	}
}
