package plan

import (
	"testing"

	"github.com/stoahub/stoa/internal/mcp"
)

// What a hub behind this one says of a call of unknown fate holds here too: the
// step is not repeated.
func TestFateThatAnotherHubReports(t *testing.T) {
	for object, want := range map[string]bool{
		`{"code":-32000,"message":"lost","data":{"kind":"upstream_lost"}}`:                      true,
		`{"code":-32003,"message":"late","data":{"kind":"timeout"}}`:                            true,
		`{"code":-32000,"message":"cut","data":{"kind":"cancelled"}}`:                           true,
		`{"code":-32000,"message":"lost","data":{"kind":"upstream_lost","retryable":true}}`:     false,
		`{"code":-32002,"message":"full","data":{"kind":"queue_full","retryable":true}}`:        false,
		`{"code":-32000,"message":"a tool's own error","data":{"kind":"of its own invention"}}`: false,
		`{"code":-32000,"message":"no data"}`:                                                   false,
	} {
		if out := outcome(mcp.Response{Error: []byte(object)}, nil); out.unknown != want {
			t.Errorf("%s: unknown %t, want %t", object, out.unknown, want)
		}
	}
}
