package front

import (
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/knowledge"
)

// ViewFact is what a worker remembers.
func ViewFact(f *knowledge.Fact) api.Fact {
	return api.Fact{
		ID: f.ID, Principal: f.Principal, Subject: f.Subject, Attribute: f.Attribute, Text: f.Text, Source: f.Source,
		Confidence: f.Confidence, Sensitivity: string(f.Sensitivity), Created: f.Created, Expires: f.Expires,
	}
}
