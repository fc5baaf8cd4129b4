package job

import (
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/handrail-dev/handrail/gateway/store"
)

// A row has in the clear what the queue is ordered by. The whole job, its words among it, is sealed
// under the job's ID, so that a row can neither be read nor be put in another's place.

// sealing binds what is sealed to this room.
const sealing = "job/1|"

var errSealed = errors.New("job: a row cannot be read: it was sealed by another key")

func (j *Jobs) seal(one *Job) (string, error) {
	body, err := json.Marshal(one)
	if err != nil {
		return "", err
	}
	out := make([]byte, chacha20poly1305.NonceSizeX, chacha20poly1305.NonceSizeX+len(body)+chacha20poly1305.Overhead)
	rand.Read(out) // never fails
	return base64.RawStdEncoding.EncodeToString(j.aead.Seal(out, out, body, []byte(sealing+one.ID))), nil
}

// open reads a job; in a store of before jobs were sealed it stands there as it is.
func (j *Jobs) open(id, body string) (one Job, err error) {
	if strings.HasPrefix(body, "{") {
		return one, json.Unmarshal([]byte(body), &one)
	}
	sealed, err := base64.RawStdEncoding.DecodeString(body)
	if err != nil || len(sealed) < chacha20poly1305.NonceSizeX {
		return Job{}, errSealed
	}
	plain, err := j.aead.Open(nil, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], []byte(sealing+id))
	if err != nil {
		return Job{}, errSealed
	}
	return one, json.Unmarshal(plain, &one)
}

// sealIn seals the jobs that an earlier program left in the clear.
func (j *Jobs) sealIn(tx *store.Tx) error {
	rows, err := tx.Query(`SELECT id, body FROM jobs WHERE body LIKE '{%'`)
	if err != nil {
		return err
	}
	all, err := j.scanAll(rows)
	for i := range all {
		err = errors.Join(err, j.saveIn(tx, &all[i], false))
	}
	return err
}

// scanAll reads rows of id and body to their end.
func (j *Jobs) scanAll(rows *sql.Rows) (list []Job, err error) {
	for rows.Next() {
		one, err := j.scan(rows)
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		list = append(list, one)
	}
	return list, errors.Join(rows.Err(), rows.Close())
}
