package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"strings"
	"syscall"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
)

// saysAll reports whether a message has each of a list of lines in it already.
func saysAll(message string, details any) bool {
	lines, ok := details.([]string)
	if list, other := details.([]any); other {
		for _, v := range list {
			line, text := v.(string)
			if !text {
				return false
			}
			lines = append(lines, line)
		}
		ok = true
	}
	for _, line := range lines {
		ok = ok && strings.Contains(message, line)
	}
	return ok
}

// failed is the code of an error of a command itself that none of the list fits: its text is the
// whole story. docs/errors.md has it.
const failed = "failed"

// Report says what is wrong and what to do, on stderr; with --json as one object. on are
// the arguments that name the data directory, as it was given.
func Report(w io.Writer, err error, asJSON bool, on []string) {
	var own *ExitError
	if errors.As(err, &own) && own.Silent {
		return
	}
	code, message, hint, details := failed, err.Error(), "", any(nil)
	var coded *capabilities.Error
	switch {
	case errors.As(err, &coded):
		code, message, hint, details = string(coded.Code), coded.PublicMessage(), command.OfError(err, on...), coded.Details
	case errors.Is(err, context.Canceled):
		code, message = string(capabilities.CodeCancelled), "interrupted"
	case unreached(err):
		hint = "See that the gateway runs there: 'handrail doctor' on its host."
	case errors.Is(err, syscall.EADDRINUSE):
		code, hint = string(capabilities.CodeConflict), "Something else listens there: stop it, or give another address."
	case errors.Is(err, exec.ErrNotFound):
		code, hint = string(capabilities.CodeNotFound), "Give its path, or put its folder on PATH."
	case errors.Is(err, fs.ErrNotExist):
		code, hint = string(capabilities.CodeNotFound), "See that the path is right."
	case errors.Is(err, fs.ErrPermission):
		hint = "Give another path, or run this as the account that owns it."
	}
	if asJSON {
		body := map[string]any{"code": code, "message": message}
		if hint != "" {
			body["hint"] = hint
		}
		if coded != nil && !coded.PublicAction().IsZero() {
			body["action"] = coded.PublicAction()
		}
		if details != nil {
			body["details"] = details
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"error": body})
		return
	}
	if coded != nil {
		message = coded.Error()
	}
	if fields, ok := details.(map[string]any); ok { // what the lines around them say already
		maps.DeleteFunc(fields, func(_ string, v any) bool { return v == code || v == hint })
	}
	fmt.Fprintf(w, "handrail: %s\n", Plain(message))
	if details != nil && !saysAll(message, details) {
		PrintValue(w, "  ", details)
	}
	if hint != "" {
		fmt.Fprintf(w, "  -> %s\n", Plain(hint))
	}
}
