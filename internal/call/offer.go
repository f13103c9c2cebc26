package call

import (
	"slices"

	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/policy"
)

// Every tool that a list names is paid for by whoever reads it, with each
// request to a model. So lists name a built-in tool only where somebody chose
// it, or has a use for it. Whatever is in the view can be called by its name,
// whether a list names it or not.

// Offer says where lists name the tools of a built-in module, besides where
// somebody chose it: a Session that switched it on, the owner for all Sessions,
// a token by its scopes, an agent by its tools.
type Offer uint8

// Where a module is offered.
const (
	OfferChosen  Offer = iota // nowhere else
	OfferSession              // to clients in a Session that they named
	OfferValues               // to these, and to everybody in a Session that holds a value
	OfferAlways               // to everybody
)

// Offer says where the built-in modules are offered. What is not in the map is
// no built-in module. The map is not changed afterwards.
func (d *Door) Offer(modules map[string]Offer) { d.offers.Store(&modules) }

// Lists reports whether lists name an item that is inside. named says that the
// client named its Session, or is at the address of one.
func (v *View) Lists(it *catalog.Item, named bool) bool {
	offer, builtin := v.offer(it.Upstream)
	if !builtin || it.Handling.Listed || v.chosen(it.Upstream) || v.offers(offer, named, false) {
		return true
	}
	s := subjectOf(it, true)
	for agent := range v.actor.Models {
		for _, globs := range v.d.agent(agent).Tools {
			if slices.ContainsFunc(globs, func(g string) bool { return g != "*" && policy.Matches(g, &s) }) {
				return true
			}
		}
	}
	return false
}

// ListsModule reports whether lists name what a server offers. It is true of
// all but built-in modules. With holding it is asked of a Session as it would
// be with a value in it.
func (v *View) ListsModule(name string, named, holding bool) bool {
	offer, builtin := v.offer(name)
	return !builtin || v.chosen(name) || v.offers(offer, named, holding)
}

func (v *View) offer(module string) (o Offer, builtin bool) {
	if all := v.d.offers.Load(); all != nil {
		o, builtin = (*all)[module]
	}
	return o, builtin
}

// chosen reports whether somebody asked for a module by its name.
func (v *View) chosen(module string) bool {
	if v.off(module) {
		return false
	}
	if v.switched != nil {
		if on, said := v.switched.Switched(module); said {
			return on
		}
	}
	who := v.actor.Principal()
	return v.said[module] || who != nil && slices.Contains(who.Scopes, module)
}

func (v *View) offers(o Offer, named, holding bool) bool {
	switch o {
	case OfferAlways:
		return true
	case OfferValues:
		if holding || v.switched != nil && v.switched.Info().Values > 0 {
			return true
		}
		fallthrough
	case OfferSession:
		return named && !v.actor.IsModel()
	}
	return false
}
