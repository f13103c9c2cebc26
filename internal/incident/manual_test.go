package incident

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stoahub/stoa/internal/fault"
)

var update = flag.Bool("update", false, "write the golden files")

const manualIntro = `# Errors

What Stoa says when it could not ask. This page is generated from the tables in ` + "`internal/fault/kinds.go` and `internal/incident/codes.go`" + `; a test holds them together. A running hub
tells the same for its own version: ` + "`GET /api/v1/errors/kinds`" + `, and ` + "`/console/errors/kind`" + ` in the [console](console.md).

There are two families of failure, and they are never mixed. *The tool said no*: that is a normal result with ` + "`isError: true`" + `, and it passes
through untouched. *We could not ask*: that is one of the kinds below, as a JSON-RPC error:

` + "```json" + `
{"code": -32002, "message": "github: 5 calls wait already",
 "data": {"kind": "queue_full", "hint": "Call again later.", "retryable": true}}
` + "```" + `

Branch on ` + "`data.kind`" + `: names are stable, codes are shared by several kinds. An error of an upstream itself has no ` + "`data.kind`" + `
and keeps its own code.

- **No.** is the number of the kind, stable and never reused.
- **Legacy** and **Modern** are the codes for clients of protocol versions up to 2025-11-25 and from 2026-07-28 on.
- **HTTP** is the status of the answer; where the two eras differ, legacy comes first.
- **Retry**: the same request may succeed later, unchanged (` + "`data.retryable`" + `).
- **Model**: a model can repair it. On ` + "`tools/call`" + ` at the merged faces it is therefore told as a result with ` + "`isError: true`" + `,
  the error object being in ` + "`_meta[\"stoa/error\"]`" + `; everywhere else it is an error as above.

| Kind | No. | Legacy | Modern | HTTP | Retry | Model |
|---|---|---|---|---|---|---|
`

const manualBook = `## Other codes

The book of errors (` + "`stoa errors`" + `, [its API](api.md#errors), the console's page) calls a fault by its kind in capitals. It has a few codes more, of what is no fault; a built-in tool may have others of its own.

`

// manual is docs/errors.md: a table to compare with, and a heading for each kind
// that can be linked to.
func manual() []byte {
	b := bytes.NewBufferString(manualIntro)
	mark := map[bool]string{true: "yes"}
	for _, i := range fault.Kinds() {
		status := fmt.Sprint(i.HTTP)
		if i.ModernOwn != 0 {
			status += " / " + fmt.Sprint(i.ModernOwn)
		}
		fmt.Fprintf(b, "| [`%s`](#%s) | %d | %d | %d | %s | %s | %s |\n", i.Name, i.Name, i.Kind, i.Legacy, i.Modern, status, mark[i.Retryable], mark[i.Model])
	}
	b.WriteString("\n## What each means\n\n")
	for _, i := range fault.Kinds() {
		fmt.Fprintf(b, "### %s\n\n%s\n\n*What to do:* %s\n\n", i.Name, i.Meaning, i.Hint)
	}
	b.WriteString(manualBook)
	for _, c := range Codes() {
		fmt.Fprintf(b, "### %s\n\n%s\n\n*What to do:* %s\n\n", c.Code, c.Meaning, c.Hint)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

func TestManual(t *testing.T) {
	const path = "../../docs/errors.md"
	if *update {
		if err := os.WriteFile(path, manual(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), string(manual())); diff != "" {
		t.Errorf("%s is out of date; run the test with -update (-file +now):\n%s", path, diff)
	}
}
