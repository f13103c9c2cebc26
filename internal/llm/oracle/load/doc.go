// Package load holds conversations under load to a bare loop: many clients at
// once, each with an answer that comes in small pieces, by a hub and by a
// program of a few lines that hands what OpenAI's SDK reads to a WebSocket.
//
// The hub, the bare loop and the model's server are processes of their own, so
// that each one's CPU time and memory are its own.
package load
