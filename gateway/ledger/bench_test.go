package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/gateway/store"
)

// BenchmarkAppend measures what a call waits for: its four packets, encoded,
// chained and durable, beside the floor of appending as many bytes to a file and
// syncing it.
func BenchmarkAppend(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		data := make([]byte, 4*450)
		for b.Loop() {
			if _, err := f.Write(data); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			l := open(b, Options{})
			ctx, cancel := context.WithCancel(b.Context())
			ran := make(chan error, 2)
			go func() { ran <- l.store.Run(ctx) }()
			go func() { ran <- l.Run(ctx) }()
			defer func() { cancel(); <-ran; <-ran }()
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						if err := l.Append(b.Context(), call(fmt.Sprintf("call-%08d", i))...); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(4*b.N)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}

// BenchmarkAppendIn is the writer's own work for the four packets of a call,
// without the disk's.
func BenchmarkAppendIn(b *testing.B) {
	l := open(b, Options{})
	drafts := call("call-1")
	for i := range drafts {
		body, err := Encode(drafts[i].Body)
		if err != nil {
			b.Fatal(err)
		}
		drafts[i].Body = body
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= 256 {
		err := l.store.Write(b.Context(), func(tx *store.Tx) error {
			for range min(left, 256) {
				if _, err := l.AppendIn(tx, drafts...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify measures the offline check of an export, signatures included,
// beside the floor of hashing as many bytes.
func BenchmarkVerify(b *testing.B) {
	l := open(b, Options{})
	const calls = 5000
	for i := range calls / 50 {
		var drafts []Draft
		for j := range 50 {
			drafts = append(drafts, call(fmt.Sprintf("call-%08d", i*50+j))...)
		}
		mustAppend(b, l, drafts...)
	}
	text := export(b, l)
	packets := float64(4 * calls)
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			sha256.Sum256(text)
		}
		b.ReportMetric(packets*float64(b.N)/b.Elapsed().Seconds(), "packets/s")
	})
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			if _, err := Verify(bytes.NewReader(text), Pins{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(packets*float64(b.N)/b.Elapsed().Seconds(), "packets/s")
	})
	all, err := l.Packets(b.Context(), Query{Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("chain-floor", func(b *testing.B) {
		bytes := make([][]byte, len(all))
		for i := range all {
			bytes[i] = all[i].appendPreimage(nil)
		}
		for b.Loop() {
			for i := range all {
				if sha256.Sum256(bytes[i]) != all[i].Hash {
					b.Fatal("broken")
				}
			}
		}
		b.ReportMetric(float64(len(all))*float64(b.N)/b.Elapsed().Seconds(), "packets/s")
	})
	b.Run("chain", func(b *testing.B) {
		for b.Loop() {
			prev := all[0].Prev
			for i := range all {
				if all[i].Prev != prev || sha256.Sum256(all[i].appendPreimage(nil)) != all[i].Hash {
					b.Fatal("broken")
				}
				prev = all[i].Hash
			}
		}
		b.ReportMetric(float64(len(all))*float64(b.N)/b.Elapsed().Seconds(), "packets/s")
	})
}
