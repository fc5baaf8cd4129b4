package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is what one measurement of one subject returned.
type sample struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Rate float64 `json:"per_s"`
}

// summarise makes a sample of latencies, which it sorts.
func summarise(all []time.Duration, took time.Duration) sample {
	if len(all) == 0 {
		return sample{}
	}
	slices.Sort(all)
	at := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Nanoseconds()) / 1000 }
	return sample{N: len(all), P50: at(.5), P99: at(.99), Rate: float64(len(all)) / took.Seconds()}
}

// series is the rounds of one subject.
type series []sample

func (s series) of(get func(sample) float64) []float64 {
	var list []float64
	for _, x := range s {
		list = append(list, get(x))
	}
	return list
}

func p50(s sample) float64  { return s.P50 }
func p99(s sample) float64  { return s.P99 }
func rate(s sample) float64 { return s.Rate }

// ratios returns, round by round, a value over the sum of the same round's floors.
func ratios(value []float64, floors ...[]float64) []float64 {
	var list []float64
	for i, v := range value {
		sum := 0.0
		for _, f := range floors {
			sum += f[i]
		}
		list = append(list, v/sum)
	}
	return list
}

// fsyncTime is the median time that appending 4 KiB to a file and syncing it takes
// in dir.
func fsyncTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	var all []time.Duration
	for range 200 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// cpuTime is the processor time a process has used, where the system tells (/proc).
func cpuTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name may hold spaces; what follows its ')' is fields 3 and up.
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')'):]), " ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}
