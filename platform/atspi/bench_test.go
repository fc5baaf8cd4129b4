package atspi

import (
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// measured reads with a new connection each time (cold) and with one that is kept.
func measured(b *testing.B, d *desk.Desk, pid int) {
	q := platform.TreeQuery{PID: pid, Bounds: true, PerApp: desk.Within}
	open := func(b *testing.B) *Accessibility { // the oracles of windows are programs, which take their time
		a := ears(b, d)
		a.options.Windows = nil
		return a
	}
	a := open(b)
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			c := open(b)
			b.ReportMetric(float64(len(read(b, c, q).Elements)), "elements")
			_ = c.Close()
		}
	})
	read(b, a, q)
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(float64(len(read(b, a, q).Elements)), "elements")
		}
	})
	q.Bounds = false
	b.Run("kept-no-bounds", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(float64(len(read(b, a, q).Elements)), "elements")
		}
	})
}

func BenchmarkGTK3(b *testing.B) {
	d := desk.StartX(b, desk.Options{})
	m := d.App("gtk3-widget-factory")
	named(b, ears(b, d), m.PID, "button", "Close")
	measured(b, d, m.PID)
}

func BenchmarkMousepad(b *testing.B) {
	d := desk.StartX(b, desk.Options{})
	m := d.App("mousepad")
	named(b, ears(b, d), m.PID, "menu", "File")
	measured(b, d, m.PID)
}

func BenchmarkCalculator(b *testing.B) {
	d := desk.StartX(b, desk.Options{})
	m := d.App("gnome-calculator")
	named(b, ears(b, d), m.PID, "window", "Calculator")
	measured(b, d, m.PID)
}

func BenchmarkChromium(b *testing.B) {
	d := desk.StartX(b, desk.Options{})
	a := ears(b, d)
	openPage(b, d, a, "")
	measured(b, d, 0)
}
