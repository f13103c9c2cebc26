package policy

import "github.com/stoahub/stoa/internal/config"

// FromConfig are the rules that a configuration has under the name, which
// verdicts tell people: policy, chat.approvals, agents.writer.approvals.
func FromConfig(name string, r config.Rules) Rules {
	out := Rules{Name: name, Default: Action(r.Default)}
	for _, one := range r.Rules {
		out.Rules = append(out.Rules, Rule{
			Tools: one.Tools, Prompts: one.Prompts, Resources: one.Resources, Principals: one.Principals, Groups: one.Groups,
			ReadOnly: one.ReadOnly, Destructive: one.Destructive, Idempotent: one.Idempotent, OpenWorld: one.OpenWorld,
			Args: condsFromConfig(one.Args), Action: Action(one.Action), Reason: one.Reason,
		})
	}
	return out
}

func condsFromConfig(args map[string]config.Cond) map[string]Cond {
	if args == nil {
		return nil
	}
	out := make(map[string]Cond, len(args))
	for path, c := range args {
		out[path] = condFromConfig(c)
	}
	return out
}

func condFromConfig(c config.Cond) Cond {
	out := Cond{Is: c.Is, Glob: c.Glob, Matches: c.Matches, Under: c.Under, Above: c.Above, Below: c.Below, Present: c.Present}
	for _, one := range c.Any {
		out.Any = append(out.Any, condFromConfig(one))
	}
	if c.Not != nil {
		inner := condFromConfig(*c.Not)
		out.Not = &inner
	}
	return out
}
