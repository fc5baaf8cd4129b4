package egress

import (
	"slices"
	"testing"
)

// A step reaches what its call and itself were granted, and nothing else.
func TestBoth(t *testing.T) {
	for _, tt := range []struct{ a, b, want Domains }{
		{nil, nil, nil},
		{nil, Domains{"a.example"}, Domains{"a.example"}},
		{Domains{"a.example"}, nil, Domains{"a.example"}},
		{Domains{"a.example"}, Domains{"b.example"}, Domains{}},
		{Domains{"*.example"}, Domains{"a.example", "other.test"}, Domains{"a.example"}},
		{Domains{"*.a.example"}, Domains{"*.example"}, Domains{"*.a.example"}},
		{Domains{"*.example"}, Domains{"*.ample"}, Domains{}},
		{Domains{"a.example"}, Domains{"*.a.example"}, Domains{"a.example"}},
	} {
		if got := Both(tt.a, tt.b); !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
			t.Errorf("%v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
