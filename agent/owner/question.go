package owner

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Questions and answers are files in the folder "questions" of the node's, which is
// open to the owner's account only: there is nothing that a page or a process of
// another user could connect to, and nothing to keep open.
//
//	ID.question   what is asked, with a token; written by the node
//	ID.answer     the answer, with the same token; written by 'handrail node approve'
//	ID.outcome    what came of it; written by the node, removed by who answered
//
// An answer and its outcome have an ID in common: a question whose answer did not count
// can be answered again, and what came of the one is not taken for the other's.
const (
	questionsFolder = "questions"
	questionSuffix  = ".question"
	answerSuffix    = ".answer"
	outcomeSuffix   = ".outcome"
	maxQuestion     = 64 << 10
)

// Question is one that waits for a person.
type Question struct {
	Version   int                      `json:"version"` // 1
	ID        string                   `json:"id"`
	Tool      capabilities.ToolID      `json:"tool_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Lane      capabilities.LaneID      `json:"lane"`
	Args      map[string]any           `json:"args,omitempty"` // allowlisted ones only
	Why       string                   `json:"why"`
	Risk      string                   `json:"risk,omitempty"`
	Opened    time.Time                `json:"opened"`
	Expires   time.Time                `json:"expires"`

	nonce  string
	answer string // the ID of the answer of Reply to it
}

type questionFile struct {
	Question
	Token string `json:"token"`
}

// Answer is a person's.
type Answer struct {
	Version int    `json:"version"` // 1
	ID      string `json:"id"`      // by Reply
	Token   string `json:"token"`
	Approve bool   `json:"approve"`
	Seconds int    `json:"for_s,omitempty"` // 0: this call only
	By      string `json:"by,omitempty"`
}

// For is how long the answer is to hold beyond the one call.
func (a Answer) For() time.Duration { return time.Duration(a.Seconds) * time.Second }

// Outcome is what came of an answer.
type Outcome struct {
	Version int    `json:"version"`
	Answer  string `json:"answer"`  // its ID
	Outcome string `json:"outcome"` // approved, denied or refused
	Why     string `json:"why,omitempty"`
}

func questionsIn(dir string) string { return filepath.Join(dir, questionsFolder) }

// QuestionPrefix is what a question's ID begins with.
const QuestionPrefix = "q-"

// newID is short enough to type; it is no secret.
func newID() string { return QuestionPrefix + strings.ToLower(rand.Text()[:8]) }

func validID(id string) bool {
	rest, ok := strings.CutPrefix(id, QuestionPrefix)
	return ok && len(rest) == 8 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

func clearFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		for _, suffix := range []string{questionSuffix, answerSuffix, outcomeSuffix, ".new"} {
			if strings.HasSuffix(e.Name(), suffix) {
				if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	return nil
}

func writeJSON(path string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxQuestion+1))
	if err != nil {
		return err
	}
	if len(data) > maxQuestion {
		return fmt.Errorf("%s is too large", filepath.Base(path))
	}
	return json.Unmarshal(data, v)
}

func writeQuestion(dir string, q *Question) error {
	return writeJSON(filepath.Join(questionsIn(dir), q.ID+questionSuffix), questionFile{*q, q.nonce})
}

func removeQuestion(dir, id string) {
	for _, suffix := range []string{questionSuffix, answerSuffix} {
		_ = os.Remove(filepath.Join(questionsIn(dir), id+suffix))
	}
}

func writeOutcome(dir, id string, o Outcome) error {
	return writeJSON(filepath.Join(questionsIn(dir), id+outcomeSuffix), o)
}

// readAnswer returns the answer to q if there is one; one without the token is none.
func readAnswer(dir string, q *Question) (Answer, bool) {
	var a Answer
	err := readJSON(filepath.Join(questionsIn(dir), q.ID+answerSuffix), &a)
	return a, err == nil && a.Version == 1 && a.Seconds >= 0 && matches(a.Token, q.nonce)
}

// Questions lists what the node that lives in dir asks its person now, oldest
// first. It needs no running node.
func Questions(dir string, now time.Time) ([]Question, error) {
	entries, err := os.ReadDir(questionsIn(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Question
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), questionSuffix)
		if !ok || !validID(id) {
			continue
		}
		var q questionFile
		if err := readJSON(filepath.Join(questionsIn(dir), e.Name()), &q); err != nil || q.ID != id || !now.Before(q.Expires) {
			continue // answered meanwhile, or over
		}
		q.nonce = q.Token
		all = append(all, q.Question)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Opened.Before(all[j].Opened) })
	return all, nil
}

// Reply answers a question of the node that lives in dir. CodeNotFound if there is
// no such question, CodeConflict if it has an answer already: the first one counts.
// ReadOutcome takes the question it returns.
func Reply(dir, id string, a Answer, now time.Time) (Question, error) {
	if !validID(id) {
		return Question{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%q is no question's ID", id).
			WithAction(capabilities.Action{Key: capabilities.ActionListQuestions}, "Name one of those that wait.")
	}
	all, err := Questions(dir, now)
	if err != nil {
		return Question{}, err
	}
	i := slices.IndexFunc(all, func(q Question) bool { return q.ID == id })
	if i < 0 {
		return Question{}, capabilities.Errorf(capabilities.CodeNotFound, "no question %s waits on this device", id).
			WithAction(capabilities.Action{Key: capabilities.ActionListQuestions}, "One that nobody answers ends after 10 minutes.")
	}
	a.Version, a.ID, a.Token = 1, rand.Text(), all[i].nonce
	path := filepath.Join(questionsIn(dir), id+answerSuffix)
	data, err := json.Marshal(a)
	if err != nil {
		return Question{}, err
	}
	// Whole or not at all, and never over another's: a link to a finished file.
	temp := path + "." + a.ID + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return Question{}, err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, path); errors.Is(err, fs.ErrExist) {
		return Question{}, capabilities.Errorf(capabilities.CodeConflict, "question %s has an answer already", id)
	} else if err != nil {
		if err := os.Rename(temp, path); err != nil { // a file system without links
			return Question{}, err
		}
	}
	all[i].answer = a.ID
	return all[i], nil
}

// ReadOutcome returns what came of the answer of Reply to q, if the node has taken
// it.
func ReadOutcome(dir string, q Question) (Outcome, bool) {
	path := filepath.Join(questionsIn(dir), q.ID+outcomeSuffix)
	var o Outcome
	if !validID(q.ID) || readJSON(path, &o) != nil || o.Answer != q.answer {
		return Outcome{}, false
	}
	_ = os.Remove(path)
	return o, true
}
