package provider

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Commands are the programs of a manifest for one who hosts no providers: the adapter of a
// satellite. They have the same templates, walls and bounds as those that a node hosts. Its methods
// are safe for concurrent use.
type Commands struct {
	command *command
	start   Starter
	hosted  *hosted // whose calls are open, so that what was refused is told to one
}

// OpenCommands reads the manifest of a record of the kind command: CodeInvalidRequest.
func OpenCommands(p *tools.Provider, start Starter) (*Commands, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := nested(p, p); err != nil {
		return nil, err
	}
	way, err := wayOf(p)
	if err != nil {
		return nil, err
	}
	if len(p.Env) > 0 {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "a satellite is given no credentials by the gateway")
	}
	secrets := newCredentials(p)
	c, err := newCommand(p, start, way, secrets)
	if err != nil {
		return nil, err
	}
	return &Commands{c, start, &hosted{record: *p, backend: c, credentials: secrets, calls: &calls{}}}, nil
}

// Tools are what the manifest says of them, with the keys of what they may reach.
func (c *Commands) Tools() []tools.RemoteTool {
	list := make([]tools.RemoteTool, len(c.command.offers.Tools))
	for i, t := range c.command.offers.Tools {
		t.Keys = tools.Declared(c.command.record, &t)
		list[i] = t
	}
	return list
}

// Ready says why no program can be started here; nil: they can.
func (c *Commands) Ready() error {
	p := c.command.record
	_, _, err := c.start.Class(Program{Read: p.Read, Write: p.Write, Net: c.command.way})
	return err
}

// Try runs words of the manifest's author and reports whether they end well.
func (c *Commands) Try(ctx context.Context, argv []string) error {
	p, err := c.start.Start(ctx, Program{Argv: argv, Read: c.command.record.Read})
	if err != nil {
		return err
	}
	defer p.Kill()
	_ = p.Stdin().Close()
	readAll(p.Stdout(), maxStdout, nil)
	code, err := p.Wait()
	if err == nil && code != 0 {
		err = capabilities.Errorf(capabilities.CodeExecutionFailed, "%s ended with exit code %d", argv[0], code)
	}
	return err
}

// Call carries out one call of a tool, by its name in the manifest. refused is told what the call
// tried and was kept from, with the calls that were open where any of them may have tried it.
func (c *Commands) Call(ctx context.Context, id capabilities.CallID, tool string, args json.RawMessage,
	progress func(capabilities.Progress), refused func(key, detail string, among ...string)) (capabilities.Output, error) {
	// Nothing observes what a satellite's tools use: they say it of themselves.
	ctx, inv, cancel := capabilities.Prepare(ctx, capabilities.Invocation{
		Call: id, Args: args, Progress: progress,
		Refused: func(key, detail string, among ...capabilities.CallID) {
			words := make([]string, len(among))
			for i, one := range among {
				words[i] = string(one)
			}
			refused(key, detail, words...)
		},
	})
	defer cancel(nil)
	one := call{id: id, upstream: tool, args: inv.Args, progress: inv.Progress, inv: inv}
	c.hosted.begin(&one.inv)
	defer c.hosted.end(&one.inv)
	for i := range c.command.offers.Tools {
		// The approval of the satellite's manifest granted what it declares.
		if t := &c.command.offers.Tools[i]; t.Name == tool {
			one.inv.Grants, one.class = tools.Declared(c.command.record, t), tools.Isolation(c.command.record, t)
		}
	}
	return c.command.call(ctx, one)
}
