package journal

import "context"

// Kind says what the entities of a journal are: S is what is known of one, E an
// event. Nothing in it but Removed may block, and all of it is called with the entity
// locked. An S is never changed after it was returned, unless Check is there.
type Kind[S, E any] struct {
	// Subjects are those of the entities, with * for the key, or *.* for one of
	// two parts, or > at the end for one of any number.
	Subjects string
	// Inline is how many bytes of data an entry may have; more is a blob. 0
	// means as many as fit.
	Inline int
	New    func(key string) S
	// Encode makes an entry of an event and its data. If blob is not empty, the
	// data is there, and data is nil. No two events may give the same entry: an
	// append that was not acknowledged is recognized by its bytes, so an event
	// has an ID.
	Encode func(e *E, data []byte, blob string) ([]byte, error)
	// Decode takes an entry apart. data may be a part of it. A nil event says that
	// the entity was removed. An entry of a type that is not known is an *Unknown,
	// or an event that is one to Apply.
	Decode func(entry []byte) (e *E, data []byte, blob string, err error)
	// Apply says what is known after an event, and which entries are needed no
	// longer. It refuses what cannot follow. For an event of a type that is not known
	// it returns the state that follows, and an *Unknown.
	Apply func(s S, e *E, at Place) (S, []Spare, error)
	// Check says why an event cannot follow, for a kind whose states are large:
	// its Apply may change the state that it is given, and is called once for an
	// event. Whoever reads such a state holds the entity (Lock). May be nil.
	Check func(s S, e *E) error
	// Blobs are those of all that the entity holds; nil if there are none.
	Blobs func(s S) []string
	// Removed removes what an entity that was removed holds elsewhere. It is called
	// before the entries go, again after a crash, and until it succeeds; it may
	// block. nil if there is nothing.
	Removed func(ctx context.Context, key string) error
	// Changed is told each event that was applied since the journal was opened;
	// may be nil. It is called with the entity locked, and must not block nor
	// call the entity, except for State. A nil event means that the entity was
	// removed; State is then what it was.
	Changed func(x *Entity[S, E], e *E, at Place)
}

// Place says where the data of an event is.
type Place struct {
	Seq  uint64
	Blob string
}

// Spare is an entry that is needed no longer, or a blob that no entry needs.
// They are removed in the order in which they were returned: an entry that says
// what was removed goes after what it is about. Others who follow the log may not
// have read it by then: what it said must not matter any more, or be said again
// by what makes it spare.
type Spare struct {
	Seq  uint64 // 0 for none
	Blob string // empty for none
	// MayStay is how many bytes the entry takes, of one without a Blob that does no
	// harm while its entity is there: a later entry says the same, or takes its
	// place whatever this one says. It is removed when fewer things happen, but
	// before what becomes spare of its entity later. 0 removes it at once.
	MayStay int
}
