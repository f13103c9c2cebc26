package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/session"
)

type sessionsCmd struct {
	List   sessionsListCmd   `cmd:"" default:"withargs" help:"List the sessions (the default)."`
	Show   sessionsShowCmd   `cmd:"" help:"Show what a session holds."`
	Get    sessionsGetCmd    `cmd:"" help:"Print the data of a value."`
	Export sessionsExportCmd `cmd:"" help:"Print everything a session holds, as JSON: values, conversation, runs and tasks."`
	Remove sessionsRemoveCmd `cmd:"" help:"End sessions and remove everything they hold: values, conversation, runs and tasks."`

	Connections connectionsCmd `cmd:"" help:"List the clients that are connected now."`
}

// checkSession says whether a session can have this name.
func checkSession(name string) error {
	if sessionName.MatchString(name) {
		return nil
	}
	return failed(exitUsage, "Use up to 128 letters, digits, _, and after the first character also - and .", "%q is no name of a session", name)
}

// ownerFlag says whose sessions are meant.
type ownerFlag struct {
	Principal string `help:"Sessions of this principal: the name of a token, or local. Without it: all that the token may see." placeholder:"NAME"`
}

func (f *ownerFlag) query() url.Values {
	q := url.Values{}
	if f.Principal != "" {
		q.Set("principal", f.Principal)
	}
	return q
}

// sessionPath is the address of a session in the API.
func sessionPath(name string, more ...string) (string, error) {
	if err := checkSession(name); err != nil {
		return "", err
	}
	path := "/api/v1/sessions/" + url.PathEscape(name)
	for _, part := range more {
		path += "/" + url.PathEscape(part)
	}
	return path, nil
}

type sessionsListCmd struct {
	reach
	ownerFlag
	asJSON
}

func (c *sessionsListCmd) Help() string {
	return "Where no hub runs, the sessions of the data folder are read from its store; no server is started."
}

func (c *sessionsListCmd) Run(ctx context.Context, s std) error {
	raw, err := c.askKept(ctx, s, http.MethodGet, "/api/v1/sessions", c.query())
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	return showSessions(s, raw)
}

// sessionInfo is what the API says of a session.
type sessionInfo struct {
	session.Info
	Conversation bool `json:"conversation"`
	Runs         int  `json:"runs"`
	Tasks        int  `json:"tasks"`
}

// also names what the session holds besides values.
func (i *sessionInfo) also() []string {
	var what []string
	if i.Conversation {
		what = append(what, "chat")
	}
	if i.Runs > 0 {
		what = append(what, plural(i.Runs, "run"))
	}
	if i.Tasks > 0 {
		what = append(what, plural(i.Tasks, "task"))
	}
	return what
}

// showSessions prints the API's list of sessions.
func showSessions(s std, raw []byte) error {
	var list struct {
		Sessions []sessionInfo `json:"sessions"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	if len(list.Sessions) == 0 {
		s.note("there are no sessions; one is created when you store a value, chat, or run a plan in it")
		return nil
	}
	heads := []string{"NAME", "PRINCIPAL", "VALUES", "SIZE", "USED", "CREATED"}
	wide := slices.ContainsFunc(list.Sessions, func(i sessionInfo) bool { return len(i.also()) > 0 })
	if wide {
		heads = append(heads, "ALSO")
	}
	var rows [][]cell
	for _, i := range list.Sessions {
		row := []cell{{text: i.Name}, {text: i.Principal}, {text: strconv.Itoa(i.Values)}, {text: size(i.Bytes)}, {text: ago(i.Used)}, {text: i.Created.Local().Format("2006-01-02 15:04")}}
		if wide {
			row = append(row, cell{text: strings.Join(i.also(), ", ")})
		}
		rows = append(rows, row)
	}
	return s.table(heads, rows)
}

// size is a number of bytes for a person.
func size(n int) string {
	switch {
	case n < 10<<10:
		return plural(n, "byte")
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// ago is how long ago something was.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return d.Round(time.Second).String() + " ago"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.Local().Format("2006-01-02 15:04")
}

type sessionsShowCmd struct {
	reach
	ownerFlag
	asJSON
	Name string `arg:"" help:"Name of the session."`
}

func (c *sessionsShowCmd) Run(ctx context.Context, s std) error {
	raw, err := askSession(ctx, s, &c.reach, http.MethodGet, c.query(), c.Name)
	if err != nil {
		return doing("show session", c.Name, err)
	}
	if c.JSON {
		return s.json(json.RawMessage(raw))
	}
	if err := showSession(s, raw); err != nil {
		return doing("show session", c.Name, err)
	}
	return nil
}

// showSession prints what the API says of one.
func showSession(s std, raw []byte) error {
	var shown struct {
		Session      sessionInfo     `json:"session"`
		Values       []session.Value `json:"values"`
		Conversation *struct {
			Title   string    `json:"title"`
			Updated time.Time `json:"updated"`
		} `json:"conversation"`
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return err
	}
	i := shown.Session
	head := fmt.Sprintf("%s of %s: %s, %s; made %s, used %s", i.Name, i.Principal, plural(i.Values, "value"), size(i.Bytes), i.Created.Local().Format("2006-01-02 15:04"), ago(i.Used))
	if also := i.also(); len(also) > 0 {
		head += "; also " + strings.Join(also, ", ")
	}
	for name, on := range i.Modules {
		head += fmt.Sprintf("; %s is %s", name, onOff(on))
	}
	if c := shown.Conversation; c != nil {
		head += fmt.Sprintf("\nconversation %q, last message %s", c.Title, ago(c.Updated))
	}
	if err := s.text(head); err != nil || len(shown.Values) == 0 {
		return err
	}
	var rows [][]cell
	for _, v := range shown.Values {
		from := v.By
		if v.Origin != nil {
			from = v.Origin.Tool
		}
		rows = append(rows, []cell{{text: v.Name}, {text: strconv.Itoa(v.Version)}, {text: size(v.Size)}, {text: v.Time.Local().Format("2006-01-02 15:04")}, {text: from}, {text: v.Summary, colour: dim}})
	}
	return s.table([]string{"NAME", "VERSION", "SIZE", "STORED", "FROM", "SUMMARY"}, rows)
}

// askSession makes one request about a session.
func askSession(ctx context.Context, s std, r *reach, verb string, query url.Values, name string, more ...string) ([]byte, error) {
	path, err := sessionPath(name, more...)
	if err != nil {
		return nil, err
	}
	return r.askKept(ctx, s, verb, path, query)
}

type sessionsGetCmd struct {
	reach
	ownerFlag
	Version int    `help:"An earlier version." placeholder:"N"`
	Name    string `arg:"" help:"Name of the session."`
	Value   string `arg:"" help:"Name of the value."`
}

func (c *sessionsGetCmd) Run(ctx context.Context, s std) error {
	q := c.query()
	if c.Version != 0 {
		q.Set("version", strconv.Itoa(c.Version))
	}
	raw, err := askSession(ctx, s, &c.reach, http.MethodGet, q, c.Name, "values", c.Value)
	if err != nil {
		return doing("get", c.Value, err)
	}
	return s.text(string(raw))
}

type sessionsExportCmd struct {
	reach
	ownerFlag
	Output string `help:"Write to this file, which is there whole or not at all." short:"o" placeholder:"FILE"`
	Name   string `arg:"" help:"Name of the session."`
}

func (c *sessionsExportCmd) Run(ctx context.Context, s std) error {
	if err := c.export(ctx, s); err != nil {
		return doing("export", c.Name, err)
	}
	return nil
}

func (c *sessionsExportCmd) export(ctx context.Context, s std) error {
	path, err := sessionPath(c.Name, "export")
	if err != nil {
		return err
	}
	hub, err := c.kept(ctx, s)
	if err != nil {
		return err
	}
	defer hub.close()
	resp, err := hub.send(ctx, http.MethodGet, path, c.query(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if c.Output == "" {
		return copied(s.out, resp.Body)
	}
	return writeWhole(c.Output, func(w io.Writer) error { return copied(w, resp.Body) })
}

// writeWhole writes a file that is there whole or not at all.
func writeWhole(path string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".stoa-export-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // no effect once it has its name
	err = write(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// copied passes an export on, which the hub cuts off if it cannot go on.
func copied(to io.Writer, from io.Reader) error {
	if _, err := io.Copy(to, from); err != nil {
		return failed(exitFailed, "See the hub's log; what was written is not whole.", "the export was cut off: %w", err)
	}
	return nil
}

type sessionsRemoveCmd struct {
	reach
	ownerFlag
	asJSON
	Names []string `arg:"" name:"name" help:"Names of the sessions."`
}

func (c *sessionsRemoveCmd) Run(ctx context.Context, s std) error {
	hub, err := c.kept(ctx, s)
	if err != nil {
		return fmt.Errorf("remove sessions: %w", err)
	}
	defer hub.close()
	removed := []json.RawMessage{}
	var first error
	for _, name := range c.Names {
		path, err := sessionPath(name)
		var raw []byte
		if err == nil {
			raw, err = hub.ask(ctx, http.MethodDelete, path, c.query(), nil)
		}
		switch {
		case err == nil && c.JSON:
			removed = append(removed, raw)
		case err == nil:
			fmt.Fprintf(s.out, "removed %s\n", name)
		case first == nil:
			first = doing("remove session", name, err)
		default:
			s.note("remove session %s: %v", name, err)
		}
	}
	if c.JSON {
		if err := s.json(map[string]any{"removed": removed}); err != nil {
			return err
		}
	}
	return first
}
