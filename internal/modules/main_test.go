package modules

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/envelope"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// children are what this program does when a test starts it again.
var children = map[string]func(dir string) error{"writes": writeForEver, "half": writeHalf, "full": writeOnFullDisk}

func TestMain(m *testing.M) {
	if run := children[os.Getenv("STOA_TEST_CHILD")]; run != nil {
		if err := run(os.Args[len(os.Args)-1]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// request is a call of a tool as a face would hand it over.
func request(tool string, args any) (*mcp.Request, error) {
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return nil, err
	}
	return &mcp.Request{Method: "tools/call", Params: params, Fields: wire.Members(params), Client: &mcp.Client{Era: mcp.Legacy}, Stream: mcp.Discard}, nil
}

// do calls a tool and returns its envelope.
func do(t testing.TB, m *Module, tool string, args any) envelope.Envelope {
	t.Helper()
	req, err := request(tool, args)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.Handle(t.Context(), req)
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	if err := wire.Valid(resp.Result, wire.FromClient); err != nil {
		t.Fatalf("%s %v: %v in %s", tool, args, err, resp.Result)
	}
	return envelope.Of(resp.Result)
}

// good calls a tool that must work, and decodes its data.
func good[T any](t testing.TB, m *Module, tool string, args any) T {
	t.Helper()
	e := do(t, m, tool, args)
	if !e.Success {
		t.Fatalf("%s %v: %s: %s", tool, args, e.Code, e.Error)
	}
	var v T
	d := json.NewDecoder(bytes.NewReader(e.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v in %s", tool, err, e.Data)
	}
	return v
}

// bad calls a tool that must fail with a code, and returns what it says.
func bad(t testing.TB, m *Module, tool string, args any, code string) envelope.Envelope {
	t.Helper()
	e := do(t, m, tool, args)
	if e.Success || e.Code != code {
		t.Fatalf("%s %v: got %s %q, want %s", tool, args, e.Code, e.Error+string(e.Data), code)
	}
	return e
}

// o is arguments.
type o map[string]any
