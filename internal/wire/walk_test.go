package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// walked lists what a walk sees: depth, index, name and text of each value,
// and how many children a container had that was left.
func walked(b []byte, next func(Node) Next) (out []string, err error) {
	line := func(n Node, text string) {
		if n.Name != nil {
			text = fmt.Sprintf("%q=%s", n.Name, text)
		}
		out = append(out, fmt.Sprintf("%d.%d %s", n.Depth, n.Index, text))
	}
	err = Walk(b, func(n Node) Next {
		if n.End == 0 {
			line(n, string(n.Kind))
		} else {
			line(n, string(n.Kind)+" "+string(b[n.Start:n.End]))
		}
		return next(n)
	}, func(n Node) Next {
		line(n, fmt.Sprintf("%s of %d", b[n.Start:n.End], n.Len))
		return next(n)
	})
	return out, err
}

func TestWalk(t *testing.T) {
	into := func(Node) Next { return Into }
	const doc = ` {"a" : [ -1.5,"x" , {}],"\u0062":true,"":null} `
	all := []string{
		`0.0 {`, `1.0 "a"=[`, `2.0 0 -1.5`, `2.1 " "x"`, `2.2 {`, `2.2 {} of 0`, `1.0 "a"=[ -1.5,"x" , {}] of 3`, `1.1 "b"=t true`, `1.2 ""=n null`,
		`0.0 ` + strings.TrimSpace(doc) + ` of 3`,
	}
	for _, c := range []struct {
		name string
		next func(Node) Next
		want []string
	}{
		{"into all", into, all},
		{"over the root", func(Node) Next { return Over }, []string{`0.0 {`, `0.0 ` + strings.TrimSpace(doc) + ` of 0`}},
		{"over an array", func(n Node) Next { return min(Next(n.Depth), Over) }, []string{
			`0.0 {`, `1.0 "a"=[`, `1.0 "a"=[ -1.5,"x" , {}] of 0`, `1.1 "b"=t true`, `1.2 ""=n null`, `0.0 ` + strings.TrimSpace(doc) + ` of 3`,
		}},
		{"stop at a leaf", func(n Node) Next {
			if n.Kind == '"' {
				return Stop
			}
			return Into
		}, all[:4]},
		{"stop where a container is entered", func(n Node) Next {
			if n.Kind == '[' {
				return Stop
			}
			return Into
		}, all[:2]},
		{"stop where a container is left", func(n Node) Next {
			if n.Kind == '[' && n.End > 0 {
				return Stop
			}
			return Into
		}, all[:7]},
	} {
		got, err := walked([]byte(doc), c.next)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
	}
	for _, bad := range []string{"", "[", "[1,]", `{"a"}`, "1 2", `["\x"]`, "nul", nest("[", "]", MaxDepth+1)} {
		if _, err := walked([]byte(bad), into); err == nil {
			t.Errorf("%.20s was walked", bad)
		}
	}
	if got, err := walked([]byte(nest("[", "]", MaxDepth)), into); err != nil || len(got) != 2*MaxDepth+1 {
		t.Errorf("%d steps, %v", len(got), err)
	}
}

// oracleWalk lists the leaves with their depth by means of another parser.
func oracleWalk(b []byte) (out []string) {
	d := jsontext.NewDecoder(bytes.NewReader(b), laxOptions...)
	for {
		depth := d.StackDepth()
		kind, length := d.StackIndex(depth)
		isName := kind == '{' && length%2 == 0
		switch d.PeekKind() {
		case '{', '[', '}', ']':
			if _, err := d.ReadToken(); err != nil {
				return out
			}
			continue
		}
		v, err := d.ReadValue()
		if err != nil {
			return out
		}
		if !isName {
			out = append(out, fmt.Sprintf("%d %s", depth, v))
		}
	}
}

func checkWalk(t interface{ Errorf(string, ...any) }, b []byte) {
	var got []string
	open := 0
	err := Walk(b, func(n Node) Next {
		if n.Depth != open {
			t.Errorf("%s: depth %d with %d open", b, n.Depth, open)
		}
		if n.Name != nil {
			if name := bytes.TrimRight(b[n.NameAt:n.Start], " \t\r\n:"); unquote(string(name)) != string(n.Name) {
				t.Errorf("%s: %s is not the name %q", b, name, n.Name)
			}
		}
		if n.Kind == '{' || n.Kind == '[' {
			open++
		} else {
			got = append(got, fmt.Sprintf("%d %s", n.Depth, b[n.Start:n.End]))
		}
		return Into
	}, func(n Node) Next {
		open--
		if part := b[n.Start:n.End]; Valid(part, FromUpstream) != nil || n.Kind == '{' && len(Members(part)) != n.Len {
			t.Errorf("%s: container %s of %d", b, part, n.Len)
		}
		return Into
	})
	if diff := cmp.Diff(oracleWalk(b), got); err != nil || diff != "" || open != 0 {
		t.Errorf("walk of %s: %v (-oracle +got):\n%s", b, err, diff)
	}
}

func TestPropertyWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkWalk(t, []byte(genSpace().Draw(t, "before")+genValue(4).Draw(t, "value")))
	})
}

func FuzzWalk(f *testing.F) {
	for _, s := range []string{` {"a":[1,{"b":"\u0062"}], "c":{}}`, `[[],[[]],"x"]`, `"@x"`, `{"a":1,"a":2}`, `[1 2]`, `-0.5e1 `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if oracleValid(b, FromUpstream) {
			checkWalk(t, b)
		} else if Walk(b, func(Node) Next { return Into }, nil) == nil {
			t.Errorf("%q was walked", b)
		}
	})
}

// A walk costs no memory of its own, however much it passes.
func TestWalkAllocates(t *testing.T) {
	b := result(1 << 20)
	leaves := 0
	enter := func(n Node) Next { leaves++; return Into }
	if allocs := testing.AllocsPerRun(3, func() {
		if err := Walk(b, enter, nil); err != nil {
			t.Error(err)
		}
	}); allocs > 10 || leaves == 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkWalk(b *testing.B) {
	input := result(1 << 20)
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Walk(input, func(Node) Next { return Into }, nil); err != nil {
			b.Fatal(err)
		}
	}
}
