package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// The calls of the rows with Sessions, through a hub: the first answer on each
// connection is checked in full, so that the run fails unless the values came
// to the upstream and the results were kept.
func TestLoadWithSessions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the loader reads CPU clocks the way Linux offers it")
	}
	up := serve(t, newUpstream(smallCatalogue))
	hub := hubtest.New(t, hubtest.HTTP("x", "http://"+up+"/mcp"), hubtest.Modules())
	address := strings.TrimPrefix(hub.URL, "http://")
	await.NoError(t, "it answers", func() error { return (&child{address: address}).probe(smallCatalogue) })
	for _, e := range []era{legacy, modern} {
		for _, h := range []handle{references, saveAs} {
			l := load{endpoint: endpoint{Address: address}, Tools: smallCatalogue, Prefix: stateFace.prefix(), Stateful: true, PID: os.Getpid(),
				scenario: scenario{Era: e, Conns: 3, Size: stateSize, Handle: h}, Window: 5 * time.Millisecond}
			if got, err := l.run(); err != nil || got.Calls < 3 {
				t.Errorf("%s, %s: %d calls, %v", e, h, got.Calls, err)
			}
		}
	}
}

func TestStatefulArguments(t *testing.T) {
	refs, save := scenario{Size: 20, Handle: references}, scenario{Size: 20, Handle: saveAs}
	for _, tc := range []struct {
		got, want string
	}{
		{refs.arguments(true), `{"text":"@value_text","second":"@value_second","third":"@value_third"}`},
		{refs.arguments(false), `{"text":"aaaaaaaaaEND-OF-ECHO","second":"aaaaaaaaaEND-OF-ECHO","third":"aaaaaaaaaEND-OF-ECHO"}`},
		{save.arguments(true), `{"text":"aaaaaaaaaEND-OF-ECHO","saveAs":"kept"}`},
		{save.arguments(false), `{"text":"aaaaaaaaaEND-OF-ECHO"}`},
	} {
		if tc.got != tc.want {
			t.Errorf("arguments %s, want %s", tc.got, tc.want)
		}
	}
}

func TestCheckCard(t *testing.T) {
	good := `{"jsonrpc":"2.0","id":7,"result":{"content":[],"_meta":{"stoa/card":{"name":"kept","size":22,"preview":"aaaaaaaaaEND-OF-ECHO"}}}}`
	s := scenario{Size: 20, Handle: saveAs}
	if err := checkCard(response{status: 200}, []byte(good), 7, s); err != nil {
		t.Error(err)
	}
	if err := checkCard(response{status: 200, sse: true}, []byte("data: "+good+"\n\n"), 7, s); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]string{
		"another's answer": strings.Replace(good, `"id":7`, `"id":8`, 1),
		"the plain result": `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"aaaaaaaaaEND-OF-ECHO"}]}}`,
		"an error":         strings.Replace(good, `"content"`, `"isError":true,"content"`, 1),
		"another length":   strings.Replace(good, "22", "21", 1),
		"no JSON":          "hello",
	} {
		if checkCard(response{status: 200}, []byte(bad), 7, s) == nil {
			t.Errorf("%s passes for the card", name)
		}
	}
	if checkCard(response{status: 503}, []byte(good), 7, s) == nil {
		t.Error("HTTP 503 passes for the card")
	}
}
