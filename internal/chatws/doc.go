// Package chatws owns how people and programs reach the chat host from
// outside: the socket /ws with its frames, POST /api/chat and its relatives for
// those without sockets, and the sockets /ws/{agent} with the files they may
// speak of.
//
// A socket or a stream only tails a conversation; the turn runs without it and
// goes on when it is gone. Whoever comes back with the place it had reached
// gets everything that followed, once. A slow reader holds up nobody: it is
// given what it missed when it takes it, text in larger pieces, and is closed
// when it takes nothing at all for too long. What a client sends is held to its
// form, and told where it is wrong.
//
// It keeps nothing of its own: conversations are chat's, decisions policy's.
// Who asks, and from where, has been checked by the guard before it.
package chatws
