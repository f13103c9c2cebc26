package search

import "slices"

// maxTies is how many of the things that would have done as well are told.
const maxTies = 4

// ties finds, for each input of a plan, what would have done as well: what
// matches in the same way and costs the same.
func (ix *index) ties(d *derivation, f *Found) {
	asked := map[int][]*Use{} // by hub
	ask := func(in Fact, u *Use) {
		ix.keys(in, u.Match, func(k key, m Match) {
			if h, ok := ix.names[k]; ok && m == u.Match {
				asked[h] = append(asked[h], u)
			}
		})
	}
	for i := range f.Steps {
		a := ix.p.Actions[f.Steps[i].Action]
		for k := range a.Inputs {
			if !a.Inputs[k].Optional {
				ask(a.Inputs[k], &f.Steps[i].Uses[k])
			}
		}
	}
	for i := range f.Goals {
		ask(ix.p.Goals[i], &f.Goals[i])
	}
	for n, fact := range ix.facts {
		if d.facts[n] < 0 {
			continue
		}
		for _, h := range fact.feeds {
			for _, u := range asked[h] {
				ix.tie(d, f, n, u)
			}
		}
	}
}

// tie adds fact n to the ties of a use if it is one.
func (ix *index) tie(d *derivation, f *Found, n int, u *Use) {
	chosen := u.From.Output
	if u.From.Step != Given {
		chosen += ix.first[f.Steps[u.From.Step].Action]
	}
	if n != chosen && d.facts[n] == d.facts[chosen] {
		u.tie(ix.name(ix.facts[n]))
	}
}

// tie adds what would have done as well, unless it is known or there is enough.
func (u *Use) tie(name string) {
	if len(u.Ties) < maxTies && !slices.Contains(u.Ties, name) {
		u.Ties = append(u.Ties, name)
	}
}
