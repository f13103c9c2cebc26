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
