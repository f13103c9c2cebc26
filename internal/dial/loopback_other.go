//go:build !linux && !darwin

package dial

// Loopback is empty: it is not known what loopback addresses lead to.
func Loopback() string { return "" }

// Boot is empty: it is not known when the machine was started.
func Boot() string { return "" }
