package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// BenchmarkWrite measures what a caller waits for, with four rows of the size of
// packets in each Write, beside the floor: appending the same bytes to a file and
// syncing it.
func BenchmarkWrite(b *testing.B) {
	const rows, size = 4, 450
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		data := make([]byte, rows*size)
		for b.Loop() {
			if _, err := f.Write(data); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
	migrations := []Migration{{Room: "bench", Version: 1, SQL: `CREATE TABLE packet (
		seq INTEGER PRIMARY KEY, call TEXT NOT NULL, body TEXT NOT NULL); CREATE INDEX packet_call ON packet (call);`}}
	body := string(make([]byte, size-60))
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := openAt(b, filepath.Join(b.TempDir(), "store.db"), Options{Migrations: migrations})
			ctx, cancel := context.WithCancel(b.Context())
			ran := make(chan error, 1)
			go func() { ran <- s.Run(ctx) }()
			defer func() { cancel(); <-ran }()
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						id := fmt.Sprintf("call-%08d", i)
						if err := s.Write(b.Context(), func(tx *Tx) error {
							_, err := tx.Exec("INSERT INTO packet (call, body) VALUES ($1, $2), ($3, $4), ($5, $6), ($7, $8)", id, body, id, body, id, body, id, body)
							return err
						}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}
