//go:build !(linux && amd64)

package store_test

func roleCount() {}
