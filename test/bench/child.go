package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// roleEnv makes this program one of the processes that take part. A child reads
// one JSON value per line and answers each with one; the first is what it needs
// to know, its answer says that it is ready. It ends when its input does.
const roleEnv = "HANDRAIL_BENCH_ROLE"

// role is the code of a kind of child. It returns what the parent needs to know and what answers
// the lines that follow.
type role func(config json.RawMessage) (ready any, answer func(json.RawMessage) (any, error), stop func(), err error)

var roles = map[string]role{
	"gateway": gatewayRole,
	"node":    nodeRole,
	"crowd":   crowdRole,
	"floor":   floorRole,
	"commits": commitsRole,
	"caller":  callerRole,
	"browser": browserRole,
}

type reply struct {
	Value any    `json:"value,omitempty"`
	Err   string `json:"err,omitempty"`
}

// serveRole is main of a child.
func serveRole(name string) error {
	make, ok := roles[name]
	if !ok {
		return fmt.Errorf("no role %q", name)
	}
	signal.Ignore(os.Interrupt) // the parent ends its children in good order
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	next := func() (json.RawMessage, error) {
		line, err := in.ReadBytes('\n')
		return line, err
	}
	say := func(v any, err error) error {
		if err != nil {
			return out.Encode(reply{Err: err.Error()})
		}
		return out.Encode(reply{Value: v})
	}
	config, err := next()
	if err != nil {
		return err
	}
	ready, answer, stop, err := make(config)
	if stop != nil {
		defer stop()
	}
	if err := say(ready, err); err != nil {
		return err
	}
	if err != nil {
		return nil
	}
	for {
		line, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := say(answer(line)); err != nil {
			return err
		}
	}
}

// child is a process in one of the roles.
type child struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// spawn starts a child and waits until it is ready; what it says then goes into
// ready, unless that is nil.
func spawn(name string, config, ready any) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: name, cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+name)
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 1<<20)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if err := c.ask(config, ready); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// ask sends a line and waits for its answer.
func (c *child) ask(question, into any) error {
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	answer, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s ended: %w", c.name, err)
	}
	var r struct {
		Value json.RawMessage
		Err   string
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if r.Err != "" {
		return fmt.Errorf("%s: %s", c.name, r.Err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(r.Value, into)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// end closes the child's input, which ends it, and waits.
func (c *child) end() {
	_ = c.in.Close()
	late := time.AfterFunc(30*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_ = c.cmd.Wait()
}
