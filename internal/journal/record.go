package journal

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
)

// Record is an entity each of whose events says all that there is to know of it.
type Record[T any] struct {
	Value *T // nil before the first event; not to be changed
	seq   uint64
}

// recordEntry is an entry of a Record. The id tells it from another with the
// same content: of two who write the same at the same time, one is refused.
type recordEntry[T any] struct {
	ID    string `json:"id"`
	Value *T     `json:"value"`
}

// Records is the kind of entities that are Records of T, as JSON. changed may be
// nil; it is Kind.Changed.
func Records[T any](subjects string, changed func(x *Entity[Record[T], T], e *T, at Place)) Kind[Record[T], T] {
	return Kind[Record[T], T]{
		Subjects: subjects,
		New:      func(string) Record[T] { return Record[T]{} },
		Encode: func(e *T, _ []byte, _ string) ([]byte, error) {
			return json.Marshal(recordEntry[T]{ID: rand.Text()[:16], Value: e})
		},
		Decode: func(entry []byte) (*T, []byte, string, error) {
			var r recordEntry[T]
			if err := json.Unmarshal(entry, &r); err != nil {
				return nil, nil, "", err
			}
			if r.Value == nil {
				return nil, nil, "", fmt.Errorf("the entry has no value")
			}
			return r.Value, nil, "", nil
		},
		Apply: func(s Record[T], e *T, at Place) (Record[T], []Spare, error) {
			var spares []Spare
			if s.seq != 0 {
				spares = []Spare{{Seq: s.seq}}
			}
			return Record[T]{Value: e, seq: at.Seq}, spares, nil
		},
		Changed: changed,
	}
}
