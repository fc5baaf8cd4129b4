package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/firstrun"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway"
)

// firstStart reports whether nothing has been started on the data directory before.
func firstStart(data datadir.Dir) bool {
	_, err := os.Stat(data.TokenPath())
	return errors.Is(err, fs.ErrNotExist)
}

// greets reports whether up opens the console in a browser: at the first start alone, for a person
// who sits before both.
func (o upOptions) greets(data datadir.Dir, say sayer) bool {
	if o.noOpen || o.once || o.alone || o.shared || say.json || !terminal.Interactive(say.out) || !firstStart(data) {
		return false
	}
	_, ok := firstrun.Here().Opener()
	return ok
}

// greet opens the console in the person's browser, and shows them at the terminal the number that
// lets them in there. It tells what becomes of the number while ctx lasts.
func greet(ctx context.Context, data datadir.Dir, g *gateway.Gateway, running datadir.Running, say sayer) error {
	page := datadir.ForBrowser(running.HTTP) + "/console/login"
	if g.Certificate() != nil || !g.Front.Localhost() {
		return nil // by HTTPS with a certificate to be compared first, or where another program may answer
	}
	token, err := remote.ReadToken(data.TokenPath())
	if err != nil {
		return err
	}
	who, err := g.Tokens.Authenticate(token)
	if err != nil {
		return err
	}
	number, err := g.Tokens.Number(who)
	if err != nil {
		return err
	}
	if err := firstrun.Here().Open(page); err != nil {
		say.line("\nThe browser could not be opened (%v). Open the console yourself: %s", err, page)
	} else {
		say.line("\nThe console opens in your browser: %s", page)
	}
	say.line("Type this number there, and nowhere else. It is good once, until %s:\n\n    %s\n",
		number.Expires.Local().Format(terminal.Clock), number.Show())
	go func() {
		late := time.NewTimer(time.Until(number.Expires))
		defer late.Stop()
		select {
		case used := <-number.Over:
			if used {
				say.line("The number was used: a browser of this machine is signed in. If it was not you: %s", data.Command("token", "list"))
				return
			}
			say.line("Too many wrong numbers were typed, so it is over. Sign in by a link: %s", data.Command("login"))
		case <-late.C:
			say.line("The number is over. Sign in by a link: %s", data.Command("login"))
		case <-ctx.Done():
		}
	}()
	return nil
}
