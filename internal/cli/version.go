package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/stoahub/stoa/internal/mcp"
)

type versionCmd struct {
	asJSON
}

// release is the version that `make release` gives the program by the linker.
var release string

func version() string { return cmp.Or(release, mcp.Release) }

func (c *versionCmd) Run(s std) error {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, one := range info.Settings {
			if one.Key == "vcs.revision" {
				revision = one.Value
			}
		}
	}
	if c.JSON {
		return s.json(map[string]any{
			"name": "stoa", "version": version(), "revision": revision,
			"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "protocols": mcp.Versions,
		})
	}
	if len(revision) > 12 {
		revision = revision[:12]
	}
	line := strings.Join(strings.Fields(fmt.Sprintf("stoa %s %s %s %s/%s", version(), revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)), " ")
	_, err := fmt.Fprintf(s.out, "%s\nspeaks MCP %s\n", line, strings.Join(mcp.Versions, ", "))
	return err
}
