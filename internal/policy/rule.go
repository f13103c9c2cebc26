package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/wire"
)

// Action is what becomes of a call.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Ask   Action = "ask" // a person decides
	Deny  Action = "deny"
)

// Valid reports whether a is one of the actions.
func (a Action) Valid() bool { return a == Allow || a == Ask || a == Deny }

// strictness orders the actions. What is no action denies.
func (a Action) strictness() int {
	switch a {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// StricterThan reports whether a permits less than b: deny less than ask, and
// ask less than allow.
func (a Action) StricterThan(b Action) bool { return a.strictness() > b.strictness() }

// Kinds of what rules are about, besides KindTool and KindSampling.
const (
	KindPrompt   = "prompt"
	KindResource = "resource"
)

// Subject is what somebody wants to use: a tool, a prompt, a resource, or
// sampling. The annotations are as its server said them; nil means that it said
// nothing.
type Subject struct {
	Kind     string // "" means KindTool
	Tool     string // the exposed name of a tool or prompt; the URI of a resource
	Upstream string
	Ref      string // server:tool, server:prompt or server:sampling
	Builtin  bool   // of the hub itself
	Unlisted bool   // no list has the name, so that its server may take it for another

	ReadOnly, Destructive, Idempotent, OpenWorld *bool
}

// Of is the tool, prompt or resource that the catalogue knows as it.
func Of(it *catalog.Item, builtin bool) Subject {
	s := Subject{Tool: it.Exposed, Upstream: it.Upstream, Ref: it.Ref(), Builtin: builtin}
	switch it.Kind {
	case catalog.Tool:
		s.Annotate(wire.Get(it.Raw, "annotations"))
	case catalog.Prompt:
		s.Kind = KindPrompt
	default:
		s.Kind, s.Tool = KindResource, it.Name
	}
	return s
}

// WithoutAnnotations is the subject as if its server had said nothing about it,
// for servers whose word does not count.
func (s Subject) WithoutAnnotations() Subject {
	s.ReadOnly, s.Destructive, s.Idempotent, s.OpenWorld = nil, nil, nil, nil
	return s
}

// Annotate takes in the annotations of a tool's definition.
func (s *Subject) Annotate(annotations []byte) {
	for _, f := range wire.Members(annotations) {
		var to **bool
		switch string(f.Name) {
		case "readOnlyHint":
			to = &s.ReadOnly
		case "destructiveHint":
			to = &s.Destructive
		case "idempotentHint":
			to = &s.Idempotent
		case "openWorldHint":
			to = &s.OpenWorld
		default:
			continue
		}
		if v := string(f.Value); v == "true" || v == "false" {
			said := v == "true"
			*to = &said
		}
	}
}

// Rule says what becomes of some calls. A rule is about a call if a pattern
// matches what is called, the caller is one of those it names, the annotations
// are as it has them and the conditions on the arguments hold. What is left out
// is not looked at. What a server leaves unsaid is taken as the protocol has
// it: not read-only, destructive, not idempotent, open to the world; prompts and
// resources are read-only.
//
// A rule that names neither tools nor prompts nor resources is about all of
// them and about sampling; one that does is about just those kinds.
type Rule struct {
	Tools     []string // globs over exposed name, server:tool, server:sampling or the server's name
	Prompts   []string // globs over exposed name, server:prompt or the server's name
	Resources []string // globs over the URI or the server's name

	// Who calls: one of the principals, or of a group; nobody named means
	// everybody.
	Principals []string // globs over the names of principals
	Groups     []string // names

	ReadOnly, Destructive, Idempotent, OpenWorld *bool // nil: either

	Args map[string]Cond // by the path of the argument; all must hold

	Action Action
	Reason string // told to who is refused or asked
}

// Rules are a list of rules and what holds where none of them matches.
type Rules struct {
	Name    string // for people: where the rules are written, such as policy or chat.approvals
	Default Action // "" means that nothing is said
	Rules   []Rule
}

// Empty reports whether nothing is said.
func (r Rules) Empty() bool { return r.Default == "" && len(r.Rules) == 0 }

// Problem is a flaw of a list of rules.
type Problem struct {
	Path string // of the flaw, such as rules[2].tools[0]
	Text string
}

func (p Problem) String() string { return p.Path + ": " + p.Text }

// Check returns what is wrong with the rules, unknown groups aside.
func (r Rules) Check() (out []Problem) {
	problem := func(at, text string) { out = append(out, Problem{at, text}) }
	if r.Default != "" && !r.Default.Valid() {
		problem("default", fmt.Sprintf("%q is no action: use allow, ask or deny", r.Default))
	}
	known, regexps := map[string][]string{}, 0
	for i := range r.Rules {
		for _, name := range r.Rules[i].Groups {
			known[name] = nil
		}
	}
	for i := range r.Rules {
		r.Rules[i].compile(known, &regexps, fmt.Sprintf("rules[%d]", i), problem)
	}
	return out
}

// CheckGlob says what is wrong with a pattern of tools, if anything.
func CheckGlob(glob string) error {
	if glob == "" {
		return fmt.Errorf("a pattern is empty: name tools such as fs__write_file, fs:write_*, or a server")
	}
	if _, err := compileGlob(glob); err != nil {
		return fmt.Errorf("%s", badGlob(glob))
	}
	return nil
}

func badGlob(glob string) string {
	return fmt.Sprintf("%q is no pattern: * stands for any text, ? for one character, [a-z] for one of a set, \\ before one of these for itself", glob)
}

// Matches reports whether a glob means the tool: by its exposed name, its Ref
// or its server's name.
func Matches(glob string, s *Subject) bool {
	g, err := compileGlob(glob)
	return err == nil && glob != "" && globs{g}.matchNames(s.Tool, s.Ref, s.Upstream)
}

// rule is a compiled Rule.
type rule struct {
	action      Action
	verdict     Verdict
	anyKind     bool
	tools       globs
	prompts     globs
	resources   globs
	forms       globs // resources, for a URI in another form than it came in
	anyone      bool
	principals  globs
	annotations [4]*bool // in the order of Subject.annotations
	args        []argument
}

// compile makes a rule ready. One with a flaw, which is told, denies wherever it
// may have been meant to apply.
func (r *Rule) compile(groups map[string][]string, regexps *int, at string, problem func(at, text string)) *rule {
	flawed := false
	fail := func(key, text string) {
		flawed = true
		problem(at+key, text)
	}
	if r.Action == "" {
		fail(".action", "it is missing: use allow, ask or deny")
	} else if !r.Action.Valid() {
		fail(".action", fmt.Sprintf("%q is no action: use allow, ask or deny", r.Action))
	}
	patterns := func(key string, list []string) globs {
		out, bad := compileGlobs(list)
		for _, i := range bad {
			fail(fmt.Sprintf("%s[%d]", key, i), CheckGlob(list[i]).Error())
		}
		return out
	}
	out := &rule{
		action: r.Action,
		tools:  patterns(".tools", r.Tools), prompts: patterns(".prompts", r.Prompts), resources: patterns(".resources", r.Resources),
		principals:  patterns(".principals", r.Principals),
		anyKind:     len(r.Tools)+len(r.Prompts)+len(r.Resources) == 0,
		anyone:      len(r.Principals)+len(r.Groups) == 0,
		annotations: [4]*bool{r.ReadOnly, r.Destructive, r.Idempotent, r.OpenWorld},
	}
	out.forms, _ = compileGlobs(inForms(r.Resources))
	for i, name := range r.Groups {
		members, known := groups[name]
		if !known {
			fail(fmt.Sprintf(".groups[%d]", i), fmt.Sprintf("there is no group %q", name))
			out.anyone = true
		}
		out.principals = append(out.principals, patterns(".groups", members)...)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Args)) {
		c := r.Args[key]
		where := at + ".args." + key
		one := argument{cond: c.compile(regexps, where, func(at, text string) {
			flawed = true
			problem(at, text)
		})}
		var err error
		if one.steps, err = parsePath(key); err != nil {
			fail(".args."+key, err.Error())
			continue // it applies whatever the argument
		}
		out.args = append(out.args, one)
	}
	if flawed {
		out.action = Deny
	}
	return out
}

// label names the rule for people.
func (r *Rule) label(list string, i int) string {
	var b strings.Builder
	if list != "" {
		b.WriteString(list + " ")
	}
	fmt.Fprintf(&b, "rule %d", i+1)
	if what := slices.Concat(r.Tools, r.Prompts, r.Resources); len(what) > 3 {
		fmt.Fprintf(&b, " (%s, …)", strings.Join(what[:3], ", "))
	} else if len(what) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(what, ", "))
	}
	return b.String()
}

// annotations are what holds of the subject, said or not: read-only,
// destructive, idempotent, open to the world.
func (s *Subject) annotations() [4]bool {
	readOnly := said(s.ReadOnly, s.Kind == KindPrompt || s.Kind == KindResource)
	return [4]bool{readOnly, said(s.Destructive, !readOnly), said(s.Idempotent, readOnly), said(s.OpenWorld, true)}
}

// applies reports whether the rule is about the subject and who calls, whatever
// the arguments.
func (r *rule) applies(k *key) bool {
	if !r.anyKind {
		named := false
		switch k.kind {
		case KindPrompt:
			named = r.prompts.matchNames(k.tool, k.ref, k.upstream) || r.action != Allow && r.prompts.matchNames(k.alike...)
		case KindResource:
			named = r.about(k)
		default:
			named = r.tools.matchNames(k.tool, k.ref, k.upstream) || r.action != Allow && r.tools.matchNames(k.alike...)
		}
		if !named {
			return false
		}
	}
	if !r.anyone && !r.principals.match(k.principal) {
		return false
	}
	for i, want := range r.annotations {
		if want != nil && *want != k.annotations[i] {
			return false
		}
	}
	return true
}

// about reports whether the rule names a resource. One that allows has to name it
// however its URI is read.
func (r *rule) about(k *key) bool {
	if r.resources.matchNames(k.upstream) {
		return true
	}
	if r.action != Allow {
		return r.forms.match(k.tool) || slices.ContainsFunc(k.uri.whole, r.forms.match) || slices.ContainsFunc(k.uri.bare, r.forms.match)
	}
	return r.resources.match(k.tool) && !slices.ContainsFunc(k.uri.whole, func(s string) bool { return !r.forms.match(s) })
}

// PlainName is what is left of a name that servers may take for another: capitals,
// white space around it and other forms of its letters may not count.
func PlainName(name string) string {
	name = norm.NFKC.String(strings.ToValidUTF8(name, ""))
	return strings.ToLower(strings.TrimFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }))
}

// alike are the names that a server may take the names of the subject for, if they
// are in no list.
func (s *Subject) alike() []string {
	if !s.Unlisted {
		return nil
	}
	var out []string
	plain := PlainName(strings.TrimPrefix(s.Ref, s.Upstream+":"))
	for _, name := range []string{plain, strings.ToUpper(plain)} {
		out = append(out, catalog.Expose(s.Upstream, name), s.Upstream+":"+name)
	}
	return out
}

// holds reports whether the conditions on the arguments are met.
func (r *rule) holds(args *arguments) bool {
	for i := range r.args {
		if !r.args[i].holds(args, r.action == Allow) {
			return false
		}
	}
	return true
}

func said(v *bool, otherwise bool) bool {
	if v != nil {
		return *v
	}
	return otherwise
}
