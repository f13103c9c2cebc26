// Package policy owns who may use which tools, prompts and resources: the rules
// (allow, ask, deny), the one function that decides by them, and the desk at
// which people are asked.
//
// Decide decides by compiled rules, for all faces alike; Hidden tells what is
// not worth offering. Both are pure. A condition on arguments is read strictly
// by a rule that allows and broadly by others, and a rule with a flaw denies.
//
// A Desk holds what waits for a person, and what people said for more than one
// call. Every approval that is asked for is decided exactly once: by a person, by its time, because nobody
// is there, or because its call has ended. Whatever goes wrong denies: there is
// no way by which an error allows a call.
//
// What is remembered is durable before the decision takes effect. What decides
// about a call is the latest that any hub on the store has remembered or taken
// back; what several hubs ask at the same time is answered by what is remembered
// at one of them. What waits is in memory only: the call that it belongs to ends
// with the process.
//
// The package makes no calls, knows no transport, and does not check arguments
// against schemas. All methods may be called from many goroutines.
package policy
