package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/folder"
	"github.com/stoahub/stoa/internal/hub"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a token and print it, once."`
	List   tokenListCmd   `cmd:"" help:"List the tokens, without their secrets."`
	Revoke tokenRevokeCmd `cmd:"" help:"Make a token invalid at once."`
}

// principals opens the tokens and sign-ins of the configuration. They need no
// hub: one that runs sees each change by itself.
func (f *files) principals(ctx context.Context) (*hub.Principals, error) {
	cfg, _, err := f.load(nil)
	if err != nil {
		return nil, err
	}
	path := hub.TokensFile(cfg.Data, cfg.Auth.TokensFile)
	if err := folder.Check(cfg.Data); err != nil {
		return nil, failed(exitFailed, "", "open the tokens: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, failed(exitFailed, "Choose another data folder with --data.", "open the tokens: %w", err)
	}
	if err := hub.CheckData(filepath.Dir(path)); err != nil {
		return nil, failed(exitFailed, "", "open the tokens: %w", err)
	}
	return hub.OpenPrincipals(ctx, cfg)
}

type tokenCreateCmd struct {
	files
	asJSON
	Name  string        `arg:"" help:"What the token is for; it names the caller in logs."`
	Scope []string      `help:"Servers that it may use, as a pattern; may be given more than once (default: all)." placeholder:"GLOB" sep:"none"`
	Right []string      `help:"What it may do besides using servers: approve (answer questions about its own calls) or register (register agents); may be given more than once." placeholder:"RIGHT" sep:"none"`
	TTL   time.Duration `help:"How long it is valid, such as 720h (default: until it is revoked)." name:"ttl" placeholder:"DURATION"`
}

func (c *tokenCreateCmd) Run(ctx context.Context, s std) error {
	all, err := c.principals(ctx)
	if err != nil {
		return err
	}
	defer all.Close()
	if len(c.Scope) == 0 {
		c.Scope = []string{"*"}
	}
	var rights auth.Rights
	for _, one := range c.Right {
		rights = append(rights, auth.Right(one))
	}
	t, secret, err := all.Tokens.Create(c.Name, c.Scope, c.TTL, rights...)
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(struct {
			auth.Token
			Secret string `json:"token"`
		}{t, secret})
	}
	if _, err := fmt.Fprintln(s.out, secret); err != nil {
		return err
	}
	s.note("this is the only time that the token is shown. Send it as Authorization: Bearer, or set STOA_TOKEN. Scopes: %s; valid %s.", strings.Join(t.Scopes, " "), validity(t))
	return nil
}

func validity(t auth.Token) string {
	if t.Expires.IsZero() {
		return "until revoked"
	}
	return "until " + t.Expires.Local().Format("2006-01-02 15:04")
}

func rightsOf(t auth.Token) string {
	var all []string
	for _, r := range t.Rights {
		all = append(all, string(r))
	}
	return strings.Join(all, " ")
}

type tokenListCmd struct {
	files
	asJSON
}

func (c *tokenListCmd) Run(ctx context.Context, s std) error {
	kept, err := c.principals(ctx)
	if err != nil {
		return err
	}
	defer kept.Close()
	all, err := kept.Tokens.List()
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(map[string]any{"tokens": all})
	}
	if len(all) == 0 {
		s.note("there are no tokens; make one with stoa token create NAME")
		return nil
	}
	var rows [][]cell
	for _, t := range all {
		valid := cell{text: validity(t)}
		if !t.Expires.IsZero() && time.Now().After(t.Expires) {
			valid = cell{text: "expired", colour: red}
		}
		rows = append(rows, []cell{{text: t.Name}, {text: t.ID}, {text: t.Created.Local().Format("2006-01-02 15:04")}, valid, {text: strings.Join(t.Scopes, " ")}, {text: rightsOf(t)}})
	}
	return s.table([]string{"NAME", "ID", "CREATED", "VALID", "SCOPES", "RIGHTS"}, rows)
}

type tokenRevokeCmd struct {
	files
	asJSON
	Name string `arg:"" help:"Name or id of the token."`
}

func (c *tokenRevokeCmd) Run(ctx context.Context, s std) error {
	all, err := c.principals(ctx)
	if err != nil {
		return err
	}
	defer all.Close()
	t, err := all.Tokens.Revoke(c.Name)
	if errors.Is(err, auth.ErrNoToken) {
		return &failure{err: err, hint: "Run stoa token list to see them.", code: exitUsage}
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(t)
	}
	_, err = fmt.Fprintf(s.out, "revoked %s (%s)\n", t.Name, t.ID)
	return err
}
