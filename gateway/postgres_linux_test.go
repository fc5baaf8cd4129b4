package gateway

import (
	"testing"

	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// TestEveryRoomsTablesOnPostgres makes all tables, and opens them once more.
func TestEveryRoomsTablesOnPostgres(t *testing.T) {
	url := pgtest.Start(t).URL()
	for range 2 {
		s, err := store.Open(t.Context(), store.Options{URL: url, Migrations: migrations()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
