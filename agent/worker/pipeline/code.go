package pipeline

import (
	"maps"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// codes are the steps of internal code. Each is a pure function of its arguments.
var codes = map[string]func(args map[string]any) (map[string]any, error){
	"count": count, "first": first, "lines": lines, "require": require,
}

func names() []string { return slices.Sorted(maps.Keys(codes)) }

// Compute runs code by its name, which Read has checked.
func Compute(name string, args any) (map[string]any, error) {
	given, _ := args.(map[string]any)
	return codes[name](given)
}

func bad(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidArguments, format, args...)
}

// listed returns a list argument: a list, or the lines of a text.
func listed(args map[string]any, name string) ([]any, error) {
	switch v := args[name].(type) {
	case []any:
		return v, nil
	case string:
		var all []any
		for line := range strings.Lines(v) {
			all = append(all, strings.TrimRight(line, "\r\n"))
		}
		return all, nil
	}
	return nil, bad("%s: a list or a text was expected", name)
}

// count says how many a list has.
func count(args map[string]any) (map[string]any, error) {
	list, err := listed(args, "of")
	return map[string]any{"count": len(list)}, err
}

// first leaves the first of a list.
func first(args map[string]any) (map[string]any, error) {
	list, err := listed(args, "of")
	n, ok := args["most"].(float64)
	if err == nil && (!ok || n < 1 || n != float64(int(n))) {
		err = bad("most: a number from 1 was expected")
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"items": list[:min(len(list), int(n))]}, nil
}

// lines leaves the lines of a text that have some words, whatever their case.
func lines(args map[string]any) (map[string]any, error) {
	list, err := listed(args, "of")
	want, ok := args["with"].(string)
	if err == nil && !ok {
		err = bad("with: a text was expected")
	}
	if err != nil {
		return nil, err
	}
	hits := []any{}
	for _, one := range list {
		if strings.Contains(strings.ToLower(Text(one)), strings.ToLower(want)) {
			hits = append(hits, one)
		}
	}
	return map[string]any{"items": hits, "count": len(hits)}, nil
}

// require ends the run unless a list or a text has something in it.
func require(args map[string]any) (map[string]any, error) {
	list, err := listed(args, "of")
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		why, _ := args["else"].(string)
		if why == "" {
			why = "there is nothing"
		}
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "%s", capabilities.Clip(why, 200))
	}
	return map[string]any{"count": len(list)}, nil
}
