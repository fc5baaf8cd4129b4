package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// A command may be a WebAssembly module, which is a program that reaches nothing: class t0 on
// every system. The digest of its bytes is among what a person approves, so that another file in
// its place is not run.

// Modules runs WebAssembly modules. It is safe for concurrent use; Host.Close closes it.
type Modules interface {
	io.Closer
	// Check compiles a module and says why it cannot run: CodeInvalidRequest.
	Check(ctx context.Context, code []byte) error
	// Start runs a module with these arguments, its own name first, for a call with these effective
	// keys. The context bounds its run.
	Start(ctx context.Context, code []byte, args, keys []string) (Process, error)
}

// maxModule bounds the bytes of a module.
const maxModule = 16 << 20

// moduleKeys are those of raisable that a module may ask for: its memory is its host's, too.
var moduleKeys = []string{capabilities.KeyBurst, capabilities.KeyExtended}

// module refuses what a template of a module cannot have.
func (t *template) module() error {
	for name, p := range t.Params {
		if p.Type == "path" || p.Type == "output" {
			return fmt.Errorf("params/%s: a WebAssembly module reaches no files", name)
		}
	}
	for _, key := range t.Keys {
		if !slices.Contains(moduleKeys, key) {
			return fmt.Errorf("keys: a WebAssembly module has no %s", key)
		}
	}
	return nil
}

// pure says of a module's tool what is so, whatever it does: where its manifest says nothing, it
// changes nothing, and a second run is as the first.
func pure(t *tools.RemoteTool) {
	for at, is := range map[**bool]bool{&t.ReadOnly: true, &t.Idempotent: true, &t.Destructive: false, &t.OpenWorld: false} {
		if *at == nil {
			*at = &is
		}
	}
}

// readModule reads the module as it is now, and its digest.
func (c *command) readModule() (code []byte, digest string, err error) {
	if c.modules == nil {
		return nil, "", capabilities.Errorf(capabilities.CodeNotSupported, "WebAssembly modules are not run here")
	}
	fail := func(why string) error {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the module %.200q: %s", c.record.Module(), why).
			WithHint("Put the module back in its place, or add the provider again with where it is.")
	}
	at := folder.Real(c.record.Module())
	root, err := os.OpenRoot(filepath.Dir(at))
	if err != nil {
		return nil, "", fail("there is no such folder that can be read")
	}
	defer root.Close()
	f, info, err := folder.Open(root, filepath.Base(at), os.O_RDONLY)
	if err != nil {
		return nil, "", fail("there is no such file that can be read")
	}
	defer f.Close()
	switch {
	case !info.Mode().IsRegular():
		return nil, "", fail("it is no regular file")
	case info.Size() > maxModule:
		return nil, "", fail(fmt.Sprintf("it has more than %d bytes", maxModule))
	}
	code, err = io.ReadAll(io.LimitReader(f, maxModule+1))
	if err != nil || len(code) > maxModule {
		return nil, "", fail("it cannot be read whole")
	}
	sum := sha256.Sum256(code)
	return code, "sha256:" + hex.EncodeToString(sum[:]), nil
}

// offering is what a provider offers whose module has that digest.
func (c *command) offering(digest string) *tools.ToolManifest {
	m := *c.offers
	m.Tools = slices.Clone(m.Tools)
	for i := range m.Tools {
		t := &m.Tools[i]
		pure(t)
		t.Runs = append([]string{c.record.Module() + "@" + digest}, t.Runs...)
	}
	return &m
}

// modulesManifest is what the provider offers now, if its module can run.
func (c *command) modulesManifest(ctx context.Context) (*tools.ToolManifest, error) {
	code, digest, err := c.readModule()
	if err != nil {
		return nil, err
	}
	if err := c.modules.Check(ctx, code); err != nil {
		return nil, err
	}
	return c.offering(digest), nil
}

// callModule carries out one call of a module's tool. Another module in its place is told to the
// host, and not run.
func (c *command) callModule(ctx context.Context, t *template, args map[string]any, one call) (capabilities.Output, error) {
	words, stdin, _, err := t.fill(args, filling{})
	if err != nil {
		return capabilities.Output{}, err
	}
	code, digest, err := c.readModule()
	if err != nil {
		return capabilities.Output{}, err
	}
	now := c.offering(digest)
	if i := slices.IndexFunc(now.Tools, func(r tools.RemoteTool) bool { return r.Name == t.Name }); now.Tools[i].Hash() != one.hash {
		c.changed(now)
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady, "the file %.200q is not the module that was approved",
			c.record.Module()).
			WithAction(capabilities.Action{
				Key: capabilities.ActionReviewTool, Tool: one.inv.Capability.Tool(),
			}, "An admin has to look at the change.")
	}
	p, err := c.modules.Start(ctx, code, words, one.inv.Grants)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer p.Kill()
	one.reads = true // it changes nothing
	text, out, err := c.follow(ctx, p, t, stdin, one, &refusedSockets{})
	if err != nil {
		return out, err
	}
	out, err = t.result(text, nil, "")
	out.Effect = capabilities.EffectConfirmed // its answer is all that it does
	return out, err
}
