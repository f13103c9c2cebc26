#!/bin/sh
# Lines that begin with ::progress are told to the caller while the tool runs,
# and are no part of its output.
set -- notes/*.md
n=0
for note in "$@"; do
	n=$((n + 1))
	echo "::progress $n/$# $note"
	echo "$(wc -w <"$note") words in $note"
done
