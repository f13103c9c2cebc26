package fault_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stoahub/stoa/internal/fault"
)

// The page that maps the codes of other systems says what clients are told.
func TestErrorCodesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/error-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]fault.Info{}
	for _, k := range fault.Kinds() {
		kinds[k.Name] = k
	}
	rows := regexp.MustCompile("(?m)^\\| -\\d+ \\w+ \\|.*\\| `(\\w+)` \\| (-\\d+) \\| (-\\d+) \\|$").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 12 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		k, ok := kinds[r[1]]
		if legacy, modern := strconv.Itoa(k.Legacy), strconv.Itoa(k.Modern); !ok || r[2] != legacy || r[3] != modern {
			t.Errorf("%s: the page says %s and %s; it is %s and %s", r[1], r[2], r[3], legacy, modern)
		}
	}
	for _, name := range regexp.MustCompile("`([a-z]+_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		if _, ok := kinds[name[1]]; !ok && name[1] != "ailumina_chat" {
			t.Errorf("there is no kind %s", name[1])
		}
	}
}
