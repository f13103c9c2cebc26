package wire

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// What is too long to be read is known by its id, wherever that is.
func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for in, want := range map[string]TooLong{
		`{"jsonrpc":"2.0","id":7,"result":{"text":"` + long + `"}}`:                  {ID: []byte("7")},
		`{"result":{"text":"` + long + `"},"jsonrpc":"2.0","id":7}`:                  {ID: []byte("7")},
		`{"result":{"id":1,"a":[{"id":2}],"text":"` + long + `"} , "id" : "a b" }`:   {ID: []byte(`"a b"`)},
		`{"result":"\"},\"id\":9,` + long + `\\","id":-5}`:                           {ID: []byte("-5")},
		`{"id":3,"method":"tools/call","params":{"name":"` + long + `"}}`:            {ID: []byte("3"), Method: true},
		`{"method":"notifications/message","params":{"id":4,"data":"` + long + `"}}`: {Method: true},
		`{"params":{"method":"x","data":"` + long + `"},"id":null,"method":"a"}`:     {ID: []byte("null"), Method: true},
		`{"id":"` + long + `","result":{}}`:                                          {},
		`{"id":{"a":"` + long + `"},"error":{"code":1,"message":"id"}}`:              {},
		`[{"id":1,"result":"` + long + `"}]`:                                         {},
		long:                                                                         {},
		`"id":5` + long:                                                              {},
		`}}}]]{"id":5}` + long:                                                       {},
		`{"a":"` + long:                                                              {},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in + "\nnext\n"), "in bytes": iotest.OneByteReader(strings.NewReader(in + "\nnext\n"))} {
			lines := NewLineReader(r, 1000)
			_, err := lines.Next()
			got, ok := errors.AsType[*TooLong](err)
			if !ok || string(got.ID) != string(want.ID) || got.Method != want.Method {
				t.Errorf("%.60s, %s: %+v, want %s %v", in, name, got, want.ID, want.Method)
			}
			if line, err := lines.Next(); string(line) != "next" || err != nil {
				t.Errorf("%.60s, %s: then %q, %v", in, name, line, err)
			}
		}
		events := NewEventReader(strings.NewReader("data: "+in+"\n\ndata: next\n\n"), 1000)
		_, err := events.Next()
		if got, ok := errors.AsType[*TooLong](err); !ok || string(got.ID) != string(want.ID) || got.Method != want.Method {
			t.Errorf("%.60s, event: %+v, want %s %v", in, got, want.ID, want.Method)
		}
		if ev, err := events.Next(); string(ev.Data) != "next" || err != nil {
			t.Errorf("%.60s, event: then %q, %v", in, ev.Data, err)
		}
		got, err := Skim([]byte(in[:10]), strings.NewReader(in[10:]), 1<<20)
		if err != nil || string(got.ID) != string(want.ID) || got.Method != want.Method {
			t.Errorf("%.60s, skimmed: %+v, %v", in, got, err)
		}
	}
	if _, err := Skim(nil, strings.NewReader(long), 1000); !errors.Is(err, ErrTooLong) {
		t.Errorf("far too long: %v", err)
	}
}

// A skim finds what a scan finds.
func TestSkimIsAScan(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var value func(depth int) string
	value = func(depth int) string {
		switch n := rnd.IntN(7); {
		case n == 0 && depth > 0:
			return fmt.Sprintf(`{"id":%s,"method":%s}`, value(depth-1), value(depth-1))
		case n == 1 && depth > 0:
			return fmt.Sprintf(`[%s , %s]`, value(depth-1), value(depth-1))
		case n == 2:
			return `"\"id\":1,\\"`
		case n == 3:
			return `"},{\u0022"`
		case n == 4:
			return "true"
		}
		return fmt.Sprint(rnd.IntN(1000))
	}
	for range 20_000 {
		id := fmt.Sprint(rnd.IntN(100_000))
		if rnd.IntN(2) == 0 {
			id = `"` + id + `\\"`
		}
		members := []string{`"jsonrpc": "2.0"`, `"id":` + id}
		if rnd.IntN(2) == 0 {
			members = append(members, `"method":"m"`, `"params":{"a":`+value(4)+`}`)
		} else {
			members = append(members, `"result":{"b":`+value(4)+`}`)
		}
		rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		text := "{" + strings.Join(members, ", ") + "}"
		var m Message
		if err := m.Scan([]byte(text), FromUpstream); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		at := rnd.IntN(len(text))
		got, err := Skim([]byte(text[:at]), strings.NewReader(text[at:]), 1<<20)
		if err != nil || string(got.ID) != string(m.ID) || got.Method != !m.IsResponse() {
			t.Fatalf("%s: %+v, %v", text, got, err)
		}
	}
}
