package main

import (
	"testing"
)

func TestReadAsk(t *testing.T) {
	in := ` { "params" : {"arguments":{"n":[1,{"a":"}"}],"text":"say \"hi\\" }, "name":"echo",
	  "_meta":{"progressToken":"t-1","io.modelcontextprotocol/protocolVersion":"2026-07-28"},"cursor":"7"} ,
	  "id":"a,b", "method":"tools/call","jsonrpc":"2.0"}`
	a, err := readAsk([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"method", a.method, "tools/call"},
		{"id", string(a.id), `"a,b"`},
		{"text", string(a.text), `"say \"hi\\"`},
		{"progress token", string(a.progress), `"t-1"`},
		{"cursor", string(a.cursor), `"7"`},
	} {
		if c.got != c.want {
			t.Errorf("%s = %s, want %s", c.what, c.got, c.want)
		}
	}
	if !a.modern {
		t.Error("a request with a protocol version in _meta is modern")
	}
}

func TestReadAskBare(t *testing.T) {
	a, err := readAsk([]byte(`{"method":"notifications/initialized","params":{}}`))
	if err != nil || a.id != nil || a.modern || a.text != nil {
		t.Errorf("readAsk = %+v, %v; want a legacy notification", a, err)
	}
}

func TestReadAskRefuses(t *testing.T) {
	for _, in := range []string{"", "[]", "{", `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":1 "b":2}`, `{"a":"`, `{"a":"\"}`, `{"a":[1}`, `{a:1}`, `{"params":[]}`, `{"a":1,`} {
		if _, err := readAsk([]byte(in)); err == nil {
			t.Errorf("readAsk(%q) found a message", in)
		}
	}
}
