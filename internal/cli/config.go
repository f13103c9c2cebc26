package cli

import (
	"fmt"

	"github.com/stoahub/stoa/internal/config"
)

type configCmd struct {
	Check  configCheckCmd  `cmd:"" help:"Report everything that is wrong with the configuration."`
	Show   configShowCmd   `cmd:"" help:"Print the configuration in effect and where each value came from."`
	Schema configSchemaCmd `cmd:"" help:"Print the JSON Schema of the configuration."`
}

// listenFlag lets config see what serve would.
type listenFlag struct {
	Listen  []string `help:"Address to listen on; may be given more than once." placeholder:"HOST:PORT" sep:"none"`
	TLSCert string   `help:"Certificate to listen with, a PEM file." name:"tls-cert" placeholder:"FILE"`
	TLSKey  string   `help:"Key of the certificate, a PEM file." name:"tls-key" placeholder:"FILE"`
}

// settings are the flags of a command that serves, as config takes them.
func (l *listenFlag) settings(f *files) config.Options {
	o := f.options(l.Listen)
	o.TLSCert, o.TLSKey = l.TLSCert, l.TLSKey
	return o
}

type configCheckCmd struct {
	files
	listenFlag
	asJSON
}

// remark is a problem or a note, for scripts.
type remark struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Pointer string `json:"pointer,omitempty"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`
}

func (c *configCheckCmd) Run(s std) error {
	o := c.settings(&c.files)
	o.Tolerant = false
	cfg, notes, err := config.Load(o)
	problems, known := err.(config.Problems)
	if err != nil && !known {
		return err
	}
	if c.JSON {
		if err := s.json(checked(problems, notes)); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			fmt.Fprintln(s.out, p)
		}
		for _, n := range notes {
			fmt.Fprintln(s.out, "note:", n)
		}
		if err == nil {
			fmt.Fprintf(s.out, "OK: %s, listening on %v, data in %s\n", plural(len(cfg.Servers), "server"), cfg.Listen, cfg.Data)
		}
	}
	if err != nil {
		return &failure{err: errSilent, code: exitUsage}
	}
	return nil
}

func checked(problems config.Problems, notes []config.Note) map[string]any {
	wrong, worth := []remark{}, []remark{}
	for _, p := range problems {
		wrong = append(wrong, remark{p.File, p.Line, p.Column, p.Pointer, p.Text, p.Hint})
	}
	for _, n := range notes {
		worth = append(worth, remark{n.File, n.Line, n.Column, n.Pointer, n.Text, n.Hint})
	}
	return map[string]any{"ok": len(wrong) == 0, "problems": wrong, "notes": worth}
}

type configShowCmd struct {
	files
	listenFlag
	asJSON
}

func (c *configShowCmd) Run(s std) error {
	cfg, _, err := config.Load(c.settings(&c.files))
	if err != nil {
		return err
	}
	return cfg.Show(s.out, c.JSON)
}

type configSchemaCmd struct{}

func (c *configSchemaCmd) Run(s std) error {
	_, err := s.out.Write(config.Schema())
	return err
}
