package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" help:"bash, zsh or fish." enum:"bash,zsh,fish"`
}

// Help tells how the script is put to use.
func (completionCmd) Help() string {
	return "bash: source <(stoa completion bash)\n\nzsh: source <(stoa completion zsh)\n\nfish: stoa completion fish | source"
}

// Run prints a script that knows the grammar as it is now. The script asks
// nobody: a key must not start servers.
func (c *completionCmd) Run(s std, app *kong.Kong) error {
	scripts := map[string]func([]phrase) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	_, err := io.WriteString(s.out, scripts[c.Shell](vocabulary(app.Model.Node, "", nil)))
	return err
}

// phrase is what can follow some words of the command line.
type phrase struct {
	path     string // the commands so far, a space before each
	commands []word
	flags    []word
	values   []word // of the first argument, where they are few
}

type word struct {
	text, help string
	short      rune
	takes      bool // a flag that has a value
	file       bool // which is the name of a file or folder
}

func (p *phrase) flag(f *kong.Flag) {
	if f.Hidden {
		return
	}
	file := f.PlaceHolder == "FILE" || f.PlaceHolder == "DIR"
	p.flags = append(p.flags, word{"--" + f.Name, f.Help, f.Short, !f.IsBool() && !f.IsCounter(), file})
}

// vocabulary lists the phrases of a command and of those under it.
func vocabulary(n *kong.Node, path string, inherited []word) []phrase {
	p := phrase{path: path, flags: inherited[:len(inherited):len(inherited)]}
	for _, f := range n.Flags {
		p.flag(f)
	}
	own := p.flags
	if n.DefaultCmd != nil { // which is meant where none is named
		for _, f := range n.DefaultCmd.Flags {
			p.flag(f)
		}
	}
	for _, a := range n.Positional[:min(len(n.Positional), 1)] {
		for _, v := range a.EnumSlice() { // one empty word where anything goes
			if v == "" {
				continue
			}
			p.values = append(p.values, word{text: v})
		}
	}
	all := []phrase{p}
	for _, child := range n.Children {
		if !child.Hidden {
			all[0].commands = append(all[0].commands, word{text: child.Name, help: child.Help})
			all = append(all, vocabulary(child, path+" "+child.Name, own)...)
		}
	}
	return all
}

func texts(lists ...[]word) string {
	var out []string
	for _, list := range lists {
		for _, w := range list {
			out = append(out, w.text)
		}
	}
	return strings.Join(out, " ")
}

// valued are the flags after which no word of the grammar comes, but the name
// of a file or anything else, as alternatives of a shell pattern.
func valued(p phrase, file bool) string {
	var out []string
	for _, f := range p.flags {
		if f.takes && f.file == file {
			out = append(out, f.text)
			if f.short != 0 {
				out = append(out, "-"+string(f.short))
			}
		}
	}
	return strings.Join(out, "|")
}

// branch is the case of a phrase for bash and zsh, which differ in how they
// name files and hand out words.
func branch(b *strings.Builder, p phrase, files string, offer func(lists ...[]word) string) {
	fmt.Fprintf(b, "    %s)\n", quoted(p.path))
	if names := valued(p, true); names != "" {
		fmt.Fprintf(b, "      case \"$prev\" in (%s) %s; return ;; esac\n", names, files)
	}
	if names := valued(p, false); names != "" {
		fmt.Fprintf(b, "      case \"$prev\" in (%s) return ;; esac\n", names)
	}
	fmt.Fprintf(b, "      if [[ \"$cur\" == -* ]]; then %s; else %s; fi ;;\n", offer(p.flags), offer(p.commands, p.values))
}

// walk is code for bash and zsh that finds how far the commands go.
func walk(words []phrase, given string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  for word in %s; do\n    case \"$said $word\" in\n", given)
	for _, p := range words[1:] {
		fmt.Fprintf(&b, "      %s) said=%[1]s ;;\n", quoted(p.path))
	}
	b.WriteString("    esac\n  done\n  case \"$said\" in\n")
	return b.String()
}

func bashScript(words []phrase) string {
	var b strings.Builder
	b.WriteString("# bash completion for stoa\n_stoa() {\n  local said='' word cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n  COMPREPLY=()\n")
	b.WriteString(walk(words, `"${COMP_WORDS[@]:1:COMP_CWORD-1}"`))
	for _, p := range words {
		branch(&b, p, `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur"))`, func(lists ...[]word) string {
			return `COMPREPLY=($(compgen -W ` + quoted(texts(lists...)) + ` -- "$cur"))`
		})
	}
	b.WriteString("  esac\n}\ncomplete -F _stoa stoa\n")
	return b.String()
}

func zshScript(words []phrase) string {
	var b strings.Builder
	b.WriteString("#compdef stoa\n_stoa() {\n  local said='' word cur=\"${words[CURRENT]}\" prev=\"${words[CURRENT-1]}\"\n  local -a found\n")
	b.WriteString(walk(words, `"${(@)words[2,CURRENT-1]}"`))
	for _, p := range words {
		branch(&b, p, "_files", func(lists ...[]word) string {
			var out []string
			for _, list := range lists {
				for _, w := range list {
					out = append(out, quoted(w.text+":"+firstLine(w.help)))
				}
			}
			return "found=(" + strings.Join(out, " ") + ")"
		})
	}
	b.WriteString("  esac\n  _describe stoa found\n}\ncompdef _stoa stoa\n")
	return b.String()
}

func fishScript(words []phrase) string {
	var b strings.Builder
	b.WriteString("# fish completion for stoa\nfunction __stoa_said\n  set -l said ''\n  for word in (commandline -opc)[2..-1]\n    switch \"$said $word\"\n")
	for _, p := range words[1:] {
		fmt.Fprintf(&b, "      case %s\n        set said %[1]s\n", quoted(p.path))
	}
	b.WriteString("    end\n  end\n  test \"$said\" = \"$argv[1]\"\nend\ncomplete -c stoa -f\n")
	for _, p := range words {
		line := `complete -c stoa -n "__stoa_said ` + quoted(p.path) + `"`
		for _, list := range [][]word{p.commands, p.values} {
			for _, w := range list {
				fmt.Fprintf(&b, "%s -a %s -d %s\n", line, w.text, quoted(firstLine(w.help)))
			}
		}
		for _, f := range p.flags {
			more := ""
			if f.short != 0 {
				more += " -s " + string(f.short)
			}
			switch {
			case f.file:
				more += " -r -F"
			case f.takes:
				more += " -x"
			}
			fmt.Fprintf(&b, "%s -l %s%s -d %s\n", line, strings.TrimPrefix(f.text, "--"), more, quoted(firstLine(f.help)))
		}
	}
	return b.String()
}

// quoted is text as one word of each of the shells. They differ in how a quote
// is written inside quotes, and help can do with an apostrophe.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "’") + "'"
}
