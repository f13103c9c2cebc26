// Package folder owns the version of a data folder: what this program writes,
// what it refuses, and the copy of an older folder that is made before anything
// in it is changed.
//
// # Promises
//
//   - Check changes nothing, so that a folder of a later version can be given back
//     to the program that wrote it, byte for byte.
//   - Upgrade writes the new version only when a whole copy of the older folder
//     is on the disk. A copy that was begun and not ended is begun again.
//   - The copy is a data folder itself, which the older program can use. It has
//     files of its own, since the engine changes some of its files in place, and
//     is closed to other users.
//   - Nothing is changed if there is no room for the copy.
//
// # What it does not do
//
// It does not know what is in the folder, nor what is done to an older one: the
// parts do that themselves when they read what they have written before. It
// removes no copy that was ended.
package folder
