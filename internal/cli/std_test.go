package cli

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
)

func TestTable(t *testing.T) {
	var out bytes.Buffer
	s := std{out: &out}
	err := s.table([]string{"NAME", "TEXT"}, [][]cell{{{text: "añejo"}, {text: "a\x1b[31mb\tc\nd"}}, {{text: "x", colour: red}, {}}})
	want := "NAME   TEXT\nañejo  a[31mb c d\nx\n"
	if err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", out.String(), err, want)
	}
}

func TestRowIsCutToTheLine(t *testing.T) {
	var b strings.Builder
	std{out: &bytes.Buffer{}}.row(&b, []cell{{text: "name"}, {text: strings.Repeat("é", 40)}}, []int{4, 40}, 20)
	if want := "name  " + strings.Repeat("é", 13) + "…\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestDialable(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "localhost:80", "[::1]:80": "[::1]:80", "host:1": "host:1", "odd": "odd",
	} {
		if got := dialable(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestHubURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80", "https://a.example/stoa/": "https://a.example/stoa", "http://a:1/mcp": "http://a:1", "http://a:1/mcp/": "http://a:1",
		"ftp://a": "", "http://": "", "": "",
	} {
		u, err := hubURL(address)
		if (err != nil) != (want == "") || err == nil && u.String() != want {
			t.Errorf("%s: %v, %v; want %s", address, u, err, want)
		}
	}
}

func TestIsAt(t *testing.T) {
	note := &hub.Running{Addresses: []string{"127.0.0.1:80", "[::]:81", "10.0.0.1:82"}}
	for address, want := range map[string]bool{
		"http://127.0.0.1:80": true, "http://localhost:80": true, "http://[::1]:81": true, "http://10.0.0.1:82": true,
		"http://127.0.0.1:83": false, "https://127.0.0.1:80": false, "http://10.0.0.2:82": false, "http://other:80": false,
	} {
		u, err := url.Parse(address)
		if err != nil || isAt(note, u) != want || isAt(nil, u) {
			t.Errorf("%s: %v, %v; want %v", address, isAt(note, u), err, want)
		}
	}
}

func TestBannerOfEveryInterface(t *testing.T) {
	text := banner([]string{"0.0.0.0:8080", "127.0.0.1:9"}, &config.Config{Chat: config.Chat{Enabled: true}}, "script: no key is set")
	if !strings.Contains(text, "http://127.0.0.1:8080/mcp") || !strings.Contains(text, "0 servers") || !strings.Contains(text, "script: no key is set") || !strings.Contains(text, "ws://127.0.0.1:8080/ws.") {
		t.Error(text)
	}
}
