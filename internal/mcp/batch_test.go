package mcp

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/wire"
)

const hello0326 = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n"

func pings(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(`{"jsonrpc":"2.0","id":"p","method":"ping"},`, n), ",") + "]\n"
}

func playBatch(t *testing.T, h Handler, limit int, lines string) []string {
	t.Helper()
	var out bytes.Buffer
	if err := ServePipe(context.Background(), strings.NewReader(hello0326+lines), &out, auth.Local, h, PipeOptions{MessageBytes: limit}); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")[1:]
}

func TestBatchIsBounded(t *testing.T) {
	if got := playBatch(t, &sage{}, 1<<20, pings(maxBatch+1)); len(got) != 1 || !strings.Contains(got[0], "a batch of 101 messages is over the limit of 100") {
		t.Errorf("101 messages: %q", got)
	}
	got := playBatch(t, &sage{}, 1<<20, pings(maxBatch))
	if all, ok := wire.Elements([]byte(got[0])); len(got) != 1 || !ok || len(all) != maxBatch {
		t.Errorf("100 messages: %q", got)
	}
}

// What the answers hold together is bounded too; which of them fit does not
// matter.
func TestBatchAnswersAreBounded(t *testing.T) {
	one := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"big"}}`
	two := strings.Replace(one, `"id":1`, `"id":2`, 1)
	got := playBatch(t, &sage{}, 20<<10, "["+one+","+two+"]\n")
	if len(got) != 1 || len(got[0]) > 20<<10 || strings.Count(got[0], "larger than 20480 bytes together") != 1 {
		t.Errorf("%d answers, the first of %d bytes: %.300q", len(got), len(got[0]), got)
	}
}

// stumbler panics.
type stumbler struct{ sage }

func (s *stumbler) Handle(ctx context.Context, req *Request) (Response, error) {
	if req.Method == "tools/list" {
		panic("oops")
	}
	return s.sage.Handle(ctx, req)
}

func TestPanicIsAnswered(t *testing.T) {
	var told []any
	opts := PipeOptions{Panicked: func(v any, _ []byte) { told = append(told, v) }}
	var out bytes.Buffer
	in := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"
	if err := ServePipe(context.Background(), strings.NewReader(in), &out, auth.Local, &stumbler{}, opts); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":1,"error":{"code":-32603`) || len(told) != 1 {
		t.Errorf("answer %s, told %v", out.String(), told)
	}
}

// A server of the version with batches may send several messages at once.
func TestBatchesFromServers(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
	const result = `{"jsonrpc":"2.0","id":1,"result":{"a":"é"}}`
	for _, version := range []string{batchVersion, LegacyVersion} {
		synctest.Test(t, func(t *testing.T) {
			var garbage int
			c, far := pipeTo(t, ConnOptions{}, func([]byte) { garbage++ })
			c.agree(Legacy, version)
			st := &recorder{}
			o := request("tools/call", "{}")
			o.Stream, o.Token = st, []byte(`"t"`)
			out := start(context.Background(), c, o)
			far.got(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1}}}`)
			far.say("[" + progress + "," + result + "]")
			if version == batchVersion {
				out.want(t, `{"a":"é"}`)
				if heard := st.heard(); len(heard) != 1 || garbage != 0 {
					t.Errorf("heard %q, garbage %d", heard, garbage)
				}
			} else if garbage != 1 {
				t.Errorf("a batch in %s was taken", version)
			}
			far.hangUp()
			c.Close()
			<-out.done
		})
		rt := stored{[]byte("data: [" + progress + ",\ndata: " + result + "]\n\n")}
		c := HTTPTo(memURL, http.Header{}, rt, ConnOptions{})
		c.agree(Legacy, version)
		st := &recorder{}
		o := request("tools/call", "{}")
		o.Stream, o.Token = st, []byte(`"t"`)
		resp, err := c.Call(context.Background(), o)
		if taken := err == nil && string(resp.Result) == `{"a":"é"}` && len(st.heard()) == 1; taken != (version == batchVersion) {
			t.Errorf("%s over HTTP: %s, %v, heard %q", version, resp.Result, err, st.heard())
		}
		c.Close()
	}
}
