package session

import (
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// maxFaults bounds how many bad references of one call are described.
const maxFaults = 20

type badReference struct {
	text string
	at   int // where it first stands in the arguments
	err  *fault.Error
}

// ReferenceFault is what is wrong with one reference, as in the data of a
// BadReference fault.
type ReferenceFault struct {
	Pointer   string   `json:"pointer"` // RFC 6901, into the arguments: where it first stands
	Reference string   `json:"reference"`
	Message   string   `json:"message"`
	Allowed   []string `json:"allowed,omitempty"` // the names that exist there, where they are few
	Close     []string `json:"close,omitempty"`   // those that were probably meant
	Length    *int     `json:"length,omitempty"`  // of the array whose element was asked for
}

// badReferences makes one fault of all. What a single one says of itself under
// "allowed", "close" and "length" is kept.
func (r *resolver) badReferences() error {
	told := r.bad[:min(len(r.bad), maxFaults)]
	pointers := pointersAt(r.args, told)
	faults := make([]ReferenceFault, len(told))
	var text strings.Builder
	if len(r.bad) > 1 {
		text.WriteString(strconv.Itoa(len(r.bad)) + " references cannot be resolved: ")
	}
	for i, b := range told {
		f := ReferenceFault{Pointer: pointers[i], Reference: b.text, Message: b.err.Text()}
		f.Allowed, _ = b.err.Data["allowed"].([]string)
		f.Close, _ = b.err.Data["close"].([]string)
		if n, ok := b.err.Data["length"].(int); ok {
			f.Length = &n
		}
		faults[i] = f
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(clip(b.text, 200) + ": " + f.Message)
	}
	if more := len(r.bad) - len(told); more > 0 {
		text.WriteString("; and " + strconv.Itoa(more) + " more")
	}
	e := (&fault.Error{Kind: fault.BadReference, Msg: text.String()}).With("faults", faults)
	if len(r.bad) == 1 {
		e.Hint = r.bad[0].err.Hint
	}
	if n := faults[0].Length; len(r.bad) == 1 && e.Hint == "" && n != nil {
		e.Hint = "The elements of an array are counted from 0; this one has " + count(*n, "element") + "."
	}
	return e
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointersAt finds the JSON pointers of the strings where the references
// stand. Few calls fail, so it walks a second time rather than keep track.
func pointersAt(args []byte, bad []badReference) []string {
	out := make([]string, 0, len(bad))
	var path []string
	// The arguments have been walked before: there is nothing to go wrong.
	_ = wire.Walk(args, func(n wire.Node) wire.Next {
		if n.Depth > 0 {
			token := strconv.Itoa(n.Index)
			if n.Name != nil {
				token = pointerEscaper.Replace(string(n.Name))
			}
			path = append(path[:n.Depth-1], token)
		}
		if n.Start == bad[len(out)].at {
			pointer := ""
			if n.Depth > 0 {
				pointer = "/" + strings.Join(path, "/")
			}
			if out = append(out, pointer); len(out) == len(bad) {
				return wire.Stop
			}
		}
		return wire.Into
	}, nil)
	return out
}
