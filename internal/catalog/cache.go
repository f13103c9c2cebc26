package catalog

// Caches reports whether results of the tool may be reused: the config says so,
// and the tool says that it changes nothing and that the same arguments give
// the same result, where what it says counts.
func (i *Item) Caches() bool { return i.CacheFor > 0 && i.pure && i.Trusted }

// Uncached says why results are not reused although the config says so; "" if
// they are, or if the config does not.
func (i *Item) Uncached() string {
	switch {
	case i.CacheFor == 0 || i.Caches():
		return ""
	case i.Standing != nil && i.Standing.State != Accepted:
		return "its results are not cached, as the config says, before its definition is accepted; every call goes to the server"
	case !i.Trusted:
		return "its results are not cached, as the config says, because annotations of this server do not count (`trust: false`); every call goes to the server"
	}
	return "its results are not cached, as the config says, because it does not say of itself both `readOnlyHint: true` and `idempotentHint: true`; every call goes to the server"
}
