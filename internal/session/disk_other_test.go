//go:build !linux

package session

func roleDisk(string) {}
