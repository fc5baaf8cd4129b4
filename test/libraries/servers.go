package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/products"
)

// addresses are those of servers, by the names of their products.
type addresses map[string]string

// String returns what Set would read.
func (a *addresses) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(*a)) {
		all = append(all, name+"="+(*a)[name])
	}
	return strings.Join(all, ",")
}

// Set reads "NAME=ADDRESS".
func (a *addresses) Set(text string) error {
	name, address, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want NAME=ADDRESS")
	}
	if *a == nil {
		*a = addresses{}
	}
	(*a)[name] = address
	return nil
}

// withServers starts the servers of the chosen tasks, and below 'handrail ci', which lets pages
// reach them, this program again.
func withServers(ctx context.Context, o options, chosen []*suite.Behaviour) (err error) {
	servers, err := products.Start(ctx, o.packages, chosen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"ci", "--browser-sandbox", "auto"}
	inner := []string{"--", self}
	at := addresses(servers.Addresses())
	for _, name := range slices.Sorted(maps.Keys(at)) {
		args = append(args, "--browser-allow-origin", at[name])
		inner = append(inner, "-at", name+"="+at[name])
	}
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "handrail"), append(append(args, inner...), os.Args[1:]...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("handrail ci: %w", err)
	}
	return nil
}
