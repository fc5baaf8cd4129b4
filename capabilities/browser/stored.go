package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

type storedArgs struct {
	Action string `json:"action"`
	Kind   string `json:"kind"`
	Origin string `json:"origin"`
	Key    string `json:"key"`
	Value  string `json:"value"`
}

// storedEntry is one entry as it is told.
type storedEntry struct {
	Key      string `json:"key"`
	Value    string `json:"value,omitempty"`
	Chars    int    `json:"chars"`
	Withheld bool   `json:"withheld,omitempty"`
}

// overStorage lists a storage, after it has set or removed what is asked. It runs in a world of
// ours, where no page's script has changed what it uses.
const overStorage = `(o => {
	let s;
	try { s = o.kind === 'session' ? sessionStorage : localStorage; s.length; } catch { return JSON.stringify({error: 'closed'}); }
	const before = s.length;
	try {
		if (o.action === 'set') s.setItem(o.key, o.value);
		else if (o.action === 'delete' && o.key) s.removeItem(o.key);
		else if (o.action === 'delete') s.clear();
	} catch { return JSON.stringify({error: 'full'}); }
	const items = [];
	for (let i = 0; i < s.length && items.length < o.most; i++) {
		const key = s.key(i), value = s.getItem(key) ?? '';
		if (!o.key || key === o.key) items.push({key, value: value.slice(0, o.key ? o.whole : o.part), chars: value.length});
	}
	return JSON.stringify({items, before, now: s.length, held: o.key ? s.getItem(o.key) === o.value : false});
})`

// stored is what it answers.
type stored struct {
	Error  string        `json:"error"`
	Items  []storedEntry `json:"items"`
	Before int           `json:"before"`
	Now    int           `json:"now"`
	Held   bool          `json:"held"` // the key has the value that was given
}

// storage carries out tyrum.browser.storage: lists, sets or deletes what pages of one origin keep
// in localStorage, or this tab's page in sessionStorage. Values whose key says that they sign
// somebody in are withheld, as those of cookies are.
func storage(c *call) (capabilities.Output, error) {
	args := storedArgs{Kind: "local"}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.Action == "set" && args.Key == "" {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "key: an entry that is set has one.")
	}
	at, err := c.ownOrigin(args.Origin)
	if err != nil {
		return capabilities.Output{}, err
	}
	s, err := c.overStorage(args, at)
	if err != nil {
		return capabilities.Output{}, err
	}
	switch s.Error {
	case "closed":
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotSupported,
			"The page has no %s storage: its origin is none of the web's.", args.Kind).
			WithHint("Open the page that stores something, or give origin.")
	case "full":
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeResultTooLarge, "The origin's storage takes no more.").
			WithHint("Delete what is not needed first.")
	}
	out := capabilities.Output{Untrusted: true}
	switch args.Action {
	case "set":
		out.Effect, out.Evidence = capabilities.EffectSuspectNoop, "the entry has another value: the page changed it at once"
		if s.Held {
			out.Effect, out.Evidence = capabilities.EffectConfirmed, "the entry has the value"
		}
	case "delete":
		out.Effect, out.Evidence = capabilities.EffectConfirmed, fmt.Sprintf("%d entries are gone", s.Before-s.Now)
		if s.Before == s.Now {
			out.Effect, out.Evidence = capabilities.EffectSuspectNoop, "there was nothing to delete"
		}
	}
	r := struct {
		Origin  string        `json:"origin"`
		Entries []storedEntry `json:"entries"`
		Omitted int           `json:"omitted,omitempty"`
	}{originOf(at), []storedEntry{}, 0}
	for _, e := range s.Items {
		if e.Withheld = markedName.MatchString(e.Key); e.Withheld {
			e.Value = ""
		}
		e.Key = clipText(e.Key, 1024)
		r.Entries = append(r.Entries, e)
	}
	if args.Key == "" {
		r.Omitted = max(0, s.Now-len(s.Items))
	}
	out.Result = r
	return out, nil
}

// overStorage runs it for the page shown, or in an empty document of another origin.
func (c *call) overStorage(args storedArgs, at *url.URL) (s stored, err error) {
	asked, err := json.Marshal(struct {
		Action string `json:"action"`
		Kind   string `json:"kind"`
		Key    string `json:"key"`
		Value  string `json:"value"`
		Most   int    `json:"most"`
		Part   int    `json:"part"`
		Whole  int    `json:"whole"`
	}{args.Action, args.Kind, args.Key, args.Value, maxStored, 200, 32 << 10})
	if err != nil {
		return s, err
	}
	expression := overStorage + "(" + string(asked) + ")"
	read := func(text string) error { return json.Unmarshal([]byte(text), &s) }
	address, _, err := c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx))
	if err != nil {
		return s, err
	}
	if shown, err := url.Parse(address); err == nil && shown.Scheme == at.Scheme && shown.Host == at.Host {
		w, err := c.tab.inWorld(c.ctx)
		if err != nil {
			return s, err
		}
		res, err := devtools.Do(c.ctx, c.tab.s, runtime.Evaluate,
			runtime.EvaluateParams{Expression: expression, ContextID: w.id, ReturnByValue: ptr(true), Silent: ptr(true)})
		if err != nil {
			return s, err
		}
		if err := pageFault(res); err != nil {
			return s, err
		}
		return s, read(devtools.StringOf(res.Result.Value))
	}
	if args.Kind == "session" {
		return s, capabilities.Errorf(capabilities.CodeInvalidArguments, "Session storage is a tab's, and this tab shows another origin.").
			WithHint("Open a page of the origin first.")
	}
	err = c.atOrigins(c.tab.chrome, []string{originOf(at)}, func(ctx context.Context, session *devtools.Session, origin string) error {
		c.lane.visited(origin)
		text, err := evalText(ctx, session, expression)
		if err != nil {
			return err
		}
		return read(text)
	})
	return s, err
}
