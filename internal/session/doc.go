// Package session owns Sessions: the durable, isolated state of one client.
// A Session holds Values by name, with their history; References in the
// arguments of a tool stand for them; results of tools become Values by a
// Handle.
//
// A Session's key is its principal and its name, so that a name never reaches
// into the state of another principal. It comes to be with the first thing
// that is stored in it and ends when it has been idle for too long, or too
// old, unless something of it is still alive.
//
// What is stored is in the log before Put returns; the memory holds names,
// types, sizes and sequences, and the data that was used last. Values are
// bytes and stay so. All methods may be called from many goroutines.
//
// The package knows no transport and decides nothing about who may ask.
package session
