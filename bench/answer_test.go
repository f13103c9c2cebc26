package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckAnswer(t *testing.T) {
	const id = 1_000_000_001
	echo := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":%q}]}}`, id, payload(100))
	progress := func(n int) string {
		return fmt.Sprintf("data: {\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%d,\"progress\":%d}}\n\n", id, n)
	}
	stream := progress(1) + progress(2) + progress(3)
	for _, tc := range []struct {
		name     string
		status   int
		body     string
		sse      bool
		progress bool
		want     string // part of the error; "" for none
	}{
		{name: "json", body: echo},
		{name: "sse", body: "id: 1\ndata:\n\n" + stream + "event: message\r\ndata:" + echo + "\r\n\r\n", sse: true, progress: true},
		{name: "a stream without progress", body: "data: " + echo + "\n\n", sse: true},
		{name: "status", status: 503, body: "busy", want: "503"},
		{name: "error", body: fmt.Sprintf(`{"id":%d,"error":{"code":-32602}}`, id), want: "not the echo"},
		{name: "isError", body: strings.Replace(echo, `"content"`, `"isError":true,"content"`, 1), want: "not the echo"},
		{name: "another's answer", body: strings.Replace(echo, "1000000001", "1000000002", 1), want: "not the echo"},
		{name: "shortened", body: strings.Replace(echo, "aaa", "aa", 1), want: "not the echo"},
		{name: "progress lost", body: progress(1) + "data: " + echo + "\n\n", sse: true, progress: true, want: "after 1 progress"},
		{name: "progress out of order", body: progress(2) + progress(1) + "data: " + echo + "\n\n", sse: true, progress: true, want: "not the echo"},
		{name: "progress late", body: "data: " + echo + "\n\n" + stream, sse: true, progress: true, want: "nothing may follow"},
		{name: "no result", body: stream, sse: true, progress: true, want: "no result"},
		{name: "no JSON", body: "hello", want: "message 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := response{status: max(tc.status, 200), sse: tc.sse}
			err := checkAnswer(r, []byte(tc.body), id, scenario{Size: 100, Progress: tc.progress})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestCallRequestKeepsItsLength(t *testing.T) {
	e := endpoint{"127.0.0.1:1", "/mcp"}
	for _, era := range []era{legacy, modern} {
		r := e.toolsCall(scenario{Era: era, Size: 100, Progress: true}, "x__echo_00001", "s1", false)
		first := string(r.bytes)
		second := string(r.advance())
		if len(r.marks) != 2 {
			t.Errorf("%s: %d places for the id, want the id and the progress token", era, len(r.marks))
		}
		if diff := cmp.Diff(strings.ReplaceAll(first, "1000000000", "1000000001"), second); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", era, diff)
		}
		head, body, _ := strings.Cut(second, "\r\n\r\n")
		if want := fmt.Sprintf("Content-Length: %d", len(body)); !strings.Contains(head, want) {
			t.Errorf("%s: head %q lacks %q", era, head, want)
		}
	}
	if got := len(payload(100)); got != 100 {
		t.Errorf("payload(100) has %d bytes", got)
	}
}
