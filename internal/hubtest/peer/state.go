package peer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
)

// State is what has happened to a peer, over all its starts.
type State struct {
	Starts        int
	Pids          []int    // one per start
	Called        []string // names of tools and prompts, URIs of resources, in order
	Cancelled     []string // those that a cancellation ended
	Grandchildren []int    // pids of Quirks.SpawnGrandchild
	Terms         int      // SIGTERMs that were ignored
}

// ReadState reads the file that a Spec's StatePath names. A file that does not
// exist yet is the zero State.
func ReadState(path string) (State, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read the state of a peer: %w", err)
	}
	return readState(b)
}

func readState(b []byte) (State, error) {
	var st State
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		what, arg, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "start", "grandchild":
			pid, err := strconv.Atoi(arg)
			if err != nil {
				return st, fmt.Errorf("read the state of a peer: line %q: %w", lines.Text(), err)
			}
			if what == "start" {
				st.Starts++
				st.Pids = append(st.Pids, pid)
			} else {
				st.Grandchildren = append(st.Grandchildren, pid)
			}
		case "called":
			st.Called = append(st.Called, arg)
		case "cancelled":
			st.Cancelled = append(st.Cancelled, arg)
		case "term":
			st.Terms++
		}
	}
	return st, lines.Err()
}

// journal collects the lines of a State, in memory and in a file if it has one.
type journal struct {
	path string
	mu   sync.Mutex
	b    []byte
}

// note appends one line. Lines are short, so that an append is one write and
// processes sharing a file do not tear each other's lines.
func (j *journal) note(what string, arg any) {
	line := fmt.Appendf(nil, "%s %v\n", what, arg)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.b = append(j.b, line...)
	if j.path != "" {
		appendFile(j.path, line)
	}
}

func (j *journal) state() (State, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return readState(j.b)
}

// appendFile reports on stderr, the one place left to a child whose stdout is
// protocol.
func appendFile(path string, b []byte) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "peer: append to %s: %v\n", path, err)
	}
}
