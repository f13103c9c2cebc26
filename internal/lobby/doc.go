// Package lobby owns the connections of the hub's listeners: how many there may
// be and who holds them, so that one caller cannot take the room of all others,
// and which user of this machine is at the other end.
//
// A connection is a stranger's until a request on it has shown who sends it.
// Where there is no more room, the stranger who has been there longest has to
// leave: whoever floods the hub drives out its own. Those who are known have a
// share each, and all of them together leave a reserve for the owner.
//
// The package does not look into requests and decides nothing about rights.
package lobby
