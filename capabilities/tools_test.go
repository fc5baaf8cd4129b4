package capabilities

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestToolsInTheirOrder(t *testing.T) {
	tools := Tools[func() int]{{"tyrum.a.second", func() int { return 2 }}, {"tyrum.a.first", func() int { return 1 }}}
	if got := tools.Capabilities(); !slices.Equal(got, []CapabilityID{"tyrum.a.second", "tyrum.a.first"}) {
		t.Error(got)
	}
	run, err := tools.Find("tyrum.a.first")
	if err != nil || run() != 1 {
		t.Error(err)
	}
	if _, err := tools.Find("tyrum.a.third"); CodeOf(err) != CodeNotSupported {
		t.Error(err)
	}
}

func TestPrepare(t *testing.T) {
	ctx, inv, cancel := Prepare(context.Background(), Invocation{})
	inv.Progress(Progress{})
	inv.Observe("", "")
	if string(inv.Args) != "{}" {
		t.Errorf("args %s", inv.Args)
	}
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > DefaultTimeout {
		t.Error("no deadline")
	}
	why := errors.New("why")
	cancel(why)
	if context.Cause(ctx) != why {
		t.Error(context.Cause(ctx))
	}
	short, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	told := 0
	ctx, inv, cancel = Prepare(short, Invocation{Args: []byte(`{"a":1}`), Observe: func(string, string) { told++ }})
	defer cancel(nil)
	if at, _ := ctx.Deadline(); time.Until(at) > time.Second || string(inv.Args) != `{"a":1}` {
		t.Errorf("deadline %v, args %s", at, inv.Args)
	}
	if inv.Observe("", ""); told != 1 {
		t.Error("another Observe")
	}
}
