package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// Gateways ask each other by words: an answer, an error with its code, or nobody knows. One that is
// put out is not heard. An alarm is, and needs no store.
func TestGatewaysAskEachOther(t *testing.T) {
	server := pgtest.Start(t)
	all := planes(t, store.URL(server.URL()), 2)
	asks, answers := all[0], all[1]
	type about struct{ N json.Number }
	alarms := make(chan string, 8)
	answers.OnWord("double", func(_ context.Context, body []byte) (any, error) {
		var in struct{ N int64 }
		if err := json.Unmarshal(body, &in); err != nil || in.N < 0 {
			return nil, capabilities.Errorf(capabilities.CodeConflict, "no").WithHint("Ask for more.").WithDetails(in.N)
		}
		return map[string]int64{"N": 2 * in.N}, nil
	})
	answers.OnAlarm("fire", func(_ context.Context, body []byte) (any, error) { alarms <- string(body); return nil, nil })
	member := answers.opts.Store.Member()
	var got about
	must(t, asks.AskMember(t.Context(), member, "double", about{"4503599627370497"}, &got))
	if got.N != "9007199254740994" { // more than a float has
		t.Errorf("%s", got.N)
	}
	err := asks.AskMember(t.Context(), member, "double", about{"-1"}, &got)
	if e := capabilities.AsError(err); e.Code != capabilities.CodeConflict || e.PublicHint() != "Ask for more." || e.Details == nil {
		t.Errorf("%+v", e)
	}
	for _, word := range []string{"nothing", ""} {
		if err := asks.AskMember(t.Context(), member, word, about{"1"}, &got); !errors.Is(err, ErrUnheard) {
			t.Errorf("%q: %v", word, err)
		}
	}
	if err := asks.AskMember(t.Context(), "gnobody", "double", about{"1"}, &got); !errors.Is(err, ErrUnheard) {
		t.Error(err)
	}
	if err := asks.AskMember(t.Context(), member, "double", strings.Repeat("x", maxWord), &got); !errors.Is(err, ErrUnheard) {
		t.Error(err)
	}
	must(t, asks.opts.Store.Close())
	answers.await(func() bool {
		in, err := answers.opts.Store.In(t.Context(), asks.opts.Store.Member())
		return err == nil && !in || func() bool { answers.Nudge(); return false }()
	})
	at := asks.known[member]
	if err := asks.askAt(t.Context(), at, "double", about{"1"}, &got); !errors.Is(err, ErrUnheard) {
		t.Errorf("a gateway that was put out was answered: %v", err)
	}
	if n := asks.TellMembers(t.Context(), "fire", "where"); n != 1 || <-alarms != `"where"` {
		t.Errorf("%d heard the alarm", n)
	}
}
