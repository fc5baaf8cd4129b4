package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// TestLeaseIsTaken has one gateway serve, and a second wait. The first goes on while it renews its
// lease; cut off from its database it stops by itself, and the second serves.
func TestLeaseIsTaken(t *testing.T) {
	u := URL(pgtest.Start(t).URL())
	open := func(ctx context.Context) (*Store, error) {
		return Open(ctx, Options{URL: u, Migrations: testTables, Lease: 2 * time.Second})
	}
	first, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ran := make(chan error, 1)
	go func() { ran <- first.Run(t.Context()) }()
	second := make(chan *Store, 1)
	go func() {
		s, err := open(t.Context())
		if err != nil {
			t.Error(err)
		}
		second <- s
	}()
	// Idle, it renews its lease many times over.
	for began := first.groups.Load(); first.groups.Load() < began+10; yield() {
		select {
		case err := <-ran:
			t.Fatalf("it stopped while its database was there: %v", err)
		case <-second:
			t.Fatal("two gateways have the store")
		default:
		}
	}
	// Its renewals stop, as for one that is cut off or stands still.
	release := make(chan struct{})
	go func() {
		_ = first.Write(context.Background(), func(*Tx) error { <-release; return nil })
	}()
	if err := <-ran; !errors.Is(err, errLapsed) || !Lapsed(err) || capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("cut off, it ended with %v", err)
	}
	s := <-second
	close(release)
	if s == nil {
		return
	}
	defer s.Close()
	if err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "second") }); err != nil {
		t.Errorf("the second got %v", err)
	}
	if err := first.Write(t.Context(), func(tx *Tx) error { return insert(tx, "first") }); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("the first wrote after its lease: %v", err)
	}
	if got := names(t, s); len(got) != 1 || !got["second"] {
		t.Errorf("kept %v", got)
	}
}
