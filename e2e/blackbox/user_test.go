package blackbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// nobody is a user of this machine who owns nothing.
const nobody = 65534

// otherVariable makes the test binary ask a hub, as another user: it is the
// address, then each request.
const otherVariable = "BLACKBOX_OTHER"

// asOther sends requests as another user of this machine and returns the answer
// to each.
func (h *hub) asOther(t *testing.T, requests ...object) []reply {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The binary is in a folder that only its owner sees, so the other runs one
	// that it was handed.
	program, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	asked, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command("/proc/self/fd/3", "-test.run=^$")
	other.ExtraFiles = []*os.File{program}
	other.Env = []string{otherVariable + "=" + h.address + " " + string(asked)}
	other.Dir = "/"
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := other.Output()
	if err != nil {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
	var answers []struct {
		Status int
		Text   string
	}
	if err := json.Unmarshal(bytes.TrimSpace(out), &answers); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var all []reply
	for _, a := range answers {
		all = append(all, reply{status: a.Status, text: a.Text})
	}
	return all
}

// askAsOther is what the other user runs.
func askAsOther(words string) int {
	address, rest, _ := strings.Cut(words, " ")
	var requests []object
	if err := json.Unmarshal([]byte(rest), &requests); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	h := &hub{address: address}
	answers := []object{}
	for _, r := range requests {
		token, _ := r["token"].(string)
		got, err := h.try(r["verb"].(string), r["path"].(string), token, nil, r["body"])
		if err != nil {
			got = reply{text: err.Error()}
		}
		answers = append(answers, object{"status": got.status, "text": got.text})
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		return 1
	}
	return 0
}

// Another user of this machine cannot do what its owner can without a token,
// on no face.
func TestOtherUsersNeedAToken(t *testing.T) {
	t.Parallel()
	files, l := upstream(t)
	h := serve(t, object{"files": files}, object{"sse": true})
	file := filepath.Join(t.TempDir(), "written")
	write := func(name string) object {
		return rpc("tools/call", object{"name": name, "arguments": object{"path": file}})
	}
	requests := []object{
		{"verb": "POST", "path": "/mcp", "body": write("files__write")},
		{"verb": "POST", "path": "/s/work/mcp", "body": write("files__write")},
		{"verb": "POST", "path": "/mcps/files/mcp", "body": write("write")},
		{"verb": "GET", "path": "/mcps"}, {"verb": "GET", "path": "/sse"}, {"verb": "GET", "path": "/ws"}, {"verb": "GET", "path": "/mcp/ws"},
		{"verb": "GET", "path": "/readyz"}, {"verb": "GET", "path": "/metrics"},
	}
	for i, got := range h.asOther(t, requests...) {
		if got.status != http.StatusUnauthorized {
			t.Errorf("%v: %d %.200s", requests[i], got.status, got.text)
		}
	}
	l.want(t, "write", 0)
	// With a token, or where the owner says so, it can.
	bob := h.token(t, "bob")
	if got := h.asOther(t, object{"verb": "POST", "path": "/mcp", "token": bob, "body": write("files__write")}); got[0].status != http.StatusOK {
		t.Errorf("with a token: %d %s", got[0].status, got[0].text)
	}
	l.want(t, "write", 1)
	if got := h.post(t, "/mcp", "", write("files__write")); got.status != http.StatusOK {
		t.Errorf("the owner without a token: %d %s", got.status, got.text)
	}
	for local, want := range map[string][2]int{"open": {200, 200}, "token": {401, 401}} {
		h.configure(t, object{"files": files}, object{"auth": object{"local": local}})
		h.restart(t, object{"files": files})
		list := object{"verb": "POST", "path": "/mcp", "body": rpc("tools/list", object{})}
		if got := h.asOther(t, list); got[0].status != want[0] {
			t.Errorf("%s: another user: %d %s", local, got[0].status, got[0].text)
		}
		if got := h.post(t, "/mcp", "", rpc("tools/list", object{})); got.status != want[1] {
			t.Errorf("%s: the owner without a token: %d %s", local, got.status, got.text)
		}
	}
}

// A crowd of connections by one caller, let in or not, keeps nobody out: not
// the owner, and not who has a token.
func TestCrowdsMakeRoom(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	folder := t.TempDir()
	h := &hub{folder: folder, config: filepath.Join(folder, "hub.jsonc"), data: filepath.Join(folder, "data"), files: 300}
	h.configure(t, object{"files": files})
	h.launch(t)
	h.awaitTools(t, object{"files": files})
	bob := h.token(t, "bob")
	eve := h.token(t, "eve")
	crowd := func(token string, n int) {
		for range n {
			conn, err := net.Dial("tcp", h.address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			header := "GET /mcp HTTP/1.1\r\nHost: " + h.address + "\r\nAccept: text/event-stream\r\n"
			if token != "" {
				header += "Authorization: Bearer " + token + "\r\n"
			}
			if _, err := conn.Write([]byte(header)); err != nil {
				t.Fatal(err)
			}
			if token != "" { // a request that is whole, and an idle connection after it
				if _, err := conn.Write([]byte("\r\n")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for what, token := range map[string]string{"strangers": "", "one with a token": eve} {
		crowd(token, 330)
		for who, secret := range map[string]string{"the owner": h.owner, "another": bob, "nobody": ""} {
			await.NoError(t, who+" gets in", func() error {
				got, err := h.try(http.MethodPost, "/mcp", secret, nil, rpc("tools/list", object{}))
				if err == nil && (got.status != http.StatusOK || !strings.Contains(got.text, "files__read")) {
					err = fmt.Errorf("%s: %s: %d %.200s", what, who, got.status, got.text)
				}
				return err
			})
		}
	}
}
