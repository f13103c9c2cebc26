package obs

import "sync"

// Bounds of a Ring.
const (
	ringRecords = 2000
	ringBytes   = 4 << 20
)

// Ring keeps the last records of a log in memory: as many as it has room for,
// and no more than a few MiB of them. It may be used concurrently.
type Ring struct {
	mu    sync.Mutex
	lines [][]byte // a circle; next is where the next line goes
	next  int
	n     int
	bytes int
	last  uint64 // the number of the newest line; the first is 1
}

// NewRing returns a ring for so many records; 0 means 2,000.
func NewRing(records int) *Ring {
	if records <= 0 {
		records = ringRecords
	}
	return &Ring{lines: make([][]byte, records)}
}

// add keeps a copy of a line that ends with a newline.
func (r *Ring) add(line []byte) {
	kept := append([]byte(nil), line[:len(line)-1]...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == len(r.lines) {
		r.drop()
	}
	r.lines[r.next] = kept
	r.next = (r.next + 1) % len(r.lines)
	r.n++
	r.last++
	for r.bytes += len(kept); r.bytes > ringBytes && r.n > 1; {
		r.drop()
	}
}

// drop forgets the oldest line; mu is held.
func (r *Ring) drop() {
	at := (r.next - r.n + len(r.lines)) % len(r.lines)
	r.bytes -= len(r.lines[at])
	r.lines[at] = nil
	r.n--
}

// all returns the lines, the oldest first.
func (r *Ring) all() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([][]byte, r.n)
	for i := range out {
		out[i] = r.lines[(r.next-r.n+i+len(r.lines))%len(r.lines)]
	}
	return out
}

// Read returns the records that q wants, the newest first. Their lines must
// not be changed.
func (r *Ring) Read(q Query) []Record {
	out := []Record{}
	lines := r.all()
	for i := len(lines) - 1; i >= 0 && len(out) < q.limit(); i-- {
		if rec, err := parseRecord(lines[i]); err == nil && q.wants(&rec) {
			out = append(out, rec)
		}
	}
	return out
}

// After returns the records that q wants of those after number after, the
// oldest first, and the number to go on after. If there are more than q allows,
// the newest are left out.
func (r *Ring) After(after uint64, q Query) (out []Record, next uint64) {
	r.mu.Lock()
	first := r.last - uint64(r.n) + 1
	lines := make([][]byte, 0, r.n)
	for i := range r.n {
		if first+uint64(i) > after {
			lines = append(lines, r.lines[(r.next-r.n+i+len(r.lines))%len(r.lines)])
		}
	}
	next = r.last
	r.mu.Unlock()
	out = []Record{}
	for i, line := range lines {
		if rec, err := parseRecord(line); err == nil && q.wants(&rec) {
			if out = append(out, rec); len(out) == q.limit() {
				return out, next - uint64(len(lines)-1-i)
			}
		}
	}
	return out, next
}

// newest is the number of the newest line.
func (r *Ring) newest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
