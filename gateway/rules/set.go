package rules

import (
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
)

// FilesOf returns the files of a set as policy reads them.
func FilesOf(s api.PolicySet) []policy.Source {
	list := make([]policy.Source, 0, len(s.Sources))
	for _, f := range s.Sources {
		list = append(list, policy.Source{Name: f.Name, Data: []byte(f.Text)})
	}
	return list
}

// Short is as much of a policy's hash as finds it.
func Short(snapshot string) string {
	hash := trimHash(snapshot)
	return hash[:min(len(hash), 16)]
}
