package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/wire"
)

// FuzzPipe feeds anything to a pipe. Whatever comes, the face must not panic,
// must end, and must write nothing but frames.
func FuzzPipe(f *testing.F) {
	files, _ := filepath.Glob("testdata/pipe/*.txtar")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var in strings.Builder
		for _, s := range txtar.Parse(b).Files {
			if s.Name == "client" {
				in.WriteString(strings.ReplaceAll(string(s.Data), "$META", metaText))
			}
		}
		f.Add([]byte(in.String()))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		err := ServePipe(context.Background(), bytes.NewReader(in), &out, auth.Local, &sage{}, PipeOptions{MessageBytes: 4096, Grace: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		checkFrames(t, out.Bytes())
	})
}

func checkFrames(t *testing.T, out []byte) {
	lines := wire.NewLineReader(bytes.NewReader(out), 1<<20)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		all := [][]byte{line}
		if batch, ok := wire.Elements(line); ok {
			all = batch
		}
		for _, one := range all {
			var m wire.Message
			if err := m.Scan(one, wire.FromClient); err != nil {
				t.Fatalf("%q is no message: %v", one, err)
			}
		}
	}
}

// stored is a transport that has one answer for everything.
type stored struct{ body []byte }

func (s stored) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": sseType},
		ContentLength: -1, Body: io.NopCloser(bytes.NewReader(s.body))}, nil
}

// FuzzEventAnswer feeds any event stream to a call. What it takes for the
// answer must be valid JSON and a part of what came.
func FuzzEventAnswer(f *testing.F) {
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":[1]}}\n\n"))
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":\"1\",\"error\":{\"code\":1}}\r\r"))
	f.Add([]byte("id: 3\ndata:\n\nevent: x\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\n: c\n\ndata: {\"result\":null,\"id\":1,\"jsonrpc\":\"2.0\"}\n\n"))
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1}}\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := HTTPTo(memURL, nil, stored{in}, ConnOptions{MessageBytes: 4096})
		c.agree(Legacy, LegacyVersion)
		resp, err := c.Call(context.Background(), &Outgoing{Method: "tools/call", Token: []byte("5"), Stream: &recorder{}, Client: &Client{Era: Legacy}})
		for _, part := range [][]byte{resp.Result, resp.Error} {
			if part == nil {
				continue
			}
			if verr := wire.Valid(part, wire.FromUpstream); verr != nil {
				t.Errorf("the answer %q is no JSON: %v", part, verr)
			}
			if !bytes.ContainsAny(part, "\n") && !bytes.Contains(in, part) {
				t.Errorf("the answer %q is not what came", part)
			}
		}
		if err == nil && resp.Result == nil && resp.Error == nil {
			t.Error("neither an answer nor an error")
		}
		c.Close()
	})
}
