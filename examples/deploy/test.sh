# test.sh ARTIFACT: each line of the program's test.sh is one test.
set -eu
name=$(printf '%s' "$1" | sed -n 's/.*"name" *: *"\([^"]*\)".*/\1/p')
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tar -xf "$DEPLOY_DIR/archives/$name" -C "$dir"
passed=0 failed=0
while read -r line; do
  case $line in '' | '#'*) continue ;; esac
  if (cd "$dir" && sh -c "$line") </dev/null >&2; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done <"$dir/test.sh"
printf '{"passed":%d,"failed":%d}\n' "$passed" "$failed"
