# smoke.sh DEPLOYMENT TEXT: what is deployed has to say TEXT.
set -eu
release=$(printf '%s' "$1" | sed -n 's/.*"release" *: *"\([^"]*\)".*/\1/p')
said=$(sh "$DEPLOY_DIR/releases/$release/greet.sh" world)
if [ "$said" != "$2" ]; then
  echo "it says \"$said\", not \"$2\"" >&2
  exit 1
fi
echo "$said"
