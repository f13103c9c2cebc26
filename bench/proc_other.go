//go:build !linux

package main

import "errors"

var errLinux = errors.New("the benchmark reads CPU clocks and memory of other processes the way Linux offers it: run it on Linux")

func raiseFileLimit() error { return errLinux }
