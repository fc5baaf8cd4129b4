package secret

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// The sources file, in the gateway's data directory, says where secrets are kept that the gateway
// only reads. Its writer decides what the gateway runs, so there is no other way to name a program:
//
//	{"version": 1, "secrets": {
//	  "mail":   {"exec": ["pass", "show", "mail"]},
//	  "deploy": {"env": "DEPLOY_TOKEN"},
//	  "db":     {"file": "/run/secrets/db"}}}
type sourcesFile struct {
	Version int               `json:"version"`
	Secrets map[string]source `json:"secrets"`
}

// source is where one secret is kept; exactly one field is set.
type source struct {
	Env  string   `json:"env,omitempty"`
	File string   `json:"file,omitempty"`
	Exec []string `json:"exec,omitempty"`
}

// execLimit bounds how long a program may take to print a secret; a person may have
// to unlock a password manager.
const execLimit = 20 * time.Second

func parseSources(data []byte) (map[string]source, error) {
	bad := func(format string, args ...any) (map[string]source, error) {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "secret-sources.json: "+format, args...)
	}
	clean, err := canonical.Parse(data, canonical.Limits{MaxBytes: 1 << 20})
	if err != nil {
		return bad("%v", err)
	}
	var f sourcesFile
	dec := json.NewDecoder(bytes.NewReader(clean))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return bad("%v", err)
	}
	if f.Version != 1 {
		return bad("version must be 1")
	}
	for name, s := range f.Secrets {
		if err := capabilities.ValidateName("name", name, maxName); err != nil {
			return bad("%v", err)
		}
		given := 0
		for _, is := range []bool{s.Env != "", s.File != "", len(s.Exec) > 0} {
			if is {
				given++
			}
		}
		switch {
		case given != 1:
			return bad("%q needs exactly one of env, file and exec", name)
		case s.File != "" && !filepath.IsAbs(s.File):
			return bad("the file of %q must be an absolute path", name)
		case len(s.Exec) > 0 && s.Exec[0] == "":
			return bad("the exec of %q names no program", name)
		}
	}
	return f.Secrets, nil
}

func (s source) kind() string {
	switch {
	case s.Env != "":
		return "env"
	case s.File != "":
		return "file"
	}
	return "exec"
}

var (
	errUnset   = errors.New("the environment variable is not set")
	errTooLong = errors.New("the value is too long")
)

// read returns the value, without one line end after it. Errors never hold any of it.
func (s source) read(ctx context.Context) (capabilities.Secret, error) {
	var value []byte
	var err error
	switch s.kind() {
	case "env":
		text, ok := os.LookupEnv(s.Env)
		if value = []byte(text); !ok {
			err = errUnset
		}
	case "file":
		value, err = readFile(s.File)
	default:
		value, err = output(ctx, s.Exec)
	}
	if err != nil {
		return capabilities.Secret{}, err
	}
	value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	return capabilities.NewSecret(value), nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, capabilities.MaxSecret+3))
	if err == nil && len(value) > capabilities.MaxSecret+2 {
		err = errTooLong
	}
	return value, err
}

// output runs a program, without a shell, and returns what it prints. Its standard error is
// dropped: it may hold anything.
func output(ctx context.Context, argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, execLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	out := &bounded{most: capabilities.MaxSecret + 2}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		clear(out.data)
		return nil, fmt.Errorf("%s: %w", filepath.Base(argv[0]), err)
	}
	return out.data, nil
}

// bounded takes so many bytes and then fails.
type bounded struct {
	data []byte
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > b.most {
		return 0, errTooLong
	}
	b.data = append(b.data, p...)
	return len(p), nil
}
