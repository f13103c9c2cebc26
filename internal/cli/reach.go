package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/cert"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/mcp"
)

// reach are the flags of commands that ask a hub.
type reach struct {
	files
	Hub     string `help:"Address of the hub to ask, such as http://127.0.0.1:8080. Without it: the one that runs on the data folder, or else a temporary one." placeholder:"URL"`
	Token   string `help:"Token for the hub." env:"STOA_TOKEN" placeholder:"TOKEN"`
	Verbose bool   `help:"Log what a temporary hub does." short:"v"`
}

// probeTime is how long a hub may take to say who it is.
const probeTime = 3 * time.Second

// open finds the hub to ask, or opens a temporary one. If that has a server
// called only, it starts no other.
func (r *reach) open(ctx context.Context, s std, only string) (*client, error) {
	c, cfg, notes, err := r.find(ctx)
	if c != nil || err != nil {
		return c, err
	}
	return openTemporary(ctx, s, cfg, notes, temporary{only: only, verbose: r.Verbose})
}

// keeping is open for commands that need what a hub keeps: one that is opened
// for the command uses the data folder.
func (r *reach) keeping(ctx context.Context, s std, only string) (*client, error) {
	c, cfg, notes, err := r.find(ctx)
	if c != nil || err != nil {
		return c, err
	}
	return openTemporary(ctx, s, cfg, notes, temporary{only: only, verbose: r.Verbose, keeps: true, token: r.Token})
}

// kept is keeping for commands that only look at what is kept: no server is
// started.
func (r *reach) kept(ctx context.Context, s std) (*client, error) {
	c, cfg, _, err := r.find(ctx)
	if c != nil || err != nil {
		return c, err
	}
	bare := *cfg
	bare.Servers, bare.Modules = nil, config.Modules{}
	// Looking must not make a folder.
	_, err = os.Stat(hub.StoreDir(cfg.Data))
	keeps := err == nil || cfg.Store.URL != ""
	return openTemporary(ctx, s, &bare, nil, temporary{verbose: r.Verbose, keeps: keeps, token: r.Token})
}

// looking is keeping for commands that change nothing: they use the data folder if
// there is one, and make none.
func (r *reach) looking(ctx context.Context, s std, only string) (*client, error) {
	c, cfg, notes, err := r.find(ctx)
	if c != nil || err != nil {
		return c, err
	}
	_, err = os.Stat(hub.StoreDir(cfg.Data))
	return openTemporary(ctx, s, cfg, notes, temporary{only: only, verbose: r.Verbose, keeps: err == nil || cfg.Store.URL != "", token: r.Token})
}

// askKept makes one request about what is kept.
func (r *reach) askKept(ctx context.Context, s std, verb, path string, q url.Values) ([]byte, error) {
	c, err := r.kept(ctx, s)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.ask(ctx, verb, path, q, nil)
}

// find returns a client of the hub that runs, or else the config to open one
// by.
func (r *reach) find(ctx context.Context) (*client, *config.Config, []config.Note, error) {
	if r.Hub != "" {
		c, err := r.remote(ctx, r.Hub, r.Token)
		return c, nil, nil, err
	}
	cfg, notes, err := r.load(nil)
	var data string
	if err == nil {
		data = cfg.Data
	} else {
		// A hub that runs can be asked although its files are broken now.
		data = config.DataFolder(r.options(nil))
	}
	if c, runErr := r.running(ctx, data); c != nil || runErr != nil {
		return c, nil, nil, runErr
	}
	return nil, cfg, notes, err
}

// running returns a client of the hub that uses the data folder, or nil.
func (r *reach) running(ctx context.Context, data string) (*client, error) {
	if data == "" {
		return nil, nil
	}
	note := noted(data)
	if note == nil {
		return nil, nil
	}
	c := newClient(&url.URL{Scheme: note.Scheme(), Host: dialable(note.Address)}, r.Token)
	if note.Cert != "" {
		c.http.TLSClientConfig = cert.Pinned(note.Cert) // it need not be one for this name
	}
	who, err := c.probe(ctx)
	if err != nil {
		c.close()
		if isTimeout(err) && ctx.Err() == nil {
			return nil, failed(exitUnreachable, fmt.Sprintf("Look at process %d, and stop it if it hangs.", note.Pid),
				"ask the hub at %s://%s: no answer within %v", note.Scheme(), note.Address, probeTime)
		}
		return nil, ctx.Err() // it has ended without tidying up
	}
	if who.Data != hub.DataID(data) {
		c.close()
		return nil, nil // another hub has taken the address since
	}
	return c.trust(data)
}

// remote returns a client of the hub at an address that was given.
func (r *reach) remote(ctx context.Context, address, token string) (*client, error) {
	u, err := hubURL(address)
	if err != nil {
		return nil, err
	}
	c := newClient(u, token)
	who, err := c.probe(ctx)
	if err != nil {
		c.close()
		return nil, failed(exitUnreachable, "Check the address, or leave --hub out to use the hub of the data folder.", "ask the hub at %s: %w", address, err)
	}
	if cfg, _, err := r.load(nil); err == nil && who.Data == hub.DataID(cfg.Data) && isAt(noted(cfg.Data), u) {
		return c.trust(cfg.Data)
	}
	return c, nil
}

// noted is what a data folder says of its hub; nil if that does not run any
// more. Who then has its address could say anything, and must not get the
// folder's token for it: so the process has to be alive, and ours.
func noted(data string) *hub.Running {
	note, err := hub.ReadRunning(data)
	if err != nil || note.Address == "" || note.Pid <= 0 || syscall.Kill(note.Pid, 0) != nil {
		return nil // none, half written, or left behind
	}
	return note
}

// isAt reports whether the hub of a data folder is what a URL leads to.
func isAt(note *hub.Running, u *url.URL) bool {
	if note == nil || u.Scheme != note.Scheme() {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	for _, address := range note.Addresses {
		_, port, err := net.SplitHostPort(address)
		if err == nil && port == u.Port() && (loopback || address == u.Host) {
			return true
		}
	}
	return false
}

// hubURL reads the address of a hub as people write it.
func hubURL(address string) (*url.URL, error) {
	text := address
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, failed(exitUsage, "Write it as http://127.0.0.1:8080.", "--hub %q is not the address of a hub", address)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/mcp")
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// dialable turns an address that means every interface into one to dial.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "localhost"
		}
	}
	return net.JoinHostPort(host, port)
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// identity is what /healthz says.
type identity struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Data    string `json:"data"`
	Config  string `json:"config"`
}

// client asks one hub.
type client struct {
	base  *url.URL
	token string
	http  *http.Transport
	who   identity // what answered the last probe
	after []func() // what close does besides, last first
}

func newClient(base *url.URL, token string) *client {
	if base.Path == "" {
		base.Path = "/" // JoinPath makes a relative path of an empty one
	}
	return &client{base: base, token: token, http: &http.Transport{
		Proxy:              http.ProxyFromEnvironment,
		DialContext:        (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		DisableCompression: true, // the reader of answers takes them as they come
	}}
}

func (c *client) close() {
	c.http.CloseIdleConnections()
	for i := len(c.after) - 1; i >= 0; i-- {
		c.after[i]()
	}
}

// trust makes the client use the token of the data folder, unless it was given
// another.
func (c *client) trust(data string) (*client, error) {
	err := hub.CheckData(data) // which also says where the hub is
	if err == nil && c.token == "" {
		c.token, err = hub.LocalToken(data)
	}
	if err != nil {
		c.close()
		return nil, failed(exitFailed, "", "%w", err)
	}
	return c, nil // without a token the hub says what is missing
}

// header is what every request to the hub carries.
func (c *client) header() http.Header {
	h := http.Header{}
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	return h
}

// send makes a request of the hub's API. The answer's body is the caller's to
// close; an answer that says no is an error.
func (c *client) send(ctx context.Context, verb, path string, query url.Values, body []byte) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, verb, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header()
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, lost(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, lost(ctx, err)
	}
	return nil, refused(resp.StatusCode, text)
}

// ask makes a request of the hub's API and returns the answer.
func (c *client) ask(ctx context.Context, verb, path string, query url.Values, body []byte) ([]byte, error) {
	resp, err := c.send(ctx, verb, path, query, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, lost(ctx, err)
	case len(b) > maxAnswer:
		return nil, failed(exitFailed, "Ask for less of it, or ask the hub's API.", "the answer is longer than %d bytes", maxAnswer)
	}
	return b, nil
}

// maxAnswer bounds an answer that is read whole.
const maxAnswer = 256 << 20

// refused makes an error of an answer of the API that says no.
func refused(status int, body []byte) error {
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Error == nil {
		return failed(exitFailed, "Are the hub and this program of the same version?", "HTTP status %d %s", status, http.StatusText(status))
	}
	return refusal(answer.Error)
}

// get asks for a document of the hub.
func (c *client) get(ctx context.Context, path string, header http.Header) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath(path).String(), nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header = header
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return resp.StatusCode, body, err
}

// probe finds out whether a hub answers. It sends no token: what answers may
// be a stranger.
func (c *client) probe(ctx context.Context) (identity, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var who identity
	_, body, err := c.get(ctx, "/healthz", http.Header{})
	if err != nil {
		return who, err
	}
	if json.Unmarshal(body, &who) != nil || who.Name != "stoa" {
		return who, errors.New("what answers there is not a stoa hub")
	}
	c.who = who
	return who, nil
}

// api asks for a document that needs a token.
func (c *client) api(ctx context.Context, path string) ([]byte, error) {
	return c.ask(ctx, http.MethodGet, path, nil, nil)
}

// dial opens a face of the hub.
func (c *client) dial(ctx context.Context, path string) (*face, error) {
	f, _, err := c.greet(ctx, path)
	return f, err
}

// greet is dial for those who want to know how the face introduces itself.
func (c *client) greet(ctx context.Context, path string) (*face, *mcp.Hello, error) {
	conn := mcp.HTTPTo(c.base.JoinPath(path), c.header(), c.http, mcp.ConnOptions{MessageBytes: 64 << 20})
	hello, err := mcp.Discover(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, nil, lost(ctx, err)
	}
	return &face{conn}, hello, nil
}

// notes tells what a config's files say that is worth a look.
func tell(s std, notes []config.Note) {
	for _, n := range notes {
		s.note("%s", n)
	}
}
