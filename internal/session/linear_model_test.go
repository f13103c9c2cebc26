package session

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// What may come of operations on the values of one Session, for porcupine: it
// looks for an order in which they may have happened one after the other, each
// between its call and its answer.

// valueNames are the names of values in a history.
const valueNames = 2

// kept is what a Session holds: of each name the versions, as "1:a 2:b".
type kept [valueNames]string

// operation is what a client asks for.
type operation struct {
	what string // put, remove, end, read: all versions, or use: as a reference does
	name int
	data string // of put: no two are the same
	over int    // of put: the version that it may take the place of; 0 means any
}

// outcome is what it was told.
type outcome struct {
	unknown bool   // whether it took effect
	refused bool   // for what the value is, or is not
	version int    // of put
	all     string // of read: as in kept; of use: the data
}

// current is the version and the data that come last.
func current(versions string) (n int, data string) {
	if versions == "" {
		return 0, ""
	}
	last := versions[strings.LastIndexByte(versions, ' ')+1:]
	_, err := fmt.Sscanf(strings.Replace(last, ":", " ", 1), "%d %s", &n, &data)
	if err != nil {
		panic(err)
	}
	return n, data
}

// step is what a Session holds after an operation, if it may have had that
// outcome. One of unknown outcome takes effect, but nobody knows when: it need
// not have before the end of the history, which is to say that it never did.
func step(s kept, op operation, out outcome) (bool, kept) {
	n, data := current(s[op.name])
	switch op.what {
	case "read":
		return out.all == s[op.name], s
	case "use":
		return out.refused == (n == 0) && out.all == data, s
	case "end":
		return true, kept{}
	case "remove":
		if n == 0 {
			return out.refused || out.unknown, s
		}
		s[op.name] = ""
		return !out.refused, s
	}
	if op.over != 0 && op.over != n {
		return out.refused || out.unknown, s
	}
	s[op.name] = strings.TrimSpace(fmt.Sprintf("%s %d:%s", s[op.name], n+1, op.data))
	return !out.refused && (out.unknown || out.version == n+1), s
}

var sessionModel = porcupine.Model{
	Init: func() any { return kept{} },
	Step: func(state, in, out any) (bool, any) {
		return step(state.(kept), in.(operation), out.(outcome))
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %+v", in, out) },
}

// linearizable holds a history to the model. What it takes too long to decide
// counts as neither.
func linearizable(t *testing.T, history []porcupine.Operation) porcupine.CheckResult {
	t.Helper()
	last := int64(0)
	for _, op := range history {
		last = max(last, op.Call, op.Return)
	}
	for i := range history {
		if history[i].Output.(outcome).unknown {
			history[i].Return = math.MaxInt64
		}
	}
	return porcupine.CheckOperationsTimeout(sessionModel, history, 20*time.Second)
}

func describe(history []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range history {
		fmt.Fprintf(&b, "client %d, %9d to %9d: %+v: %+v\n", op.ClientId, op.Call, op.Return, op.Input, op.Output)
	}
	return b.String()
}

// The model takes what may be, and nothing else.
func TestModelOfValues(t *testing.T) {
	var now int64
	op := func(client int, in operation, out outcome) porcupine.Operation {
		now += 2
		return porcupine.Operation{ClientId: client, Input: in, Output: out, Call: now, Return: now + 1}
	}
	put := func(data string, version int) porcupine.Operation {
		return op(0, operation{what: "put", data: data}, outcome{version: version})
	}
	read := func(all string) porcupine.Operation { return op(1, operation{what: "read"}, outcome{all: all}) }
	use := func(data string) porcupine.Operation {
		return op(1, operation{what: "use"}, outcome{all: data, refused: data == ""})
	}
	lost := func() porcupine.Operation {
		return op(2, operation{what: "put", data: "x"}, outcome{unknown: true})
	}
	remove := func() porcupine.Operation { return op(0, operation{what: "remove"}, outcome{}) }
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		"in order":                   {[]porcupine.Operation{read(""), put("a", 1), use("a"), put("b", 2), read("1:a 2:b")}, porcupine.Ok},
		"stale":                      {[]porcupine.Operation{put("a", 1), put("b", 2), read("1:a")}, porcupine.Illegal},
		"stale use":                  {[]porcupine.Operation{put("a", 1), put("b", 2), use("a")}, porcupine.Illegal},
		"lost":                       {[]porcupine.Operation{put("a", 1), read("")}, porcupine.Illegal},
		"back":                       {[]porcupine.Operation{put("a", 1), remove(), read("1:a")}, porcupine.Illegal},
		"twice":                      {[]porcupine.Operation{put("a", 1), read("1:a 2:a")}, porcupine.Illegal},
		"the same version":           {[]porcupine.Operation{put("a", 1), put("b", 1)}, porcupine.Illegal},
		"unknown, came":              {[]porcupine.Operation{lost(), put("a", 2), read("1:x 2:a")}, porcupine.Ok},
		"unknown, never came":        {[]porcupine.Operation{lost(), put("a", 1), read("1:a")}, porcupine.Ok},
		"unknown, came later":        {[]porcupine.Operation{lost(), read(""), read("1:x")}, porcupine.Ok},
		"unknown, went again":        {[]porcupine.Operation{lost(), read("1:x"), read("")}, porcupine.Illegal},
		"unknown, came twice":        {[]porcupine.Operation{lost(), read("1:x 2:x")}, porcupine.Illegal},
		"refused without a reason":   {[]porcupine.Operation{put("a", 1), op(0, operation{what: "put", data: "b", over: 1}, outcome{refused: true})}, porcupine.Illegal},
		"over another":               {[]porcupine.Operation{put("a", 1), put("b", 2), op(0, operation{what: "put", data: "c", over: 1}, outcome{version: 3})}, porcupine.Illegal},
		"ended":                      {[]porcupine.Operation{put("a", 1), op(0, operation{what: "end"}, outcome{}), put("b", 1), read("1:b")}, porcupine.Ok},
		"removed what was not there": {[]porcupine.Operation{remove()}, porcupine.Illegal},
	} {
		if got := linearizable(t, c.history); got != c.want {
			t.Errorf("%s is %s\n%s", name, got, describe(c.history))
		}
	}
}
