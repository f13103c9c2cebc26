package wire

import "bytes"

// Change is one member to set or, with a nil Value, to drop. Of several
// changes of one name the last counts.
type Change struct {
	Name  string
	Value []byte
}

// Edit appends obj to dst with the changes made. A member that is set keeps
// its place; a new one goes to the end, in the order of changes. A changed
// name that occurs more than once keeps its first place only. All other bytes
// stay as they are, space and escapes included; a dropped member takes one
// comma along. What is not an object counts as {}. dst and obj must not
// overlap.
func Edit(dst, obj []byte, changes ...Change) []byte {
	set := newChangeSet(changes)
	e := editor{dst: dst, obj: obj}
	s := scanner{b: obj, maxDepth: MaxDepth, lax: 1}
	s.space()
	if s.peek() != '{' {
		return EditFields(dst, nil, changes...)
	}
	e.last = s.pos + 1
	err := s.object(func(name []byte) error {
		nameAt, start := s.nameAt, s.pos
		if err := s.value(); err != nil {
			return err
		}
		value, changed := set.take(name)
		e.member(nameAt, start, s.pos, value, changed)
		return nil
	})
	if err != nil || !s.end() {
		return EditFields(dst, nil, changes...)
	}
	e.copyTo(e.last)
	e.dst = set.appendNew(e.dst, e.kept == 0)
	return append(e.dst, obj[e.from:]...)
}

// An editor copies obj lazily: bytes up to from are done with.
type editor struct {
	dst  []byte
	obj  []byte
	from int
	last int  // the end of the last member
	kept int  // members written so far
	skip bool // leave out what lies before the next name: a dropped first member's comma
}

// member takes in the member with its name at nameAt and its value from start
// to end. A changed one gets value, or is dropped if that is nil.
func (e *editor) member(nameAt, start, end int, value []byte, changed bool) {
	if e.skip {
		e.from, e.skip = nameAt, false
	}
	e.last = end
	switch {
	case !changed:
		e.kept++
	case value != nil:
		e.copyTo(start)
		e.dst = append(e.dst, value...)
		e.from = end
		e.kept++
	case e.kept == 0:
		e.copyTo(nameAt)
		e.from, e.skip = end, true
	default:
		e.copyTo(bytes.LastIndexByte(e.obj[:nameAt], ','))
		e.from = end
	}
}

func (e *editor) copyTo(pos int) {
	e.dst = append(e.dst, e.obj[e.from:pos]...)
	e.from = pos
}

// EditFields is Edit for an object that has been taken apart already: it has
// no space between members, and names are escaped only where they must be.
func EditFields(dst []byte, fields []Field, changes ...Change) []byte {
	set := newChangeSet(changes)
	dst = append(dst, '{')
	first := true
	for _, f := range fields {
		value, changed := set.take(f.Name)
		if !changed {
			value = f.Value
		}
		if value != nil {
			dst = appendMember(dst, first, string(f.Name), value)
			first = false
		}
	}
	return append(set.appendNew(dst, first), '}')
}

func appendMember(dst []byte, first bool, name string, value []byte) []byte {
	if !first {
		dst = append(dst, ',')
	}
	dst = append(AppendString(dst, name), ':')
	return append(dst, value...)
}

// A changeSet remembers which changes have found their member.
type changeSet struct {
	changes []Change
	done    []bool
}

func newChangeSet(changes []Change) changeSet {
	return changeSet{changes, make([]bool, len(changes))}
}

// take says whether name is changed, and to what; nil means dropped.
func (c *changeSet) take(name []byte) ([]byte, bool) {
	for i := len(c.changes) - 1; i >= 0; i-- {
		if c.changes[i].Name != string(name) {
			continue
		}
		if c.done[i] {
			return nil, true
		}
		c.done[i] = true
		return c.changes[i].Value, true
	}
	return nil, false
}

// appendNew appends the members that no change has found.
func (c *changeSet) appendNew(dst []byte, first bool) []byte {
	for i, ch := range c.changes {
		if ch.Value == nil || c.done[i] || c.overruled(i) {
			continue
		}
		dst = appendMember(dst, first, ch.Name, ch.Value)
		first = false
	}
	return dst
}

func (c *changeSet) overruled(i int) bool {
	for _, later := range c.changes[i+1:] {
		if later.Name == c.changes[i].Name {
			return true
		}
	}
	return false
}
