package store_test

func roleCount() {}
