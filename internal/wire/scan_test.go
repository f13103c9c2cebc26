package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// verdict is how a scan ends.
type verdict string

const (
	accepted verdict = "accepted"
	syntax   verdict = "syntax error"
	shape    verdict = "shape error"
)

func judge(err error) verdict {
	var syn *SyntaxError
	var sh *ShapeError
	switch {
	case err == nil:
		return accepted
	case errors.As(err, &syn):
		return syntax
	case errors.As(err, &sh):
		return shape
	}
	return verdict("other error: " + err.Error())
}

func nest(open, close string, depth int) string {
	return strings.Repeat(open, depth) + "1" + strings.Repeat(close, depth)
}

func request(params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"m","params":` + params + `}`
}

func response(member, value string) string {
	return `{"jsonrpc":"2.0","id":1,"` + member + `":` + value + `}`
}

func scanVerdicts(t *testing.T, name, input string, client, upstream verdict) {
	t.Helper()
	for trust, want := range map[Trust]verdict{FromClient: client, FromUpstream: upstream} {
		var m Message
		err := m.Scan([]byte(input), trust)
		if got := judge(err); got != want {
			t.Errorf("%s, upstream %v: %.120q is %s (%v), want %s", name, trust, input, got, err, want)
		}
	}
}

// Both trusts agree on everything outside of result and error.
func TestScanSameForBoth(t *testing.T) {
	for _, c := range []struct {
		name, input string
		want        verdict
	}{
		{"request", request(`{}`), accepted},
		{"request without params", `{"jsonrpc":"2.0","id":1,"method":"m"}`, accepted},
		{"notification", `{"jsonrpc":"2.0","method":"m"}`, accepted},
		{"result", response("result", `{}`), accepted},
		{"null result", response("result", `null`), accepted},
		{"error", response("error", `{"code":1,"message":"x"}`), accepted},
		{"space around every token", " \t\r\n{ \"jsonrpc\" :\n\"2.0\" , \"method\" : \"m\" }\r\n", accepted},
		{"unknown members", `{"jsonrpc":"2.0","method":"m","x":[{"y":null}]}`, accepted},
		{"version with an escape", `{"jsonrpc":"2\u002e0","method":"m"}`, accepted},

		{"duplicate in the envelope", `{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, syntax},
		{"two results", `{"jsonrpc":"2.0","id":1,"result":1,"result":2}`, syntax},
		{"duplicate by escape", request(`{"n\u0061me":1,"name":2}`), syntax},
		{"duplicate by another escape", request(`{"\u006eame":1,"nam\u0065":2}`), syntax},
		{"duplicate by surrogate pair", request(`{"😀":1,"\ud83d\ude00":2}`), syntax},
		{"duplicate by short escape", request(`{"a/b":1,"a\/b":2}`), syntax},
		{"duplicate empty names", request(`{"":1,"":2}`), syntax},
		{"envelope name by escape", `{"jsonrpc":"2.0","method":"m","m\u0065thod":"n"}`, syntax},
		{"duplicate in _meta", request(`{"_meta":{"a":1,"a":2}}`), syntax},
		{"duplicate in arguments", request(`{"arguments":{"a":{"b":[0,{"c":1,"c":2}]}}}`), syntax},
		{"duplicate after many", request(manyMembers(100, `,"k7":0`)), syntax},
		{"many members", request(manyMembers(100, "")), accepted},
		{"duplicate at the change of method", request(manyMembers(manyNames+1, fmt.Sprintf(`,"k%d":0`, manyNames))), syntax},
		{"same name at other levels", request(`{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}}`), accepted},
		{"names by case", request(`{"Name":1,"name":2}`), accepted},
		{"normal forms are not compared", request(`{"é":1,"e\u0301":2}`), accepted},

		{"lone high surrogate", request(`{"a":"\ud800"}`), syntax},
		{"lone low surrogate", request(`{"a":"\uDC00"}`), syntax},
		{"reversed pair", request(`{"a":"\udc00\ud800"}`), syntax},
		{"high and high", request(`{"a":"\ud800\ud800\udc00"}`), syntax},
		{"high and text", request(`{"a":"\ud800 udc00"}`), syntax},
		{"high and other escape", request(`{"a":"\ud800\n"}`), syntax},
		{"high at the end", `{"a":"\ud800`, syntax},
		{"pair", request(`{"a":"\uD83D\uDE00"}`), accepted},
		{"lone surrogate in a name", request(`{"\ud800":1}`), syntax},
		{"lone surrogate in the id", `{"jsonrpc":"2.0","id":"\ud800","result":1}`, syntax},
		{"lone surrogate in an unknown member", `{"jsonrpc":"2.0","id":1,"result":1,"x":"\ud800"}`, syntax},
		{"duplicate in an unknown member", `{"jsonrpc":"2.0","id":1,"result":1,"x":{"a":1,"a":1}}`, syntax},

		{"batch", `[` + request(`{}`) + `]`, shape},
		{"empty batch", `[]`, shape},
		{"broken batch", `[` + request(`{}`), syntax},
		{"batch and more", `[] x`, syntax},
		{"number", `1`, shape},
		{"string", `"x"`, shape},
		{"null", `null`, shape},
		{"string and more", `"x" "y"`, syntax},
		{"nothing", ``, syntax},
		{"space", " \n", syntax},
		{"trailing message", request(`{}`) + request(`{}`), syntax},
		{"trailing comma", request(`{}`) + `,`, syntax},
		{"trailing NUL", request(`{}`) + "\x00", syntax},
		{"byte order mark", "\ufeff" + request(`{}`), syntax},
		{"comment", `{/**/"jsonrpc":"2.0","method":"m"}`, syntax},
		{"form feed as space", "\f" + request(`{}`), syntax},
		{"no-break space", "\u00a0" + request(`{}`), syntax},
		{"single quotes", `{'jsonrpc':'2.0'}`, syntax},
		{"comma before the end", `{"jsonrpc":"2.0","method":"m",}`, syntax},
		{"comma first", `{,"jsonrpc":"2.0"}`, syntax},
		{"no colon", `{"jsonrpc" "2.0"}`, syntax},
		{"no comma", `{"jsonrpc":"2.0" "method":"m"}`, syntax},
		{"bare name", `{jsonrpc:"2.0"}`, syntax},
		{"wrong bracket", `{"jsonrpc":"2.0","method":"m"]`, syntax},
		{"literal with a tail", request(`{"a":nulll}`), syntax},
		{"literal in capitals", request(`{"a":True}`), syntax},
		{"half a literal", request(`{"a":fals}`), syntax},
		{"NaN", request(`{"a":NaN}`), syntax},

		{"no version", `{"id":1,"method":"m"}`, shape},
		{"old version", `{"jsonrpc":"1.0","id":1,"method":"m"}`, shape},
		{"version as a number", `{"jsonrpc":2.0,"id":1,"method":"m"}`, shape},
		{"version by case", `{"JSONRPC":"2.0","id":1,"method":"m"}`, shape},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, shape},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":1}`, shape},
		{"neither", `{"jsonrpc":"2.0","id":1}`, shape},
		{"empty object", `{}`, shape},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, shape},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, shape},
		{"method number", `{"jsonrpc":"2.0","id":1,"method":5}`, shape},
		{"method number with result", `{"jsonrpc":"2.0","id":1,"method":5,"result":1}`, shape},
		{"params array", request(`[1]`), shape},
		{"params null", request(`null`), shape},
		{"params string", request(`"x"`), shape},
		{"result without id", `{"jsonrpc":"2.0","result":1}`, shape},
		{"error without id", `{"jsonrpc":"2.0","error":{}}`, accepted},
	} {
		scanVerdicts(t, c.name, c.input, c.want, c.want)
	}
}

func manyMembers(n int, tail string) string {
	var b strings.Builder
	b.WriteString(`{"k0":0`)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return b.String() + tail + `}`
}

// Inside result and error an upstream may say what a client may not.
func TestScanLaxParts(t *testing.T) {
	for _, member := range []string{"result", "error"} {
		for _, c := range []struct {
			name, value string
			upstream    verdict
		}{
			{"duplicate", `{"a":1,"a":2}`, accepted},
			{"deep duplicate", `[[{"b":{"a":1,"\u0061":2}}]]`, accepted},
			{"lone surrogate", `"\ud800"`, accepted},
			{"lone surrogate in a name", `{"\udfff":1}`, accepted},
			{"reversed pair", `"\udc00\ud800"`, accepted},
			{"half an escape", `"\ud8"`, syntax},
			{"invalid UTF-8", "\"\xff\"", syntax},
			{"encoded surrogate", "\"\xed\xa0\x80\"", syntax},
			{"control character", "\"\x01\"", syntax},
			{"broken", `{"a":}`, syntax},
		} {
			scanVerdicts(t, member+": "+c.name, response(member, c.value), syntax, c.upstream)
			if c.upstream == accepted {
				// The laxness ends with the part.
				scanVerdicts(t, "after "+c.name, `{"jsonrpc":"2.0","id":1,"`+member+`":`+c.value+`,"x":`+c.value+`}`, syntax, syntax)
			}
		}
	}
}

func TestScanStrings(t *testing.T) {
	// Each string is tried at every distance from the ends of the 8-byte steps.
	for _, c := range []struct {
		inside string
		want   verdict
	}{
		{``, accepted},
		{`\"\\\/\b\f\n\r\t`, accepted},
		{`\u0000`, accepted},
		{`\u00e9`, accepted},
		{"\x7f", accepted},
		{"é€😀\u2028", accepted},
		{"\uffff\U0010ffff\ufffd", accepted},
		{"\ufeff", accepted},
		{`\x41`, syntax},
		{`\u12g4`, syntax},
		{`\U0041`, syntax},
		{`\u 041`, syntax},
		{"\n", syntax},
		{"\x00", syntax},
		{"\x1f", syntax},
		{"\t", syntax},
		{"\x80", syntax},
		{"\xff", syntax},
		{"\xc0\xaf", syntax},         // overlong
		{"\xc1\xbf", syntax},         // overlong
		{"\xe0\x80\xaf", syntax},     // overlong
		{"\xf0\x80\x80\xaf", syntax}, // overlong
		{"\xed\xa0\x80", syntax},     // surrogate
		{"\xed\x9f\xbf", accepted},
		{"\xee\x80\x80", accepted},
		{"\xf4\x90\x80\x80", syntax}, // over U+10FFFF
		{"\xf5\x80\x80\x80", syntax},
		{"\xc3", syntax},
		{"\xe2\x82", syntax},
		{"\xe2\x28\xa1", syntax},
		{"\xf0\x9f\x98", syntax},
	} {
		for pad := range 17 {
			for _, after := range []int{0, 9} {
				s := strings.Repeat("x", pad) + c.inside + strings.Repeat("y", after)
				scanVerdicts(t, "value", request(`{"a":"`+s+`"}`), c.want, c.want)
				scanVerdicts(t, "name", request(`{"`+s+`":0}`), c.want, c.want)
			}
		}
	}
	whole := request(`{"a":"b\u00e9é"}`)
	for i := range whole {
		scanVerdicts(t, "cut", whole[:i], syntax, syntax)
	}
}

func TestScanNumbers(t *testing.T) {
	for _, s := range strings.Fields(`0 -0 1 -1 10 1234567890 9223372036854775807 18446744073709551616
		0.0 -0.5 1.25 1e1 1E1 1e+1 1e-1 0e0 0.1e-99999 1.7976931348623157e999 ` + strings.Repeat("9", 5000)) {
		scanVerdicts(t, "number", request(`{"a":`+s+`}`), accepted, accepted)
		scanVerdicts(t, "number", request(`{"a":[`+s+`]}`), accepted, accepted)
	}
	for _, s := range strings.Fields(`- + +1 01 00 -01 1. .1 -.1 1.e1 1e 1e+ 1e- 1e1.5 0x10 1_000 1a 1-2 Infinity -Infinity 0b1 ١`) {
		scanVerdicts(t, "number", request(`{"a":`+s+`}`), syntax, syntax)
		scanVerdicts(t, "number", request(`{"a":[`+s+`]}`), syntax, syntax)
	}
}

func TestScanDepth(t *testing.T) {
	for _, b := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {`[{"a":`, "}]"}} {
		per := strings.Count(b[0], "[") + strings.Count(b[0], "{")
		// The envelope is a level of its own, and so is params.
		for _, c := range []struct {
			depth int
			want  verdict
		}{{MaxDepth, accepted}, {MaxDepth + per, syntax}, {10_000, syntax}, {1_000_000, syntax}} {
			inner := (c.depth - 2) / per
			scanVerdicts(t, "params", request(`{"a":`+nest(b[0], b[1], inner)+`}`), c.want, c.want)
			scanVerdicts(t, "_meta", request(`{"_meta":{"a":`+nest(b[0], b[1], inner-1)+`}}`), c.want, c.want)
			scanVerdicts(t, "result", response("result", `[`+nest(b[0], b[1], inner)+`]`), c.want, c.want)
		}
	}
	exact := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for _, trust := range []Trust{FromClient, FromUpstream} {
		if err := Valid([]byte(exact), trust); err != nil {
			t.Errorf("%d levels: %v", MaxDepth, err)
		}
		if err := Valid([]byte("["+exact+"]"), trust); judge(err) != syntax {
			t.Errorf("%d levels: %v", MaxDepth+1, err)
		}
		if err := Valid([]byte(strings.Repeat("[", 10_000)), trust); judge(err) != syntax {
			t.Errorf("10000 levels: %v", err)
		}
	}
	// Depth is nesting, not a count.
	wide := "[" + strings.Repeat("[],{},", 5000) + "[]]"
	scanVerdicts(t, "wide", request(`{"a":`+wide+`}`), accepted, accepted)
}

func TestSyntaxErrorTellsWhere(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{``, `the message ends where a value was expected at byte 0`},
		{"\ufeff{}", `unexpected "\xef" where a value was expected at byte 0`},
		{`{"a":1,"a":2}`, `duplicate name "a" at byte 7`},
		{`{"a":"\ud800"}`, `lone surrogate \ud800 at byte 6`},
		{`{"a" 1}`, `unexpected "1" where ':' was expected at byte 5`},
		{"{\"a\":\"\x01\"}", `control character 0x01 inside a string at byte 6`},
		{`{"a":1} 2`, `data after the message at byte 8`},
		{"{\"a\":\"é\xff\"}", `invalid UTF-8 at byte 8`},
	} {
		var m Message
		err := m.Scan([]byte(c.input), FromClient)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.input, err, c.want)
		}
	}
}
