# withdraw.sh DEPLOYMENT: the release before is the current one again.
set -eu
release=$(printf '%s' "$1" | sed -n 's/.*"release" *: *"\([^"]*\)".*/\1/p')
folder=$DEPLOY_DIR/releases/$release
if [ "$(cat "$DEPLOY_DIR/current" 2>/dev/null || true)" = "$release" ]; then
  before=$(cat "$folder/.before")
  if [ -n "$before" ]; then echo "$before" >"$DEPLOY_DIR/current"; else rm -f "$DEPLOY_DIR/current"; fi
fi
rm -rf "$folder"
echo "$release is withdrawn"
