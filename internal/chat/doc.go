// Package chat owns conversations with a language model: turns, the numbered
// and durable log of what happens in them, and the loop that lets a model use
// tools.
//
// A Conversation belongs to a Session. A turn runs in the hub, whoever watches;
// watchers pull events from any position (Next), so a slow or lost one holds up
// nobody and misses nothing that is durable. An event is in the log before
// anybody sees it, save pieces of text that are marked Live; these become part
// of a durable event within a quarter of a second or 4 KiB, or within two
// seconds where very many models speak. State is a pure projection of the log.
//
// A tool is called once for each call of the model, never again because a model
// failed, and the log says that it was started before it is. Every call gets a
// result, be it that it was cancelled, so that the history is one that every
// provider takes. What a hub that died left open is closed when the
// conversation is loaded again.
//
// All tools are called by the handler that the hub gives (Options.Face), and so
// pass its one door. The package knows no transport and no provider.
package chat
