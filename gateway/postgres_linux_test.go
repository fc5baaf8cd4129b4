package gateway

import (
	"testing"

	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// TestPostgres has one server: all rooms' tables and queries, and a site that moves.
func TestPostgres(t *testing.T) {
	server := pgtest.Start(t)
	t.Run("every room's tables", func(t *testing.T) { everyRoomsTables(t, store.URL(server.URL())) })
	t.Run("a site moves", func(t *testing.T) { aSiteMoves(t, store.URL(server.URL()), store.URL(server.URL())) })
}

// everyRoomsTables makes all tables, opens them once more, and has every query read.
func everyRoomsTables(t *testing.T, url store.URL) {
	t.Helper()
	for _, again := range []bool{false, true} {
		s, err := store.Open(t.Context(), store.Options{URL: url, Migrations: Migrations()})
		if err != nil {
			t.Fatal(err)
		}
		if again {
			everyRoomsQueries(t, s)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
