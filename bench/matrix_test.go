package main

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMatrixIsFull(t *testing.T) {
	groups := matrix(false, nil)
	if want := 2*3*3*2 + 2*2; len(groups) != want { // references and saveAs in both eras
		t.Errorf("%d scenarios, want %d", len(groups), want)
	}
	seen := map[string]bool{}
	for _, v := range interleave(groups, 3) {
		if seen[v.name()] {
			t.Errorf("%s occurs twice in a round", v.name())
		}
		seen[v.name()] = true
	}
	if want := 4*(36+4) + 2; len(seen) != want { // the large catalogue in both eras
		t.Errorf("%d variants, want %d", len(seen), want)
	}
}

func TestMatrixSelects(t *testing.T) {
	groups := matrix(true, regexp.MustCompile(`^(proxy|stoa-mcp-10k)/.*/json$`))
	var got []string
	for _, v := range interleave(groups, 0) {
		got = append(got, v.name())
	}
	want := []string{
		"proxy/legacy/16/100B/json", "stoa-mcp-10k/legacy/16/100B/json",
		"proxy/modern/16/100B/json", "stoa-mcp-10k/modern/16/100B/json",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("selected (-want +got):\n%s", diff)
	}
	if needsHub(matrix(false, regexp.MustCompile(`^(direct|proxy)/`))) {
		t.Error("direct and proxy alone need no hub")
	}
}

func TestInterleaveRotates(t *testing.T) {
	s, z := scenario{Conns: 1}, scenario{Conns: 2}
	groups := [][]variant{{{direct, s}, {proxy, s}, {allFace, s}}, {{direct, z}}}
	for round, want := range [][]variant{
		{{direct, s}, {proxy, s}, {allFace, s}, {direct, z}},
		{{proxy, s}, {allFace, s}, {direct, s}, {direct, z}},
		{{allFace, s}, {direct, s}, {proxy, s}, {direct, z}},
		{{direct, s}, {proxy, s}, {allFace, s}, {direct, z}},
	} {
		if diff := cmp.Diff(want, interleave(groups, round), cmp.AllowUnexported(variant{})); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
	}
}

func TestSizeName(t *testing.T) {
	for n, want := range map[int]string{100: "100B", 10 << 10: "10KB", 1 << 20: "1MB"} {
		if got := sizeName(n); got != want {
			t.Errorf("sizeName(%d) = %q, want %q", n, got, want)
		}
	}
}
