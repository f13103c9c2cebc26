// Package matrix owns the table of what has to work between any client and any
// server, whichever eras they speak: behaviours are its rows, the four cells of
// client's and server's era its columns, and each cell that cannot work says
// why. Rows is that table; Each runs it for servers over every transport,
// clients of every make and both faces of a hub.
//
// A client takes part by the interface Client, of which Raw is our own, and a
// server by having the tools of Spec and by writing what happens to it to a
// state file, as peers do. So the same table holds for our own peers and for
// those made with SDKs.
//
// It promises that a row passes only if both ends saw it: the client what came,
// the server what it was told. It does not look at bytes, which SDKs do not
// show: that is what the tests of internal/hub with our own peers are for.
package matrix
