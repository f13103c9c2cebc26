# deploy.sh ARTIFACT TEST_RESULTS: makes the archive the current release.
set -eu
name=$(printf '%s' "$1" | sed -n 's/.*"name" *: *"\([^"]*\)".*/\1/p')
failed=$(printf '%s' "$2" | sed -n 's/.*"failed" *: *\([0-9]*\).*/\1/p')
if [ "$failed" != 0 ]; then
  echo "$failed tests have failed: $name is not deployed" >&2
  exit 1
fi
mkdir -p "$DEPLOY_DIR/releases"
n=1
until mkdir "$DEPLOY_DIR/releases/${name%.tar}-$n" 2>/dev/null; do n=$((n + 1)); done
release=${name%.tar}-$n
tar -xf "$DEPLOY_DIR/archives/$name" -C "$DEPLOY_DIR/releases/$release"
before=$(cat "$DEPLOY_DIR/current" 2>/dev/null || true)
echo "$before" >"$DEPLOY_DIR/releases/$release/.before"
echo "$release" >"$DEPLOY_DIR/current.part" && mv "$DEPLOY_DIR/current.part" "$DEPLOY_DIR/current"
printf '{"release":"%s","before":"%s"}\n' "$release" "$before"
