package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
)

// Questions are what the person at the device may answer there now, the oldest first; each
// replaces the one before. Only for nodes whose hello says Asks.
type Questions struct {
	List []Question `cbor:"1,keyasint,omitempty"`
}

// Question is one, in the words of the approval. Text that is hidden there is not here.
type Question struct {
	ID    string   `cbor:"1,keyasint"` // of the approval
	Who   string   `cbor:"2,keyasint"` // the principal that calls
	What  string   `cbor:"3,keyasint"` // what its tool does
	Lines []string `cbor:"4,keyasint,omitempty"`
	// NoOnly says that it is more than can be judged in so few words: it can be denied.
	NoOnly bool `cbor:"5,keyasint,omitempty"`
	// Expires is when nobody is asked any more, in Unix milliseconds.
	Expires int64 `cbor:"6,keyasint"`
}

// Verdict is the person's answer at the device to a question as it was shown there.
type Verdict struct {
	ID     string   `cbor:"1,keyasint"`
	Digest [32]byte `cbor:"2,keyasint"` // Question.Digest of what was shown
	Allow  bool     `cbor:"3,keyasint,omitempty"`
}

// VerdictTaken says what became of a Verdict: an empty code, or why it does not count.
type VerdictTaken struct {
	ID      string            `cbor:"1,keyasint"`
	Allow   bool              `cbor:"2,keyasint,omitempty"`
	Code    capabilities.Code `cbor:"3,keyasint,omitempty"`
	Message string            `cbor:"4,keyasint,omitempty"`
}

// Bounds of questions.
const (
	MaxQuestions     = 8
	MaxQuestionLines = 16
	MaxQuestionText  = 400 // bytes of one line, of Who and of What
)

// Kind is KindQuestions.
func (*Questions) Kind() Kind { return KindQuestions }

// Kind is KindVerdict.
func (*Verdict) Kind() Kind { return KindVerdict }

// Kind is KindVerdictTaken.
func (*VerdictTaken) Kind() Kind { return KindVerdictTaken }

// Digest is the SHA-256 of the question as it is shown: an answer is to that and nothing
// else. Each text is preceded by its length, so that no two questions share one.
func (q *Question) Digest() [32]byte {
	h := sha256.New()
	texts := append([]string{q.ID, q.Who, q.What}, q.Lines...)
	fmt.Fprintf(h, "handrail question 1 %d %t %d\n", len(texts), q.NoOnly, q.Expires)
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s\n", len(t), t)
	}
	return [32]byte(h.Sum(nil))
}

// String is for logs: the texts are the person's alone.
func (q Question) String() string {
	d := q.Digest()
	return "question " + q.ID + " " + hex.EncodeToString(d[:4])
}

func (q *Questions) check() error {
	if len(q.List) > MaxQuestions {
		return fmt.Errorf("more than %d questions", MaxQuestions)
	}
	for i := range q.List {
		if err := q.List[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (q *Question) check() error {
	if q.ID == "" || len(q.ID) > maxName || q.Who == "" || q.What == "" {
		return errors.New("a question has an ID, a caller and what it is about")
	}
	if len(q.Lines) > MaxQuestionLines {
		return fmt.Errorf("more than %d lines", MaxQuestionLines)
	}
	return names("a line of a question", MaxQuestionText, append([]string{q.Who, q.What}, q.Lines...)...)
}

func (v *Verdict) check() error {
	if v.ID == "" || len(v.ID) > maxName {
		return fmt.Errorf("a verdict's ID has 1 to %d bytes", maxName)
	}
	return nil
}

func (v *VerdictTaken) check() error {
	if v.ID == "" || len(v.ID) > maxName || len(v.Message) > maxText {
		return fmt.Errorf("ID must be 1 to %d bytes, message at most %d", maxName, maxText)
	}
	if v.Code != "" && !v.Code.Known() {
		v.Code = capabilities.CodeInternal
	}
	return nil
}

// Clip cuts what is too long for a frame.
func (v *VerdictTaken) Clip() { v.Message = capabilities.Clip(v.Message, maxText) }
